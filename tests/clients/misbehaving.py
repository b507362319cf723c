"""Servers on bare sockets that do what a test says, one connection after the other."""

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def ok(body: bytes = b"{}", *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


class Peer:
    """One connection, seen from the server."""

    def __init__(self, connection: socket.socket, server: "Server") -> None:
        self._connection = connection
        self._server = server

    def request(self) -> bytes:
        """The next request, in full; nothing when there is none."""
        read = b""
        while b"\r\n\r\n" not in read or len(read) < _wanted(read):
            piece = self._connection.recv(65_536)
            if not piece:
                return b""
            read += piece
        self._server.requests.append(read)
        return read

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def send_slowly(self, data: bytes, every_s: float) -> None:
        """Byte for byte, until nobody wants it any more."""
        for at in range(len(data)):
            self._connection.sendall(data[at : at + 1])
            if self._server.ended.wait(every_s):
                return

    def receive(self, size: int) -> bytes:
        return self._connection.recv(size)

    def reset(self) -> None:
        """Hang up so that the other side hears of a broken connection."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()


def _wanted(read: bytes) -> int:
    head, _, _ = read.partition(b"\r\n\r\n")
    found = LENGTH.search(head)
    return len(head) + 4 + (int(found[1]) if found else 0)


class Server:
    def __init__(self, listener: socket.socket, behave: Callable[[Peer], None]) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.connections = 0
        self.requests: list[bytes] = []
        self.hung_up = threading.Semaphore(0)  # released when a connection is over
        self.ended = threading.Event()
        self._listener = listener
        self._behave = behave
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed: the test is over
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._behave(Peer(connection, self))
        self.hung_up.release()

    def close(self) -> None:
        self.ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else `accept` holds it open
        self._listener.close()


@contextmanager
def serving(behave: Callable[[Peer], None], *, port: int = 0) -> Iterator[Server]:
    server = Server(socket.create_server(("127.0.0.1", port)), behave)
    try:
        yield server
    finally:
        server.close()


def answering(*answers: bytes) -> Callable[[Peer], None]:
    """On each connection these answers, the last one again and again."""

    def behave(peer: Peer) -> None:
        left = list(answers)
        while peer.request():
            peer.send(left.pop(0) if len(left) > 1 else left[0])

    return behave
