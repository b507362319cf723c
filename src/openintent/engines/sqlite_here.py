"""Commits to a server's SQLite file by the server itself, while a process of its own has the file (`apart.py`).

For a lone commit two processes that wake each other take as long as the disk does. So a server that has little to do,
and that can wait for the disk, writes the row of the journal by itself. SQLite's own locks keep the two processes
apart, and neither waits for the other. The process of the file is told in time, reads what was written, and folds it.

A commit here is what one in `sqlite_database.py` is: one row and one sync.
"""

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final

import apsw

from openintent.engines.base import Change, Head, OutcomeUncertain
from openintent.engines.sqlite_database import encode_changes, encode_head, weight_of
from openintent.engines.sqlite_file import connect

# A disk that takes longer than this now and then would hold up everybody; the server leaves it alone for a while.
SLOW_S: Final = 0.02
PAUSE_S: Final = 1.0

APPEND: Final = "INSERT INTO journal (id, head, changes) SELECT coalesce(max(id), 0) + 1, ?, ? FROM journal"


class Here:
    """An open file. `close` it before the process of the file is told to."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = monotonic) -> None:
        self._path = path
        self._clock = clock
        self._db = _connected(path)
        self._rests_until = 0.0
        self.unread = 0  # the weight of what the process of the file has not been told of
        self.failure: str | None = None  # why the file is not to be used until it is reopened, if it is not

    def reopen(self) -> None:
        """After the process of the file has: it has read everything."""
        self.failure = "could not be reopened"
        self.close()
        self._db = _connected(self._path)
        self.unread, self.failure = 0, None

    def close(self) -> None:
        self._db.close(force=True)

    @property
    def rests(self) -> bool:
        """Whether the disk was slow of late."""
        return self._clock() < self._rests_until

    def append(self, head: Head, changes: tuple[Change, ...]) -> bool:
        """False if the file is busy, and nothing happened."""
        began = self._clock()
        blob = encode_changes(changes)
        try:
            self._db.execute(APPEND, (encode_head(head), blob))
        except apsw.BusyError:
            return False
        except apsw.Error as error:
            self.failure = f"must be reopened: {error}"
            raise OutcomeUncertain(f"{self._path}: {error}") from error
        self.unread += weight_of(changes, blob)
        if (ended := self._clock()) - began > SLOW_S:
            self._rests_until = ended + PAUSE_S
        return True


def _connected(path: Path) -> apsw.Connection:
    db = connect(path)
    db.set_busy_timeout(0)
    db.wal_autocheckpoint(0)  # that is long work, and for the process of the file
    return db
