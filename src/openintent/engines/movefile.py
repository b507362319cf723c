"""The file between two engines: all records of a ledger and its head, as lines of JSON.

The first line says what it is and has the head, the last one counts and has the SHA-256 of all lines before it; each
line between is a record: its key, and its value in base64. The records are in the order of their keys. A file under
its final name is whole and on the disk: it is written under another name, and has been read through.

Not promised: that nobody has changed it since and the checksum with it. Whoever can read it reads the ledger.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from openintent import records
from openintent.engines.base import Head, Record
from openintent.engines.lockfile import sync_folder
from openintent.errors import EngineCorrupt, EngineUnavailable

FORMAT: Final = 1
KIND: Final = "openintent ledger"
# A record is far smaller. A file of something else may have no end of line at all.
LINE_BYTES_MAX: Final = 64 * 1_024 * 1_024


class StoredHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A head with the names of its numbers, for whoever looks into the file."""

    term: int
    beat: int
    rev: int
    clock_ms: int
    member: str
    token: int
    seq: int
    farewell: bool


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """By which a file is known, in any format."""

    kind: str
    format: int


class First(Mark, frozen=True, kw_only=True):
    """What the first line says."""

    version: str  # of the program that wrote it
    engine: str  # what kind of engine it is from
    taken_ms: int  # by the wall clock
    head: StoredHead


class Last(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    records: int
    sha256: str


class Counts(msgspec.Struct):
    """What was seen, record by record."""

    records: int = 0
    leases: int = 0
    intents: int = 0
    events: int = 0

    def add(self, record: Record) -> None:
        """`EngineCorrupt` if it is no record of a ledger: then nobody could go on from it."""
        thing, key = records.decode(record.key, record.value), record.key
        self.records += 1
        self.leases += key.startswith("l/")
        self.intents += key.startswith("i/")
        if key.startswith("v/"):
            # An event may stand in two logs, and is of one of them.
            self.events += sum(key.startswith(f"v/{event.space}\t") for event in thing)


class Summary(msgspec.Struct, frozen=True):
    """A file, read from end to end."""

    size_bytes: int
    engine: str
    taken_ms: int
    head: Head
    counts: Counts
    digest: str
    first_line: bytes


class Digest:
    """Of the lines of a file, or of an engine's records as they would be there."""

    def __init__(self, first_line: bytes) -> None:
        self._sum = hashlib.sha256(first_line)

    def add(self, line: bytes) -> None:
        self._sum.update(line)

    @property
    def hex(self) -> str:
        return self._sum.hexdigest()


def line_of(record: Record) -> bytes:
    return msgspec.json.encode((record.key, record.value)) + b"\n"


# Writing


class Writer:
    """A file that is being written. Nothing of it is left if it is not published, in any case but kill -9."""

    def __init__(self, file: IO[bytes], head: Head, *, engine: str, version: str, taken_ms: int) -> None:
        stored = StoredHead(**msgspec.structs.asdict(head))
        first = First(kind=KIND, format=FORMAT, version=version, engine=engine, taken_ms=taken_ms, head=stored)
        line = msgspec.json.encode(first) + b"\n"
        self._file = file
        self._count = 0
        self._digest = Digest(line)
        file.write(line)

    def add(self, record: Record) -> None:
        line = line_of(record)
        self._digest.add(line)
        self._count += 1
        self._file.write(line)

    def end(self) -> None:
        self._file.write(msgspec.json.encode(Last(records=self._count, sha256=self._digest.hex)) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@contextmanager
def partial(target: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A new file beside the target, for its owner alone."""
    path = target.with_name(f"{target.name}.partial-{os.getpid()}")
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def publish(path: Path, target: Path) -> None:
    """Give it its name. `FileExistsError` if that is taken."""
    try:
        os.link(path, target)  # unlike a rename, a second name never replaces anything
    except OSError:  # a file system without second names
        if target.exists():
            raise FileExistsError(target) from None
        path.rename(target)
    sync_folder(target.parent)


# Reading


def read_through(path: Path) -> Summary:
    """Read all of it. `EngineCorrupt` unless every line is as it was written."""
    counts = Counts()
    with path.open("rb") as file:
        first_line, first = _first(file, path)
        digest, last, line, key = Digest(first_line), None, _line(file, path), ""
        while last is None:
            following = _line(file, path)
            if not following:
                last = _last(line, path)
                continue
            record = _record(line, path)
            if record.key <= key:
                raise EngineCorrupt(f"{path}: the record {record.key!r} is out of order")
            digest.add(line)
            counts.add(record)
            line, key = following, record.key
    if (last.records, last.sha256) != (counts.records, digest.hex):
        raise EngineCorrupt(f"{path} is damaged: its last line does not fit what comes before")
    head = Head(**msgspec.structs.asdict(first.head))
    return Summary(path.stat().st_size, first.engine, first.taken_ms, head, counts, digest.hex, first_line)


def records_of(path: Path, summary: Summary) -> Iterator[Record]:
    """Those of a file that was read through, once more."""
    with path.open("rb") as file:
        _first(file, path)
        for _ in range(summary.counts.records):
            yield _record(_line(file, path), path)


def _line(file: IO[bytes], path: Path) -> bytes:
    line = file.readline(LINE_BYTES_MAX)
    if line and not line.endswith(b"\n"):
        raise EngineCorrupt(f"{path} ends in the middle of a line" if len(line) < LINE_BYTES_MAX else _not_ours(path))
    return line


def _first(file: IO[bytes], path: Path) -> tuple[bytes, First]:
    line = file.readline(LINE_BYTES_MAX)
    try:
        mark = msgspec.json.decode(line, type=Mark)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise EngineCorrupt(_not_ours(path)) from None
    if mark.kind != KIND:
        raise EngineCorrupt(_not_ours(path))
    if mark.format > FORMAT:
        told = f"(format {mark.format}, this one knows {FORMAT})"
        raise EngineUnavailable(f"{path} was written by a newer openintent {told}: update openintent-leases")
    try:
        return line, msgspec.json.decode(line, type=First)
    except msgspec.MsgspecError as error:
        raise EngineCorrupt(f"{path} has a first line that cannot be read: {error}") from error


def _record(line: bytes, path: Path) -> Record:
    try:
        return Record(*msgspec.json.decode(line, type=tuple[str, bytes]))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EngineCorrupt(f"{path} has a line that cannot be read: {error}") from error


def _last(line: bytes, path: Path) -> Last:
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(line, type=Last)
    raise EngineCorrupt(f"{path} is not whole: its last line is missing")


def _not_ours(path: Path) -> str:
    return f"{path} is not a file that `openintent export` has made"
