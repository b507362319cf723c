"""How long a run and its steps have been open, on the clock of whoever counts. Pure: what time it is comes in.

No clock of another machine can be compared with ours, so a new coordinator counts anew. A step may then take longer
than its timeout, by as much as the coordinator before had counted; it is never cut short.
"""

import math
from collections.abc import Iterable

from openintent.workflows.facts import Seen
from openintent.workflows.plan import ENDED


class Timeouts:
    def __init__(self, seen: Seen, *, now_s: float) -> None:
        self._run_until_s = _until(now_s, seen.workflow.timeout_seconds)
        self._steps_until_s: dict[str, float] = {}
        self.look(seen, now_s=now_s)

    def look(self, seen: Seen, *, now_s: float) -> None:
        """From here on those steps count that are open now and were not before."""
        self._steps_until_s = {
            step.name: self._steps_until_s.get(step.name, _until(now_s, step.timeout_seconds))
            for step in seen.workflow.steps
            if seen.note(step.name).status not in ENDED | {"waiting"} and not seen.is_through(step.name)
        }

    def late(self, *, now_s: float) -> bool:
        return now_s >= self._run_until_s

    def overdue(self, *, now_s: float) -> set[str]:
        return {name for name, until_s in self._steps_until_s.items() if now_s >= until_s}

    def next_s(self, *, now_s: float) -> float:
        """How long until one of them is over; infinity if none will ever be."""
        return max(0.0, min(self._all(), default=math.inf) - now_s)

    def _all(self) -> Iterable[float]:
        return (self._run_until_s, *self._steps_until_s.values())


def _until(now_s: float, timeout_s: float | None) -> float:
    return math.inf if timeout_s is None else now_s + timeout_s
