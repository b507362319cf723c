"""Redis when something breaks, as far as only Redis breaks so: scripts, too little memory, a replica that took over."""

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import server_redis
from engine_words import commit, following, keys, puts, until
from faultproxy import FaultProxy
from redis_words import impatient, key, scripts_run
from remote_words import by_way_of, port_of, proxy_to
from server_redis import Server

from openintent.engines import open_engine, redis_scripts
from openintent.engines.base import DeleteRange, Engine, Head, OutcomeUncertain, Put
from openintent.errors import EngineCorrupt, EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def kind() -> str:
    return "redis"


# A commit whose answer does not come


@pytest.mark.parametrize("fault", ["cut", "hold"])
async def test_a_commit_is_sent_once_whatever_becomes_of_the_answer(
    server: Server, far: Engine, proxy: FaultProxy, fault: str
):
    head, before = await far.head(), scripts_run(server)
    if fault == "cut":
        proxy.answers.cut_after = 0
    else:
        proxy.hold_answers()
    with impatient(far._store), pytest.raises(OutcomeUncertain):
        await far.commit(expect=head, head=following(head), changes=[Put("second", b"")])
    proxy.heal()
    await far.reopen()
    assert scripts_run(server) == before + 1


async def test_a_line_into_nowhere_is_not_reopened(far: Engine, proxy: FaultProxy):
    proxy.cut()
    with impatient(far._store), pytest.raises(EngineUnavailable, match="no answer within"):
        await far.reopen()


async def test_a_cancelled_commit_happens_all_the_same_and_the_line_stays_in_step(engine: Engine):
    head = await commit(engine, Put("first", b""))
    committing = asyncio.create_task(commit(engine, Put("second", b"")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reading = asyncio.create_task(engine.head())
    await asyncio.sleep(0)
    committing.cancel()
    reading.cancel()
    await asyncio.wait({committing, reading})
    assert (await engine.head()).beat in (head.beat, head.beat + 1)
    await commit(engine, Put("third", b""))
    assert "third" in await keys(engine)


# A server that says no


async def test_a_server_without_memory_refuses_a_commit_and_nothing_has_happened(server: Server, engine: Engine):
    head = await commit(engine, Put("first", b""))
    with server.set(maxmemory="1"):
        with pytest.raises(EngineUnavailable, match="used memory > 'maxmemory'"):
            await commit(engine, Put("second", b""))
        with pytest.raises(EngineUnavailable, match="used memory > 'maxmemory'"):
            await keys(engine)
        assert await engine.head() == head
    await commit(engine, Put("third", b""))
    assert await keys(engine) == ["first", "third"]


async def test_scripts_that_the_server_has_forgotten_are_sent_again(server: Server, engine: Engine):
    await commit(engine, Put("first", b""))
    server.run("SCRIPT", "FLUSH")
    await commit(engine, Put("second", b""), DeleteRange("x", "y"))
    server.run("SCRIPT", "FLUSH")
    assert await keys(engine) == ["first", "second"]


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})], ids=["uvloop"])
async def test_a_connection_that_ends_while_nobody_looks_is_opened_anew(server: Server, engine: Engine):
    """uvloop refuses to write to one that is closed, by an exception of its own."""
    await commit(engine, Put("k", b""))
    wire = engine._store._front._wire
    wire.can_read = wire.can_read_destructive = returns_false  # it ends just after that
    wire._writer.transport.abort()
    with pytest.raises(EngineUnavailable, match="the handler is closed"):
        await engine.head()
    assert (await engine.head()).rev == 1


async def returns_false() -> bool:
    return False


async def test_a_primary_that_becomes_a_replica_under_us_is_refused(server: Server, engine: Engine):
    head = await commit(engine)
    server.run("REPLICAOF", "127.0.0.1", server_redis.free_port())
    try:
        with pytest.raises(EngineUnavailable, match="read only replica"):
            await commit(engine)
        with pytest.raises(EngineUnavailable, match="is a replica"):
            await commit(engine)
    finally:
        server.run("REPLICAOF", "NO", "ONE")
    with pytest.raises(EngineUnavailable, match="another server than before"):  # it might have lost what it had
        await commit(engine)
    await engine.reopen()
    assert await engine.head() == head


# Crashes


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_after_a_restart_nothing_is_in_doubt_and_all_is_there(server: Server, engine: Engine, how: int):
    """That the line has ended is seen before it is used, and that the server is not the same, when it is opened."""
    for number in range(20):
        head = await commit(engine, Put(f"{number:02}", b""))
    await asyncio.to_thread(server.stop, how)
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await engine.head()
    server.start()
    with pytest.raises(EngineUnavailable, match="was started anew, or is another server than before"):
        await engine.commit(expect=head, head=following(head), changes=[Put("never", b"")])
    await engine.reopen()
    await engine.commit(expect=head, head=following(head), changes=[Put("more", b"")])
    assert len(await keys(engine)) == 21


async def test_whoever_only_waits_does_not_mind_a_restart(server: Server, engine: Engine):
    head = await engine.head()
    await asyncio.to_thread(server.stop)
    server.start()
    assert await engine.head() == head


async def test_a_server_that_was_allowed_not_to_sync_loses_all_in_a_crash_and_that_is_noticed(tmp_path: Path):
    """The weakness that `durability=weak` declares."""
    with server_redis.started(tmp_path, appendonly="no") as weak:
        engine = open_engine(weak.url("?durability=weak"))
        assert not engine.guarantees.durable
        head = await commit(engine, Put("k", b""), token=5)
        await asyncio.to_thread(weak.stop, signal.SIGKILL)
        weak.start()
        await notices(engine, head)
        await engine.close()
        fresh = open_engine(weak.url("?durability=weak"))
        assert await fresh.head() == Head()
        await fresh.close()


async def test_a_database_that_was_emptied_under_us_is_not_taken_for_a_new_one(
    server: Server, url: str, engine: Engine
):
    head = await commit(engine, Put("k", b""))
    server.run("DEL", *redis_scripts.keys_below(url.rpartition("=")[2]))
    for call in (
        lambda: engine.commit(expect=head, head=following(head), changes=[Put("l", b"")]),
        lambda: keys(engine),
        engine.reopen,
    ):
        with pytest.raises(EngineCorrupt, match="has lost commits that were acknowledged"):
            await call()


async def test_a_head_that_cannot_be_read_is_not_guessed_at(server: Server, url: str, engine: Engine):
    await commit(engine)
    server.run("HSET", key(url, "head"), "body", b"\xc1")
    with pytest.raises(EngineCorrupt, match="has a head that cannot be read"):
        await engine.head()


# A replica that takes over


@dataclass
class Pair:
    """A primary with a replica, and an address that leads to whichever is the primary."""

    primary: Server
    replica: Server
    address: FaultProxy

    @property
    def url(self) -> str:
        return by_way_of(self.primary.url(), port_of(self.address))

    async def part(self) -> None:
        """The replica has all that there is, and hears nothing from now on."""
        newest = self.primary.run("HGET", "{openintent}:head", "at")
        await until(lambda: self.replica.run("HGET", "{openintent}:head", "at") == newest)
        self.replica.run("REPLICAOF", "127.0.0.1", server_redis.free_port())

    async def fail_over(self, engine: Engine) -> None:
        await asyncio.to_thread(self.primary.stop, signal.SIGKILL)
        with pytest.raises(EngineUnavailable):
            await engine.head()
        self.replica.run("REPLICAOF", "NO", "ONE")
        self.address._server_port = self.replica.port


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    with (
        server_redis.started(tmp_path / "primary", repl_diskless_sync_delay="0") as primary,
        server_redis.started(tmp_path / "replica", replicaof=f"127.0.0.1 {primary.port}") as replica,
    ):
        async with proxy_to(primary.port) as address:
            yield Pair(primary, replica, address)


async def test_a_replica_that_took_over_too_early_has_lost_commits_and_that_is_noticed(pair: Pair):
    """The weakness that `survives_node_loss=False` declares: acknowledged, on a disk, and gone all the same."""
    engine, fresh = open_engine(pair.url), open_engine(pair.url)
    older = await commit(engine, Put("a", b""), term=1, token=1)
    await pair.part()
    newer = await commit(engine, Put("b", b""), token=2)
    await pair.fail_over(engine)
    await notices(engine, newer)
    assert await fresh.head() == older  # and its next grant has a token that was granted before
    await commit(fresh, term=2)
    await notices(engine, newer)  # by the token: that of the head is less than one that was granted
    for each in (engine, fresh):
        await each.close()


async def test_a_replica_that_took_over_without_the_newest_folds_has_them_folded_again(pair: Pair):
    """The head is the same, so that it does not tell."""
    engine = open_engine(pair.url)
    await commit(engine, *puts(["a", "b"]))
    await pair.part()
    assert await keys(engine) == ["a", "b"]
    await pair.fail_over(engine)
    with pytest.raises(EngineUnavailable, match="is another server than before"):
        await commit(engine, Put("c", b""))
    await engine.reopen()
    await commit(engine, Put("c", b""))
    assert await keys(engine) == ["a", "b", "c"]
    await engine.close()


async def notices(engine: Engine, newest: Head) -> None:
    for call in (
        engine.head,
        engine.reopen,
        lambda: engine.commit(expect=newest, head=following(newest), changes=[Put("c", b"")]),
        lambda: keys(engine),
    ):
        with pytest.raises(EngineCorrupt, match="has lost commits that were acknowledged") as lost:
            await call()
        assert "\n" not in str(lost.value)
