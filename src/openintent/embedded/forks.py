"""What a forked child must let go of. The lock and the sockets of a grantor live as long as anybody has them open."""

import os
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from openintent.embedded import sockets

# Where both Linux and macOS list what a process has open.
OPEN_FILES: Final = Path("/dev/fd")


def let_go(databases: Iterable[Path]) -> None:
    """In the child: if the parent is killed, others must see its connections end and get the files' locks."""
    locks = set(_identities(databases))
    if not locks:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in [int(each.name) for each in OPEN_FILES.iterdir()]:
        with suppress(OSError):
            if _is_of_grantor(fd, locks):
                # Its number stays taken, because some object that believes to own it may close it one day.
                os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)


def _identities(databases: Iterable[Path]) -> Iterator[tuple[int, int]]:
    for database in databases:
        with suppress(OSError):
            found = database.with_name(f"{database.name}.lock").stat()
            yield found.st_dev, found.st_ino


def _is_of_grantor(fd: int, locks: set[tuple[int, int]]) -> bool:
    found = os.fstat(fd)
    if not stat.S_ISSOCK(found.st_mode):
        return (found.st_dev, found.st_ino) in locks
    with socket.socket(fileno=os.dup(fd)) as copy:
        # What listens under the name, and what was accepted there. The other ends of the connections have no name.
        return copy.family == socket.AF_UNIX and copy.getsockname() in sockets.own
