"""The line for programs with an event loop. `sync.py` has its twin."""

import asyncio
import select
import socket
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Protocol, cast

from openintent.client.http.idle import Reused
from openintent.client.http.messages import (
    LATE,
    Answer,
    Asked,
    Gathering,
    NoAnswer,
    NotSent,
    Origin,
    Reading,
    request_bytes,
)

# What is read ahead of whoever listens; the rest waits with the server.
AHEAD_BYTES_MAX: Final = 256 << 10


class Taker(Protocol):
    """What a connection gives its bytes to. No bytes mean that there will be no more."""

    def take(self, data: bytes) -> None: ...

    def fail(self, failure: NoAnswer) -> None: ...


class Connection(asyncio.Protocol):
    """One socket, and whoever takes what comes from it."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.taker: Taker | None = None
        self._lost = False
        self._transport: asyncio.Transport | None = None
        self._incoming = select.poll()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._incoming.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self.taker is None:
            self.close()  # nobody asked for it
        else:
            self._give(self.taker, data)

    def eof_received(self) -> None:
        self._lost = True
        if self.taker is not None:
            self._give(self.taker, b"")

    def _give(self, taker: Taker, data: bytes) -> None:
        try:
            taker.take(data)
        except NoAnswer as exc:
            taker.fail(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self.taker is not None:
            self.taker.fail(NoAnswer("the connection was lost" if exc is None else str(exc) or type(exc).__name__))

    def quiet(self) -> bool:
        # The loop may not have come to look at it since.
        return not self._lost and not self._incoming.poll(0)

    def send(self, message: bytes, taker: Taker) -> None:
        assert self._transport is not None
        if self._lost:
            raise NotSent("the server hung up before it was asked anything")
        self.taker = taker
        self._transport.write(message)

    def hold_back(self, *, held: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.pause_reading if held else self._transport.resume_reading)()

    def close(self) -> None:
        """At once, whatever is still to be sent."""
        self._lost, self.taker = True, None
        if self._transport is not None:
            self._transport.abort()


async def connect(origin: Origin, timeout_s: float) -> Connection:
    loop, failure = asyncio.get_running_loop(), "it has no address"
    try:
        if not origin.port:
            async with asyncio.timeout(timeout_s):
                return (await loop.create_unix_connection(Connection, origin.host))[1]
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:  # UnicodeError: a name that no server can have
        raise NotSent(_said(exc)) from exc
    for family, *_, address in found:
        try:
            async with asyncio.timeout(timeout_s):
                return (await loop.create_connection(Connection, *address[:2], family=family))[1]
        except OSError as exc:
            failure = _said(exc)
    raise NotSent(failure)


def _said(exc: Exception) -> str:
    return str(exc) or ("it could not be reached in time" if isinstance(exc, TimeoutError) else type(exc).__name__)


class _Whole:
    """Waits for an answer in one piece."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.gathering = Gathering()
        self.answer: asyncio.Future[Answer] = loop.create_future()

    def take(self, data: bytes) -> None:
        if self.gathering.feed(data) and not self.answer.done():
            self.answer.set_result(self.gathering.answer())

    def fail(self, failure: NoAnswer) -> None:
        if not self.answer.done():
            self.answer.set_exception(failure)

    def expire(self) -> None:
        self.fail(NoAnswer(LATE))


class Incoming:
    """An answer without an end, as it comes in. Its connection is for nothing else any more."""

    status = 0  # until there is an answer

    def __init__(self, connection: Connection, silence_s: float) -> None:
        self.reading = Reading()
        self._connection = connection
        self._silence_s = silence_s
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._failure: NoAnswer | None = None
        self._arrived = asyncio.Event()

    # From the connection

    def take(self, data: bytes) -> None:
        piece = self.reading.feed(data) if data else b""
        if not data:
            self.reading.end()
        if piece:
            self._pieces.append(piece)
            self._bytes += len(piece)
        if self._bytes > AHEAD_BYTES_MAX:
            self._connection.hold_back(held=True)
        self._arrived.set()

    def fail(self, failure: NoAnswer) -> None:
        if not self.reading.done:
            self._failure = failure
            self._arrived.set()

    # For whoever listens

    async def begun(self) -> None:
        """Wait for the head of the answer."""
        while self.reading.head is None:
            await self._more()
        self.status = self.reading.head.status

    async def whole(self) -> Answer:
        """All of it in one piece."""
        gathering = Gathering(self.reading)
        async for piece in self.pieces():
            gathering.add(piece)
        return gathering.answer()

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._bytes -= len(piece)
                yield piece
            if self.reading.done:
                return
            self._connection.hold_back(held=False)
            await self._more()

    async def _more(self) -> None:
        self._arrived.clear()
        if self._failure is None:
            try:
                async with asyncio.timeout(self._silence_s):
                    await self._arrived.wait()
            except TimeoutError as exc:
                raise NoAnswer(LATE) from exc
        if self._failure is not None and not self._pieces:
            raise self._failure

    async def close(self) -> None:
        self._connection.close()


class Line(Reused[Connection]):
    """Plain HTTP to any number of servers, for the tasks of one event loop."""

    async def exchange(self, url: str, asked: Asked) -> Answer:
        origin = self._origin(url)
        message = request_bytes(origin, asked)
        connection = self._idle.take(origin) or await connect(origin, asked.connect_s)
        loop = asyncio.get_running_loop()
        whole = _Whole(loop)
        timer = loop.call_later(asked.timeout_s, whole.expire)
        try:
            connection.send(message, whole)
            answer = await whole.answer
        except BaseException:  # a cancellation, too: what is still to come would be taken for the next answer
            connection.close()
            raise
        finally:
            timer.cancel()
        connection.taker = None
        if whole.gathering.reading.reusable:
            self._idle.put(origin, connection)
        else:
            connection.close()
        return answer

    async def listen(self, url: str, asked: Asked) -> Incoming | Answer:
        """The answer as it comes in; a refusal in one piece."""
        origin = self._origin(url)
        message = request_bytes(origin, asked)
        connection = self._idle.take(origin) or await connect(origin, asked.connect_s)
        incoming = Incoming(connection, asked.timeout_s)
        try:
            connection.send(message, incoming)
            async with asyncio.timeout(asked.timeout_s):
                await incoming.begun()
                if 200 <= incoming.status < 300:
                    return incoming
                answer = await incoming.whole()
        except TimeoutError as exc:
            connection.close()
            raise NoAnswer(LATE) from exc
        except BaseException:
            connection.close()
            raise
        connection.close()
        return answer

    async def close(self) -> None:
        self._idle.close()
        await asyncio.sleep(0)  # the loop closes the sockets when it comes to it
