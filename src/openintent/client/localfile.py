"""A database file in place of a server's address: `sqlite:///leases.db`.

Some process on this machine serves the file, and when it ends another one does. So where to ask is found out for each
connection, and while nobody serves a request waits for its turn to leave, as long as it may take to connect. What a
failure means stays what it is with a server: not connected, nothing happened; sent and no answer, nobody knows.

How the file gets served is not known here: whoever can see to that says so in `joining`.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from openintent.client.http.messages import Answer, Asked, NotSent
from openintent.client.http.sync import Incoming, Line
from openintent.client.joining import Place, join
from openintent.clock import boot_s

A = TypeVar("A", Answer, Incoming | Answer)

PREFIX: Final = "sqlite:///"
# What the requests name as their host; the server's gate knows it as this machine.
HOST: Final = "localhost"

# While nobody serves the file, it is looked for this often. It takes tens of milliseconds until another one does.
LOOK_S: Final = 0.01


class LocalFile:
    """The file of one client. It is joined with the first request, so that a program may fork before that."""

    def __init__(self, path: Path) -> None:
        self.url = f"{PREFIX}{path}"
        self._path = path
        self._pid = 0
        self._place: Place | None = None

    def place(self) -> Place:
        if self._place is None or self._pid != os.getpid():
            self._place, self._pid = join(self._path), os.getpid()
        return self._place

    def leave(self) -> None:
        place, self._place = self._place, None
        if place is not None and self._pid == os.getpid():
            place.leave()


def file_of(url: str) -> LocalFile | None:
    """The file that the URL names, if it names one."""
    scheme, colon, rest = url.partition(":")
    if scheme == "memory" and colon:
        raise ValueError(f"{url} cannot be shared: name a file, such as {PREFIX}leases.db, or a server's address")
    if scheme != "sqlite" or not colon:
        return None
    name = rest.removeprefix("///")
    if name in ("", rest):
        raise ValueError(f"{url!r} names no file; write sqlite:///relative.db or sqlite:////absolute.db")
    return LocalFile(path_of(name))


def path_of(name: str | os.PathLike[str]) -> Path:
    """In full, so that it stays the same file wherever the program goes."""
    if os.fspath(name) == ":memory:":
        raise ValueError("what is in memory cannot be shared: name a file, such as leases.db")
    path = Path(name).expanduser().resolve()
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a database file")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} does not exist")
    return path


class Patience:
    """How long one request may look for whoever serves the file, and whom it finds."""

    def __init__(self, place: Place, asked: Asked) -> None:
        self._place = place
        self._until = boot_s() + asked.connect_s

    @property
    def over(self) -> bool:
        return boot_s() >= self._until

    def aim(self) -> str:
        """Whom to ask; `NotSent` if that is nobody."""
        where = self._place.where()
        if where is None:
            raise NotSent(self._place.trouble())
        return where

    def ends_with(self, status: int) -> bool:
        """Whether this is the answer. A grantor that is about to end does nothing any more: the next one may."""
        return self.over or status != 503


class LocalLine:
    """HTTP to whoever serves the file."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._line = Line(HOST)

    def exchange(self, _url: str, asked: Asked) -> Answer:
        return self._ask(self._line.exchange, asked)

    def listen(self, _url: str, asked: Asked) -> Incoming | Answer:
        return self._ask(self._line.listen, asked)

    def _ask(self, ask: Callable[[str, Asked], A], asked: Asked) -> A:
        patience = Patience(self._place, asked)
        while True:
            try:
                where = patience.aim()
                answer = ask(where, asked)
            except NotSent:
                if patience.over:
                    raise
            else:
                if patience.ends_with(answer.status):
                    return answer
                # It may have lost the file without ending, because somebody deleted the lock: then another listens
                # under its name, and only a new connection finds that one.
                self._line.leave(where)
            time.sleep(LOOK_S)

    def close(self) -> None:
        self._line.close()
