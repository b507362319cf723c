"""A copy of an SQLite database that a server may be writing to, and how such a copy is brought back.

Promised of a copy: it is the database of one instant, between two commits; it ends however fast the server commits,
which never waits for it; once it is there under its name, it is whole, durable, and was read through from end to end.

Promised of bringing one back: no server has the database meanwhile (the lock file), and at each moment the place has
either the old database or the new one. Tokens go on above every one that is known here, from the copy, from the
database that was there, from the lock file; and by `TOKEN_JUMP` above that, because more may have been granted where
nothing is known any more. So do terms. Events are numbered on from the newest one in the database that was there, so
that a reader with a cursor from before misses none of the new ones; if that is gone, from `SEQ_JUMP` above the copy.

Not promised: anything that happened after the copy was made. Leases that were granted since are forgotten while their
holders may still rely on them, until their ttl is over; the larger tokens fence them, where tokens are checked. Leases
that ended since are live again, for one ttl at least. Versions of intents, and attempts, are those of the copy. Two
servers that both go on from one copy grant the same tokens. If the old database is gone and has logged more than
`SEQ_JUMP` events since the copy, a reader's cursor may be ahead of the log: read it anew.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

import apsw
import msgspec

from openintent import records
from openintent.engines.base import Head
from openintent.engines.lockfile import Entry, LockFile, sync_folder
from openintent.engines.sqlite_database import Store
from openintent.engines.sqlite_file import APPLICATION_ID, BUSY_MS, SCHEMA_VERSION, make_private
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

# A slice is 1 MiB. Each is synced: what the operating system had yet to write would be written with the server's next
# commit, which would wait for all of it.
PAGES_PER_SLICE: Final = 256

# A year of 30,000 grants per second. A thousand restores in a row stay below 2^53, where other languages lose count.
TOKEN_JUMP: Final = 1_000_000_000_000
# Besides, as if the fastest server had gone on ever since: one copy that is brought back on two machines, one after
# the other, grants no token twice, if their wall clocks are right. If they are not, there is the jump.
TOKENS_PER_MS: Final = 100
# One restart per second for eleven days; and besides, ten per second ever since.
TERM_JUMP: Final = 1_000_000
MS_PER_TERM: Final = 100
# Only if nothing is known, and once more at the most, one for each millisecond since. The log keeps five million by
# default: if it jumped further, all that is in it would soon be taken for too old.
SEQ_JUMP: Final = 1_000_000

MAGIC: Final = b"SQLite format 3\0"
UNEMPTIED: Final = ("-wal", "-journal")  # what a database that was not closed in order may have beside it
OWN: Final = ("", *UNEMPTIED, "-shm", ".lock", ".keys")  # the files of a server
MEMBER: Final = "restore"
NOTE: Final = "backup"  # the row of `meta` that says what a copy is

Progress = Callable[[int, int], None]  # pages done, pages in all


class Note(msgspec.Struct, frozen=True):
    """What a copy knows of itself."""

    taken_ms: int  # by the wall clock


class Contents(msgspec.Struct, frozen=True):
    """What is in a database, all of it read."""

    bytes: int
    head: Head
    leases: int
    intents: int
    events: int
    taken_ms: int | None = None


class Known(msgspec.Struct, frozen=True):
    """How far the ledger is known to have come, whatever the copy says."""

    term: int = 0
    token: int = 0
    seq: int | None = None


class Restored(msgspec.Struct, frozen=True):
    contents: Contents  # of the copy
    head: Head  # from which the next server goes on
    kept: Path | None  # where the old database is now


class NotOurs(EngineCorrupt):
    """The file is no database of this program."""


class TooNew(EngineError):
    """The file is of a newer version of this program."""


def database_of(url: str) -> Path:
    """The file that an engine's URL names. `ValueError` if it names none."""
    scheme, _, rest = url.partition(":")
    path = rest.removeprefix("///")
    if scheme != "sqlite" or path in ("", rest):
        raise ValueError(f"{url!r} names no SQLite file; write sqlite:///relative.db or sqlite:////absolute.db")
    return Path(path).resolve()


def back_up(database: Path, target: Path, *, now_ms: int, replace: bool, progress: Progress) -> Contents:
    """Copy a database to a new file. `FileExistsError` if there is one and it is not to be replaced."""
    if target.exists():
        if not replace:
            raise FileExistsError(target)
        _require_replaceable(target, database)
    with _partial(target) as partial:
        # For writing too, although nothing is written: who only reads leaves the two files beside it that SQLite
        # reads a database through, and the last one to close a database for writing takes them away.
        _copy_pages(database, partial, apsw.SQLITE_OPEN_READWRITE, progress)
        with _bare(partial) as db:
            note = msgspec.msgpack.encode(Note(now_ms))
            db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (NOTE, note))
        contents = _settled(partial)
        _publish(partial, target, replace=replace)
    return contents


def restore(backup: Path, database: Path, *, now_ms: int, progress: Progress) -> Restored:
    """Put a copy where a database is or was. Raises `EngineInUse` while a server has it."""
    require_ours(backup)
    if database.exists():
        if database.samefile(backup):
            raise EngineUnavailable(f"{backup} is the database itself")
        _require_place(database)
    lock = LockFile(database)
    try:
        with _partial(database) as partial:
            _copy_pages(backup, partial, apsw.SQLITE_OPEN_READONLY, progress)
            contents = _settled(partial)
            head = jumped(contents, _known(database, lock.entry), now_ms=now_ms)
            _set_head(partial, head)
            # Before the swap: whatever happens in between, tokens have risen.
            lock.prepare(durable_term=head.term, token=head.token)
            kept = _set_aside(database)
            _publish(partial, database, replace=True)
    finally:
        lock.release()
    return Restored(contents, head, kept)


def jumped(contents: Contents, known: Known, *, now_ms: int) -> Head:
    """The head of a ledger that goes on from a copy: above everything that may have been before, and no farewell.

    A farewell would give each lease what was left of it when the copy was made; its holder may have renewed it since.
    """
    head = contents.head
    since_ms = 0 if contents.taken_ms is None else max(0, now_ms - contents.taken_ms)
    return Head(
        term=max(head.term, known.term) + TERM_JUMP + since_ms // MS_PER_TERM,
        clock_ms=head.clock_ms,
        member=MEMBER,
        token=max(head.token, known.token) + TOKEN_JUMP + since_ms * TOKENS_PER_MS,
        seq=head.seq + SEQ_JUMP + min(since_ms, SEQ_JUMP) if known.seq is None else max(head.seq, known.seq),
    )


def require_ours(path: Path) -> None:
    """Raises `NotOurs` or `TooNew` unless this is a database of ours in a format that we know."""
    try:
        with closing(_open(path, apsw.SQLITE_OPEN_READONLY)) as db:
            application, version = db.pragma("application_id"), db.pragma("user_version")
    except apsw.NotADBError as error:
        raise NotOurs(f"{path} is not a database") from error
    except apsw.Error as error:
        raise EngineUnavailable(f"cannot read {path}: {error}") from error
    if application != APPLICATION_ID:
        raise NotOurs(f"{path} is not a database of openintent")
    if version > SCHEMA_VERSION:
        raise TooNew(f"{path} was written by a newer openintent (format {version}, this one knows {SCHEMA_VERSION})")


# Copying


def _copy_pages(source: Path, target: Path, flags: int, progress: Progress) -> None:
    require_ours(source)
    make_private(target)
    try:
        with closing(_open(source, flags)) as reader, closing(apsw.Connection(str(target))) as writer:
            # One reading for all slices: else each commit of the server would make the copy begin anew, for ever.
            # Meanwhile the server's WAL grows, and is cut back at its next checkpoint.
            reader.execute("BEGIN; SELECT count(*) FROM sqlite_schema").get  # noqa: B018  # the first read pins it
            writer.pragma("journal_mode", "off")
            writer.pragma("synchronous", "off")  # we do that
            _copy_slices(reader, writer, target, progress)
    except apsw.Error as error:
        raise EngineUnavailable(f"cannot copy {source}: {error}") from error


def _copy_slices(reader: apsw.Connection, writer: apsw.Connection, target: Path, progress: Progress) -> None:
    copying = writer.backup("main", reader, "main")
    try:
        while not copying.done:
            copying.step(PAGES_PER_SLICE)
            _sync(target)
            progress(copying.page_count - copying.remaining, copying.page_count)
    finally:
        copying.finish()  # after a step that failed it says why, which the step does not


def _settled(path: Path) -> Contents:
    """Read a copy as a server would, and make one plain file of it."""
    with _bare(path) as db:
        found = db.pragma("integrity_check")
    if found != "ok":
        raise EngineCorrupt(f"the copy of the database is damaged: {found}")
    with closing(Store(path)) as store:
        store.fold_all()
        head = store.head
    with _bare(path) as db:
        db.pragma("journal_mode", "delete")
        return _read_through(db, path, head)


def _read_through(db: apsw.Connection, path: Path, head: Head) -> Contents:
    leases = intents = events = 0
    for key, value in db.execute("SELECT key, value FROM records"):
        thing = records.decode(key, value)
        leases += key.startswith("l/")
        intents += key.startswith("i/")
        if key.startswith("v/"):
            # An event may stand in two logs, and is of one of them.
            events += sum(key.startswith(f"v/{event.space}\t") for event in thing)
    note = db.execute("SELECT value FROM meta WHERE name = ?", (NOTE,)).get
    taken_ms = None if note is None else msgspec.msgpack.decode(note, type=Note).taken_ms
    return Contents(path.stat().st_size, head, leases, intents, events, taken_ms)


def _set_head(path: Path, head: Head) -> None:
    with closing(Store(path)) as store:
        store.append(msgspec.msgpack.encode(head), (), msgspec.msgpack.encode(()))
        store.fold_all()
    with _bare(path) as db:
        db.execute("DELETE FROM meta WHERE name = ?", (NOTE,))
        db.pragma("journal_mode", "delete")


@contextmanager
def _bare(path: Path) -> Iterator[apsw.Connection]:
    """A copy that nobody else has, without a server's settings."""
    try:
        with closing(_open(path, apsw.SQLITE_OPEN_READWRITE)) as db:
            yield db
    except apsw.Error as error:
        raise EngineCorrupt(f"the copy of the database cannot be read: {error}") from error


def _open(path: Path, flags: int) -> apsw.Connection:
    db = apsw.Connection(str(path), flags=flags)
    db.set_busy_timeout(BUSY_MS)
    return db


# The place


def _known(database: Path, entry: Entry) -> Known:
    """What the lock file and the database that is there can tell.

    The last one to close a database empties its WAL into it; a WAL that stays is read by somebody.
    """
    old = Head()
    if database.exists():
        with suppress(EngineError), closing(Store(database)) as store:
            old = store.head
    if old != Head() and _beside(database, "-wal").exists():
        raise EngineUnavailable(f"another program reads {database}")
    seq = None if old == Head() else old.seq
    return Known(max(old.term, entry.term), max(old.token, entry.token_reserved), seq)


def _require_replaceable(target: Path, database: Path) -> None:
    """A server goes on writing to a file that lost its name, and all that it acknowledges from then on is lost."""
    _require_file(target)
    for ending in OWN:
        own = _beside(database, ending)
        if own.exists() and target.samefile(own):
            raise EngineUnavailable(f"{target} belongs to the database itself: name another file")


def _require_file(path: Path) -> None:
    """No device: the name would not be one any more."""
    if not path.is_file():
        raise EngineUnavailable(f"{path} is not a file: name another one")


def _require_place(database: Path) -> None:
    """A database of a newer version, or a damaged one, may be why a copy is brought back. Another program's is not."""
    _require_file(database)
    try:
        require_ours(database)
    except NotOurs:
        if _has_magic(database):
            raise
    except EngineError:
        return


def _has_magic(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _set_aside(database: Path) -> Path | None:
    """Give the old database a second name. What could not be emptied into it goes with it: it must not meet the new."""
    kept = _free_name(database)
    if database.exists():
        _give_name(database, kept)
    for ending in UNEMPTIED:
        with suppress(FileNotFoundError):
            _beside(database, ending).rename(_beside(kept, ending))
    _beside(database, "-shm").unlink(missing_ok=True)
    # Now, because a power cut may otherwise leave the new database and none of the above.
    sync_folder(database.parent)
    return kept if kept.exists() else None


def _free_name(database: Path) -> Path:
    names = (_beside(database, f".before-restore-{number}") for number in count(1))
    return next(name for name in names if not any(_beside(name, ending).exists() for ending in ("", *UNEMPTIED)))


def _give_name(path: Path, name: Path) -> None:
    try:
        os.link(path, name)
    except OSError:  # a file system without second names; for a moment the place is empty
        if name.exists():
            raise
        path.rename(name)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A name for what is not finished. Nothing of it is left in any case but kill -9."""
    partial = _beside(target, f".partial-{os.getpid()}")
    try:
        yield partial
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            _beside(partial, ending).unlink(missing_ok=True)


def _publish(partial: Path, target: Path, *, replace: bool) -> None:
    _sync(partial)
    if replace:
        partial.replace(target)
    else:
        _give_name(partial, target)  # unlike a rename, a second name never replaces anything
    sync_folder(target.parent)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
