"""One heap of everything that falls due, with lazy deadlines.

A deadline that moves later costs nothing: the old entry pops, sees that its thing is due later, and goes back in.
Only one that moves earlier needs a new entry. Entries of things that died stay until they pop, or until they are
so many that the heap is rebuilt without them; either way the work is paid for by what put them there.
"""

import heapq
from typing import Final, Protocol

from openintent.model import DEAD

NEVER: Final = 1 << 62
LITTER_MIN: Final = 1_024  # below this many dead entries a rebuild is not worth its walk


class Timed(Protocol):
    timer_ms: int  # where its valid entry stands

    @property
    def due_ms(self) -> int: ...


class Timers:
    __slots__ = ("_heap", "_litter", "_n", "next_ms")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timed]] = []
        self._n = 0  # ties go in the order of entry, and things need no order of their own
        self._litter = 0
        self.next_ms = NEVER  # no thing falls due before this instant; looked at with every command

    def add(self, thing: Timed) -> None:
        """Watch a thing, or note that it is due earlier than before."""
        due_ms = thing.due_ms
        if thing.timer_ms == DEAD or due_ms < thing.timer_ms:
            self.watch(thing, due_ms)

    def watch(self, thing: Timed, due_ms: int) -> None:
        """The same for one that is not watched yet, or is known to be due earlier."""
        self._n += 1
        thing.timer_ms = due_ms
        heapq.heappush(self._heap, (due_ms, self._n, thing))
        self.next_ms = self._heap[0][0]

    def died(self, thing: Timed) -> None:
        """A watched thing will never be due again."""
        self._litter += thing.timer_ms != DEAD
        if self._litter > LITTER_MIN and self._litter * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if self._valid(entry)]
            heapq.heapify(self._heap)
            self._litter = 0
            self._note_next()

    def reach(self, now_ms: int, most: int) -> int:
        """The latest instant up to now by which at most so many entries fall due; the first one in any case."""
        if self._due(now_ms, most) <= most:
            return now_ms
        low, high = self.next_ms, now_ms  # more than `most` are due by `high`
        while high - low > 1:
            middle = (low + high) // 2
            if self._due(middle, most) <= most:
                low = middle
            else:
                high = middle
        return low

    def _due(self, at_ms: int, most: int) -> int:
        """How many entries are due by then; no further than one more than `most`."""
        heap, below, count = self._heap, [0], 0
        while below and count <= most:
            at = below.pop()
            if at < len(heap) and heap[at][0] <= at_ms:  # otherwise nothing below it is due either
                count += 1
                below += (2 * at + 1, 2 * at + 2)
        return count

    def pop_due(self, now_ms: int) -> Timed | None:
        """The next thing that is due by now, or None."""
        while self._heap and self._heap[0][0] <= now_ms:
            entry = heapq.heappop(self._heap)
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

    def _note_next(self) -> None:
        self.next_ms = self._heap[0][0] if self._heap else NEVER

    @staticmethod
    def _valid(entry: tuple[int, int, Timed]) -> bool:
        at_ms, _, thing = entry
        return thing.timer_ms == at_ms and thing.due_ms != DEAD
