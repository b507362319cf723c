"""Event loops in virtual time: one for each simulated process, all stepped by one scheduler.

A process that is killed is a loop that is never stepped again; one that is frozen is not stepped for a while. Each has
a clock of its own, with its own origin and its own rate. Nothing here waits: an hour passes as fast as it is computed.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from inspect import CORO_CREATED, getcoroutinestate
from itertools import count
from typing import Any

import msgspec

TASKS_MAX = 32  # of one process, until those that are done are forgotten
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
        heappush(self._heap, (max(self.now, when), next(self._numbers), action, args))

    def after(self, delay: float, action: Callable[..., object], *args: Any) -> None:
        assert delay >= 0, "the past is over"
        heappush(self._heap, (self.now + delay, next(self._numbers), action, args))

    def run_until(self, end: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, action, args = heappop(heap)
            action(*args)
        self.now = end


class Handle(msgspec.Struct, eq=False):  # nothing is made as often, and nothing is made as quickly
    """A callback that will be called unless it is cancelled."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    due: float = 0.0
    dead: bool = False

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
        self._overdue: list[Handle] = []  # timers that rang while it was frozen
        self._awake = False  # it runs, or is about to
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
            work = task.get_coro()
            if getcoroutinestate(work) == CORO_CREATED:  # type: ignore[arg-type]  # ours are all made of coroutines
                work.close()  # type: ignore[union-attr]  # nothing of it has run; else Python would wonder
        self._ready.clear()
        self._ready = deque(maxlen=0)  # what anybody may still ask of it comes to nothing
        self._overdue.clear()
        self._awake = True  # nobody can wake it

    def forget(self) -> None:
        """For the end of a history, when it matters to nobody what `finally` blocks do."""
        self.kill()
        self._tasks.clear()

    def freeze(self, seconds: float) -> None:
        self.frozen_until = max(self.frozen_until, self._scheduler.now + seconds)

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Something reached the process from outside: it is dealt with at once, or when the process runs again."""
        self._ready.append(Handle(callback, args))
        if self._scheduler.now >= self.frozen_until:
            self._run_all()
        elif not self._awake:
            self._wake()

    # Time

    def time(self) -> float:
        return self._origin + self._scheduler.now * self._rate

    def time_ms(self) -> int:
        return int((self._origin + self._scheduler.now * self._rate) * 1_000)

    def true(self, when: float) -> float:
        return (when - self._origin) / self._rate

    # What asyncio calls

    def call_soon(self, callback: Callable[..., object], *args: Any, context: object = None) -> Handle:  # type: ignore[override]  # asyncio gives it
        handle = Handle(callback, args)
        self._ready.append(handle)
        if not self._awake:
            self._wake()
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any, context: object = None) -> Handle:  # type: ignore[override]  # as above
        handle = Handle(callback, args, self.time() + delay)
        self._scheduler.after(max(0.0, delay) / self._rate, self._ring, handle)
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: object = None) -> Handle:  # type: ignore[override]  # as above
        handle = Handle(callback, args, when)
        self._scheduler.at(self.true(when), self._ring, handle)
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
        if len(self._tasks) > TASKS_MAX:
            self._tasks = [each for each in self._tasks if not each.done()]
        return task

    get_debug = staticmethod(bool)  # no; every future and every task asks

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    # Running

    def _wake(self) -> None:
        self._awake = True
        self._scheduler.at(self.frozen_until, self._run)

    def _run(self) -> None:
        if self._scheduler.now < self.frozen_until:
            self._wake()
            return
        self._run_all()
        if self._overdue:  # what came from outside in the meantime was first
            self._ready.extend(self._overdue)
            self._overdue.clear()
            self._run_all()

    def _ring(self, handle: Handle) -> None:
        """A timer is due. One that was cancelled costs nothing more."""
        if handle.dead or self.dead:
            return
        if self._scheduler.now < self.frozen_until:
            self._overdue.append(handle)
            if not self._awake:
                self._wake()
        else:
            self._ready.append(handle)
            self._run_all()

    def _run_all(self) -> None:
        """At one instant: while callbacks run, no time passes."""
        events._set_running_loop(self)
        self._awake = True
        ready = self._ready
        for _ in range(CALLBACKS_MAX):
            if not ready:
                break
            handle = ready.popleft()
            if not handle.dead:
                try:
                    handle.callback(*handle.args)
                except Exception as failure:  # noqa: BLE001  # the judge looks at them
                    self.failures.append({"exception": failure})
        else:
            raise AssertionError("a process never comes to rest")
        self._awake = self.dead
