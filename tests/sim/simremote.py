"""An engine on another machine that several servers share, and how one of them reaches it.

The machine is always up and does one thing at a time. What lies between is not to be relied on: a message takes its
time, is lost if the link is cut, or arrives seconds after its sender has given up on it. What is stored and how is the
real `JournaledEngine`'s affair: this is only a `Store` for it.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

import msgspec
from history import History
from scenario import one_of
from simdisk import Disk
from simloop import Scheduler, SimLoop

from openintent.engines.base import Change, DeleteRange, Deposed, Guarantees, Head, OutcomeUncertain, Record
from openintent.engines.journaled import same_place
from openintent.errors import EngineError, EngineUnavailable

T = TypeVar("T")
Outcome = tuple[Any, EngineError | None]

DELAYS_S: Final = (0.0005, 0.001, 0.003, 0.01)
LATE_S_MAX: Final = 3.0
TIMEOUT_S: Final = 0.4  # how long an answer is waited for

_decode_changes = msgspec.msgpack.Decoder(tuple[Change, ...]).decode


class Machine(Disk):
    """What the engine has: the head, the journal, and what is folded.

    What it inherits is what the commits amount to, one after the other: the judge looks at that, and no server does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.journal: dict[int, bytes] = {}
        self.folded: dict[str, bytes] = {}
        self.steps = 0  # of folds, all together
        self._found: dict[int, dict[str, bytes]] = {}  # by term

    def found(self, term: int) -> dict[str, bytes]:
        """What there was when this term began. Its leader may hear of that much later, and never lead."""
        return self._found[term]

    def append(self, expect: Head, head: Head, row: tuple[int, bytes] | None, sent_at: float) -> None:
        if not same_place(expect, self.head):
            raise Deposed(self.head)
        if head.term > self.head.term:
            self._found[head.term] = dict(self.records)
        for seq in range(expect.seq + 1, head.seq + 1):
            self.decided_at[seq] = sent_at
        changes: tuple[Change, ...] = ()
        if row is not None:
            self.journal[row[0]] = row[1]
            changes = _decode_changes(row[1][1:])
        self.write(head, changes)

    def fold(self, term: int, step: int, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None]) -> int:
        """One step of a fold, if it comes right after the one that it was made after; the number of the next one."""
        self._check(term, step)
        for span in ranges:
            for key in [key for key in self.folded if span.first <= key < span.last]:
                del self.folded[key]
        for key, value in values.items():
            if value is None:
                self.folded.pop(key, None)
            else:
                self.folded[key] = value
        return self.steps

    def forget_rows(self, term: int, step: int, upto: int) -> None:
        self._check(term, step)
        for number in [number for number in self.journal if number <= upto]:
            del self.journal[number]

    def _check(self, term: int, step: int) -> None:
        if self.head.term != term:
            raise Deposed(self.head)
        if self.steps != step:
            raise EngineUnavailable("a fold that had been given up came in between")
        self.steps += 1

    def scan(self, first: str, last: str, limit: int, *, reverse: bool) -> list[Record]:
        keys = sorted(self.folded)
        found = keys[bisect_left(keys, first) : bisect_left(keys, last)]
        return [Record(key, self.folded[key]) for key in (found[::-1] if reverse else found)[:limit]]


class RemoteStore:
    """The way of one server process to the machine."""

    guarantees = Guarantees(durable=True, survives_node_loss=True, exclusive_open=False)
    notice = None
    software = "simulated"
    row_bytes_max = None

    def __init__(
        self, machine: Machine, loop: SimLoop, scheduler: Scheduler, random: Random, history: History, *, late: float
    ) -> None:
        self._machine = machine
        self._loop = loop
        self._scheduler = scheduler
        self._random = random
        self._history = history
        self._late = late
        self.cut_until = 0.0
        self._unanswered = 0  # commits
        self.doom: Callable[[], None] | None = None  # ends the process in the middle of its next commit

    @property
    def busy(self) -> bool:
        return self._unanswered > 0

    def calm(self) -> None:
        """From now on all messages arrive, and soon."""
        self._late, self.cut_until, self.doom = 0.0, 0.0, None

    # What the journal asks of it

    async def head(self) -> Head:
        return await self._ask(lambda: self._machine.head)

    async def append(self, *, expect: Head, head: Head, row: tuple[int, bytes] | None) -> None:
        sent_at = self._scheduler.now
        self._scheduler.happened()

        def arrive() -> None:
            self._history.count("commit that came after its sender gave up", self._scheduler.now > sent_at + TIMEOUT_S)
            self._machine.append(expect, head, row, sent_at)
            self._history.tell("the engine takes term {} beat {} of {}", head.term, head.beat, head.member)
            self._die(0.5)

        self._unanswered += 1
        try:
            self._die(0.5)
            await self._ask(arrive, writes=True)
        finally:
            self._unanswered -= 1

    def _die(self, chance: float) -> None:
        """Where it is doomed to: with the commit on its way, or stored and not yet answered."""
        if self.doom is not None and self._random.random() < chance:
            self.doom()

    async def rows(self, *, after: int, limit: int) -> list[tuple[int, bytes]]:
        journal = self._machine.journal
        return await self._ask(lambda: [(n, journal[n]) for n in sorted(journal) if n > after][:limit])

    async def fold(
        self, *, term: int, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None], upto: int
    ) -> None:
        """Step by step, as some servers need several: any of them may be the last, or come after its sender gave up."""
        machine, items = self._machine, list(values.items())
        step, is_there = await self._ask(lambda: (machine.steps, upto in machine.journal))
        if not is_there:
            return
        step = await self._ask(lambda: machine.fold(term, step, ranges, dict(items[::2])), writes=True)
        step = await self._ask(lambda: machine.fold(term, step, (), dict(items[1::2])), writes=True)
        await self._ask(lambda: machine.forget_rows(term, step, upto), writes=True)
        self._history.count("folded")

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool) -> list[Record]:
        return await self._ask(lambda: self._machine.scan(first, last, limit, reverse=reverse))

    async def stage(self, name: str, part: bytes) -> None:
        raise AssertionError("no row is too large")

    async def staged(self, name: str) -> bytes:
        raise AssertionError("no row is too large")

    async def reconnect(self) -> None:
        await self.head()

    async def close(self) -> None: ...

    # What lies between

    @property
    def _cut(self) -> bool:
        return self._scheduler.now < self.cut_until

    async def _ask(self, work: Callable[[], T], *, writes: bool = False) -> T:
        """Have the machine do something, and hear what came of it; or not."""
        if self._cut and self._random.random() < 0.5:
            await asyncio.sleep(self._delay_s())
            raise EngineUnavailable("the engine cannot be reached")
        answered: asyncio.Future[T] = self._loop.create_future()
        self._scheduler.after(self._delay_s(), self._arrive, work, answered)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await answered
        except TimeoutError:
            self._history.count("no answer from the engine", writes)
            raise (OutcomeUncertain if writes else EngineUnavailable)("no answer from the engine") from None

    def _arrive(self, work: Callable[[], T], answered: "asyncio.Future[T]") -> None:
        """Also of a process that is dead by now."""
        if self._cut:
            return
        try:
            outcome: Outcome = work(), None
        except (Deposed, EngineUnavailable) as refused:
            self._history.count("deposed" if isinstance(refused, Deposed) else "fold came in between")
            outcome = None, refused
        if not self._cut:
            self._scheduler.after(self._delay_s(), self._answer, answered, outcome)

    def _answer(self, answered: "asyncio.Future[T]", outcome: Outcome) -> None:
        if not self._cut:
            self._loop.post(_settle, answered, outcome)

    def _delay_s(self) -> float:
        if self._random.random() < self._late:  # half of these just in time
            return self._random.random() * one_of(self._random, (TIMEOUT_S, LATE_S_MAX))
        return one_of(self._random, DELAYS_S)


def _settle(answered: "asyncio.Future[T]", outcome: Outcome) -> None:
    if answered.done():
        return
    if outcome[1] is None:
        answered.set_result(outcome[0])
    else:
        answered.set_exception(outcome[1])
