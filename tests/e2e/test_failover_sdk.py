"""Programs that use the SDK, on three servers of which the one that leads fails, or whose engine does."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from itertools import chain, cycle, islice, zip_longest
from pathlib import Path

import pytest
from chaos_arena import REST_S_MAX, Arena, Worker
from chaos_count import situations
from chaos_judge import Judge, gather
from chaos_linear import opinions
from chaos_log import Log, now_ns
from chaos_worker import SPACE
from failover_engines import RealEngine
from failover_faults import OF_LEADER
from proving import Figures, size
from servercluster import Cluster

pytestmark = [pytest.mark.anyio, pytest.mark.alone, pytest.mark.busy]

ROUNDS = size("failover_sdk_rounds", 2)
WORKERS = size("failover_sdk_workers", 4)
ROUND_S_MAX = 45.0


class RoamingWorker(Worker):
    """Reaches all servers, and without a link that could fail."""

    urls: tuple[str, ...] = ()

    async def reach(self) -> str:
        return ",".join(self.urls)


class ClusterArena(Arena):
    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        super().__init__(folder, WORKERS, type("", (RoamingWorker,), {"urls": tuple(cluster.urls)}))

    def urls(self) -> list[str]:
        return self.cluster.urls

    async def start_server(self) -> None:
        """They run."""

    async def stop_server(self) -> None:
        """Somebody else does."""

    def be_served(self) -> None:
        """Something is granted: while the fault lasts, the engine stores and a server leads."""
        with self._client.lease(space=SPACE, scope="of the harness", ttl=5, wait_seconds=ROUND_S_MAX):
            pass


@pytest.fixture
async def arena(cluster: Cluster, tmp_path: Path) -> AsyncIterator[ClusterArena]:
    folder = tmp_path / "arena"
    folder.mkdir()
    arena = ClusterArena(folder, cluster)
    try:
        await arena.start()
        yield arena
    finally:
        await arena.stop()


def in_turn(engine: RealEngine) -> list[str]:
    """Faults of the one that leads, and of the engine."""
    pairs = zip_longest(reversed(OF_LEADER), engine.faults)
    return [kind for kind in chain.from_iterable(pairs) if kind is not None]


@pytest.mark.timeout(120 + ROUNDS * (REST_S_MAX + ROUND_S_MAX))
async def test_no_two_clients_ever_believe_that_they_hold_the_same(
    arena: ClusterArena, real_engine: RealEngine, figures: Figures
):
    judge, log, seen = Judge(), Log(arena.folder / "nemesis.jsonl", "nemesis"), Counter()
    for done, kind in enumerate(islice(cycle(in_turn(real_engine)), ROUNDS)):
        at = now_ns()
        arena.go()
        await asyncio.sleep(0.3)
        async with real_engine.all_faults[kind](arena.cluster):
            await asyncio.to_thread(arena.be_served)
            await asyncio.sleep(0.3)
        log.say(fault=kind, who="leader", at=at, ended=now_ns())
        await arena.rest()
        await arena.progress()
        history = gather(arena.new_lines(), await asyncio.to_thread(arena.new_events), arena.deaths())
        verdicts, broken = opinions(history)
        assert judge.violations(history) + broken == [], f"round {done}, {kind}; the logs are in {arena.folder}"
        seen.update([*situations(history), *verdicts.elements(), kind])
        await arena.cluster.all_ready()
        figures.progress(done + 1, ROUNDS)
    figures.add(
        f"the leader of three servers, or the engine, fails under the SDK, on {real_engine.name}",
        rounds=ROUNDS,
        of_these_the_engine=sum(seen[kind] for kind in real_engine.faults),
        clients=WORKERS,
        grants=seen["acquire ok"],
        overlaps_of_belief=0,
        acts_out_of_turn=0,
        stale_writes_accepted=0,
        stale_writes_refused=seen["stale write refused"],
        lease_lost=seen["LeaseLost"],
        histories_linear=seen["linear"],
        histories_undecided=seen["undecided"],
    )
    assert seen["acquire ok"] > ROUNDS
    assert seen["undecided"] == 0
