"""A database file in place of a server's address: `sqlite:///leases.db`.

Some process on this machine serves the file, and when it ends another one does. So where to ask is found out for each
connection, and while nobody serves a request waits for its turn to leave, as long as it may take to connect. What a
failure means stays what it is with a server: not connected, nothing happened; sent and no answer, nobody knows.

How the file gets served is not known here: whoever can see to that says so with `offer`.
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import httpx2

from openintent.clock import boot_s

PREFIX: Final = "sqlite:///"
UNIX: Final = "unix:"
# What the requests name as their host; the server's gate knows it as this machine.
HOST_URL: Final = "http://localhost"

# While nobody serves the file, it is looked for this often. It takes tens of milliseconds until another one does.
LOOK_S: Final = 0.01
# For a request that sets no bound to it.
CONNECT_S: Final = 5.0


class Place(Protocol):
    """A file that is being served, by this process or another one. Any thread may ask."""

    def where(self) -> str | None:
        """`unix:/path` or `http://host:port`, or None while that changes. Raises if nobody can serve the file."""
        ...

    def trouble(self) -> str:
        """What keeps the file from being served, as far as is known."""
        ...

    def leave(self) -> None:
        """Not needed any more by whoever joined. May take a moment, if it was this process that served the file."""
        ...


Join = Callable[[Path], Place]
_joins: Final[list[Join]] = []


def offer(join: Join) -> None:
    """From now on files are served by what this returns."""
    _joins[:] = [join]


class LocalFile:
    """The file of one client. It is joined with the first request, so that a program may fork before that."""

    def __init__(self, path: Path) -> None:
        self.url = f"{PREFIX}{path}"
        self._path = path
        self._pid = 0
        self._place: Place | None = None

    def place(self) -> Place:
        if self._place is None or self._pid != os.getpid():
            self._place, self._pid = _joins[0](self._path), os.getpid()
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


class _Patience:
    """How long one request may try to connect, and how it is aimed at whoever serves now."""

    def __init__(self, request: httpx2.Request) -> None:
        self._request = request
        self._target = request.url.raw_path
        connect_s: float | None = request.extensions["timeout"]["connect"]
        self._until = boot_s() + (CONNECT_S if connect_s is None else connect_s)

    @property
    def over(self) -> bool:
        return boot_s() >= self._until

    def aim(self, place: Place) -> str:
        """Whom to ask; `ConnectError` if that is nobody."""
        where = place.where()
        if where is None:
            raise httpx2.ConnectError(place.trouble())
        base = HOST_URL if where.startswith(UNIX) else where
        self._request.url = httpx2.URL(base).copy_with(raw_path=self._target)
        return where

    def ends_with(self, response: httpx2.Response) -> bool:
        """Whether this is the answer. A grantor that is about to end does nothing any more: the next one may.

        If it is not, it is closed unread, and its connection with it. So one that has lost the file without ending,
        because somebody deleted the lock, is not asked again.
        """
        return self.over or response.status_code != 503


class LocalTransport(httpx2.BaseTransport):
    """HTTP to whoever serves the file."""

    def __init__(self, place: Place, limits: httpx2.Limits) -> None:
        self._place = place
        self._limits = limits
        self._ways: dict[str, httpx2.HTTPTransport] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        patience = _Patience(request)
        while True:
            response = self._try(request, patience)
            if response is not None:
                return response
            time.sleep(LOOK_S)

    def _try(self, request: httpx2.Request, patience: _Patience) -> httpx2.Response | None:
        try:
            where = patience.aim(self._place)
            response = self._way(where).handle_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            if patience.over:
                raise
            return None
        if patience.ends_with(response):
            return response
        response.close()
        return None

    def _way(self, where: str) -> httpx2.HTTPTransport:
        name = where if where.startswith(UNIX) else ""
        way = self._ways.get(name)
        return way or self._ways.setdefault(name, httpx2.HTTPTransport(**_way_options(name, self._limits)))

    def close(self) -> None:
        for way in self._ways.values():
            way.close()


class AsyncLocalTransport(httpx2.AsyncBaseTransport):
    """The same, to be awaited."""

    def __init__(self, place: Place, limits: httpx2.Limits) -> None:
        self._place = place
        self._limits = limits
        self._ways: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        patience = _Patience(request)
        while True:
            response = await self._try(request, patience)
            if response is not None:
                return response
            await asyncio.sleep(LOOK_S)

    async def _try(self, request: httpx2.Request, patience: _Patience) -> httpx2.Response | None:
        try:
            where = patience.aim(self._place)
            response = await self._way(where).handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            if patience.over:
                raise
            return None
        if patience.ends_with(response):
            return response
        await response.aclose()
        return None

    def _way(self, where: str) -> httpx2.AsyncHTTPTransport:
        name = where if where.startswith(UNIX) else ""
        way = self._ways.get(name)
        return way or self._ways.setdefault(name, httpx2.AsyncHTTPTransport(**_way_options(name, self._limits)))

    async def aclose(self) -> None:
        for way in self._ways.values():
            await way.aclose()


def _way_options(name: str, limits: httpx2.Limits) -> dict[str, Any]:
    """One way for each socket file, and one for all servers: who serves the file is always on this machine."""
    return {"uds": name.removeprefix(UNIX) or None, "limits": limits, "verify": False, "trust_env": False}
