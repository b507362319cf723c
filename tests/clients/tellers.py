"""A server that tells a log as server-sent events, badly if it is asked to; and readers of both kinds for it."""

import asyncio
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

DAY = "2026-11-15T12:00:00.000000"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

Telling = Callable[["Teller", "Connection"], None]


def message(seq: int, name: str = "comment") -> bytes:
    event = {"id": str(seq), "seq": seq, "event_type": name, "actor": "a", "created_at": DAY, "payload": {"é": seq}}
    return f"id: {seq}\nevent: {name}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


class Teller(socketserver.ThreadingTCPServer):
    """Answers each request as `telling` says, which may change at any time."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, telling: Telling, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Connection)
        self.telling = telling
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[str | None] = []  # the places from which readers wanted to go on
        self.came = threading.Event()  # a reader is there
        self.told = threading.Event()  # it was told everything
        self.gone = threading.Event()  # it has left

    @property
    def count(self) -> int:
        return len(self.asked)


class Connection(socketserver.StreamRequestHandler):
    server: Teller

    def handle(self) -> None:
        self.path = self.rfile.readline().split()[1].decode()
        headers = dict(iter(self._header, None))
        self.after = headers.get("last-event-id")
        self.server.asked.append(self.after)
        self.server.came.set()
        with suppress(OSError):
            self.server.telling(self.server, self)

    def _header(self) -> tuple[str, str] | None:
        name, colon, value = self.rfile.readline().decode().strip().partition(": ")
        return (name.lower(), value) if colon else None

    def begin(self) -> None:
        self.wfile.write(HEAD)
        self.tell(b"retry: 20\n: connected\n\n")

    def tell(self, raw: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))

    def finish_well(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def refuse(self, status: int, code: str, **more: object) -> None:
        body = json.dumps({"error": {"code": code, "message": code}, "message": code, **more}).encode()
        self.wfile.write(b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))

    def wait_gone(self) -> None:
        """Until the reader has left."""
        while self.rfile.read(1):
            pass
        self.server.gone.set()


@contextmanager
def telling(how: Telling, port: int = 0) -> Iterator[Teller]:
    with Teller(how, port) as teller:
        threading.Thread(target=teller.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield teller
        finally:
            teller.shutdown()


async def take(stream, count: int) -> list:
    """So many events, from a stream of either kind."""
    return [await heard(stream) for _ in range(count)]


async def heard(stream):
    """The next event, or None at the end."""
    if hasattr(stream, "__anext__"):
        return await anext(stream, None)
    return await asyncio.to_thread(next, stream, None)


async def shut(stream) -> None:
    found = stream.close()
    if found is not None:
        await found
