"""The file beside a database: who has it open, and up to where tokens may have been granted.

It promises that one process at a time has the database (an OS lock, which dies with the process), and that no token
is granted twice, even after an older database file was copied back by hand. It does not promise the second if the
lock file is deleted or copied back together with the database: then the database is all there is to trust.

Tokens are reserved in blocks, durably, before the first commit that uses one of them. A clean close adds a stamp
that says exactly where the database ended; a database that does not match the stamp goes on after the whole block.

The file has two slots of one JSON line each, written in turn: a crash can tear the slot that is being written, never
the one that earlier commits relied on.
"""

import fcntl
import os
import zlib
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import msgspec

from openintent.engines.base import Head
from openintent.errors import EngineInUse, EngineUnavailable

# A crash skips at most one block; 64 bits last for 10^13 crashes. At 30,000 grants per second the file is written
# every three seconds, which nobody notices.
TOKEN_BLOCK: Final = 100_000

# A server that was killed leaves its process for SQLite (`apart.py`), which the system ends at once, unless that waits
# for the disk. Who comes next waits as long as this for it. Nobody waits for a server that runs.
ORPHAN_S_MAX: Final = 5.0
ORPHAN_LOOK_S: Final = 0.005

# A disk may tear the page it writes, not its neighbour.
SLOT_BYTES: Final = 4_096
ADDRESS_CHARS_MAX: Final = 500  # JSON makes six bytes of a character at the most, and an entry must fit into its slot


class Stamp(msgspec.Struct, frozen=True):
    """Where the database was when it was closed."""

    term: int
    beat: int
    rev: int
    token: int

    @classmethod
    def of(cls, head: Head) -> "Stamp":
        return cls(term=head.term, beat=head.beat, rev=head.rev, token=head.token)


class Entry(msgspec.Struct, frozen=True):
    """What a slot says. The higher count is the newer one."""

    count: int = -1
    pid: int = 0
    address: str = ""
    term: int = 0  # the newest that is known to be durable in the database
    token_reserved: int = 0
    clean: Stamp | None = None


class _Slot(msgspec.Struct):
    crc: int
    entry: msgspec.Raw


class LockFile:
    """Held from construction until `release`."""

    def __init__(self, database: Path, *, lent: int | None = None) -> None:
        """`lent` is a descriptor of the file, from another process that holds it, and goes on to do so."""
        self.path = database.with_name(database.name + ".lock")
        self.notice: str | None = None
        self._database = database
        self._lent = lent is not None
        self._fd = _open(self.path) if lent is None else lent
        try:
            if not self._lent:
                self._lock()
            self._read()
        except BaseException:
            os.close(self._fd)
            raise

    def admit(self, stored: Head, *, address: str, pid: int | None = None) -> Head:
        """The head to go on from: its token is at least every one that may have been granted.

        Also takes the stamp away and says who has the database, the process `pid` or else this one, durably: it must
        come before the first commit.
        """
        head = msgspec.structs.replace(stored, token=self._token_floor(stored))
        reserved = max(self._entry.token_reserved, head.token)
        self._write(
            pid=pid or os.getpid(),
            address=address[:ADDRESS_CHARS_MAX],
            term=stored.term,
            token_reserved=reserved,
            clean=None,
        )
        return head

    @property
    def held(self) -> bool:
        """False if somebody deleted the file, perhaps as a stale one: then our lock keeps nobody out any more."""
        return os.fstat(self._fd).st_nlink > 0

    @property
    def entry(self) -> Entry:
        """What the file says; of a fresh or a damaged one, nothing."""
        return self._entry

    def prepare(self, *, durable_term: int, token: int) -> None:
        """Must come before a commit that carries `token`. If it raises, the commit must not be tried."""
        if token > self._entry.token_reserved:
            self._write(term=durable_term, token_reserved=token + TOKEN_BLOCK)
        elif durable_term > self._entry.term:
            self._write(term=durable_term)

    def ready(self, *, durable_term: int) -> int:
        """Up to this token `prepare` has nothing to do; -1 if it has in any case."""
        return self._entry.token_reserved if durable_term <= self._entry.term else -1

    def announce(self, address: str) -> None:
        self._write(address=address[:ADDRESS_CHARS_MAX])

    def stamp(self, head: Head) -> None:
        # With the token as raised by `admit`: if no commit has carried it into the database, the stamp does not
        # match, and the next open is as careful as this one was.
        self._write(clean=Stamp.of(head))

    def fileno(self) -> int:
        """To be lent to a process. The lock is held until both have released it."""
        return self._fd

    def release(self) -> None:
        if not self._lent:
            # Unlocked explicitly, because a forked child may have a copy of the descriptor.
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)

    def leave(self) -> None:
        """To the process to which it was lent: that holds it until it ends."""
        os.close(self._fd)

    def _lock(self) -> None:
        give_up_at = monotonic() + ORPHAN_S_MAX
        while (refused := self._refusal()) is not None:
            entry = _newest(os.pread(self._fd, 2 * SLOT_BYTES, 0))
            if entry is None or _is_running(entry.pid) or monotonic() > give_up_at:
                raise EngineInUse(f"{self._database} is in use by {_holder(entry)}") from refused
            sleep(ORPHAN_LOOK_S)

    def _refusal(self) -> BlockingIOError | None:
        """None if we have the lock now."""
        try:
            # flock belongs to the open file, not to the process: a second open in this process is refused as well.
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            return error
        except OSError as error:
            raise EngineUnavailable(f"cannot lock {self.path}: {error.strerror}") from error
        return None

    def _read(self) -> None:
        content = os.pread(self._fd, 2 * SLOT_BYTES, 0)
        entry = _newest(content)
        self._fresh = not content
        self._damaged = bool(content) and entry is None
        self._entry = entry or Entry()

    def _token_floor(self, stored: Head) -> int:
        if self._fresh or self._entry.clean == Stamp.of(stored):
            return stored.token
        if self._damaged:
            self.notice = f"{self.path} is damaged: tokens skip {TOKEN_BLOCK:,} to be on the safe side"
            return stored.token + TOKEN_BLOCK
        floor = max(stored.token, self._entry.token_reserved)
        if self._is_older(stored):
            self.notice = f"{self._database} is older than it was: a copy put back? Tokens go on after {floor}"
        return floor

    def _is_older(self, stored: Head) -> bool:
        clean = self._entry.clean
        if clean is None:
            return stored.term < self._entry.term
        return (stored.term, stored.beat) < (clean.term, clean.beat)

    def _write(self, **changed: object) -> None:
        entry = msgspec.structs.replace(self._entry, count=self._entry.count + 1, **changed)
        try:
            os.pwrite(self._fd, _slot(entry), entry.count % 2 * SLOT_BYTES)
            os.fsync(self._fd)
            if self._fresh:
                sync_folder(self.path.parent)
        except OSError as error:
            # The count stays, so the next attempt goes to this same slot: the other one is still whole.
            raise EngineUnavailable(f"cannot write {self.path}: {error.strerror}") from error
        self._entry, self._fresh = entry, False


class Look(msgspec.Struct, frozen=True):
    """A lock file as one finds it who does not want the database."""

    path: Path
    in_use: bool
    damaged: bool
    entry: Entry


def look(database: Path) -> Look | None:
    """None if there is no lock file. `OSError` if it cannot be read.

    A server that starts in the microseconds for which this shares the lock is told that the database is in use.
    """
    path = database.with_name(database.name + ".lock")
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        content = os.pread(fd, 2 * SLOT_BYTES, 0)
        entry = _newest(content)
        return Look(path, _is_locked(fd), bool(content) and entry is None, entry or Entry())
    finally:
        os.close(fd)


def _holder(entry: Entry | None) -> str:
    if entry is None:
        return "another process"
    where = f" at {entry.address}" if entry.address else ""
    return f"the server with pid {entry.pid}{where}"


def _is_running(pid: int) -> bool:
    """Also if it is not ours to look at. One that was killed and is only still listed does not run."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # not Linux, or it has gone since
        return True
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def _open(path: Path) -> int:
    try:
        # Python opens with close-on-exec: a child process does not keep the database locked.
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise EngineUnavailable(f"cannot write {path}: {error.strerror}") from error


def _slot(entry: Entry) -> bytes:
    raw = msgspec.json.encode(entry)
    line = msgspec.json.encode(_Slot(crc=zlib.crc32(raw), entry=msgspec.Raw(raw)))
    assert len(line) < SLOT_BYTES, line  # the address is the only part without a bound, and has one
    return line.ljust(SLOT_BYTES - 1) + b"\n"


def _newest(content: bytes) -> Entry | None:
    slots = (content[:SLOT_BYTES], content[SLOT_BYTES:])
    return max(filter(None, map(_parse, slots)), key=lambda entry: entry.count, default=None)


def _parse(line: bytes) -> Entry | None:
    try:
        slot = msgspec.json.decode(line, type=_Slot)
        return msgspec.json.decode(slot.entry, type=Entry) if zlib.crc32(slot.entry) == slot.crc else None
    except msgspec.MsgspecError:
        return None


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
