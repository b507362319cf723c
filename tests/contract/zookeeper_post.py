"""Stands between an engine and ZooKeeper, and knows where one request ends and the next begins."""

import asyncio
import struct
from contextlib import AsyncExitStack, suppress

GREETING = struct.pack(">iqiqi16s?", 0, 0, 4_000, 0, 16, bytes(16), False)
GET, SYNC, TRANSACTION = 4, 9, 14  # by ZooKeeper's numbers
# By the nodes that they are about the transactions are known.
COMMIT, FOLD, SWITCH, STAGE = b"/head", b"/pages/", b"/root", b"/staged/"


class Post:
    """Keeps transactions back, and delivers them when it is told to.

    Whoever sent one that is kept is hung up on, so that nobody has to wait until it loses patience.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks = AsyncExitStack()
        self.keeps: bytes | None = None  # transactions in which this is
        self.kept: list[bytes] = []
        self.passed: list[bytes] = []
        self.hangs_up = True

    async def start(self) -> int:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._tasks.callback(listener.close)
        port: int = listener.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        await self._tasks.aclose()

    async def deliver(self) -> bool:
        """The first that was kept. Whether it was done."""
        self.keeps = None
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(frame(GREETING))
        await read_frame(reader)
        writer.write(frame(self.kept.pop(0)))
        answer = await read_frame(reader)
        writer.close()
        # After xid, zxid and error comes the first part of the answer: its type is -1 if it failed.
        return struct.unpack_from(">iqii", answer)[2:] != (0, -1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.create_task(_pass_back(there, writer))
        with suppress(asyncio.IncompleteReadError, OSError):
            here.write(frame(await read_frame(reader)))
            while True:
                request = await read_frame(reader)
                kind = struct.unpack_from(">ii", request)[1]
                if self.keeps is None or kind != TRANSACTION or self.keeps not in request:
                    self.passed.append(request)
                    here.write(frame(request))
                    continue
                self.kept.append(request)
                if self.hangs_up:
                    break
        back.cancel()
        for each in (here, writer):
            each.close()


async def _pass_back(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(65_536):
            sink.write(piece)
        sink.close()


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)
