"""HTTP for the clients: one exchange, and what its failure means.

Could not connect: nothing happened, `Unavailable`. Sent and no answer: `OutcomeUnknown`. Of several addresses the
one that answered last is asked first; one that fails is left for the next. In place of servers a database file may
be named: see `localfile`.
"""

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from openintent.client.calls import Call
from openintent.client.localfile import HOST_URL, PREFIX, AsyncLocalTransport, LocalFile, LocalTransport, Place, file_of
from openintent.client.replies import Reply, problem
from openintent.clock import boot_s
from openintent.errors import OpenIntentError, OutcomeUnknown, Unavailable
from openintent.wire import API

P = TypeVar("P")

CONNECT_S_MAX: Final = 5.0
# Below uvicorn's 5 s: whoever closes an idle connection first should be us, or a request could meet the close.
IDLE_S_MAX: Final = 4.0

# Every failure of the HTTP library, by what it says about the request; a test holds that none is missing.
NEVER_LEFT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)
MAY_HAVE_HAPPENED: Final = (
    httpx2.ReadError,
    httpx2.ReadTimeout,
    httpx2.WriteError,
    httpx2.WriteTimeout,
    httpx2.CloseError,
    httpx2.RemoteProtocolError,
    httpx2.DecodingError,
    httpx2.SSEError,
    httpx2.TooManyRedirects,
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks. The key is a secret: it is in no repr."""

    agent_id: str
    api_key: str | None

    def __repr__(self) -> str:
        return f"Identity(agent_id={self.agent_id!r})"

    @property
    def headers(self) -> dict[str, str]:
        key = {} if self.api_key is None else {"X-API-Key": self.api_key}
        return {"X-Agent-ID": self.agent_id, "Content-Type": "application/json", **key}


class Addresses:
    """The servers' addresses, and which of them is asked first; or the file that is asked instead."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.file = _only_file(urls)
        self.urls = tuple(url.rstrip("/") for url in urls) if self.file is None else (self.file.url,)
        self._first = 0
        for url in self.urls if self.file is None else ():
            _check_url(url)

    def in_order(self) -> tuple[str, ...]:
        return self.urls[self._first :] + self.urls[: self._first]

    def leave(self, url: str) -> None:
        # Only if it still is the first: two threads that saw the same failure must not skip the next one.
        if self.urls[self._first] == url:
            self._first = (self._first + 1) % len(self.urls)

    @property
    def encrypted(self) -> bool:
        return any(url.startswith("https:") for url in self.urls)

    @property
    def local(self) -> bool:
        return self.file is not None or all(
            urlsplit(url).hostname in {"localhost", "127.0.0.1", "::1"} for url in self.urls
        )


def _only_file(urls: Sequence[str]) -> LocalFile | None:
    files = [file for file in map(file_of, urls) if file is not None]
    if files and len(urls) > 1:
        raise ValueError(f"{files[0].url} is served on this machine alone: it can be no alternative to another address")
    return files[0] if files else None


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"not the address of a server: {url!r} (it looks like http://localhost:8000)")


class _Pool(Generic[P]):
    """The connections, made when first needed; of a fork or of another event loop they are not ours to use."""

    def __init__(self, make: Callable[[], P]) -> None:
        self._make = make
        self._owner: object = None
        self._pool: P | None = None
        self._closed = False
        self._making = threading.Lock()

    def get(self, owner: object) -> P:
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._pool is None or self._owner != owner:
            self._renew(owner)
        assert self._pool is not None
        return self._pool

    def _renew(self, owner: object) -> None:
        with self._making:
            if self._pool is None or self._owner != owner:
                self._pool, self._owner = self._make(), owner

    def close(self, owner: object) -> P | None:
        """What is left to be closed, if it is ours."""
        self._closed = True
        pool, self._pool = self._pool, None
        return pool if self._owner == owner else None


class HttpTransport:
    def __init__(self, addresses: Addresses, identity: Callable[[], Identity], *, timeout_s: float) -> None:
        self._addresses = addresses
        self._identity = identity
        self._timeout_s = timeout_s
        self._pool = _Pool(lambda: httpx2.Client(**_pool_options(addresses, LocalTransport)))

    def exchange(self, call: Call[Any]) -> Reply:
        return self._with_any(self._exchange_with, call)

    def listen(self, call: Call[Any]) -> "Incoming":
        """Like `exchange`, for an answer without an end. A refusal is raised."""
        return self._with_any(self._listen_to, call)

    def _with_any(self, ask: Callable[[str, Call[Any]], P], call: Call[Any]) -> P:
        failure: Unavailable | None = None
        for url in self._addresses.in_order():
            try:
                return ask(url, call)
            except Unavailable as exc:
                failure = exc
        assert failure is not None
        raise failure

    def _exchange_with(self, url: str, call: Call[Any]) -> Reply:
        pool = self._pool.get(os.getpid())
        with _translated(url, self._addresses):
            request = pool.build_request(**_request(url, call, self._identity(), call.timeout_s or self._timeout_s))
            sent_at = boot_s()
            return _reply(url, self._addresses, pool.send(request), sent_at)

    def _listen_to(self, url: str, call: Call[Any]) -> "Incoming":
        pool = self._pool.get(os.getpid())
        with _translated(url, self._addresses):
            request = pool.build_request(**_request(url, call, self._identity(), call.timeout_s or self._timeout_s))
            sent_at = boot_s()
            response = pool.send(request, stream=True)
            if response.is_success:
                return Incoming(response, url, self._addresses)
            response.read()
            raise problem(_reply(url, self._addresses, response, sent_at))

    def close(self) -> None:
        pool = self._pool.close(os.getpid())
        if pool is not None:
            pool.close()
        if self._addresses.file is not None:
            self._addresses.file.leave()


class AsyncHttpTransport:
    def __init__(self, addresses: Addresses, identity: Callable[[], Identity], *, timeout_s: float) -> None:
        self._addresses = addresses
        self._identity = identity
        self._timeout_s = timeout_s
        self._pool = _Pool(lambda: httpx2.AsyncClient(**_pool_options(addresses, AsyncLocalTransport)))

    async def exchange(self, call: Call[Any]) -> Reply:
        return await self._with_any(self._exchange_with, call)

    async def listen(self, call: Call[Any]) -> "AsyncIncoming":
        """Like `exchange`, for an answer without an end. A refusal is raised."""
        return await self._with_any(self._listen_to, call)

    async def _with_any(self, ask: Callable[[str, Call[Any]], Awaitable[P]], call: Call[Any]) -> P:
        failure: Unavailable | None = None
        for url in self._addresses.in_order():
            try:
                return await ask(url, call)
            except Unavailable as exc:
                failure = exc
        assert failure is not None
        raise failure

    async def _exchange_with(self, url: str, call: Call[Any]) -> Reply:
        pool = self._pool.get(_loop_owner())
        with _translated(url, self._addresses):
            request = pool.build_request(**_request(url, call, self._identity(), call.timeout_s or self._timeout_s))
            sent_at = boot_s()
            return _reply(url, self._addresses, await pool.send(request), sent_at)

    async def _listen_to(self, url: str, call: Call[Any]) -> "AsyncIncoming":
        pool = self._pool.get(_loop_owner())
        with _translated(url, self._addresses):
            request = pool.build_request(**_request(url, call, self._identity(), call.timeout_s or self._timeout_s))
            sent_at = boot_s()
            response = await pool.send(request, stream=True)
            if response.is_success:
                return AsyncIncoming(response, url, self._addresses)
            await response.aread()
            raise problem(_reply(url, self._addresses, response, sent_at))

    async def close(self) -> None:
        pool = self._pool.close(_loop_owner())
        if pool is not None:
            await pool.aclose()
        if self._addresses.file is not None:
            await asyncio.to_thread(self._addresses.file.leave)


class Incoming:
    """An answer as it comes in."""

    def __init__(self, response: httpx2.Response, url: str, addresses: Addresses) -> None:
        self._response = response
        self._url = url
        self._addresses = addresses

    def pieces(self) -> Iterator[bytes]:
        with _translated(self._url, self._addresses):
            yield from self._response.iter_bytes()
        self._addresses.leave(self._url)  # who ends it is about to stop, or has too much to do

    def interrupt(self) -> None:
        """From another thread: whoever waits for the next piece gets an end, or an error, at once."""
        stream = self._response.extensions.get("network_stream")
        with suppress(OSError):  # it has ended by itself
            if stream is not None:
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._response.close()


class AsyncIncoming:
    """The same, to be awaited; cancelling interrupts it."""

    def __init__(self, response: httpx2.Response, url: str, addresses: Addresses) -> None:
        self._response = response
        self._url = url
        self._addresses = addresses

    async def pieces(self) -> AsyncIterator[bytes]:
        with _translated(self._url, self._addresses):
            async for piece in self._response.aiter_bytes():
                yield piece
        self._addresses.leave(self._url)

    async def close(self) -> None:
        await self._response.aclose()


def _loop_owner() -> object:
    return os.getpid(), asyncio.get_running_loop()


def _pool_options(
    addresses: Addresses, local: Callable[[Place, httpx2.Limits], LocalTransport | AsyncLocalTransport]
) -> dict[str, Any]:
    # A waiting acquire keeps its connection, and there may be as many of them as the caller likes.
    limits = httpx2.Limits(max_keepalive_connections=100, keepalive_expiry=IDLE_S_MAX)
    return {
        # Reading the machine's certificates takes 50 ms, and without TLS nobody will look at them.
        "verify": addresses.encrypted,
        # A proxy that is set for the outside world cannot reach our loopback.
        "trust_env": not addresses.local,
        "limits": limits,
        "transport": None if addresses.file is None else local(addresses.file.place(), limits),
    }


def _request(url: str, call: Call[Any], identity: Identity, timeout_s: float) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": f"{HOST_URL if url.startswith(PREFIX) else url}{'' if call.at_root else API}{call.path}",
        "content": None if call.body is None else msgspec.json.encode(call.body),
        "headers": {**identity.headers, **call.headers},
        "timeout": httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S_MAX)),
    }


def _reply(url: str, addresses: Addresses, response: httpx2.Response, sent_at: float) -> Reply:
    if response.status_code == httpx2.codes.SERVICE_UNAVAILABLE:
        addresses.leave(url)  # it may be cut off from the grantor; another may not be
    told = response.headers
    return Reply(response.status_code, response.content, sent_at, told.get("Retry-After"), told.get("X-Next-Offset"))


@contextmanager
def _translated(url: str, addresses: Addresses) -> Iterator[None]:
    try:
        yield
    except (*NEVER_LEFT, *MAY_HAVE_HAPPENED) as exc:
        addresses.leave(url)
        raise failure_of(exc, url) from exc


def failure_of(exc: Exception, url: str) -> OpenIntentError:
    if isinstance(exc, NEVER_LEFT) and url.startswith(PREFIX):
        # Not `unreachable`: somebody will serve it, if only this process, as soon as the machine lets it.
        return Unavailable(f"nobody serves {url}: {_said(exc)}", code="unavailable")
    if isinstance(exc, NEVER_LEFT):
        hint = "; `openintent serve` starts one" if Addresses([url]).local else ""
        return Unavailable(f"no server could be reached at {url}: {_said(exc)}{hint}", code="unreachable")
    return OutcomeUnknown(f"no answer came from {url}: {_said(exc)}", code="no_answer")


def _said(exc: Exception) -> str:
    return str(exc) or type(exc).__name__
