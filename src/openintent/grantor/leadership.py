"""Who may write: the head of the engine is the lease of the grantor itself.

A candidate takes over after the head has stood unchanged for the leader ttl on the candidate's own clock: it commits
term + 1 against the head it saw. The grantor trusts its term until the send of its last successful commit + leader
ttl - margin, and acknowledges nothing after that. Where the engine can be open in one process only, the operating
system's lock decides instead: takeover is at once, and trust has no end.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from openintent.clock import boot_s
from openintent.engines.base import Change, Deposed, Engine, Head
from openintent.trust import Trust

LEADER_TTL_S: Final = 10.0


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
        self._member = member
        self._ttl_s = leader_ttl_s
        self._clock = clock
        self._alone = engine.guarantees.exclusive_open
        self._trust = Trust(sent_at=0.0, waited_s=0.0, remaining_s=0.0)
        self.head = Head()
        self.seen = Head()  # what the last try to take over was made against

    def trusted(self) -> bool:
        """Whether this grantor may still acknowledge anything."""
        return self._alone or self._trust.live(self._clock())

    async def take_over(self) -> Head:
        """Begin a new term as soon as that is allowed; returns the head that the former term left."""
        while True:
            self.seen = seen = await self._await_stillness()
            fresh = Head(
                term=seen.term + 1, clock_ms=seen.clock_ms, member=self._member, token=seen.token, seq=seen.seq
            )
            try:
                await self._commit(seen, fresh, [])
            except Deposed:
                continue  # another candidate was faster; watch its reign begin
            return seen

    async def _await_stillness(self) -> Head:
        seen = await self._engine.head()
        if self._alone or seen.farewell or seen == Head():
            return seen
        since = self._clock()
        while (left_s := since + self._ttl_s - self._clock()) > 0:
            try:
                await asyncio.wait_for(self._engine.changed(seen), left_s)
            except TimeoutError:
                continue
            now_seen = await self._engine.head()
            if now_seen != seen:
                seen, since = now_seen, self._clock()
        return seen

    async def commit(self, head: Head, changes: Sequence[Change]) -> None:
        """Commit against the head that this term wrote last."""
        await self._commit(self.head, head, changes)

    async def _commit(self, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        sent_at = self._clock()
        await self._engine.commit(expect=expect, head=head, changes=changes)
        self.head = head
        self._trust = Trust(sent_at=sent_at, waited_s=0.0, remaining_s=self._ttl_s)
