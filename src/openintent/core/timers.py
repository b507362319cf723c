"""Everything that falls due, with lazy deadlines.

A deadline that moves later costs nothing: the old entry comes up, sees that its thing is due later, and goes there.
Only one that moves earlier needs a new entry. What is far away lies in spans, in no order; only when the time of a span
comes are its entries put into a heap. So it makes no difference how many there are. Entries of things that died stay
until their time comes, or until they are so many that all is rebuilt without them; either way the work is paid for by
what put them there.
"""

import heapq
from typing import Final, Protocol

from openintent.model import DEAD

NEVER: Final = 1 << 62
SPAN_MS: Final = 256
LITTER_MIN: Final = 1_024  # below this many dead entries a rebuild is not worth its walk


class Timed(Protocol):
    timer_ms: int  # where its valid entry stands: when it was due then, or when its span begins

    @property
    def due_ms(self) -> int: ...


class Timers:
    __slots__ = ("_edge", "_far", "_litter", "_n", "_near", "_size", "_spans", "next_ms", "now_ms")

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms  # the ledger sets it with every command
        self._near: list[tuple[int, int, Timed]] = []  # a heap of what is due before the edge, or soon
        self._n = 0  # ties go in the order of entry, and things need no order of their own
        self._far: dict[int, list[Timed]] = {}  # by span
        self._spans: list[int] = []  # a heap of them
        self._edge = 0  # the first span that has not come
        self._size = 0  # entries in all
        self._litter = 0
        self.next_ms = NEVER  # no thing falls due before this instant; looked at with every command

    def __len__(self) -> int:
        return self._size

    def add(self, thing: Timed) -> None:
        """Watch a thing, or note that it is due earlier than before."""
        due_ms = thing.due_ms
        if thing.timer_ms == DEAD or due_ms < thing.timer_ms:
            self.watch(thing, due_ms)

    def watch(self, thing: Timed, due_ms: int) -> None:
        """The same for one that is not watched yet, or is known to be due earlier."""
        self._size += 1
        span = due_ms // SPAN_MS
        if span < self._edge or due_ms - self.now_ms < SPAN_MS:
            at_ms = due_ms
            self._n += 1
            heapq.heappush(self._near, (due_ms, self._n, thing))
        else:
            at_ms = span * SPAN_MS
            things = self._far.get(span)
            if things is None:
                self._far[span] = [thing]
                heapq.heappush(self._spans, span)
            else:
                things.append(thing)
        thing.timer_ms = at_ms
        self.next_ms = min(self.next_ms, at_ms)

    def died(self, thing: Timed) -> None:
        """A watched thing will never be due again."""
        self._litter += thing.timer_ms != DEAD
        if self._litter > LITTER_MIN and self._litter * 2 > self._size:
            self._rebuild()

    def _rebuild(self) -> None:
        self._near = [entry for entry in self._near if self._valid(entry)]
        heapq.heapify(self._near)
        spans = ((span, [thing for thing in things if _waits_in(span, thing)]) for span, things in self._far.items())
        self._far = {span: things for span, things in spans if things}
        self._spans = sorted(self._far)
        self._size = len(self._near) + sum(map(len, self._far.values()))
        self._litter = 0
        self._note_next()

    def reach(self, now_ms: int, most: int) -> int:
        """The latest instant up to now by which at most so many entries fall due: perhaps the one before the first."""
        while True:
            # Of a span that has not been opened nobody knows how much is due in it.
            high = min(now_ms, self._spans[0] * SPAN_MS - 1) if self._spans else now_ms
            if self._due(high, most) > most:
                return self._latest(self._near[0][0] - 1, high, most)
            if not self._opened(now_ms):
                return now_ms

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
        while self._opened(now_ms):
            pass
        while self._near and self._near[0][0] <= now_ms:
            entry = heapq.heappop(self._near)
            self._size -= 1
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

    def _opened(self, now_ms: int) -> bool:
        """Open the next span, if its time has come."""
        if not self._spans or self._spans[0] * SPAN_MS > now_ms:
            return False
        self._open(heapq.heappop(self._spans))
        return True

    def _open(self, span: int) -> None:
        """What falls due in this span is put into order, and what does not goes where it does."""
        things = self._far.pop(span)
        self._edge = span + 1
        self._size -= len(things)
        seen: set[int] = set()  # one that left this span and came back stands in it twice
        for thing in things:
            if _waits_in(span, thing) and id(thing) not in seen:
                seen.add(id(thing))
                self.watch(thing, thing.due_ms)
        self._note_next()

    def _note_next(self) -> None:
        near_ms = self._near[0][0] if self._near else NEVER
        self.next_ms = min(near_ms, self._spans[0] * SPAN_MS) if self._spans else near_ms

    @staticmethod
    def _valid(entry: tuple[int, int, Timed]) -> bool:
        at_ms, _, thing = entry
        return thing.timer_ms == at_ms and thing.due_ms != DEAD


def _waits_in(span: int, thing: Timed) -> bool:
    return thing.timer_ms == span * SPAN_MS and thing.due_ms != DEAD
