"""Event loops in virtual time: one for each simulated process, all stepped by one scheduler.

A process that is killed is a loop that is never stepped again; one that is frozen is not stepped for a while. Each has
a clock of its own, with its own origin and its own rate. Nothing here waits: an hour passes as fast as it is computed.
"""

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

NEVER = float("inf")
CALLBACKS_MAX = 100_000  # of one process at one instant: more is a loop that never comes to rest


class Scheduler:
    """The true time, and what happens when. Ties are broken by who came first."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = count()
        self.steps = 0

    def happened(self) -> None:
        """Something that matters: a message, a commit, a fault, an act of a client. Mere passing of time is none."""
        self.steps += 1

    def at(self, when: float, action: Callable[..., object], *args: Any) -> None:
        heapq.heappush(self._heap, (max(self.now, when), next(self._numbers), action, args))

    def after(self, delay: float, action: Callable[..., object], *args: Any) -> None:
        self.at(self.now + delay, action, *args)

    def run_until(self, end: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, action, args = heapq.heappop(heap)
            action(*args)
        self.now = end


class Handle:
    """A callback that will be called unless it is cancelled."""

    __slots__ = ("args", "callback", "dead", "due")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], due: float = 0.0) -> None:
        self.callback = callback
        self.args = args
        self.due = due
        self.dead = False

    def run(self, failures: list[dict[str, Any]]) -> None:
        try:
            self.callback(*self.args)
        except Exception as failure:  # noqa: BLE001  # the judge looks at them
            failures.append({"exception": failure})

    def cancel(self) -> None:
        self.dead = True

    def cancelled(self) -> bool:
        return self.dead

    def when(self) -> float:
        return self.due


class SimLoop(asyncio.AbstractEventLoop):
    """A process's event loop: just what asyncio's tasks, futures, events and timeouts ask of one."""

    def __init__(self, scheduler: Scheduler, *, origin: float = 0.0, rate: float = 1.0) -> None:
        self._scheduler = scheduler
        self._origin = origin - scheduler.now * rate
        self._rate = rate
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._numbers = count()
        self._wakes_at = NEVER
        self._tasks: list[asyncio.Task[Any]] = []
        self.frozen_until = 0.0
        self.dead = False
        self.failures: list[dict[str, Any]] = []

    # Life

    def kill(self) -> None:
        """Its tasks are kept, or else they would be closed, and a dead process would run its `finally` blocks."""
        self.dead = True
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()
        self._timers.clear()

    def freeze(self, seconds: float) -> None:
        self.frozen_until = max(self.frozen_until, self._scheduler.now + seconds)

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Something reached the process from outside: it is dealt with when the process runs."""
        if not self.dead:
            self.call_soon(callback, *args)

    # Time

    def time(self) -> float:
        return self._origin + self._scheduler.now * self._rate

    def true(self, when: float) -> float:
        return (when - self._origin) / self._rate

    # What asyncio calls

    def call_soon(self, callback: Callable[..., object], *args: Any, context: object = None) -> Handle:  # type: ignore[override]  # asyncio gives it
        handle = Handle(callback, args)
        self._ready.append(handle)
        now = self._scheduler.now
        if self._wakes_at > now:
            self._wake(now)
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: object = None) -> Handle:  # type: ignore[override]  # as above
        return self.call_at(self._origin + self._scheduler.now * self._rate + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: object = None) -> Handle:  # type: ignore[override]  # as above
        handle = Handle(callback, args, when)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        at = (when - self._origin) / self._rate
        if at < self._wakes_at:
            self._wake(at)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: object = None,  # as above
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name)
        self._tasks.append(task)
        if len(self._tasks) > 1_000:
            self._tasks = [each for each in self._tasks if not each.done()]
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    # Running

    def _wake(self, at: float) -> None:
        now, frozen_until = self._scheduler.now, self.frozen_until
        at = max(now, at)
        at = max(frozen_until, at)
        if at < self._wakes_at and not self.dead:
            self._wakes_at = at
            self._scheduler.at(at, self._run, at)

    def _run(self, at: float) -> None:
        if self.dead or at != self._wakes_at:
            return
        if self._scheduler.now < self.frozen_until:
            self._wakes_at = NEVER
            self._wake(self.frozen_until)
            return
        self._wakes_at = 0.0  # while it runs nobody need wake it
        self._run_all()
        self._wakes_at = NEVER
        if self._timers:
            self._wake(self.true(self._timers[0][0]))

    def _run_all(self) -> None:
        before = events._get_running_loop()  # type: ignore[attr-defined]
        events._set_running_loop(self)
        ready, left = self._ready, CALLBACKS_MAX
        try:
            while not self.dead and (ready or (self._timers and self._move_due())) and left:
                left -= 1
                handle = ready.popleft()
                if not handle.dead:
                    handle.run(self.failures)
        finally:
            events._set_running_loop(before)
        assert left, "a process never comes to rest"

    def _move_due(self) -> bool:
        """At one instant: while callbacks run, no time passes."""
        timers, ready = self._timers, self._ready
        now = self.time() + 1e-9
        while timers and timers[0][0] <= now:
            ready.append(heapq.heappop(timers)[2])
        return bool(ready)
