"""The server's end of the process that has its SQLite file (`apart_program.py`): start it, ask it, see it end."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from openintent.engines.apart_words import Answer, Commit, Inbox, Open, Outbox, Request, decode_answer
from openintent.engines.base import OutcomeUncertain
from openintent.errors import EngineUnavailable

PROGRAM: Final = "openintent.engines.apart_program"


class Asked(NamedTuple):
    """A request that has no answer yet, and who waits for it."""

    commits: bool  # then its outcome is in doubt if there never is one
    future: "asyncio.Future[Answer]"


class Child:
    """A process, from construction until it ends: after `Close`, or at any time. It is reaped then.

    Must be made in a thread that lives as long as this process: on Linux it dies with that.
    """

    def __init__(self, path: Path, *, lock: int, hear: Callable[[Answer], None]) -> None:
        """`lock` is lent to it. `hear` is called with each answer, also if nobody waits for it any more."""
        self._path = path
        self._hear = hear
        self._process, self._socket = _started(path, lock)
        self._inbox, self._outbox = Inbox(), Outbox()
        self._unsent = bytearray()
        self._asked: deque[Asked] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = ""  # how, if it has ended
        self._ended = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        return bool(self._end)

    @property
    def is_idle(self) -> bool:
        """Whether it lives, and has nothing to do."""
        return not self._asked and not self._end

    def open_now(self, request: Open) -> Answer:
        """The first request, for who has no loop yet: wait for the answer."""
        self._socket.settimeout(None)
        with suppress(OSError):  # it has ended already
            self._socket.sendall(self._outbox.frame(request))
            while self._inbox.receive(self._socket):
                for message in self._inbox.messages():
                    self._socket.settimeout(0)
                    return decode_answer(message)
        self.gone()
        raise EngineUnavailable(f"{self._path} cannot be opened: its process {self._end}")

    def ask(self, request: Request) -> "asyncio.Future[Answer]":
        """Have it done. It is done even if the future is cancelled. Answers come in the order of requests."""
        self.require_life()
        loop = asyncio.get_running_loop()
        self._attach(loop)
        frame = self._outbox.frame(request)  # first of all: what cannot be written gets no answer
        asked = Asked(isinstance(request, Commit), loop.create_future())
        self._asked.append(asked)
        self._send(frame)
        return asked.future

    def require_life(self) -> None:
        if self._end:
            raise EngineUnavailable(f"{self._path} must be reopened: its process {self._end}")

    async def end(self) -> None:
        """Wait for it."""
        if not self._end:
            self._attach(asyncio.get_running_loop())
        await self._ended.wait()

    def gone(self) -> None:
        """It has closed its end, so it has ended or is about to. What it was asked has no answer."""
        if self._end:
            return
        self._detach()
        self._socket.close()
        self._end = _how(self._process.wait())
        for asked in self._asked:
            if _is_awaited(asked.future):
                asked.future.set_exception(self._loss(asked))
        self._asked.clear()
        self._ended.set()

    def _loss(self, asked: Asked) -> Exception:
        what = f"{self._path}: its process {self._end}"
        return OutcomeUncertain(what) if asked.commits else EngineUnavailable(what)

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is not loop:
            self._detach()
            self._loop = loop
            loop.add_reader(self._socket.fileno(), self._readable)
            if self._unsent:
                loop.add_writer(self._socket.fileno(), self._writable)

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())

    def _send(self, some: bytearray) -> None:
        if self._unsent:  # it has its turn
            self._unsent += some
            return
        self._unsent += some[self._taken(some) :]
        if self._unsent and self._loop is not None:
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        del self._unsent[: self._taken(self._unsent)]
        if not self._unsent and self._loop is not None:
            self._loop.remove_writer(self._socket.fileno())

    def _taken(self, some: bytearray) -> int:
        """How much of it the socket has room for, and takes."""
        try:
            return self._socket.send(some)
        except BlockingIOError:
            return 0
        except OSError:  # it has ended, which is seen when we read
            return len(some)

    def _readable(self) -> None:
        try:
            lives = self._inbox.receive(self._socket)
        except BlockingIOError:
            return
        except OSError:  # it has ended with something unread
            lives = False
        if not lives:
            self.gone()
            return
        for message in self._inbox.messages():
            answer, asked = decode_answer(message), self._asked.popleft()
            self._hear(answer)
            if _is_awaited(asked.future):
                asked.future.set_result(answer)


def _started(path: Path, lock: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    with theirs:
        # It is to find the modules that we have found, and none that happen to lie in the folder where we were started.
        command = [sys.executable, "-P", "-m", PROGRAM, str(theirs.fileno()), str(lock), str(path)]
        found = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        try:
            process = subprocess.Popen(  # noqa: S603  # our own program
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), lock],
                env={**os.environ, "PYTHONPATH": found},
                # Ctrl-C is for the server, which then ends this one in order. No session of its own: to Linux each is
                # a group with a share of the processors, and one that is new may get none while the server is busy.
                process_group=0,
            )
        except OSError as error:
            ours.close()
            raise EngineUnavailable(f"{path} cannot be opened: no process for it: {error.strerror}") from error
    return process, ours


def _how(code: int) -> str:
    if code >= 0:
        return f"has ended with code {code}"
    return "was ended by " + next((each.name for each in signal.Signals if each == -code), f"signal {-code}")


def _is_awaited(future: "asyncio.Future[Answer]") -> bool:
    return not future.done() and not future.get_loop().is_closed()
