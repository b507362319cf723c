"""Event loops in virtual time: one for each simulated process, all stepped by one scheduler.

A process that is killed is a loop that is never stepped again; one that is frozen is not stepped for a while. Each has
a clock of its own, with its own origin and its own rate. Nothing here waits: an hour passes as fast as it is computed.
"""

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from itertools import count
from typing import Any

CALLBACKS_MAX = 100_000  # of one process at one instant: more is a loop that never comes to rest


class Scheduler:
    """The true time, and what happens when. Ties are broken by who came first."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.steps = 0

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (max(when, self.now), next(self._numbers), action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self.at(self.now + delay, action)

    def run_until(self, end: float) -> None:
        while self._heap and self._heap[0][0] <= end:
            self.now, _, action = heapq.heappop(self._heap)
            self.steps += 1
            action()
        self.now = end


class SimLoop(asyncio.AbstractEventLoop):
    """A process's event loop: just what asyncio's tasks, futures, events and timeouts ask of one."""

    def __init__(self, scheduler: Scheduler, *, origin: float = 0.0, rate: float = 1.0) -> None:
        self._scheduler = scheduler
        self._origin = origin - scheduler.now * rate
        self._rate = rate
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._wakes_at = float("inf")
        self._tasks: list[asyncio.Task[Any]] = []
        self.frozen_until = 0.0
        self.dead = False
        self.failures: list[dict[str, Any]] = []

    # Life

    def kill(self) -> None:
        self.dead = True
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()
        self._timers.clear()
        self._tasks.clear()

    def freeze(self, seconds: float) -> None:
        self.frozen_until = max(self.frozen_until, self._scheduler.now + seconds)

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Something reached the process from outside: it is dealt with when the process runs."""
        if not self.dead:
            self.call_soon(callback, *args)

    # Time

    def time(self) -> float:
        return self._origin + self._scheduler.now * self._rate

    def _true(self, when: float) -> float:
        return (when - self._origin) / self._rate

    # What asyncio calls

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._wake(self._scheduler.now)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        self._wake(self._true(when))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
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

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Left in the heap; it is skipped when its time comes."""

    # Running

    def _wake(self, at: float) -> None:
        at = max(at, self._scheduler.now, self.frozen_until)
        if at < self._wakes_at and not self.dead:
            self._wakes_at = at
            self._scheduler.at(at, lambda: self._run(at))

    def _run(self, at: float) -> None:
        if self.dead or at != self._wakes_at:
            return
        self._wakes_at = float("inf")
        if self._scheduler.now < self.frozen_until:
            self._wake(self.frozen_until)
            return
        self._run_all()
        if self._timers and not self.dead:
            self._wake(self._true(self._timers[0][0]))

    def _run_all(self) -> None:
        before = events._get_running_loop()  # type: ignore[attr-defined]
        events._set_running_loop(self)
        try:
            for _ in range(CALLBACKS_MAX):
                self._move_due()
                if not self._ready or self.dead:
                    return
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
            raise AssertionError("a process never comes to rest")
        finally:
            events._set_running_loop(before)

    def _move_due(self) -> None:
        now = self.time() + 1e-9
        while self._timers and self._timers[0][0] <= now:
            handle = heapq.heappop(self._timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)
