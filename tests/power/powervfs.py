"""Between programs and the disk: everything that is asked of one folder goes into a journal, and is done as well.

SQLite is seen through a VFS that stands in for the usual one, everything else through the functions of `os`. Neither
the engine nor the lock file knows. Shared memory (`-shm`) is left out: it is built anew after a power cut.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
from powerdisk import Journal, Sync, SyncFolder, Truncate, Write

NAME = "power"
# SQLite's own VFS syncs the folder with the first sync of these, if they were opened to be created.
FOLDER_TOO = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL

# The functions as they are, whatever they are replaced by.
REAL = {name: getattr(os, name) for name in ("open", "close", "pwrite", "fsync", "link", "rename", "replace", "unlink")}


class PowerVFS(apsw.VFS):
    """What SQLite asks of the folder. `syncs` False: a disk, or a VFS, that only claims to have synced."""

    def __init__(self, journal: Journal, folder: Path, *, syncs: bool = True) -> None:
        self.journal = journal
        self.folder = folder
        self.syncs = syncs
        self.base = apsw.vfs_names()[0]  # the usual one
        super().__init__(NAME, base=self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # SQLite's name
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        if path.parent != self.folder:
            return PlainFile(self.base, name, flags)
        return PowerFile(self, name, flags, path.name)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        path = Path(filename)
        if path.parent == self.folder and path.name in self.journal.names:
            self.journal.rename({path.name: None})
            if syncdir and self.syncs:
                self.journal.add(SyncFolder())


class PlainFile(apsw.VFSFile):
    def xLock(self, level: int) -> None:  # noqa: N802
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # A file that is open for reading cannot be locked for writing. SQLite tries, and expects to fail; but from
            # here every error is also raised to its caller, except this one.
            raise apsw.BusyError from error


class PowerFile(PlainFile):
    def __init__(self, vfs: PowerVFS, name: Any, flags: list[int], shown: str) -> None:
        super().__init__(vfs.base, name, flags)
        self._vfs = vfs
        self._journal = vfs.journal
        created = flags[0] & apsw.SQLITE_OPEN_CREATE
        self._folder_too = bool(created and flags[0] & FOLDER_TOO)
        known = self._journal.names.get(shown)
        self._number = self._journal.create(shown) if known is None else known

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._journal.add(Write(self._number, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._journal.add(Truncate(self._number, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        if not self._vfs.syncs:
            return
        self._journal.add(Sync(self._number))
        if self._folder_too:
            self._folder_too = False
            self._journal.add(SyncFolder())


class Calls:
    """The functions of `os` that our own code changes files with, for one folder; other files pass."""

    def __init__(self, journal: Journal, folder: Path) -> None:
        self._journal = journal
        self._folder = folder
        self._numbers: dict[int, int] = {}  # of open files, by descriptor
        self._folders: set[int] = set()

    def open(self, path: Any, flags: int, *more: Any, **options: Any) -> int:
        fd: int = REAL["open"](path, flags, *more, **options)
        name = self._name(path)
        if name is not None:
            known = self._journal.names.get(name)
            self._numbers[fd] = self._journal.create(name) if known is None else known
        elif Path(os.fspath(path)) == self._folder:
            self._folders.add(fd)
        return fd

    def close(self, fd: int) -> None:
        REAL["close"](fd)
        self._numbers.pop(fd, None)
        self._folders.discard(fd)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if fd in self._numbers:
            self._journal.add(Write(self._numbers[fd], offset, bytes(data)))
        return int(REAL["pwrite"](fd, data, offset))

    def fsync(self, fd: int) -> None:
        REAL["fsync"](fd)
        if fd in self._numbers:
            self._journal.add(Sync(self._numbers[fd]))
        elif fd in self._folders:
            self._journal.add(SyncFolder())

    def link(self, source: Any, target: Any, **options: Any) -> None:
        REAL["link"](source, target, **options)
        self._move(source, target, gone=False)

    def rename(self, source: Any, target: Any, **options: Any) -> None:
        REAL["rename"](source, target, **options)
        self._move(source, target, gone=True)

    replace = rename

    def unlink(self, path: Any, **options: Any) -> None:
        REAL["unlink"](path, **options)
        name = self._name(path)
        if name in self._journal.names:
            self._journal.rename({name: None})

    def _move(self, source: Any, target: Any, *, gone: bool) -> None:
        old, new = self._name(source), self._name(target)
        if old is None or new is None:
            return
        changed: dict[str, int | None] = {new: self._journal.names[old]}
        self._journal.rename({**changed, old: None} if gone else changed)

    def _name(self, path: Any) -> str | None:
        if isinstance(path, int):
            return None
        where = Path(os.fsdecode(os.fspath(path)))
        return where.name if where.parent == self._folder and not where.name.endswith("-shm") else None


@contextmanager
def recorded(journal: Journal, folder: Path, *, syncs: bool = True, fsyncs: bool = True) -> Iterator[None]:
    """Until the end of the block all that is done in a folder goes into the journal."""
    vfs = PowerVFS(journal, folder, syncs=syncs)
    calls = Calls(journal, folder)
    mine: dict[str, Callable[..., Any]] = {name: getattr(calls, name) for name in REAL}
    if not fsyncs:
        mine["fsync"] = REAL["fsync"]
    try:
        with patch.multiple(os, **mine):
            yield
    finally:
        vfs.unregister()
