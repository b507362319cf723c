"""A thread that does blocking work for an event loop, one thing after the other, and chores when nobody asks.

It is meant to get on with its work when the loop is never idle, which Python alone does not see to. On two cores, under
a loop that computes, sends and receives without a pause, a commit took 24 to 90 ms at switch intervals of 5 us to 5 ms;
under one that only computes, about a second at the default interval. Probably each short release of the interpreter's
lock wakes the thread too late to take it, and starts its patience anew. With the loop giving way once per turn it
was 6 to 7 ms in both cases, three or four turns.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from openintent.errors import EngineUnavailable

T = TypeVar("T")

# A request that is not done after this, about five commits on a fast disk, may be waiting for the lock.
GIVE_WAY_S: Final = 0.001


class Chore(Protocol):
    def __call__(self, *, idle: bool) -> bool:
        """Called after each request, and when nobody asks. True: call again when nobody has asked for `idle_s`."""
        ...


class Worker:
    """Runs from construction until `finish`."""

    def __init__(self, name: str, *, chore: Chore, idle_s: float) -> None:
        self._name = name
        self._chore = chore
        self._idle_s = idle_s
        self._finished = False
        self._watching = False
        self._asked = 0
        self._done = 0  # written by the thread alone
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        # A daemon: a process that dies without `finish` must not hang; for files that is a crash like any other.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ask(self, work: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Have `work(*args)` done. It is done even if the future is cancelled."""
        return self._put(work, args, last=False)

    async def finish(self, work: Callable[[], None]) -> None:
        """Do this as the last thing, and end the thread; nothing if that has happened before."""
        if self._finished:
            return
        done = self._put(work, (), last=True)
        self._finished = True
        try:
            await done
        finally:
            # What is left to the thread is to return, unless we were cancelled: then it ends by itself, a little later.
            if done.done() and not done.cancelled():
                self._thread.join()

    def _put(self, work: Callable[..., T], args: tuple[object, ...], *, last: bool) -> "asyncio.Future[T]":
        if self._finished:
            raise EngineUnavailable(f"{self._name} is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._asked += 1
        self._requests.put(Request(future, work, args, last))
        if not self._watching:
            self._watching = True
            loop.call_later(GIVE_WAY_S, self._watch, loop, self._done)
        return future

    def _watch(self, loop: asyncio.AbstractEventLoop, done_before: int) -> None:
        self._watching = self._done < self._asked
        if not self._watching:
            return
        if self._done == done_before:
            # Lets go of the lock for as long as the system needs to wake the other thread, some 50 us.
            time.sleep(0)
        loop.call_later(GIVE_WAY_S, self._watch, loop, self._done)

    def _run(self) -> None:
        ended = False
        while not ended:
            request = self._next()
            ended = request.last
            request.fulfil()
            self._done += 1

    def _next(self) -> "Request":
        more = self._chore(idle=False)
        while more:
            try:
                return self._requests.get(timeout=self._idle_s)
            except queue.Empty:
                more = self._chore(idle=True)
        return self._requests.get()


class Request(NamedTuple):
    """Something to do, and who waits for it."""

    future: "asyncio.Future[Any]"
    work: Callable[..., Any]
    args: tuple[object, ...]
    last: bool

    def fulfil(self) -> None:
        try:
            result = self.work(*self.args)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is for whoever asked
            self._tell(_fail, error)
        else:
            self._tell(_succeed, result)

    def _tell(self, how: "Callable[[asyncio.Future[Any], Any], None]", outcome: object) -> None:
        try:
            self.future.get_loop().call_soon_threadsafe(how, self.future, outcome)
        except RuntimeError:
            # The loop is closed, so nobody waits any more; the thread must still end in order.
            return


def _succeed(future: "asyncio.Future[Any]", result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
