"""A connection to ZooKeeper, of a library that has threads of its own.

What they do ends in the event loop, and nothing there waits for them. Sessions, ephemeral nodes and watches are not
used. A connection that breaks is not repaired but opened anew: then it is clear what was sent over it.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SystemZookeeperError,
    ZookeeperError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from openintent.engines.base import OutcomeUncertain
from openintent.engines.zookeeper_place import Place
from openintent.errors import EngineError, EngineUnavailable

# What it warns of is told by the errors that it leads to.
quiet = logging.getLogger("openintent.engines.kazoo")
quiet.setLevel(logging.CRITICAL)

# After these nobody can tell whether it was done.
DOUBTFUL: Final = (
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
    SystemZookeeperError,
)
# Of a transaction that fails, what the parts say that are not to blame.
BYSTANDERS: Final = (RolledBackError, RuntimeInconsistency)
DENIED: Final = "lets us not in: wrong user or password in ?auth=, or the nodes belong to another user"

# The name of a part of a transaction, and what it is about.
Operation = tuple[Any, ...]


class Node(NamedTuple):
    value: bytes
    version: int
    children: int


class Refused(EngineUnavailable):
    """A transaction of which nothing was done: this part could not be."""

    def __init__(self, operation: Operation, error: Exception) -> None:
        super().__init__(f"{operation[0]} {operation[1]}: {type(error).__name__}")
        self.path: str = operation[1]
        self.moved = isinstance(error, BadVersionError)
        self.absent = isinstance(error, NoNodeError)
        self.exists = isinstance(error, NodeExistsError)


class Threads(SequentialThreadingHandler):  # type: ignore[misc]  # the library has no types
    """Those of one connection: they can be ended from outside, and say why they ended."""

    def __init__(self, *, connect_s: float, ended: Callable[[], None]) -> None:
        super().__init__()
        self._connect_s = connect_s
        self._ended = ended
        self._socket: socket.socket | None = None
        self._last = threading.Event()  # there is no other connection after this
        self.told = "no host has an address"

    def create_connection(self, *words: Any, **named: Any) -> Any:
        try:
            if self._last.is_set():
                raise ConnectionAbortedError("hung up")
            self._socket = super().create_connection(*words, **named | {"timeout": self._connect_s})
        except OSError as error:
            self.told = _one_line(error)
            raise
        self.told = "it hung up on us; a member without a majority, or one that only reads, does"
        return self._socket

    def spawn(self, func: Callable[..., None], *words: Any, **named: Any) -> Any:
        def whole() -> None:
            try:
                func(*words, **named)
            finally:
                self._ended()

        return super().spawn(whole)

    def stay(self) -> None:
        self._last.set()

    def hang_up(self) -> None:
        self._last.set()
        with suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


class Call:
    """One connection, from its beginning to its end."""

    def __init__(self, place: Place, timeout_s: float) -> None:
        self._place = place
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._in_doubt = False
        # Time to reach each host, and for the answer of the last.
        connect_s = place.timeout_s / (1 + len(place.hosts))
        self._threads = Threads(connect_s=connect_s, ended=lambda: self._later(self._end_opening))
        self._client = _client(place, self._threads)
        self._client.add_listener(self._heard)

    @property
    def usable(self) -> bool:
        return not self._in_doubt and bool(self._client.connected)

    async def open(self) -> None:
        began_s = monotonic()
        self._client.start_async()
        try:
            async with asyncio.timeout(self._place.timeout_s):
                await self._opened
        except (TimeoutError, ConnectionError) as error:
            late = monotonic() - began_s >= self._place.timeout_s  # then the library gave up for the same reason
            told = f"no answer within {self._place.timeout_s:g} s" if late or not str(error) else _one_line(error)
            raise EngineUnavailable(f"{self._place.name} cannot be reached: {told}") from error

    async def close(self) -> None:
        """Whatever is on its way ends at once."""
        self._threads.hang_up()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._client.stop()
        self._client.close()

    # Requests

    async def get(self, *paths: str, sync: bool = True) -> list[Node | None]:
        """What the nodes hold. With `sync` it is no older than what was committed when we asked."""
        answers = await self._ask([_get(path) for path in paths], sync=sync)
        return [answer and Node(answer[0], answer[1].version, answer[1].numChildren) for answer in answers]

    async def children(self, path: str) -> list[str]:
        (found,) = await self._ask([lambda client: client.get_children_async(path)], sync=True)
        return found or []

    async def commit(self, operations: Iterable[Operation]) -> list[Any]:
        """All of it, or nothing and `Refused`."""
        parts = list(operations)

        def send(client: KazooClient) -> Any:
            transaction = client.transaction()
            for kind, *rest in parts:
                getattr(transaction, kind)(*rest)
            return transaction.commit_async()

        (answers,) = await self._ask([send], sync=False, writes=True)
        for operation, answer in zip(parts, answers, strict=True):
            if isinstance(answer, NoAuthError):
                raise self._failure(answer)
            if isinstance(answer, Exception) and not isinstance(answer, BYSTANDERS):
                raise Refused(operation, answer)
        return list(answers)

    async def _ask(
        self, send: Sequence[Callable[[KazooClient], Any]], *, sync: bool, writes: bool = False
    ) -> list[Any]:
        """The answers, in order. All is on its way before the first answer; what is not there is None."""
        first = [lambda client: client.sync_async(self._place.path)] if sync else []
        waiting = [self._answer(each(self._client)) for each in (*first, *send)]
        try:
            async with asyncio.timeout(self._timeout_s):
                answers = await asyncio.gather(*waiting, return_exceptions=True)
        except TimeoutError as error:
            raise self._doubt(f"gave no answer within {self._timeout_s:g} s", writes=writes) from error
        for answer in answers:
            if isinstance(answer, DOUBTFUL):
                raise self._doubt(f"gave no answer: {type(answer).__name__}", writes=writes) from answer
            if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
                raise self._failure(answer) from answer
        return [None if isinstance(answer, NoNodeError) else answer for answer in answers[len(first) :]]

    def _doubt(self, told: str, *, writes: bool) -> EngineError:
        self._in_doubt = True
        self._threads.hang_up()
        return (OutcomeUncertain if writes else EngineUnavailable)(f"{self._place.name} {told}")

    def _failure(self, error: BaseException) -> EngineError:
        if isinstance(error, NoAuthError | AuthFailedError):
            return EngineUnavailable(f"{self._place.name} {DENIED}")
        told = type(error).__name__ if isinstance(error, ZookeeperError) else _one_line(error)
        return EngineUnavailable(f"{self._place.name} refused: {told}")

    # From the threads of the library

    def _answer(self, result: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        result.rawlink(lambda done: self._later(_settle, future, done))
        return future

    def _later(self, what: Callable[..., None], *words: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it whoever would want to know
            self._loop.call_soon_threadsafe(what, *words)

    def _heard(self, _state: str) -> None:
        if self._client.connected:
            self._threads.stay()
            self._later(self._end_waiting)

    def _end_waiting(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    def _end_opening(self) -> None:
        if not self._opened.done():
            self._opened.set_exception(ConnectionError(self._threads.told))
            self._opened.exception()  # nobody may be waiting for it any more


class Line:
    """Connections, one after the other: opened when one is needed, and given up when there is a doubt about it."""

    def __init__(self, place: Place, admit: Callable[[Call], Awaitable[None]], *, timeout_s: float) -> None:
        self._place = place
        self._admit = admit
        self._timeout_s = timeout_s
        self._call: Call | None = None
        self._closed = False
        self._turn = asyncio.Lock()

    async def call(self) -> Call:
        """Of use for one question: then ask for it again."""
        async with self._turn:
            if self._closed:
                raise EngineUnavailable(f"{self._place.name} is closed")
            if self._call is None or not self._call.usable:
                await self._hang_up()
                await self._open()
            assert self._call is not None
            return self._call

    async def drop(self) -> None:
        async with self._turn:
            await self._hang_up()

    async def close(self) -> None:
        self._closed = True
        await self.drop()

    async def _open(self) -> None:
        self._call = Call(self._place, self._timeout_s)
        try:
            await self._call.open()
            await self._admit(self._call)
        except OutcomeUncertain as error:
            await self._hang_up()
            raise EngineUnavailable(str(error)) from error  # of what was asked for, nothing was sent
        except BaseException:
            await self._hang_up()
            raise

    async def _hang_up(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            await call.close()


def _client(place: Place, threads: Threads) -> Any:
    tls = place.tls or {}
    return KazooClient(
        ",".join(place.hosts),
        # The library gives each host its share of this for the answer to the greeting.
        timeout=place.timeout_s * len(place.hosts),
        handler=threads,
        connection_retry=KazooRetry(max_tries=1),
        auth_data=[place.auth] if place.auth else None,
        default_acl=CREATOR_ALL_ACL if place.auth else None,
        logger=quiet,
        use_ssl=place.tls is not None,
        check_hostname=place.tls is not None,
        ca=tls.get("ca"),
        certfile=tls.get("cert"),
        keyfile=tls.get("key"),
    )


def _get(path: str) -> Callable[[KazooClient], Any]:
    return lambda client: client.get_async(path)


def _settle(future: asyncio.Future[Any], done: Any) -> None:
    if future.done():
        return
    if done.exception is None:
        future.set_result(done.value)
    else:
        future.set_exception(done.exception)


def _one_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
