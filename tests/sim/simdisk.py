"""A disk that outlives its processes, and the engine that a simulated server has on it.

A commit becomes durable at one instant and is acknowledged at a later one. A process that is killed before the first
may or may not have got it through; between the two, it has, and nobody was told.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from random import Random
from typing import NoReturn

from history import History
from scenario import one_of
from simloop import Scheduler

from openintent.engines.base import Change, Delete, Deposed, Guarantees, Head, OutcomeUncertain, Put, Record
from openintent.errors import EngineUnavailable

DELAYS_S = (0.0, 0.0005, 0.001, 0.01)


class Disk:
    """What is durable."""

    def __init__(self) -> None:
        self.head = Head()
        self.records: dict[str, bytes] = {}
        self._keys: list[str] | None = None
        self.owner: object = None  # who has the OS lock
        self.took: list[Head] = []  # the heads that were written, in order
        self.decided_at: dict[int, float] = {}  # by event: the true time by which it had been decided

    def write(self, head: Head, changes: Sequence[Change]) -> None:
        self.took.append(head)
        self._keys = None
        for change in changes:
            if isinstance(change, Put):
                self.records[change.key] = change.value
            elif isinstance(change, Delete):
                self.records.pop(change.key, None)
            else:
                for key in [key for key in self.records if change.first <= key < change.last]:
                    del self.records[key]
        self.head = head

    def found(self, _term: int) -> dict[str, bytes]:
        """What there was when this term began, which is now."""
        return dict(self.records)

    def keys(self) -> list[str]:
        if self._keys is None:
            self._keys = sorted(self.records)
        return self._keys


class SimEngine:
    """The engine of one process. It promises what SQLite's does, and takes its time."""

    guarantees = Guarantees(durable=True, survives_node_loss=False, exclusive_open=True)
    notice = None

    def __init__(self, disk: Disk, scheduler: Scheduler, random: Random, history: History, *, fails: float) -> None:
        assert disk.owner is None, "two servers on one disk"
        disk.owner = self
        self._disk = disk
        self._scheduler = scheduler
        self._random = random
        self._history = history
        self.fails = fails
        self._pending: list[Callable[[], None]] = []
        self.uncertain = False
        self.doom: Callable[[], None] | None = None  # ends the process in the middle of its next commit

    @property
    def busy(self) -> bool:
        return bool(self._pending)

    def calm(self) -> None:
        """From now on it works."""
        self.fails, self.doom = 0.0, None

    def lose(self) -> None:
        """The process was killed: of what is on its way, the first so many still arrive, in order."""
        arrived = self._random.randint(0, len(self._pending))
        for write in self._pending[:arrived]:
            write()
        self._pending.clear()
        self._disk.owner = None

    async def announce(self, address: str) -> None: ...

    async def head(self) -> Head:
        return self._disk.head

    async def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        kept = list(changes)
        fate = self._fate(expect, head)
        await asyncio.sleep(self._delay_s())
        if expect != self._disk.head:
            raise Deposed(self._disk.head)
        if fate < self.fails:
            self._fail(head, kept)
        await self._write(head, kept)

    def commit_here(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> bool:
        if self._pending or self.doom is not None or self._random.random() < 0.5:
            return False
        fate = self._fate(expect, head)
        assert expect == self._disk.head
        if fate < self.fails:
            self._fail(head, changes)
        self._disk.write(head, changes)
        self._history.count("committed on the spot")
        return True

    def _fate(self, expect: Head, head: Head) -> float:
        if self.uncertain:
            raise EngineUnavailable("not reopened")
        self._scheduler.happened()
        for seq in range(expect.seq + 1, head.seq + 1):
            self._disk.decided_at[seq] = self._scheduler.now
        fate = self._random.random()
        if fate < self.fails / 2:
            self._history.count("disk full")
            raise EngineUnavailable("no space left")
        return fate

    def _fail(self, head: Head, changes: Sequence[Change]) -> NoReturn:
        self._history.count("sync failed")
        self.uncertain = True
        if self._random.random() < 0.5:
            self._disk.write(head, changes)
        raise OutcomeUncertain("input/output error")

    async def _write(self, head: Head, changes: list[Change]) -> None:
        def write() -> None:
            self._disk.write(head, changes)

        self._pending.append(write)
        if self.doom is not None and self._random.random() < 0.6:
            await self._end()
        await asyncio.sleep(self._delay_s())
        self._pending.remove(write)
        write()
        if self.doom is not None:
            await self._end()
        if self._random.random() < 0.3:
            await asyncio.sleep(self._delay_s())  # durable, and nobody knows yet

    async def _end(self) -> None:
        assert self.doom is not None
        self.doom()
        await asyncio.sleep(0)  # for ever, if the process is dead now

    def _delay_s(self) -> float:
        return one_of(self._random, DELAYS_S) if self._random.random() < 0.98 else 0.4

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        keys = self._disk.keys()
        found = keys[bisect_left(keys, first) : bisect_left(keys, last)]
        chosen = found[::-1][:limit] if reverse else found[:limit]
        return [Record(key, self._disk.records[key]) for key in chosen]

    async def changed(self, seen: Head) -> None:
        await asyncio.Event().wait()

    async def reopen(self) -> None:
        self.uncertain = False

    async def close(self) -> None: ...
