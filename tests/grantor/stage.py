"""An engine that fails on demand, callers that remember what they were told, and a clock that is moved by hand."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from openintent.core.answers import Reply
from openintent.core.commands import Acquire
from openintent.engines.base import Change, Guarantees, Head, OutcomeUncertain, Record
from openintent.engines.memory import MemoryEngine
from openintent.grantor.feed import Feed, News
from openintent.grantor.grantor import Grantor, Refusal
from openintent.model import Ask, Event, Limits

PATIENCE_S = 10.0  # for signals that come at once unless something is broken


class FaultyEngine:
    """A memory engine whose commits can be held up or fail, before or after they happened."""

    def __init__(self, inner: MemoryEngine | None = None, *, exclusive: bool = True) -> None:
        self.inner = inner or MemoryEngine()
        self.guarantees = Guarantees(durable=False, survives_node_loss=False, exclusive_open=exclusive)
        self.commits: list[tuple[Head, list[Change]]] = []  # all that were sent
        self.faults: list[str | Exception | None] = []  # for the next commits: "before", "after", or what to raise
        self.reopen_faults: list[Exception] = []
        self.scan_faults: list[Exception] = []
        self.reopened = 0
        self.on_changed: Callable[[], Any] = lambda: None
        self.sent = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """From now on commits hang."""
        self._open.clear()
        self.sent.clear()

    def let_go(self) -> None:
        self._open.set()

    async def head(self) -> Head:
        return await self.inner.head()

    async def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        self.commits.append((head, list(changes)))
        self.sent.set()
        await self._open.wait()
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        if fault != "before":
            await self.inner.commit(expect=expect, head=head, changes=changes)
        if fault is not None:
            raise OutcomeUncertain(fault)

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        if self.scan_faults:
            raise self.scan_faults.pop(0)
        return await self.inner.scan(first, last, limit=limit, reverse=reverse)

    async def changed(self, seen: Head) -> None:
        """By default it hangs, as it does while nothing changes; a test says what happens meanwhile."""
        if self.on_changed() is None:
            await self.inner.changed(seen)

    async def reopen(self) -> None:
        self.reopened += 1
        if self.reopen_faults:
            raise self.reopen_faults.pop(0)

    async def close(self) -> None:
        await self.inner.close()


class Caller:
    """Somebody who waits for a reply, as a parcel or as an open request."""

    def __init__(self, grantor: Grantor) -> None:
        self.grantor = grantor
        self.reply: Reply | None = None
        self.outcome: str | None = None
        self.told = asyncio.Event()

    def send(self) -> None:
        self._hear("sent")

    def refuse(self, refusal: Refusal) -> None:
        self._hear(refusal.value)

    def answer(self, reply: Reply) -> None:
        self.reply = reply
        self.grantor.park(reply, self)

    def _hear(self, outcome: str) -> None:
        assert self.outcome is None, "told twice"
        self.outcome = outcome
        self.told.set()

    async def heard(self) -> str:
        await soon(self.told.wait())
        assert self.outcome is not None
        return self.outcome


class Listener:
    """A reader of one log, and of those along with it, that keeps the events themselves."""

    def __init__(
        self, feed: Feed, own: str = "space:s", *, after: int = 0, along: Any = None, wanted: str = ""
    ) -> None:
        self._wanted = wanted
        self._events: dict[bytes, Event] = {}
        self.reader = feed.subscribe(own, self._render, after=after, along=along)

    def _render(self, news: News) -> bytes:
        event = news.event
        self._events[b"%d" % event.seq] = event
        return b"%d" % event.seq if self._wanted in ("", event.type) else b""

    async def next(self) -> Event:
        while not (taken := self.reader.take(1)):
            await soon(self.reader.wait())
        return self._events[taken]


async def soon(signal: Any) -> Any:
    with anyio.fail_after(PATIENCE_S):
        return await signal


async def settled() -> None:
    """Let everything run that can run without any signal from outside."""
    for _ in range(10):
        await asyncio.sleep(0)


class BootClock:
    """A boot clock that stands still unless it is told."""

    def __init__(self) -> None:
        self.ms = 5_000_000

    def __call__(self) -> int:
        return self.ms

    @property
    def seconds(self) -> float:
        return self.ms / 1_000


class Stage:
    """A grantor on a faulty engine, and the things that callers do."""

    def __init__(self, engine: FaultyEngine | None = None, limits: Limits | None = None) -> None:
        self.engine = engine or FaultyEngine()
        self.clock = BootClock()
        self.limits = limits or Limits()
        self.grantor = self.new_grantor()
        self._ids = 0

    def new_grantor(self) -> Grantor:
        return Grantor(self.engine, self.limits, member="m", boot_clock_ms=self.clock)

    async def restart(self) -> None:
        """Another grantor on what the first one left; stopping that one first, or not, is up to the test."""
        self.grantor = self.new_grantor()
        await self.grantor.start()

    def do(self, command: Any) -> Caller:
        """Apply a command; whoever asked is told when its batch is durable."""
        caller = Caller(self.grantor)
        caller.answer(self.grantor.apply(command))
        return caller

    def acquire(self, holder: str, scope: str = "x", **more: Any) -> Caller:
        return self.do(self.asked(holder, scope, **more))

    def wait(self, holder: str, scope: str = "x", *, wait_ms: int = 60_000, **more: Any) -> tuple[Caller, int]:
        """An acquire that may wait; returns the caller and the number of its request."""
        caller, command = Caller(self.grantor), self.asked(holder, scope, wait_ms=wait_ms, **more)
        self.grantor.look()
        self.grantor.decide_or_wait(command, caller)
        self.grantor.see_to_it()
        return caller, command.request

    def asked(self, holder: str, scope: str, *, ttl_ms: int = 60_000, wait_ms: int = 0, attempt=None) -> Acquire:
        self._ids += 1
        ask = Ask(space="space:s", scope=scope, holder=holder, ttl_ms=ttl_ms)
        return Acquire(ask=ask, lease_id=f"L{self._ids}", wait_ms=wait_ms, attempt=attempt)
