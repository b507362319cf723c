"""SQLite in a process of its own: the event loop waits neither for the disk nor for the interpreter's lock.

All work on the file is done by that process (`apart_program.py`), in the order of the calls. What it does, and what it
promises, is in `sqlite_database.py`. If it ends by itself, the commits under way are in doubt, and `reopen` starts
another one, as after any error of the disk. It does not live longer than this process.

The lock is held here, and lent: while one such process has ended and the next one has not begun, nobody else can open
the file. A server that has it to itself trusts in that also when it commits nothing.
"""

import asyncio
import os
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from openintent.engines.apart_child import Child
from openintent.engines.apart_words import Announce, Answer, Close, Commit, Open, Reopen, Request, Scan, raised
from openintent.engines.base import Change, Head, Record
from openintent.engines.sqlite_database import SqliteDatabase, encode_changes, locked
from openintent.errors import EngineUnavailable


class ApartEngine:
    """An open database file. `close` it: the lock is held, and a process runs, until then."""

    guarantees = SqliteDatabase.guarantees

    def __init__(self, path: str | Path, *, address: str = "") -> None:
        self.path = Path(path).resolve()
        self.notice: str | None = None
        self._address = address
        self._head = Head()  # as it was in the newest answer, and so was the failure
        self._failure: str | None = None
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
            undo.pop_all()
        self._hear(answer)

    async def head(self) -> Head:
        self._require_open()
        self._child.require_life()
        if self._failure is not None:
            raise EngineUnavailable(f"{self.path} {self._failure}")
        return self._head

    def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> Awaitable[None]:
        """On its way when this returns."""
        self._require_open()
        return _done(self._child.ask(Commit(expect, head, msgspec.Raw(encode_changes(tuple(changes))))))

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
        if self._child.has_ended:
            await self._restart()
        else:
            await self._ask(Reopen())

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
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
        self._require_open()
        answer = await self._child.ask(request)
        _check(answer)
        return answer

    def _require_open(self) -> None:
        if self._closed:
            raise EngineUnavailable(f"{self.path} is closed")

    def _hear(self, answer: Answer) -> None:
        """Each one, in their order, also if who asked has gone."""
        if answer.head is None:  # it is not open
            return
        moved = answer.head != self._head
        self._head, self._failure = answer.head, answer.failure
        self.notice = answer.notice or self.notice
        if moved:
            self._moved.set()
            self._moved.clear()


async def _done(answer: Awaitable[Answer]) -> None:
    _check(await answer)


def _check(answer: Answer) -> None:
    if answer.error is not None:
        raise raised(answer.error, answer.head or Head())
