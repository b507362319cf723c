"""An SQLite file: nothing to configure, one process at a time, durable to the disk of one machine.

A commit is one row in the journal and one sync. What the commits amount to is folded into `records` later, in small
slices, when nobody waits. A commit that returned is on the disk, as far as the disk tells the truth about that.

After an error the file is not used until `reopen` has proved that it can be written; what is in doubt is then decided
by what the file says. Nothing here knows the wall clock, and nobody else can write: see `lockfile.py`.

Every call here waits for the disk. Who has an event loop carries them elsewhere: into a thread (`sqlite.py`), or into
a process (`apart.py`).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import apsw
import msgspec

from openintent.engines.base import (
    Change,
    DeleteRange,
    Deposed,
    Guarantees,
    Head,
    OutcomeUncertain,
    Record,
)
from openintent.engines.folding import coalesce
from openintent.engines.lockfile import LockFile
from openintent.engines.sqlite_file import BUSY_MS, connect
from openintent.errors import EngineCorrupt, EngineUnavailable

T = TypeVar("T")

# A slice of this weight takes 10 ms on a plain SSD. In a larger one more changes cancel each other out, such as a lease
# that came and went; a commit that arrives meanwhile waits for it.
SLICE_WEIGHT: Final = 2_000
# From here on a slice is folded whenever nobody asks for anything.
IDLE_WEIGHT: Final = 2_000
# From here on a slice is folded after each commit, idle or not. A scan, which folds all, then takes 100 ms at most.
FORCED_WEIGHT: Final = 10_000
# An event loop that commits again and again asks much sooner than this: a silence this long is a real one.
IDLE_S: Final = 0.002

# SQLite takes 32,766 parameters per statement; a statement of this size is still kept prepared by apsw.
ROWS_PER_STATEMENT: Final = 500

LOCK_LOST: Final = "is given up, because its lock file was deleted: restart the server"

APPEND: Final = "INSERT INTO journal (id, head, changes) VALUES (?, ?, ?)"
READ: Final = "SELECT id, head, changes FROM journal WHERE id > ? ORDER BY id"
SCAN: Final = "SELECT key, value FROM records WHERE key >= ? AND key < ? ORDER BY key ASC LIMIT ?"
SCAN_REVERSE: Final = SCAN.replace("ASC", "DESC")

_decode_head = msgspec.msgpack.Decoder(Head).decode
# As they are in the journal.
encode_head = encode_changes = msgspec.msgpack.Encoder().encode
decode_changes = msgspec.msgpack.Decoder(tuple[Change, ...]).decode


class Row(NamedTuple):
    """A commit that is in the journal and not yet in the records."""

    id: int
    head: bytes
    changes: tuple[Change, ...]
    weight: int


class SqliteDatabase:
    """An open database file, for one thread at a time. `close` it: the lock is held until then."""

    guarantees = Guarantees(durable=True, survives_node_loss=False, exclusive_open=True)

    def __init__(
        self, path: str | Path, *, address: str = "", pid: int | None = None, lock: LockFile | None = None
    ) -> None:
        """Others are told that it is open at `address`, by the process `pid` or else by this one."""
        self.path = Path(path).resolve()
        self._lock = lock or locked(self.path)
        with ExitStack() as undo:
            undo.callback(self._lock.release)
            self._store = Store(self.path)
            undo.callback(self._store.close)
            self._head = self._lock.admit(self._store.head, address=address, pid=pid)
            undo.pop_all()
        self._failure: str | None = None

    @property
    def notice(self) -> str | None:
        """One line for the operator if something about the files was odd when they were opened."""
        return self._lock.notice

    @property
    def head(self) -> Head:
        """The newest one. Only `commit` and `reopen` move it: no need to ask the file."""
        return self._head

    @property
    def failure(self) -> str | None:
        """Why it is not used, if it is not."""
        return self._failure

    def commit(self, expect: Head, head: Head, changes: tuple[Change, ...], blob: bytes | None = None) -> None:
        """`blob` are the changes as `encode_changes` makes them, if somebody has done so already."""
        self._require_sound()
        actual = self._head
        if (expect.term, expect.beat, expect.rev) != (actual.term, actual.beat, actual.rev):
            raise Deposed(actual)
        assert head.token >= actual.token, (head, actual)  # a token that falls is a bug of the writer
        self._lock.prepare(durable_term=actual.term, token=head.token)
        try:
            self._store.append(encode_head(head), changes, encode_changes(changes) if blob is None else blob)
        except apsw.Error as error:
            self._stop(error)
            raise OutcomeUncertain(f"{self.path}: {error}") from error
        self._head = head

    @property
    def token_ready(self) -> int:
        """A commit with no larger token than this can be made by `sqlite_here.py`, too."""
        return self._lock.ready(durable_term=self._head.term)

    def catch_up(self) -> None:
        """With what `sqlite_here.py` has committed."""
        self._require_sound()
        try:
            self._head = self._store.read_on() or self._head
            if self._store.weight > IDLE_WEIGHT:
                # At once: nobody else writes while this is asked for, so that SQLite can begin its WAL anew.
                self._store.fold()
        except apsw.Error as error:
            self._stop(error)
            raise EngineUnavailable(f"{self.path}: {error}") from error

    def scan(self, first: str, last: str, *, limit: int, reverse: bool) -> list[Record]:
        self._require_sound()
        try:
            # Merging what is not folded yet into the rows would save this work once, and be a second way to fold.
            self._store.fold_all()
            return self._store.scan(first, last, limit=limit, reverse=reverse)
        except apsw.Error as error:
            self._stop(error)
            raise EngineUnavailable(f"{self.path}: {error}") from error

    def announce(self, address: str) -> None:
        """Tell whoever finds the file in use where our server listens."""
        self._lock.announce(address)

    def reopen(self, known: Head | None = None) -> None:
        """Prove that it can be written. `known` is the durable head, if another process had the file before."""
        if known is not None:
            self._head = msgspec.structs.replace(known, token=max(known.token, self._head.token))
        self._failure = "could not be reopened" if self._lock.held else LOCK_LOST
        if self._failure == LOCK_LOST:
            raise self.refusal()
        self._store.close()
        self._store = Store(self.path)
        # After a failed sync, what the WAL seems to hold may be only in the memory of the operating system.
        self._store.checkpoint()
        found = self._store.head
        if (found.term, found.beat) < (self._head.term, self._head.beat):
            raise EngineCorrupt(f"{self.path} has lost commits that were durable: {found} after {self._head}")
        # The token that `admit` raised is in the file only after the next commit.
        self._head = msgspec.structs.replace(found, token=max(found.token, self._head.token))
        self._failure = None

    def close(self) -> None:
        try:
            if self._is_sound():
                self._store.fold_all()
                self._store.close()
                self._lock.stamp(self._head)
        except (apsw.Error, EngineUnavailable):
            # Every commit is in the journal. Without the stamp the next open is careful about tokens, that is all.
            pass
        finally:
            self._failure = "is closed"
            self._store.close()
            self._lock.release()

    def fold_some(self, *, idle: bool) -> bool:
        """To be called after each call, and when there was none for `IDLE_S`. True: there is more for such a time."""
        if (idle or self._store.weight > FORCED_WEIGHT) and self._is_sound():
            try:
                self._store.fold_if_free()
            except Exception as error:  # noqa: BLE001  # whatever it is, the next call must be answered
                # Nobody waits for this. The next commit is refused, and whoever sent it is told the reason.
                self._stop(error)
        return self._failure is None and self._store.weight > IDLE_WEIGHT

    def refusal(self) -> EngineUnavailable:
        return EngineUnavailable(f"{self.path} {self._failure}")

    def _stop(self, error: Exception) -> None:
        self._failure = f"must be reopened: {error}"

    def _require_sound(self) -> None:
        if not self._is_sound():
            raise self.refusal()

    def _is_sound(self) -> bool:
        if self._failure is None and not self._lock.held:
            # Another server may have the file by now; to fold would be to take its commits out of the journal.
            self._failure = LOCK_LOST
        return self._failure is None


class Store:
    """The tables. For one thread at a time; after an `apsw.Error` it is good for nothing but `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = connect(path)
        self._pending: deque[Row] = deque()
        self.weight = 0
        try:
            self.head = self._load()
        except BaseException:
            self.close()
            raise

    def append(self, head_blob: bytes, changes: tuple[Change, ...], changes_blob: bytes) -> None:
        row = Row(self._next_id, head_blob, changes, weight_of(changes, changes_blob))
        # One statement outside of a transaction: the interpreter's lock is given up once, for the write and the sync.
        self._db.execute(APPEND, (row.id, head_blob, changes_blob))
        self._keep(row)

    def read_on(self) -> Head | None:
        """See what another has appended since; the newest head of that, if there is any."""
        last = self._pending[-1].id if self._pending else 0
        self._read(last)
        newest = self._pending[-1] if self._pending else None
        return None if newest is None or newest.id == last else _decode_head(newest.head)

    def fold_all(self) -> None:
        while self._pending:
            self.fold()

    def fold(self) -> None:
        """Move one slice of commits, the oldest, from the journal into the records: all of it or nothing."""
        rows = list(self._slice())
        if not rows:  # a scan has folded all since somebody saw that there is something to fold
            return
        ranges, values = coalesce(change for row in rows for change in row.changes)
        with self._db:
            self._delete_ranges(ranges)
            self._delete([key for key, value in values.items() if value is None])
            self._put([(key, value) for key, value in sorted(values.items()) if value is not None])
            self._db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('head', ?)", (rows[-1].head,))
            self._db.execute("DELETE FROM journal WHERE id <= ?", (rows[-1].id,))
        for row in rows:
            self._pending.popleft()
            self.weight -= row.weight

    def fold_if_free(self) -> None:
        """The same, or nothing while another writes. Who asks for something need not wait until that is over."""
        self._db.set_busy_timeout(0)
        try:
            self.fold()
        except apsw.BusyError:
            pass
        finally:
            self._db.set_busy_timeout(BUSY_MS)

    def scan(self, first: str, last: str, *, limit: int, reverse: bool) -> list[Record]:
        """Of what is folded."""
        # SQLite takes a negative limit for none.
        rows = self._db.execute(SCAN_REVERSE if reverse else SCAN, (first, last, max(limit, 0)))
        return [Record(key, value) for key, value in rows]

    def checkpoint(self) -> None:
        """Write everything in the WAL to the database itself."""
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            raise EngineUnavailable(f"{self._path} cannot be written: {error}") from error

    def close(self) -> None:
        self._db.close(force=True)

    def _load(self) -> Head:
        try:
            self._read(after=0)
            folded = self._db.execute("SELECT value FROM meta WHERE name = 'head'").get
            newest = self._pending[-1].head if self._pending else folded
            return Head() if newest is None else _decode_head(newest)
        except apsw.Error as error:
            raise EngineUnavailable(f"{self._path} cannot be read: {error}") from error
        except (msgspec.MsgspecError, TypeError) as error:  # in a damaged file a column may have any type, or no value
            raise EngineCorrupt(f"{self._path} holds a commit that cannot be read: {error}") from error

    def _read(self, after: int) -> None:
        for number, head, changes in self._db.execute(READ, (after,)):
            decoded = decode_changes(changes)
            self._keep(Row(number, head, decoded, weight_of(decoded, changes)))

    @property
    def _next_id(self) -> int:
        return self._pending[-1].id + 1 if self._pending else 1

    def _keep(self, row: Row) -> None:
        self._pending.append(row)
        self.weight += row.weight

    def _slice(self) -> Iterator[Row]:
        weight = 0
        for row in self._pending:
            yield row
            weight += row.weight
            if weight >= SLICE_WEIGHT:
                return

    def _delete_ranges(self, ranges: Sequence[DeleteRange]) -> None:
        for span in ranges:
            self._db.execute("DELETE FROM records WHERE key >= ? AND key < ?", (span.first, span.last))

    # Many rows in one statement: apsw gives up the interpreter's lock in each step, and to get it back from a busy
    # event loop can take longer than the step itself.

    def _delete(self, keys: Sequence[str]) -> None:
        for some in _portions(keys):
            marks = ",".join("?" * len(some))
            self._db.execute(f"DELETE FROM records WHERE key IN ({marks})", some)  # noqa: S608  # only marks

    def _put(self, pairs: Sequence[tuple[str, bytes]]) -> None:
        for some in _portions(pairs):
            marks = ",".join(["(?,?)"] * len(some))
            self._db.execute(
                f"INSERT OR REPLACE INTO records (key, value) VALUES {marks}",  # noqa: S608  # only marks
                [part for pair in some for part in pair],
            )


def weight_of(changes: Sequence[Change], blob: bytes) -> int:
    """Of a commit: its changes, one for itself, and one for each KiB."""
    return 1 + len(changes) + len(blob) // 1_024


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), ROWS_PER_STATEMENT):
        yield items[start : start + ROWS_PER_STATEMENT]


def locked(path: Path) -> LockFile:
    """The lock of the database that is or will be there."""
    if path.is_dir():
        raise EngineUnavailable(f"{path} is a folder, not a database file")
    if not path.parent.is_dir():
        raise EngineUnavailable(f"the folder {path.parent} does not exist")
    return LockFile(path)
