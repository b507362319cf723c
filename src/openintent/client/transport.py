"""One exchange with the servers, and what its failure means.

Could not connect: nothing happened, `Unavailable`. Sent and no answer: `OutcomeUnknown`. Of several addresses the
one that answered last is asked first; one that fails is left for the next. In place of servers a database file may
be named: see `localfile`. How it travels is the affair of `http`.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from openintent.client.calls import Call
from openintent.client.http import sync
from openintent.client.http.messages import Answer, Asked, NoAnswer, NotSent, header_line, origin_of
from openintent.client.localfile import PREFIX, LocalFile, LocalLine, file_of
from openintent.client.replies import Reply, problem
from openintent.clock import boot_s
from openintent.errors import OpenIntentError, OutcomeUnknown, Unavailable
from openintent.wire import API

P = TypeVar("P")

CONNECT_S_MAX: Final = 5.0
PROXY_NAMES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy"})


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks. The key is a secret: it is in no repr."""

    agent_id: str
    api_key: str | None
    head: bytes = field(init=False, compare=False)  # the headers as they are sent, made once

    def __post_init__(self) -> None:
        lines = [header_line(name, value) for name, value in self.headers.items()]
        object.__setattr__(self, "head", "".join(lines).encode())

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
        return self.urls[self._first :] + self.urls[: self._first] if self._first else self.urls

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

    @property
    def plain(self) -> bool:
        """Whether they are reached without TLS and without a proxy. What leads outside has no say in our loopback."""
        return all(origin_of(url) is not None for url in self.urls) and (self.local or not _proxy_is_set())


def _only_file(urls: Sequence[str]) -> LocalFile | None:
    files = [file for file in map(file_of, urls) if file is not None]
    if files and len(urls) > 1:
        raise ValueError(f"{files[0].url} is served on this machine alone: it can be no alternative to another address")
    return files[0] if files else None


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not _has_port(url):
        raise ValueError(f"not the address of a server: {url!r} (it looks like http://localhost:8000)")
    if "?" in url or "#" in url:
        raise ValueError(f"the address of a server ends with its path: {url!r} has something behind it")


def _has_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _proxy_is_set() -> bool:
    if sys.platform in {"darwin", "win32"}:  # there the system has settings of its own
        from urllib.request import getproxies  # noqa: PLC0415  # it takes as long to import as all of ours

        return bool(getproxies())
    return any(value and name.lower() in PROXY_NAMES for name, value in os.environ.items())


class Pool(Generic[P]):
    """A line, made when first needed; of a fork or of another event loop it is not ours to use."""

    def __init__(self, make: Callable[[], P]) -> None:
        self._make = make
        self._owner: object = None
        self._pool: P | None = None
        self._closed = False
        self._making = threading.RLock()

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


class Asking:
    """What both transports do around an exchange."""

    def __init__(self, addresses: Addresses, identity: Callable[[], Identity], *, timeout_s: float) -> None:
        self._addresses = addresses
        self._identity = identity
        self._timeout_s = timeout_s

    def _asked(self, call: Call[Any]) -> Asked:
        timeout_s = call.timeout_s or self._timeout_s
        return Asked(
            call.method,
            call.path if call.at_root else API + call.path,
            self._identity(),
            call.headers,
            None if call.body is None else msgspec.json.encode(call.body),
            timeout_s,
            min(timeout_s, CONNECT_S_MAX),
        )

    def _reply(self, url: str, answer: Answer, sent_at: float) -> Reply:
        if answer.status == 503:
            self._addresses.leave(url)  # it may be cut off from the grantor; another may not be
        told: Mapping[str, str] = answer.headers
        return Reply(answer.status, answer.body, sent_at, told.get("retry-after"), told.get("x-next-offset"))


def failed(url: str, addresses: Addresses, exc: NotSent | NoAnswer) -> OpenIntentError:
    addresses.leave(url)
    return failure_of(exc, url)


def failure_of(exc: NotSent | NoAnswer, url: str) -> OpenIntentError:
    if isinstance(exc, NoAnswer):
        return OutcomeUnknown(f"no answer came from {url}: {exc}", code="no_answer")
    if url.startswith(PREFIX):
        # Not `unreachable`: somebody will serve it, if only this process, as soon as the machine lets it.
        return Unavailable(f"nobody serves {url}: {exc}", code="unavailable")
    hint = "; `openintent serve` starts one" if Addresses([url]).local else ""
    return Unavailable(f"no server could be reached at {url}: {exc}{hint}", code="unreachable")


class AnyIncoming(Protocol):
    def pieces(self) -> Iterator[bytes]: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


class AnyLine(Protocol):
    def exchange(self, url: str, asked: Asked, /) -> Answer: ...

    def listen(self, url: str, asked: Asked, /) -> AnyIncoming | Answer: ...

    def close(self) -> None: ...


def line_to(addresses: Addresses) -> AnyLine:
    if addresses.file is not None:
        return LocalLine(addresses.file.place())
    if addresses.plain:
        return sync.Line()
    from openintent.client.http import library  # noqa: PLC0415  # most programs never need it, and it takes 40 ms

    return library.Line(encrypted=addresses.encrypted, trust_env=not addresses.local)


class HttpTransport(Asking):
    def __init__(self, addresses: Addresses, identity: Callable[[], Identity], *, timeout_s: float) -> None:
        super().__init__(addresses, identity, timeout_s=timeout_s)
        self._pool = Pool(lambda: line_to(addresses))

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
        line, asked = self._pool.get(os.getpid()), self._asked(call)
        sent_at = boot_s()
        try:
            return self._reply(url, line.exchange(url, asked), sent_at)
        except (NotSent, NoAnswer) as exc:
            raise failed(url, self._addresses, exc) from exc

    def _listen_to(self, url: str, call: Call[Any]) -> "Incoming":
        line, asked = self._pool.get(os.getpid()), self._asked(call)
        sent_at = boot_s()
        try:
            answer = line.listen(url, asked)
        except (NotSent, NoAnswer) as exc:
            raise failed(url, self._addresses, exc) from exc
        if isinstance(answer, Answer):
            raise problem(self._reply(url, answer, sent_at))
        return Incoming(answer, url, self._addresses)

    def close(self) -> None:
        line = self._pool.close(os.getpid())
        if line is not None:
            line.close()
        if self._addresses.file is not None:
            self._addresses.file.leave()


class Incoming:
    """An answer as it comes in."""

    def __init__(self, incoming: AnyIncoming, url: str, addresses: Addresses) -> None:
        self._incoming = incoming
        self._url = url
        self._addresses = addresses

    def pieces(self) -> Iterator[bytes]:
        try:
            yield from self._incoming.pieces()
        except (NotSent, NoAnswer) as exc:
            raise failed(self._url, self._addresses, exc) from exc
        self._addresses.leave(self._url)  # who ends it is about to stop, or has too much to do

    def interrupt(self) -> None:
        """From another thread: whoever waits for the next piece gets an end, or an error, at once."""
        self._incoming.interrupt()

    def close(self) -> None:
        self._incoming.close()
