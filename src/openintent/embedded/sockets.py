"""The sockets by which members reach each other. Only whoever has the file's lock makes or removes one."""

import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from openintent.client.http.messages import UNIX
from openintent.errors import EngineUnavailable

# On this machine a connection is made at once, or refused, or its queue is full and may move.
CONNECT_S_MAX: Final = 1.0

# The names of the sockets on which this process listens.
own: Final[set[str]] = set()


def connect(address: str) -> socket.socket:
    """A connection to `unix:/path` or `http://host:port`. `OSError` if nobody listens there."""
    if not address.startswith(UNIX):
        parts = urlsplit(address)
        return socket.create_connection((parts.hostname or "", parts.port or 80), CONNECT_S_MAX)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(CONNECT_S_MAX)
        connection.connect(address.removeprefix(UNIX))
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def listening(database: Path) -> Iterator[socket.socket]:
    """A socket for the file's grantor, which it has to itself; gone when the block is left."""
    listener = _bound_for(database)
    path = Path(listener.getsockname())
    made = path.stat()
    try:
        yield listener
    finally:
        listener.close()
        own.discard(str(path))
        with suppress(OSError):
            # Whoever deleted our lock file may have made room for another grantor: its socket is not ours to remove.
            if os.path.samestat(path.stat(), made):
                path.unlink()


def _bound_for(database: Path) -> socket.socket:
    # Its name may be too long, since a socket takes no more than some 100 bytes, and there are file systems without
    # sockets. The lock file tells the others where to look instead.
    with suppress(OSError):
        return _bound(database.with_name(f"{database.name}.sock"))
    elsewhere = _private_folder() / f"{hashlib.sha256(os.fsencode(database)).hexdigest()[:16]}.sock"
    try:
        return _bound(elsewhere)
    except OSError as failure:
        raise EngineUnavailable(f"no socket can be made at {elsewhere}: {failure.strerror or failure}") from failure


def _bound(path: Path) -> socket.socket:
    # Left behind by a process that was killed: we have the lock, so nobody listens on it.
    path.unlink(missing_ok=True)
    own.add(str(path))
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        # Nobody can connect before it listens, so there is no moment at which it is open to others.
        path.chmod(0o600)
    except BaseException:
        listener.close()
        own.discard(str(path))
        raise
    return listener


def _private_folder() -> Path:
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"openintent-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as failure:
        raise EngineUnavailable(f"cannot make {folder}: {failure.strerror}") from failure
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EngineUnavailable(f"{folder} is not a folder that only you can open; remove it")
    return folder
