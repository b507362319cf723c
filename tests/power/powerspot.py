"""SQLite as a server has it, in one process: some commits are made by whoever asks for them, on the spot.

The thread of the engine stands for the process that has the file (`apart.py`).
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from openintent.engines.base import Change, Head, Record
from openintent.engines.sqlite import SqliteEngine
from openintent.engines.sqlite_here import Here


class SpotEngine(SqliteEngine):
    def __init__(self, path: Path, rng: Random) -> None:
        super().__init__(path)
        self._here = Here(path)
        self._rng = rng

    def commit_here(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> bool:
        database = self._database
        assert expect == database.head
        if head.token > database.token_ready or self._rng.random() < 0.5:
            return False
        if not self._here.append(head, tuple(changes)):  # the thread folds
            return False
        database._head = head
        return True

    async def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        await self._worker.ask(self._database.catch_up)
        await super().commit(expect=expect, head=head, changes=changes)

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        await self._worker.ask(self._database.catch_up)
        return await super().scan(first, last, limit=limit, reverse=reverse)

    async def close(self) -> None:
        self._here.close()
        await self._worker.ask(self._database.catch_up)
        await super().close()
