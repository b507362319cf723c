"""Who may write: the head of the engine is the lease of the grantor itself.

A candidate takes over after the head has stood unchanged for the leader ttl on the candidate's own clock: it commits
term + 1 against the head it saw. The grantor trusts its term until the send of its last successful commit + leader
ttl - margin, and acknowledges nothing after that. Where the engine can be open in one process only, the operating
system's lock decides instead: takeover is at once, and trust has no end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final

import msgspec

from openintent.clock import boot_s
from openintent.engines.base import Change, CommitsHere, Deposed, Engine, Head
from openintent.errors import EngineError
from openintent.grantor.durations import Durations
from openintent.trust import Trust

LEADER_TTL_S: Final = 10.0
FOREVER_MS: Final = 1 << 62
TICK_S: Final = 0.001  # the clock has whole milliseconds: a shorter wait ends before it has moved, and begins again


class TrustEnded(EngineError):
    """The commit is durable, but came back too late to be acknowledged by this term."""


class Commits:
    """Since this process began; for whoever watches it."""

    def __init__(self) -> None:
        self.took = Durations()
        self.failed = 0


class Leadership:
    def __init__(
        self,
        engine: Engine,
        *,
        member: str,
        leader_ttl_s: float = LEADER_TTL_S,
        clock: Callable[[], float] = boot_s,
    ) -> None:
        self._engine = engine
        self._here = engine if isinstance(engine, CommitsHere) and engine.guarantees.exclusive_open else None
        self._member = member
        self._ttl_s = leader_ttl_s
        self._clock = clock
        self.commits = Commits()
        self.alone = engine.guarantees.exclusive_open  # nobody else can open it
        self.until_ms = FOREVER_MS if self.alone else 0  # on the boot clock: it may acknowledge until then
        self.head = Head()
        self.seen = Head()  # what the last try to take over was made against

    def trusted(self) -> bool:
        """Whether this grantor may still acknowledge anything."""
        return self._clock() * 1_000 < self.until_ms

    @property
    def newest(self) -> Head:
        """The newest head that was looked at, or written."""
        return max(self.seen, self.head, key=lambda head: (head.term, head.beat))

    @property
    def beat_ms(self) -> int:
        """A head that stands still for longer than this brings its writer closer to its end."""
        return round(self._ttl_s / 3 * 1_000)

    async def take_over(self, on_other: Callable[[], None] = lambda: None) -> Head:
        """Begin a new term as soon as that is allowed; returns the head that the former term left.

        It may never be: `on_other` is called when it is found that another leads.
        """
        while True:
            seen = await self._await_stillness(on_other)
            fresh = Head(
                term=seen.term + 1, clock_ms=seen.clock_ms, member=self._member, token=seen.token, seq=seen.seq
            )
            try:
                await self._commit(seen, fresh, [])
            except Deposed:
                continue  # another candidate was faster; watch its reign begin
            return seen

    async def _await_stillness(self, on_other: Callable[[], None]) -> Head:
        self.seen = seen = await self._engine.head()
        # What we wrote ourselves nobody else has acknowledged anything under: there is nobody to wait for.
        if self.alone or seen.farewell or seen == Head() or seen.member == self._member:
            return seen
        on_other()
        since = self._clock()
        while (left_s := since + self._ttl_s - self._clock()) > 0:
            try:
                await asyncio.wait_for(self._engine.changed(seen), max(left_s, TICK_S))
            except TimeoutError:
                continue
            now_seen = await self._engine.head()
            if now_seen.farewell and now_seen != seen:
                self.seen = now_seen
                return now_seen
            if now_seen != seen:
                self.seen, since = now_seen, self._clock()
                seen = now_seen
        return seen

    def outcome(self, head: Head, *, known: bool | None) -> bool | None:
        """Whether the commit of this head happened, by the head that the last try to take over saw.

        That may be our own takeover, whose reply was lost; then what an earlier try saw still counts. Once another
        member has written, it cannot be told any more.
        """
        if self.seen.term == head.term:
            return self.seen.beat >= head.beat
        return known if self.seen.term < head.term or self.seen.member == head.member else None

    async def while_beating(self, work: Awaitable[None]) -> None:
        """Do what comes before the first request of a term. It may take long; meanwhile nobody is to take over."""
        task = asyncio.ensure_future(work)
        try:
            while not self.alone and not (await asyncio.wait({task}, timeout=self.beat_ms / 1_000))[0]:
                await self.commit(msgspec.structs.replace(self.head, beat=self.head.beat + 1), [])
            await task
        finally:
            task.cancel()

    def commit(self, head: Head, changes: Sequence[Change]) -> Awaitable[None]:
        """Commit against the head that this term wrote last. It may begin before anybody waits for it."""
        return self._commit(self.head, head, changes)

    def commit_here(self, head: Head, changes: Sequence[Change]) -> bool:
        """The same on the spot, for who can wait for the disk; False if the engine cannot do that now."""
        if self._here is None:
            return False
        began_s = perf_counter()
        try:
            done = self._here.commit_here(expect=self.head, head=head, changes=changes)
        except Exception:
            self.commits.failed += 1
            raise
        if done:
            self.commits.took.add(perf_counter() - began_s)
            self.head = head
        return done

    def _commit(self, expect: Head, head: Head, changes: Sequence[Change]) -> Awaitable[None]:
        sent_at, began_s = self._clock(), perf_counter()
        outcome = self._engine.commit(expect=expect, head=head, changes=changes)
        return self._note(outcome, head, sent_at=sent_at, began_s=began_s)

    async def _note(self, outcome: Awaitable[None], head: Head, *, sent_at: float, began_s: float) -> None:
        try:
            await outcome
        except Exception:
            self.commits.failed += 1
            raise
        self.commits.took.add(perf_counter() - began_s)
        self.head = head
        if not self.alone:
            self.until_ms = int(Trust(sent_at=sent_at, waited_s=0.0, remaining_s=self._ttl_s).until * 1_000)
