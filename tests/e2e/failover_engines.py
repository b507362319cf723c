"""Real engines as they run below several servers, each with what may go wrong with it.

PROOF_FAILOVER_ENGINES says how many of them; the first alone is quick.
"""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import server_etcd
import server_postgres
import server_redis
import server_zookeeper
from daemon import own_folder, serving
from failover_faults import OF_LEADER, Fault, connections_cut, restarted
from peerlinks import PeerLinks, peer_links
from ports import free_ports
from servercluster import ELECTION_S_MAX, LEADER_TTL_S, LOOK_S, Cluster
from servers import required

MEMBERS = 3
# A member that is frozen does not answer, and another would. By default, too, it is no longer than the leader ttl.
TIMEOUT = f"?timeout={LEADER_TTL_S:g}"


@dataclass(frozen=True)
class RealEngine:
    name: str
    fresh_url: Callable[[], str]  # of a place where nothing is yet
    faults: Mapping[str, Fault]  # its own

    @property
    def all_faults(self) -> dict[str, Fault]:
        """Those of the server that leads, then its own."""
        return {**OF_LEADER, **self.faults}


@contextmanager
def postgres(_folder: Path) -> Iterator[RealEngine]:
    with server_postgres.started() as server:
        faults = {
            "engine_restart": restarted(server, signal.SIGINT),
            "engine_crash": restarted(server, signal.SIGQUIT),
            "engine_connections_ended": backends_ended(server),
            "engine_connections_cut": connections_cut,
        }
        yield RealEngine("postgres", server.fresh_url, faults)


def backends_ended(server: server_postgres.Server) -> Fault:
    """As an operator would."""
    ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'openintent'"

    @asynccontextmanager
    async def fault(_cluster: Cluster) -> AsyncIterator[float]:
        struck_at = monotonic()
        assert await asyncio.to_thread(server.run, ending)
        yield struck_at

    return fault


@contextmanager
def redis(folder: Path) -> Iterator[RealEngine]:
    """What a replica that takes over does to it is shown elsewhere."""
    with server_redis.started(folder) as server:
        faults = {
            "engine_crash": restarted(server, signal.SIGKILL),
            "engine_restart": restarted(server, signal.SIGTERM),
            "engine_connections_cut": connections_cut,
        }
        yield RealEngine("redis", server.fresh_url, faults)


# Of several members


class Member(Protocol):
    """A daemon with others beside it."""

    process: subprocess.Popen[bytes] | None

    @property
    def port(self) -> int: ...

    def start(self) -> None: ...

    def stop(self, how: int) -> None: ...

    def wait(self) -> None: ...

    def leads(self) -> bool: ...


async def leader_of(members: Sequence[Member]) -> int:
    async with asyncio.timeout(ELECTION_S_MAX):
        while True:
            for number, member in enumerate(members):
                with suppress(OSError):
                    if await asyncio.to_thread(member.leads):
                        return number
            await asyncio.sleep(LOOK_S)


def leader_killed(members: Sequence[Member]) -> Fault:
    @asynccontextmanager
    async def fault(_cluster: Cluster) -> AsyncIterator[float]:
        member = members[await leader_of(members)]
        struck_at = monotonic()
        await asyncio.to_thread(member.stop, signal.SIGKILL)
        try:
            yield struck_at
        finally:
            await asyncio.to_thread(member.start)

    return fault


def leader_frozen(members: Sequence[Member]) -> Fault:
    @asynccontextmanager
    async def fault(_cluster: Cluster) -> AsyncIterator[float]:
        member = members[await leader_of(members)]
        struck_at = monotonic()
        assert member.process is not None
        member.process.send_signal(signal.SIGSTOP)
        try:
            yield struck_at
        finally:
            member.process.send_signal(signal.SIGCONT)
            await asyncio.to_thread(member.wait)

    return fault


def leader_cut_off(members: Sequence[server_etcd.Server], links: PeerLinks) -> Fault:
    """From the other members, and from every server of ours."""

    @asynccontextmanager
    async def fault(cluster: Cluster) -> AsyncIterator[float]:
        number = await leader_of(members)
        status: Any = await asyncio.to_thread(members[number].ask, "/v3/maintenance/status")
        struck_at = monotonic()
        links.cut_off(number, int(status["leader"]))
        cluster.cut_off_member(members[number].port)
        try:
            yield struck_at
        finally:
            links.heal()
            cluster.heal_member(members[number].port)
            await asyncio.to_thread(members[number].wait)

    return fault


@contextmanager
def etcd(_folder: Path) -> Iterator[RealEngine]:
    ports, numbers = free_ports(2 * MEMBERS), count()
    with own_folder(server_etcd.USERS) as folder, peer_links(ports[1::2]) as links:
        members = [server_etcd.Server(folder, name=f"m{n}", ports=ports[2 * n : 2 * n + 2]) for n in range(MEMBERS)]
        peers = {f"m{n}": f"http://127.0.0.1:{port}" for n, port in enumerate(links.addresses)}
        for member in members:
            member.settings["initial-advertise-peer-urls"] = peers[member.name]
            member.cluster = ",".join(f"{name}={peer}" for name, peer in peers.items())
        faults = {
            "engine_leader_kill": leader_killed(members),
            "engine_leader_freeze": leader_frozen(members),
            "engine_leader_cut": leader_cut_off(members, links),
        }
        with serving(*members):
            yield RealEngine("etcd", lambda: server_etcd.url_of(members, f"place{next(numbers)}", TIMEOUT), faults)


@contextmanager
def zookeeper(_folder: Path) -> Iterator[RealEngine]:
    numbers = count()
    with server_zookeeper.running_ensemble(MEMBERS) as members:
        faults = {"engine_leader_kill": leader_killed(members), "engine_leader_freeze": leader_frozen(members)}
        yield RealEngine(
            "zookeeper", lambda: server_zookeeper.url_of(members, f"tests/place{next(numbers)}", TIMEOUT), faults
        )


ENGINES = {"postgres": postgres, "etcd": etcd, "zookeeper": zookeeper, "redis": redis}


@contextmanager
def real_engine_running(name: str, folder: Path) -> Iterator[RealEngine]:
    required(name)
    with ENGINES[name](folder) as engine:
        yield engine
