"""The log, told again: what a reader that was away has missed, in order, each event once.

A reader of a portfolio, or of an agent, reads the logs of its intents along, each while it belongs there. When that
began and ended stands in the reader's own log, so it is the same whether an event comes from the feed or from here.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from openintent.grantor.feed import MOVES, moved
from openintent.grantor.history import History
from openintent.model import Event

EVENTS_PER_PAGE: Final = 64  # of one log
EVENTS_HELD: Final = 1_024  # of all logs that are read at once, or a few of each


class EventsGone(Exception):
    """The log was forgotten while it was read."""


class Replay:
    """All events above `after`, up to `upto`, of a log and of those that are read `along` with it at `after`."""

    def __init__(
        self,
        history: History,
        own: str,
        *,
        after: int,
        upto: int,
        along: Iterable[str] | None,
        horizon: Callable[[], int],
    ) -> None:
        self._history = history
        self._own = own
        self._moves = along is not None
        self._starts = {own, *(along or ())}
        self._after = after
        self._upto = upto
        self._horizon = horizon
        self._tails: dict[str, _Tail] = {}  # those that are read on, by space
        self._heads: list[tuple[int, int, _Tail]] = []  # each with the number of its next event
        self._numbers = count()

    async def events(self) -> AsyncIterator[Event]:
        for space in self._starts:
            await self._open(space, self._after)
        last = self._after
        while self._heads:
            _, _, tail = heappop(self._heads)
            if self._tails.get(tail.space) is not tail:
                continue  # it is no longer read along
            event = tail.page.popleft()
            await self._line_up(tail)
            if event.seq != last:  # else it stands in two of these logs
                last = event.seq
                yield event
                await self._move(event)

    async def _open(self, space: str, after: int) -> None:
        tail = self._tails[space] = _Tail(space, after)
        await self._line_up(tail)

    async def _line_up(self, tail: "_Tail") -> None:
        """Put a log where its next event says; a log without one is not read on."""
        if not tail.page:
            await self._read(tail)
        if tail.page and tail.page[0].seq <= self._upto:
            heappush(self._heads, (tail.page[0].seq, next(self._numbers), tail))

    async def _read(self, tail: "_Tail") -> None:
        limit = max(4, min(EVENTS_PER_PAGE, EVENTS_HELD // len(self._tails)))
        page = await self._history.events(tail.space, after=tail.after, limit=limit)
        if self._horizon() > tail.after:
            raise EventsGone
        tail.page.extend(page)
        tail.after = page[-1].seq if page else self._upto

    async def _move(self, event: Event) -> None:
        move = moved(event, self._own) if self._moves else None
        if move is not None and not move.joins:
            self._tails.pop(move.space, None)
        elif move is not None and move.space not in self._tails:
            await self._open(move.space, event.seq)


class _Tail:
    """One log, read in pages."""

    def __init__(self, space: str, after: int) -> None:
        self.space = space
        self.after = after  # it is read up to here
        self.page: deque[Event] = deque()


async def along_at(
    history: History, own: str, *, at: int, along: Iterable[str], horizon: Callable[[], int]
) -> set[str]:
    """Which logs were read along with this one at an earlier event, from those that were so at any later one.

    The first change after that event tells how it was before. How far the log is read behind `along` does not matter.
    """
    before: dict[str, bool] = {}
    place = at
    while page := await history.events(own, after=place, limit=EVENTS_PER_PAGE, types=MOVES):
        for event in page:
            place = event.seq
            move = moved(event, own)
            if move is not None:
                before.setdefault(move.space, not move.joins or move.again)
    if horizon() > at:
        raise EventsGone
    now = set(along)
    return {space for space in now if before.get(space, True)} | {space for space, was in before.items() if was}
