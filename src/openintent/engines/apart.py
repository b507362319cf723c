"""SQLite in a process of its own: the event loop waits neither for the disk nor for the interpreter's lock.

All work on the file is done by that process (`apart_program.py`), in the order of the calls. What it does, and what it
promises, is in `sqlite_database.py`. If it ends by itself, the commits under way are in doubt, and `reopen` starts
another one, as after any error of the disk. It does not live longer than this process.

The lock is held here, and lent: while one such process has ended and the next one has not begun, nobody else can open
the file. A server that has it to itself trusts in that also when it commits nothing.

A small commit can also be made by this process itself, which then waits for the disk (`sqlite_here.py`).
"""

import asyncio
import os
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from openintent.engines.apart_child import Child
from openintent.engines.apart_words import (
    Announce,
    Answer,
    CatchUp,
    Close,
    Commit,
    Open,
    Reopen,
    Request,
    Scan,
    raised,
)
from openintent.engines.base import Change, Head, Record
from openintent.engines.sqlite_database import IDLE_WEIGHT, SqliteDatabase, locked
from openintent.engines.sqlite_here import Here
from openintent.errors import EngineUnavailable

# Of a dozen requests. Where more arrive at a time, now or just before, this process has better things to do than to
# wait for the disk.
CHANGES_HERE_MAX: Final = 32


class ApartEngine:
    """An open database file. `close` it: the lock is held, and a process runs, until then."""

    guarantees = SqliteDatabase.guarantees

    def __init__(self, path: str | Path, *, address: str = "") -> None:
        self.path = Path(path).resolve()
        self.notice: str | None = None
        self._address = address
        self._head = Head()  # as it was in the newest answer, and so was the failure
        self._failure: str | None = None
        self._token_ready = -1
        self._last_was_small = True
        self._moved = asyncio.Event()
        self._closed = False
        self._lock = locked(self.path)
        with ExitStack() as undo:
            undo.callback(self._lock.release)
            self._child = self._started()
            answer = self._child.open_now(Open(address, os.getpid()))
            if answer.head is None:
                self._child.gone()
            _check(answer)
            undo.callback(self._child.gone)
            self._here = Here(self.path)
            undo.pop_all()
        self._hear(answer)

    async def head(self) -> Head:
        self._require_sound()
        self._child.require_life()
        if self._failure is not None:
            raise EngineUnavailable(f"{self.path} {self._failure}")
        return self._head

    def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> Awaitable[None]:
        """On its way when this returns."""
        self._require_sound()
        self._tell_of_own()
        self._last_was_small = len(changes) <= CHANGES_HERE_MAX
        return _done(self._child.ask(Commit(expect, head, changes)))

    def commit_here(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> bool:
        self._require_sound()
        if len(changes) > CHANGES_HERE_MAX or not self._may_commit_here(expect, head):
            return False
        if not self._here.append(head, tuple(changes)):
            return False
        self._move(head)
        if self._here.unread > IDLE_WEIGHT:
            self._tell_of_own()
        return True

    def _may_commit_here(self, expect: Head, head: Head) -> bool:
        """If not, then the process of the file may, or knows why not."""
        return (
            self._last_was_small
            and self._child.is_idle
            and self._failure is None
            and (expect.term, expect.beat, expect.rev) == (self._head.term, self._head.beat, self._head.rev)
            # Who has the lock file is the process: it says there which terms have begun, and how far tokens may go.
            and head.term == self._head.term
            and head.token <= self._token_ready
            and self._lock.held
            and not self._here.rests
        )

    def _tell_of_own(self) -> None:
        """Before anything else is asked of the process: what this one has committed."""
        if self._here.unread and not self._child.has_ended:  # one that is yet to begin finds it
            self._here.unread = 0
            self._child.ask(CatchUp()).cancel()  # it is done all the same; if it fails, so does what is asked next

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        answer = await self._ask(Scan(first, last, limit, reverse))
        return [Record(key, value) for key, value in answer.records]

    async def changed(self, seen: Head) -> None:
        if seen == self._head:
            await self._moved.wait()

    async def announce(self, address: str) -> None:
        self._address = address
        await self._ask(Announce(address))

    async def reopen(self) -> None:
        self._require_open()
        self._here.close()
        if self._child.has_ended:
            await self._restart()
        else:
            _check(await self._child.ask(Reopen(self._head)))
        self._here.reopen()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._tell_of_own()
        self._here.close()
        try:
            with suppress(EngineUnavailable):  # it may have ended before
                await self._child.ask(Close())
            await self._child.end()
        except BaseException:
            # We are cancelled; it does as it was told all the same, and is reaped when it ends.
            self._lock.leave()
            raise
        self._lock.release()

    def _started(self) -> Child:
        return Child(self.path, lock=self._lock.fileno(), hear=self._hear)

    async def _restart(self) -> None:
        # At once: who also wants it reopened finds this one alive, and asks behind us.
        self._child = self._started()
        answer = await self._child.ask(Open(self._address, os.getpid(), known=self._head))
        if answer.head is None:  # it could not even be opened: the process ends by itself
            await self._child.end()
        _check(answer)

    async def _ask(self, request: Request) -> Answer:
        self._require_sound()
        self._tell_of_own()
        answer = await self._child.ask(request)
        _check(answer)
        return answer

    def _require_open(self) -> None:
        if self._closed:
            raise EngineUnavailable(f"{self.path} is closed")

    def _require_sound(self) -> None:
        self._require_open()
        if self._here.failure is not None:
            raise EngineUnavailable(f"{self.path} {self._here.failure}")

    def _hear(self, answer: Answer) -> None:
        """Each one, in their order, also if who asked has gone."""
        if answer.head is None:  # it is not open
            return
        self._failure, self._token_ready = answer.failure, answer.token_ready
        self.notice = answer.notice or self.notice
        if answer.head != self._head:
            self._move(answer.head)

    def _move(self, head: Head) -> None:
        self._head = head
        self._moved.set()
        self._moved.clear()


async def _done(answer: Awaitable[Answer]) -> None:
    _check(await answer)


def _check(answer: Answer) -> None:
    if answer.error is not None:
        raise raised(answer.error, answer.head or Head())
