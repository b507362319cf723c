"""What Redis cannot promise, shown on real servers: a replica that takes over may lack what was acknowledged.

docs/engines/redis.md says so. Whoever saw what is gone stops; whoever comes later cannot know, and grants it again.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import server_redis
from ports import free_port
from proving import Figures
from rawhttp import Connection
from servercluster import Cluster, Roaming, running

pytestmark = [pytest.mark.anyio, pytest.mark.alone]

HEAD = "{openintent}:head"
LOST = 10
LOST_S = 0.1  # from one to the next: everybody looks at the head in between
NOTICE_S_MAX = 20.0
NOTICED = "has lost commits that were acknowledged"


@dataclass
class Pair:
    primary: server_redis.Server
    replica: server_redis.Server

    async def part(self) -> None:
        """The replica has all that there is, and hears nothing from now on."""
        await until(lambda: self.replica.run("HGET", HEAD, "at") == self.primary.run("HGET", HEAD, "at"))
        self.replica.run("REPLICAOF", "127.0.0.1", free_port())

    async def fail_over(self, cluster: Cluster) -> None:
        await asyncio.to_thread(self.primary.stop, signal.SIGKILL)
        self.replica.run("REPLICAOF", "NO", "ONE")
        cluster.lead_links_to(self.replica.port)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    if server_redis.missing() is not None and "CI" not in os.environ:
        pytest.skip(reason=f"{server_redis.missing()} is not installed")
    with (
        server_redis.started(tmp_path / "primary", repl_diskless_sync_delay="0") as primary,
        server_redis.started(tmp_path / "replica", replicaof=f"127.0.0.1 {primary.port}") as replica,
    ):
        yield Pair(primary, replica)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(NOTICE_S_MAX):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110  # it is so on another server
            await asyncio.sleep(0.02)


async def granted(line: Connection, scope: str) -> int:
    answer = await line.call("POST", "/spaces/s/leases", {"scope": scope, "ttl_seconds": 60})
    assert answer.ok, answer
    return int(answer.body["token"])


@asynccontextmanager
async def talking(line: Connection) -> AsyncIterator[Connection]:
    try:
        yield line
    finally:
        line.close()


async def test_a_replica_that_takes_over_has_forgotten_grants_and_they_are_granted_again(
    pair: Pair, tmp_path: Path, figures: Figures
):
    async with running(tmp_path, pair.primary.url()) as cluster:
        async with talking(Roaming(cluster.ports, "ann")) as ann:
            kept = await granted(ann, "kept")
            await pair.part()
            lost = []
            for number in range(LOST):
                lost.append(await granted(ann, f"lost-{number}"))
                await asyncio.sleep(LOST_S)
        await pair.fail_over(cluster)
        for server in cluster.servers:
            await until(lambda server=server: NOTICED in server.log.read_text())
        for server in cluster.servers:  # the one that led has noticed, too: nobody can pass anything on to it any more
            async with talking(Connection(server.port, "ann")) as line:
                assert (await line.call("GET", "/leases")).status == 503, "it has seen what is gone, and serves"
        late = await cluster.add()
        await asyncio.to_thread(late.start)
        assert await cluster.leader() is late
        async with talking(Connection(late.port, "bob")) as bob:
            held = await bob.call("POST", "/spaces/s/leases", {"scope": "kept", "ttl_seconds": 60})
            assert held.body["current_holder"] == "ann"
            again = [await granted(bob, f"lost-{number}") for number in range(LOST)]
        await cluster.all_ready()  # what they had seen is no more than what there is now
    assert again == lost, "the tokens of grants that ann believes in"
    assert min(lost) > kept
    figures.add(
        "a replica takes over without the newest writes, on redis: what is declared as not promised",
        acknowledged_grants_lost=len(lost),
        tokens_granted_again=len(set(again) & set(lost)),
        servers_that_had_seen_them_and_serve=0,
    )
