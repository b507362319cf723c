"""Everything that falls due, with lazy deadlines.

A deadline that moves later costs nothing: the old entry comes up, sees that its thing is due later, and goes there.
Only one that moves earlier needs a new entry. What is far away lies in spans, in no order. A little before its time a
span is opened: its entries are put into a heap, not all at once if they are many, and time waits for that. So it makes
no difference how many there are. The entry of a thing that died goes with it, or, if it was due soon, a little later.

A lease that was due soon when it was last watched has a holder in a hurry: one with a short ttl comes up again and
again, one with a long ttl that is renewed in time does not.
"""

import heapq
from typing import Final, Protocol

from openintent.model import DEAD, Lease

NEVER: Final = 1 << 62
SPAN_MS: Final = 256
SORTED_PER_DUE: Final = 10  # entries of a span: to put so many into order takes less time than for one to fall due
HURRY_MS: Final = 20_000  # who renews three times in so long a ttl can wait half of it for an answer


class Timed(Protocol):
    timer_ms: int  # where its valid entry stands: when it was due then, or when its span begins

    @property
    def due_ms(self) -> int: ...


class Timers:
    __slots__ = (
        "_edge",
        "_far",
        "_n",
        "_near",
        "_opening",
        "_spans",
        "hurry_ms",
        "next_ms",
        "now_ms",
    )

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms  # the ledger sets it with every command
        self._near: list[tuple[int, int, Timed]] = []  # a heap of what is due before the edge, or soon
        self._n = 0  # ties go in the order of entry, and things need no order of their own
        self._far: dict[int, dict[int, Timed]] = {}  # by span, then each by its identity
        self._spans: list[int] = []  # a heap of them
        self._edge = 0  # the first span that nobody has begun to open
        self._opening: list[Timed] = []  # what is left of the one before it, the last one first
        self.next_ms = NEVER  # no thing falls due before this instant; looked at with every command
        self.hurry_ms = 0  # until this instant some holder is in a hurry

    def __len__(self) -> int:
        return len(self._near) + len(self._opening) + sum(map(len, self._far.values()))

    def add(self, thing: Timed) -> None:
        """Watch a thing, or note that it is due earlier than before."""
        due_ms = thing.due_ms
        if thing.timer_ms == DEAD or due_ms < thing.timer_ms:
            self.watch(thing, due_ms)

    def watch(self, thing: Timed, due_ms: int) -> None:
        """The same for one that is not watched yet, or is known to be due earlier."""
        left_ms = due_ms - self.now_ms
        if left_ms < HURRY_MS and due_ms > self.hurry_ms and isinstance(thing, Lease):
            self.hurry_ms = due_ms
        span = due_ms // SPAN_MS
        if span < self._edge or left_ms < 2 * SPAN_MS:
            at_ms = wake_ms = due_ms
            self._n += 1
            heapq.heappush(self._near, (due_ms, self._n, thing))
        else:
            at_ms = span * SPAN_MS
            wake_ms = at_ms - SPAN_MS
            things = self._far.get(span)
            if things is None:
                self._far[span] = {id(thing): thing}
                heapq.heappush(self._spans, span)
            else:
                things[id(thing)] = thing
        thing.timer_ms = at_ms
        if wake_ms < self.next_ms:  # noqa: PLR1730  # quicker than a call of min()
            self.next_ms = wake_ms

    def died(self, thing: Timed) -> None:
        """A thing, if it was watched, will never be due again."""
        things = self._far.get(thing.timer_ms // SPAN_MS)
        if things is not None:
            things.pop(id(thing), None)

    def reach(self, now_ms: int, most: int, *, by_itself: bool) -> int:
        """The latest instant up to now by which at most so many entries fall due: perhaps the one before the first.

        If time passes by itself, then at least the first: somebody has to begin, and time to go on.
        """
        self._open(now_ms + SPAN_MS if by_itself else now_ms, most * SORTED_PER_DUE)
        # Of what is not open nobody knows how much is due in it.
        high = min(now_ms, self._closed_ms() - 1)
        if self._due(high, most) <= most:
            return high
        first_ms = self._near[0][0]
        latest_ms = self._latest(first_ms - 1, high, most)
        return max(latest_ms, first_ms) if by_itself else latest_ms

    def _latest(self, low: int, high: int, most: int) -> int:
        """The same, where more than that are due by `high`."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._due(middle, most) <= most:
                low = middle
            else:
                high = middle
        return low

    def _due(self, at_ms: int, most: int) -> int:
        """How many entries are due by then; no further than one more than `most`."""
        heap, below, count = self._near, [0], 0
        while below and count <= most:
            at = below.pop()
            if at < len(heap) and heap[at][0] <= at_ms:  # otherwise nothing below it is due either
                count += 1
                below += (2 * at + 1, 2 * at + 2)
        return count

    def pop_due(self, now_ms: int) -> Timed | None:
        """The next thing that is due by now, or None."""
        if self._closed_ms() <= now_ms:
            self._open(now_ms, NEVER)
        while self._near and self._near[0][0] <= now_ms:
            entry = heapq.heappop(self._near)
            thing = entry[2]
            if not self._valid(entry):
                continue
            due_ms = thing.due_ms
            thing.timer_ms = DEAD
            if due_ms <= now_ms:
                self._note_next()
                return thing
            self.watch(thing, due_ms)
        self._note_next()
        return None

    def _open(self, until_ms: int, most: int) -> None:
        """Open the spans that begin by then, as far as at most so many entries go."""
        while most > 0 and until_ms >= self._closed_ms() != NEVER:
            if not self._opening:
                span = heapq.heappop(self._spans)
                self._edge = span + 1
                self._opening = list(reversed(self._far.pop(span).values()))
            most -= self._sort(most)
        self._note_next()

    def _sort(self, most: int) -> int:
        """Put what falls due in this span into order, and what does not where it does; how many these were."""
        begins_ms, things = (self._edge - 1) * SPAN_MS, self._opening
        count = min(most, len(things))
        for _ in range(count):
            thing = things.pop()
            if thing.timer_ms == begins_ms and (due_ms := thing.due_ms) != DEAD:
                self.watch(thing, due_ms)
        return count

    def _closed_ms(self) -> int:
        """When the first span begins that is not wholly open."""
        if self._opening:
            return (self._edge - 1) * SPAN_MS
        return self._spans[0] * SPAN_MS if self._spans else NEVER

    def _note_next(self) -> None:
        near_ms = self._near[0][0] if self._near else NEVER
        self.next_ms = min(near_ms, self._closed_ms() - SPAN_MS) if self._opening or self._spans else near_ms

    @staticmethod
    def _valid(entry: tuple[int, int, Timed]) -> bool:
        at_ms, _, thing = entry
        return thing.timer_ms == at_ms and thing.due_ms != DEAD
