"""The database and the disk that it is on, without opening it: a server may have it."""

import os
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from openintent.engines.lockfile import Look, look

# Of the header of every SQLite file: where it is, and big-endian.
HEADER_BYTES: Final = 100
MAGIC: Final = b"SQLite format 3\0"
FORMAT_AT: Final = 60
APPLICATION_AT: Final = 68

MOUNTS: Final = Path("/proc/mounts")
PROBE_BYTES: Final = 4_096
PROBES: Final = 5


@dataclass(frozen=True, slots=True)
class Header:
    is_sqlite: bool
    application: int = 0
    format: int = 0


@dataclass(frozen=True, slots=True)
class Database:
    path: Path
    folder_exists: bool = True
    folder_writable: bool = True
    exists: bool = False
    is_file: bool = True
    readable: bool = True
    writable: bool = True
    header: Header | None = None  # of a file that is there and not empty
    bytes: int = 0  # with what is in its WAL
    free_bytes: int | None = None
    lock: Look | None = None
    lock_error: str | None = None
    filesystem: str | None = None  # None if the system does not tell
    sync_ms: float | None = None
    sync_error: str | None = None


def database_facts(engine: str) -> Database | None:
    scheme, _, rest = engine.partition(":")
    name = rest.removeprefix("///")
    if scheme != "sqlite" or name in ("", rest):
        return None
    path = Path(name).resolve()
    if not path.parent.is_dir():
        return Database(path, folder_exists=False)
    lock, lock_error = _lock(path)
    sync_ms, sync_error = sync_facts(path.parent)
    return Database(
        path,
        folder_writable=os.access(path.parent, os.W_OK | os.X_OK),
        exists=path.exists(),
        is_file=path.is_file() or not path.exists(),
        readable=os.access(path, os.R_OK),
        writable=os.access(path, os.W_OK),
        header=_header(path),
        bytes=_bytes(path),
        free_bytes=shutil.disk_usage(path.parent).free,
        lock=lock,
        lock_error=lock_error,
        filesystem=filesystem_of(path.parent, mounts=_mounts()),
        sync_ms=sync_ms,
        sync_error=sync_error,
    )


def _header(path: Path) -> Header | None:
    try:
        with path.open("rb") as file:
            head = file.read(HEADER_BYTES)
    except OSError:
        return None
    if not head:
        return None
    application = int.from_bytes(head[APPLICATION_AT : APPLICATION_AT + 4])
    return Header(head.startswith(MAGIC), application, int.from_bytes(head[FORMAT_AT : FORMAT_AT + 4]))


def _bytes(path: Path) -> int:
    total = 0
    for name in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            total += name.stat().st_size
    return total


def _lock(path: Path) -> tuple[Look | None, str | None]:
    try:
        return look(path), None
    except OSError as failure:
        return None, failure.strerror


def sync_facts(folder: Path) -> tuple[float | None, str | None]:
    """How many milliseconds a small write needs to reach the disk, or why it cannot be found out."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return statistics.median(_sync_ms(file.fileno()) for _ in range(PROBES)), None
    except OSError as failure:
        return None, failure.strerror


def _sync_ms(fd: int) -> float:
    began = time.perf_counter()
    os.pwrite(fd, bytes(PROBE_BYTES), 0)
    os.fsync(fd)
    return (time.perf_counter() - began) * 1_000


def _mounts() -> list[str]:
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # only Linux has it
        return []


def filesystem_of(folder: Path, *, mounts: Iterable[str]) -> str | None:
    """The kind of the file system: that of the longest mount point above the folder, and of the newest if two."""
    found, longest = None, -1
    for line in mounts:
        _, point, kind = line.split(" ")[:3]
        # Blanks and the like are written in octal.
        place = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), point))
        if folder.is_relative_to(place) and len(place.parts) >= longest:
            found, longest = kind, len(place.parts)
    return found
