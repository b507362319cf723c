"""The line for programs without an event loop. `awaited.py` has its twin."""

import math
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

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
from openintent.clock import boot_s

RECEIVE_BYTES: Final = 64 << 10


class Connection:
    """One socket. It never blocks: all waiting is done by `poll`, which takes a bound with every call."""

    def __init__(self, sock: socket.socket) -> None:
        self.idle_since = 0.0
        self._socket = sock
        sock.setblocking(False)  # noqa: FBT003
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming = select.poll()
        self._incoming.register(sock, select.POLLIN)

    def quiet(self) -> bool:
        return not self._incoming.poll(0)

    def send(self, message: bytes, until: float) -> None:
        """`NotSent` if not even its beginning left. If only that did, there may be an answer to it all the same."""
        try:
            sent = self._socket.send(message)
        except BlockingIOError:
            sent = 0
        except OSError as exc:
            raise NotSent(_said(exc)) from exc
        if sent < len(message):
            with suppress(OSError):
                self._send_rest(memoryview(message)[sent:], until)

    def _send_rest(self, rest: memoryview, until: float) -> None:
        room = select.poll()
        room.register(self._socket, select.POLLOUT)
        while rest:
            if not room.poll(_left_ms(until)):
                raise NoAnswer("the request could not be sent in time")
            with suppress(BlockingIOError):
                rest = rest[self._socket.send(rest) :]

    def receive(self, until: float) -> bytes:
        """What has come; nothing if the server has ended the connection."""
        while True:
            if not self._incoming.poll(_left_ms(until)):
                raise NoAnswer(LATE)
            try:
                return self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError as exc:
                raise NoAnswer(_said(exc)) from exc

    def interrupt(self) -> None:
        """From another thread: whoever waits for something gets an end at once."""
        with suppress(OSError):  # it has ended by itself
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def _left_ms(until: float) -> float:
    return max(0.0, math.ceil((until - boot_s()) * 1_000))


def _said(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


def connect(origin: Origin, timeout_s: float) -> Connection:
    try:
        if origin.port:
            return Connection(socket.create_connection((origin.host, origin.port), timeout_s))
        return Connection(_connected(origin.host, timeout_s))
    except (OSError, UnicodeError) as exc:  # UnicodeError: a name that no server can have
        raise NotSent(_said(exc)) from exc


def _connected(path: str, timeout_s: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout_s)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


class Incoming:
    """An answer without an end, as it comes in. Its connection is for nothing else any more."""

    def __init__(self, connection: Connection, reading: Reading, first: bytes, silence_s: float) -> None:
        assert reading.head is not None
        self.status = reading.head.status
        self._connection = connection
        self._reading = reading
        self._first = first
        self._silence_s = silence_s

    def pieces(self) -> Iterator[bytes]:
        if self._first:
            yield self._first
        while not self._reading.done:
            data = self._connection.receive(boot_s() + self._silence_s)
            if data:
                piece = self._reading.feed(data)
                if piece:
                    yield piece
            else:
                self._reading.end()

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


class Line(Reused[Connection]):
    """Plain HTTP to any number of servers. Threads may share it."""

    def exchange(self, url: str, asked: Asked) -> Answer:
        origin = self._origin(url)
        connection, until = self._sent(origin, asked)
        gathering = Gathering()
        try:
            while not gathering.feed(connection.receive(until)):
                pass
        except BaseException:
            connection.close()
            raise
        self._done_with(connection, origin, gathering)
        return gathering.answer()

    def listen(self, url: str, asked: Asked) -> Incoming | Answer:
        """The answer as it comes in; a refusal in one piece."""
        origin = self._origin(url)
        connection, until = self._sent(origin, asked)
        try:
            return self._listened(origin, asked, connection, until)
        except BaseException:
            connection.close()
            raise

    def _listened(self, origin: Origin, asked: Asked, connection: Connection, until: float) -> Incoming | Answer:
        reading, first = Reading(), b""
        while reading.head is None:
            data = connection.receive(until)
            first = reading.feed(data) if data else b""
            if not data:
                reading.end()
        if 200 <= reading.head.status < 300:
            return Incoming(connection, reading, first, asked.timeout_s)
        gathering = Gathering(reading, first)
        while not reading.done:
            gathering.feed(connection.receive(until))
        self._done_with(connection, origin, gathering)
        return gathering.answer()

    def _sent(self, origin: Origin, asked: Asked) -> tuple[Connection, float]:
        """On a connection of which nothing is known to be wrong; the last that is tried is a new one."""
        message = request_bytes(origin, asked)
        while True:
            kept = self._idle.take(origin)
            connection = connect(origin, asked.connect_s) if kept is None else kept
            until = boot_s() + asked.timeout_s
            try:
                connection.send(message, until)
            except NotSent:
                connection.close()
                if kept is None:
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                return connection, until

    def _done_with(self, connection: Connection, origin: Origin, gathering: Gathering) -> None:
        if gathering.reading.reusable:
            self._idle.put(origin, connection)
        else:
            connection.close()

    def close(self) -> None:
        self._idle.close()
