"""A server that ends before each single call by which it changes the disk: while it starts, works, stops, recovers.

Not shown here: what a power cut leaves of writes that were not synced, because the system keeps them for the next one.
"""

import asyncio
import random
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from promises import EVERYTHING, SHARED, Agent, check_log, check_order
from proving import Figures, size
from rawhttp import Connection
from serverprocess import ServerProcess
from straced import (
    Point,
    born,
    end_together,
    hurry,
    points,
    require_strace,
    traced_from_birth,
    tracing,
    was_killed,
)

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

OPERATIONS = 200
HAND_OVER_EVERY = 10  # rounds of the script
WAIT_S = 1.0
POINTS = size("crash_points", 5)  # spread over all there are, one at least of each stage; 0: every one
AT_ONCE = 2  # servers side by side
# A commit more or less is a matter of time, and so is who makes it: a server whose disk was slow leaves that to the
# process for the file. Where a call is never reached, one half as far is.
TRIES_MAX = 4

# The server ends in one of these parts of its life; the recovery begins with what a killed server left. It ends before
# a call of its process for the file; but where it commits by itself, before one of its own.
START, WORK, SPOT, RECOVERY = "first start", "work and stop", "work on the spot and stop", "recovery"
STAGES = (START, WORK, SPOT, RECOVERY)


class Crash(NamedTuple):
    stage: str
    point: Point


@dataclass
class Script:
    """Two agents, one call after the other, each time the same calls; and what they were promised."""

    server: ServerProcess
    hurried: bool  # the process for the file makes all commits
    agents: list[Agent] = field(default_factory=list)
    cut_short: bool = False  # by the end of the server, before any agent had begun
    stopped: bool = False  # all was done, and the server may have said farewell

    def __post_init__(self) -> None:
        self.watcher = Connection(self.server.port, "watcher")
        for n, name in enumerate(("ada", "bob")):
            connection = Connection(self.server.port, name)
            self.agents.append(Agent(name, connection, random.Random(n), kinds=EVERYTHING, refused_at_the_end=True))

    def hang_up(self) -> None:
        for connection in (self.watcher, *(agent.connection for agent in self.agents)):
            connection.close()

    @property
    def acknowledged(self) -> int:
        return sum(len(agent.done) for agent in self.agents)

    @property
    def begun(self) -> bool:
        return self.broken or self.acknowledged > 0

    @property
    def broken(self) -> bool:
        return self.cut_short or any(agent.doubt is not None for agent in self.agents)

    async def run(self) -> None:
        """All of it, or until a call gets no answer."""
        if self.hurried:
            self.cut_short = not await hurry(self.watcher, self.agents[0].name)  # whose log is read
        for agent in self.agents:
            if not self.broken:
                await agent.create()
        turn = 0
        while self.acknowledged < OPERATIONS and not self.broken:
            turn += 1
            if turn % HAND_OVER_EVERY == 0:
                await self._hand_over()
            else:
                await self.agents[turn % 2].step()

    async def _hand_over(self) -> None:
        """One waits for what the other has, and gets it by the commit that takes it from the other."""
        holder, waiter = sorted(self.agents, key=lambda agent: not agent.hot)
        if not holder.hot:
            await holder.want(wait_s=0.0)
            return
        waiting = asyncio.create_task(waiter.want(wait_s=WAIT_S))
        await self._until_one_waits(waiting)
        if not waiting.done():
            await holder.give()
        await waiting

    async def _until_one_waits(self, waiting: "asyncio.Task[None]") -> None:
        while not waiting.done():
            queue = await self.watcher.call("GET", f"/spaces/{SHARED}/queue?scope=hot")
            if not queue.ok or queue.body["waiters"]:
                return

    async def check(self) -> None:
        """That all is there; then that what was in doubt is done once; and that tokens go on above all."""
        self.hang_up()
        for agent in self.agents:
            await agent.check(self.server.started_at, farewell=self.stopped)
        # Whoever gives comes before whoever waits for it.
        for agent in sorted(self.agents, key=lambda agent: not agent.hot):
            await agent.settle()
        for agent in self.agents:
            await agent.check(self.server.started_at, farewell=self.stopped)
            await agent.take()
        check_order([op for agent in self.agents for op in agent.done])
        await check_log(self.watcher, self.agents)


@asynccontextmanager
async def started(server: ServerProcess, stage: str, log: Path, *how: str) -> AsyncIterator[bool]:
    """A server that is ready, or is dead before that. It, or its process for the file, is traced from then on."""
    if stage in (WORK, SPOT):
        await asyncio.to_thread(server.start)
        with tracing(server.pid if stage == SPOT else await born(server), log, *how):
            async with ending_together(server, log):
                yield True
    else:
        server.settings = traced_from_birth(log, *how)
        server.launch()
        async with ending_together(server, log):
            yield await asyncio.to_thread(server.becomes_ready)


@asynccontextmanager
async def ending_together(server: ServerProcess, log: Path) -> AsyncIterator[None]:
    ending = asyncio.create_task(end_together(server, log))
    try:
        yield
    finally:
        ending.cancel()


async def live(server: ServerProcess, script: Script, stage: str, log: Path, *how: str) -> bool:
    """One life of a server, of which one stage is traced; True if it was ended in that."""
    if stage == RECOVERY:
        await asyncio.to_thread(server.start)
        await script.run()
        server.kill()
        script.hang_up()
    async with started(server, stage, log, *how) as ready:
        if stage in (WORK, SPOT):
            await script.run()
            script.hang_up()
        script.stopped = ready and not script.broken
        code = await asyncio.to_thread(server.stop if script.stopped else server.wait)
    killed = was_killed(log)
    assert killed or code == 0, server.log.read_text()
    return killed


def readable(database: Path) -> bool:
    with closing(sqlite3.connect(database)) as db:
        return bool(db.execute("PRAGMA integrity_check").fetchone() == ("ok",))


@dataclass
class Trial:
    """Servers, each in a folder of its own, and what was seen of them."""

    folder: Path
    figures: Figures
    listed: dict[str, list[Crash]] = field(default_factory=dict)
    acknowledged: int = 0
    done: int = 0
    missed: list[Crash] = field(default_factory=list)

    async def list_all(self, stages: Iterator[str]) -> None:
        """Every point, by lives in which nothing goes wrong."""
        for stage in stages:
            server = self._server(stage)
            log = server.database.with_name("trace")
            try:
                assert not await live(server, Script(server, stage != SPOT), stage, log)
            finally:
                server.kill()
            self.listed[stage] = [Crash(stage, point) for point in points(log, server.database)]

    def chosen(self) -> list[Crash]:
        count = sum(map(len, self.listed.values()))
        share = POINTS / count if POINTS else 1.0
        return [crash for stage in STAGES for crash in spread(self.listed[stage], share)]

    async def crash_all(self, crashes: Iterator[tuple[int, Crash]], count: int) -> None:
        for number, crash in crashes:
            for attempt in range(TRIES_MAX):
                point = crash.point._replace(nth=max(1, crash.point.nth >> attempt))
                if await self._crash(self._server(f"{number}-{attempt}"), crash._replace(point=point)):
                    break
            else:
                self.missed.append(crash)
            self.done += 1
            self.figures.progress(self.done, count)

    def _server(self, name: str) -> ServerProcess:
        folder = self.folder / name
        folder.mkdir()
        return ServerProcess(folder / "leases.db")

    async def _crash(self, server: ServerProcess, crash: Crash) -> bool:
        """It ends there; False if it never came so far."""
        script = Script(server, crash.stage != SPOT)
        try:
            reached = await self._life_and_after(server, script, crash)
        except BaseException as error:
            error.add_note(f"the server ended before call {crash.point.nth} of {crash.point.call}: {crash.stage}")
            raise
        finally:
            script.hang_up()
            server.kill()
        shutil.rmtree(server.database.parent)
        return reached

    async def _life_and_after(self, server: ServerProcess, script: Script, crash: Crash) -> bool:
        log = server.database.with_name("trace")
        reached = await live(server, script, crash.stage, log, "-e", crash.point.killing)
        server.settings = {}
        self.acknowledged += script.acknowledged
        await asyncio.to_thread(server.start)
        if not script.begun:
            await script.run()
        await script.check()
        server.kill()
        assert readable(server.database)
        return reached


def spread(crashes: list[Crash], share: float) -> list[Crash]:
    """That part of them, evenly, and one at least."""
    count = max(1, round(len(crashes) * share))
    return [crashes[(2 * n + 1) * len(crashes) // (2 * count)] for n in range(count)]


@pytest.mark.timeout(7_200 if POINTS == 0 else 60 + 6 * POINTS)
async def test_a_server_that_ends_before_any_call_that_changes_the_disk_keeps_all_its_promises(
    tmp_path: Path, figures: Figures
):
    require_strace()
    trial = Trial(tmp_path, figures)
    stages = iter(STAGES)
    await asyncio.gather(*(trial.list_all(stages) for _ in range(AT_ONCE)))
    chosen = trial.chosen()
    crashes = iter(list(enumerate(chosen)))
    await asyncio.gather(*(trial.crash_all(crashes, len(chosen)) for _ in range(AT_ONCE)))
    figures.add(
        "ends of the server before a call that changes the disk",
        points=len(chosen),
        of=sum(map(len, trial.listed.values())),
        operations_of_the_script=OPERATIONS,
        acknowledged=trial.acknowledged,
        lost=0,
        done_twice=0,
        tokens_that_went_back=0,
        unreadable_databases=0,
        not_reached=len(trial.missed),
    )
    assert len(trial.missed) <= len(chosen) // 20, trial.missed
