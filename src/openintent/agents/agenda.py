"""What an agent knows it could work on, and from when. Pure: the time and chance come in as arguments."""

from collections.abc import Callable, Container, Sequence
from typing import Final, NamedTuple

# Of so many that could be begun one is drawn: instances that hear of the same hundred do not all try the same one.
DRAWN_FROM: Final = 32
# Ended assignments of open intents are told again and again; of so many it is remembered that they have ended.
ENDED_KEPT_MAX: Final = 10_000


class Task(NamedTuple):
    """An assignment: to which name it is addressed, and of which intent."""

    name: str
    intent_id: str


class Agenda:
    def __init__(self) -> None:
        self._due: dict[Task, float] = {}  # in the order in which they were heard of
        self._delays: dict[Task, tuple[int, float]] = {}  # after how many failures, and until when
        self._ended: dict[Task, str] = {}

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, task: Task) -> bool:
        return task in self._due

    def add(self, task: Task, *, at: float) -> None:
        """It can be tried from then on, or when its delay is over."""
        self._due[task] = max(at, self._delays.get(task, (0, at))[1])

    def put_off(self, task: Task, *, failures: int, until: float) -> None:
        """It failed so often, and is not to be tried before then. To hear of one failure again changes nothing."""
        if self.failures_waited_for(task) != failures:
            self._delays[task] = (failures, until)
        self._due[task] = self._delays[task][1]

    def failures_waited_for(self, task: Task) -> int:
        """After which failure a delay was heard of; it is over when the task is taken. 0 without one."""
        return self._delays.get(task, (0, 0.0))[0]

    def begin_anew(self, task: Task) -> None:
        """There is no delay any more: it was assigned anew, or put back."""
        self._delays.pop(task, None)

    def drop(self, task: Task) -> None:
        self._due.pop(task, None)
        self._delays.pop(task, None)

    def take(self, *, now: float, draw: Callable[[Sequence[Task]], Task], besides: Container[Task]) -> Task | None:
        """One of those that can be tried now, `besides` those that are: off the agenda until it is heard of again."""
        ready: list[Task] = []
        for task, due in self._due.items():
            if due <= now and task not in besides:
                ready.append(task)
                if len(ready) == DRAWN_FROM:
                    break
        if not ready:
            return None
        drawn = draw(ready)
        del self._due[drawn]
        return drawn

    def next_at(self, *, besides: Container[Task]) -> float | None:
        """When the next can be tried. One that is tried just now may be due all the while: it wakes nobody."""
        return min((due for task, due in self._due.items() if task not in besides), default=None)

    # Those that are over

    def end(self, task: Task, assigned_at: str) -> None:
        self._delays.pop(task, None)
        self._ended.pop(task, None)
        self._ended[task] = assigned_at
        if len(self._ended) > ENDED_KEPT_MAX:
            del self._ended[next(iter(self._ended))]

    def is_over(self, task: Task, assigned_at: str) -> bool:
        """Whether this very assignment has ended; one that was made anew has not."""
        return self._ended.get(task) == assigned_at
