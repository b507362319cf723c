"""What goes wrong: drawn by a seed, done to real processes and links, and written down."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from chaos_arena import Arena, Worker
from chaos_log import Log, now_ns
from chaos_worker import TTLS_S
from faultproxy import FaultProxy

START_S_MAX = 0.3  # after the round began
LENGTH_TTLS = (0.1, 3.0)
LENGTH_S_MAX = 1.5  # a round has an end
FAULTS_PER_ROUND = (2, 4)
SERVER_SHARE = 0.4  # of the rounds have a fault of the server besides
CUT_BYTES_MAX = 900  # about as long as the longest answer

LINK_FAULTS = (
    "black hole",
    "requests dropped",
    "answers dropped",
    "requests held back",
    "answers held back",
    "delay and jitter",
    "requests dripping",
    "answers dripping",
    "requests cut",
    "answers cut",
    "reset",
)


def break_link(link: FaultProxy, fault: str, chance: random.Random) -> None:
    way = link.requests if fault.startswith("requests") else link.answers
    match fault.removeprefix("requests ").removeprefix("answers "):
        case "black hole":
            link.cut()
        case "dropped":
            way.drops = True
        case "held back":
            way.may_pass.clear()
        case "cut":
            way.cut_after = chance.randint(1, CUT_BYTES_MAX)
        case "dripping":
            way.drip_s = chance.uniform(0.0001, 0.001)
        case "delay and jitter":
            for each in (link.requests, link.answers):
                each.delay_s, each.jitter_s = chance.uniform(0, 0.1), chance.uniform(0, 0.2)
        case _:
            link.reset()


class Nemesis:
    def __init__(self, arena: Arena, seed: int) -> None:
        self._arena = arena
        self._chance = random.Random(seed)
        self._log = Log(arena.folder / "nemesis.jsonl", "nemesis")

    async def strike(self) -> None:
        """The faults of one round; when it returns, all of them are over."""
        victims = self._chance.sample(self._arena.workers, self._chance.randint(*FAULTS_PER_ROUND))
        faults: list[Awaitable[None]] = [self._one_of_a_worker(worker) for worker in victims]
        if self._chance.random() < SERVER_SHARE:
            faults.append(self._one_of_the_server())
        await asyncio.gather(*faults)

    def _one_of_a_worker(self, worker: Worker) -> Awaitable[None]:
        begin_s, length_s = self._when()
        kind = self._chance.choices(("pause", "kill", "link"), (5, 1, 5))[0]
        if kind == "pause":
            return self._pause(worker, begin_s, length_s)
        if kind == "kill":
            return self._kill(worker, begin_s)
        return self._break_link(worker, self._chance.choice(LINK_FAULTS), begin_s, length_s)

    def _one_of_the_server(self) -> Awaitable[None]:
        begin_s, length_s = self._when()
        if self._chance.random() < 0.5:
            return self._kill_server(begin_s)
        return self._pause_server(begin_s, length_s)

    def _when(self) -> tuple[float, float]:
        """How long after the beginning of the round, and for how long."""
        length_s = self._chance.uniform(*LENGTH_TTLS) * self._chance.choice(TTLS_S)
        return self._chance.uniform(0, START_S_MAX), min(length_s, LENGTH_S_MAX)

    @asynccontextmanager
    async def _noted(self, fault: str, who: str, begin_s: float) -> AsyncIterator[None]:
        await asyncio.sleep(begin_s)
        at = now_ns()
        try:
            yield
        finally:
            self._log.say(fault=fault, who=who, at=at, ended=now_ns())

    async def _pause(self, worker: Worker, begin_s: float, length_s: float) -> None:
        async with self._noted("pause", worker.name, begin_s):
            worker.pause()
            await asyncio.sleep(length_s)
            worker.resume()

    async def _kill(self, worker: Worker, begin_s: float) -> None:
        async with self._noted("kill", worker.name, begin_s):
            await worker.kill()

    async def _break_link(self, worker: Worker, fault: str, begin_s: float, length_s: float) -> None:
        async with self._noted(fault, worker.name, begin_s):
            break_link(worker.link, fault, self._chance)
            await asyncio.sleep(length_s)
            worker.link.heal()

    async def _kill_server(self, begin_s: float) -> None:
        async with self._noted("server killed", "server", begin_s):
            self._arena.server.kill()
            await asyncio.to_thread(self._arena.server.start)

    async def _pause_server(self, begin_s: float, length_s: float) -> None:
        async with self._noted("server paused", "server", begin_s):
            self._arena.server.signal(signal.SIGSTOP)
            await asyncio.sleep(length_s)
            self._arena.server.signal(signal.SIGCONT)
