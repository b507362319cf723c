"""Readers of server-sent events over plain sockets, who come back whenever they lose the connection."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import msgspec
from rawhttp import API

_decode = msgspec.json.Decoder().decode

AGAIN_S = 0.02  # a reader that was cut off comes back so soon


class Told(NamedTuple):
    """A message that says something."""

    id: int | None
    event: str
    data: Any


class Refused(Exception):
    """The answer was not a stream."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The body of an answer in chunks; ends only where the server ended it."""
    while size := int(await reader.readline() or b"x", 16):
        yield (await reader.readexactly(size + 2))[:-2]


class EventReader:
    """One reader of one stream. All that it is told is kept, over all its connections."""

    def __init__(self, port: int, path: str, *, after: int | None = None, hear: Callable[[Told], None] | None = None):
        self._port = port
        self._path = path
        self._after = after
        self._hear = hear
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.start: int | None = after  # the place from which it was told everything
        self.cursor: int | None = None
        self.told: list[Told] = []
        self.connections = 0
        self.closed: list[str] = []  # the reasons that it was given
        self.moved = asyncio.Event()  # something was told, or the connection has come or gone

    @property
    def numbers(self) -> list[int]:
        return [each.id for each in self.told if each.id is not None]

    async def stay(self) -> None:
        """Read, and come back, until cancelled."""
        while True:
            try:
                await self.connect()
                await self.read()
            except (OSError, EOFError, ValueError):
                pass  # cut off, in the middle of a message or not
            except Refused as refused:
                if refused.status not in (429, 503):  # nothing happened: try again
                    raise
            finally:
                self.hang_up()
            await asyncio.sleep(AGAIN_S)

    async def connect(self) -> None:
        self.hang_up()
        query = "" if self._after is None or self.cursor is not None else f"?after={self._after}"
        resume = "" if self.cursor is None else f"last-event-id: {self.cursor}\r\n"
        reader, writer = self._streams = await self._open()
        writer.write(f"GET {API}{self._path}{query} HTTP/1.1\r\nhost: 127.0.0.1\r\n{resume}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        status = int(head.split(" ", 2)[1])
        if status != 200:
            length = int(head.partition("content-length: ")[2].split("\r\n")[0])
            raise Refused(status, _decode(await reader.readexactly(length)))
        self.connections += 1
        self.moved.set()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def read(self) -> None:
        """Until the server ends the stream, or the connection breaks."""
        assert self._streams is not None
        rest = b""
        async for chunk in chunks(self._streams[0]):
            *blocks, rest = (rest + chunk).split(b"\n\n")
            for block in blocks:
                self._take(block.decode())

    def _take(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        number = int(fields["id"]) if "id" in fields else None
        if number is not None:
            assert self.cursor is None or number >= self.cursor, "the cursor went back"
            self.cursor = number
            self.start = number if self.start is None else self.start
        if "data" in fields:
            self._told(Told(number, fields["event"], _decode(fields["data"])))
        self.moved.set()

    def _told(self, told: Told) -> None:
        if told.event == "closed":
            assert told.data["cursor"] == told.id
            self.closed.append(told.data["reason"])
        elif not told.data.get("replayed"):
            self.told.append(told)
            if self._hear is not None:
                self._hear(told)

    def hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
        self.moved.set()

    async def until(self, is_so: Callable[[], bool], within_s: float = 30.0) -> None:
        async with asyncio.timeout(within_s):
            while not is_so():
                self.moved.clear()
                await self.moved.wait()


class Deaf(EventReader):
    """Has so little room that whoever tells it much must wait until it reads."""

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        small.connect(("127.0.0.1", self._port))
        small.setblocking(False)
        return await asyncio.open_connection(sock=small, limit=4_096)
