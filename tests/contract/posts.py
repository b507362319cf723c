"""The post between an engine and its server: it keeps requests back, and delivers them when it is told to.

What a request is, and by what it is known, is different on each server.
"""

import asyncio
import re
import struct
from abc import ABC, abstractmethod
from asyncio import StreamReader, StreamWriter
from contextlib import AsyncExitStack, suppress
from typing import ClassVar

from openintent.engines import etcd_keys, zookeeper_pages

PIECE_MAX = 65_536


class Post(ABC):
    """Whoever sent one that is kept is hung up on, so that nobody has to wait until it loses patience."""

    COMMIT: ClassVar[bytes] = b""
    # Where a fold or a part of a large commit is a request that can be told from others.
    FOLDS: ClassVar[tuple[bytes, ...]] = ()
    STAGE: ClassVar[bytes] = b""
    PART_BYTES: ClassVar[int] = 0

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks = AsyncExitStack()
        self.keeps: bytes | None = None  # requests in which this is
        self.kept: list[tuple[bytes, StreamReader, StreamWriter]] = []  # each with its line to the server
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
        """The first that was kept. Whether it was done, where the answer tells."""
        self.keeps = None
        request, reader, writer = self.kept.pop(0)
        return await self._done(request, reader, writer)

    @abstractmethod
    async def _read(self, reader: StreamReader) -> bytes:
        """The next request."""

    @abstractmethod
    async def _done(self, request: bytes, reader: StreamReader, writer: StreamWriter) -> bool: ...

    def _is_kept(self, request: bytes) -> bool:
        return self.keeps is not None and self.keeps in request

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", self._port)
        self._tasks.callback(here.close)
        back = asyncio.create_task(_pass_back(there, writer))
        with suppress(asyncio.IncompleteReadError, OSError):
            while request := await self._read(reader):
                if not self._is_kept(request):
                    self.passed.append(request)
                    here.write(request)
                    continue
                self.kept.append((request, there, here))
                if self.hangs_up:
                    break
        back.cancel()
        writer.close()
        if all(kept is not here for _, _, kept in self.kept):
            here.close()


async def _pass_back(source: StreamReader, sink: StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(PIECE_MAX):
            sink.write(piece)
        sink.close()


class LinePost(Post):
    """Of PostgreSQL and Redis: a commit is sent in one piece, and nothing else is on that line then."""

    async def _read(self, reader: StreamReader) -> bytes:
        return await reader.read(PIECE_MAX)

    async def _done(self, request: bytes, reader: StreamReader, writer: StreamWriter) -> bool:
        writer.write(request)
        writer.write_eof()
        await reader.read()  # it hangs up when it has done what it was asked
        return True


class EtcdPost(Post):
    COMMIT = b'"VALUE","value"'
    FOLDS = (b'"MOD"',)
    STAGE = b'"compare":[],"success":[{"request_put"'
    PART_BYTES = etcd_keys.REQUEST_BYTES

    async def _read(self, reader: StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        return head + (await reader.readexactly(int(length[1])) if length else b"")

    async def _done(self, request: bytes, reader: StreamReader, writer: StreamWriter) -> bool:
        writer.write(request)
        answer = await self._read(reader)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        return b'"succeeded":true' in answer


class ZooKeeperPost(Post):
    """Only transactions are kept. By the nodes that they are about they are known."""

    COMMIT, STAGE = b"/head", b"/staged/"
    FOLDS = (b"/root", b"/pages/")  # the switch to what was folded, and that itself
    PART_BYTES = zookeeper_pages.NODE_BYTES

    GREETING = struct.pack(">iqiqi16s?", 0, 0, 4_000, 0, 16, bytes(16), False)
    GET, SYNC, TRANSACTION = 4, 9, 14  # by ZooKeeper's numbers

    async def _read(self, reader: StreamReader) -> bytes:
        return frame(await read_frame(reader))

    def _is_kept(self, request: bytes) -> bool:
        return super()._is_kept(request) and self.kind_of(request) == self.TRANSACTION

    @staticmethod
    def kind_of(request: bytes) -> int:
        kind: int = struct.unpack_from(">iii", request)[2]
        return kind

    async def _done(self, request: bytes, reader: StreamReader, writer: StreamWriter) -> bool:
        writer.close()  # its session may be over
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(frame(self.GREETING))
        await read_frame(reader)
        writer.write(request)
        answer = await read_frame(reader)
        writer.close()
        # After xid, zxid and error comes the first part of the answer: its type is -1 if it failed.
        return struct.unpack_from(">iqii", answer)[2:] != (0, -1)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def read_frame(reader: StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


POSTS: dict[str, type[Post]] = {
    "postgres": LinePost,
    "redis": LinePost,
    "etcd": EtcdPost,
    "zookeeper": ZooKeeperPost,
}
