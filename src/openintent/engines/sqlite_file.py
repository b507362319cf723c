"""An SQLite file as it is opened: whose it is, which tables it has, and what its commits promise.

A commit is on the disk when it returns, whichever process made it, as far as the disk tells the truth about that.
"""

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import apsw

from openintent.errors import EngineUnavailable

# Both are in the header of the file. The version covers the tables and the encoding of heads and changes.
APPLICATION_ID: Final = int.from_bytes(b"OILs")
SCHEMA_VERSION: Final = 1

# SQLite copies the WAL into the database inside the commit that fills this many pages, 4 MiB, and then writes the WAL
# again from its start, where a sync is faster than at a growing end. In two short trials against 4,000 pages this had
# more commits per second and a shorter longest commit (1.3 against 1.8 ms), but a longer 99.9th percentile (0.8, 0.5).
CHECKPOINT_PAGES: Final = 1_000
# A WAL that one huge batch made larger is cut back to this.
WAL_BYTES_KEPT: Final = 8 * 1_024 * 1_024
# Only for somebody who has the file open in another program; among ourselves nobody waits for a lock.
BUSY_MS: Final = 1_000

# The records have row ids: in a table without, SQLite reads all of a large record to compare its key with another.
SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE journal (id INTEGER PRIMARY KEY, head BLOB NOT NULL, changes BLOB NOT NULL);
CREATE TABLE records (key TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


def make_private(path: Path) -> None:
    """A file for this user alone. One that exists has the permissions that somebody gave it.

    What SQLite puts beside a file has the permissions of that.
    """
    with suppress(OSError):  # if it cannot be made, SQLite says so
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def connect(path: Path) -> apsw.Connection:
    make_private(path)
    try:
        with ExitStack() as undo:
            db = apsw.Connection(str(path))
            undo.callback(db.close, force=True)
            db.set_busy_timeout(BUSY_MS)
            _require_ours(db, path)
            configure(db, path)
            undo.pop_all()
    except apsw.NotADBError as error:
        raise EngineUnavailable(f"{path} is not a database") from error
    except apsw.Error as error:
        raise EngineUnavailable(f"cannot open {path}: {error}") from error
    return db


def _require_ours(db: apsw.Connection, path: Path) -> None:
    application, version = db.pragma("application_id"), db.pragma("user_version")
    if db.readonly("main"):
        raise EngineUnavailable(f"{path} is read-only")
    if application == version == 0 and not db.execute("SELECT count(*) FROM sqlite_schema").get:
        db.execute(SCHEMA)
    elif application != APPLICATION_ID:
        raise EngineUnavailable(f"{path} is a database of another program")
    elif version > SCHEMA_VERSION:
        raise EngineUnavailable(
            f"{path} was written by a newer openintent (format {version}, this one knows {SCHEMA_VERSION})"
        )


def configure(db: apsw.Connection, path: Path) -> None:
    if db.pragma("journal_mode", "wal") != "wal":
        raise EngineUnavailable(f"{path} is on a file system that SQLite cannot share memory on")
    db.pragma("synchronous", "full")
    db.pragma("fullfsync", value=True)  # macOS: the plain sync does not reach the disk
    db.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
    db.pragma("journal_size_limit", WAL_BYTES_KEPT)
