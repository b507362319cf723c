"""SQLite with a thread of its own: the event loop never waits for the disk.

All work on the file is done by that thread, in the order of the calls. What it does, and what it promises, is in
`sqlite_database.py`. A server, which commits all the time, has the file in a process of its own: `apart.py`.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from openintent.engines.base import Change, Head, Record
from openintent.engines.sqlite_database import IDLE_S, SqliteDatabase
from openintent.engines.worker import Worker


class SqliteEngine:
    """An open database file. `close` it: the lock is held, and a thread runs, until then."""

    guarantees = SqliteDatabase.guarantees

    def __init__(self, path: str | Path, *, address: str = "") -> None:
        # From here on it is the thread's; but what it says of itself can be read at any time.
        self._database = SqliteDatabase(path, address=address)
        self._moved = asyncio.Event()
        self._worker = Worker(str(self._database.path), chore=self._database.fold_some, idle_s=IDLE_S)

    @property
    def notice(self) -> str | None:
        return self._database.notice

    async def head(self) -> Head:
        if self._database.failure is not None:
            raise self._database.refusal()
        return self._database.head

    async def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        await self._worker.ask(self._database.commit, expect, head, tuple(changes))
        self._moved.set()
        self._moved.clear()

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        return await self._worker.ask(partial(self._database.scan, first, last, limit=limit, reverse=reverse))

    async def changed(self, seen: Head) -> None:
        if seen == self._database.head:
            await self._moved.wait()

    async def announce(self, address: str) -> None:
        await self._worker.ask(self._database.announce, address)

    async def reopen(self) -> None:
        await self._worker.ask(self._database.reopen)

    async def close(self) -> None:
        await self._worker.finish(self._database.close)
