"""A TCP proxy between a client and the server that does what networks do.

Each direction is a `Way` with faults of its own. They hold for open connections and for new ones, until `heal`.
"""

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

PIECE_MAX = 65_536
ABORT = struct.pack("ii", 1, 0)  # SO_LINGER with no time to linger: the close is a reset


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass
class Way:
    """What happens to bytes in one direction. A fresh one does nothing."""

    delay_s: float = 0.0  # before each piece
    jitter_s: float = 0.0  # and up to so much more
    drip_s: float = 0.0  # byte after byte, so far apart
    drops: bool = False
    cut_after: int | None = None  # so many bytes from now on, of all connections together, then the one is closed
    may_pass: asyncio.Event = field(default_factory=_open_gate)

    def pieces(self, data: bytes) -> list[bytes]:
        return [data[n : n + 1] for n in range(len(data))] if self.drip_s else [data]

    async def carry(self, data: bytes) -> AsyncIterator[bytes]:
        """The bytes that arrive, when they do."""
        for piece in self.pieces(data):
            pause_s = self.drip_s + self.delay_s + random.uniform(0, self.jitter_s)
            if pause_s:
                await asyncio.sleep(pause_s)
            await self.may_pass.wait()
            yield piece

    def cut(self, piece: bytes) -> tuple[bytes, bool]:
        """What of it still passes, and whether that was the end."""
        if self.cut_after is None:
            return piece, False
        passes, self.cut_after = piece[: self.cut_after], self.cut_after - len(piece)
        if self.cut_after > 0:
            return passes, False
        self.cut_after = None
        return passes, True

    def heal(self) -> None:
        self.delay_s = self.jitter_s = self.drip_s = 0.0
        self.drops, self.cut_after = False, None
        self.may_pass.set()


@dataclass(eq=False)
class _Link:
    """One connection: the client's half and the server's."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    has_hole: bool = False  # bytes were dropped: whatever came after them would be nonsense

    def reset(self) -> None:
        for writer in (self.client, self.server):
            if not writer.is_closing():
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
                writer.transport.abort()

    def close(self) -> None:
        """As soon as all is sent: with somebody who does not read, that is never."""
        self.client.close()
        self.server.close()

    @property
    def has_unsent(self) -> bool:
        return any(writer.transport.get_write_buffer_size() for writer in (self.client, self.server))

    def abort(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


class FaultProxy:
    def __init__(self, server_port: int) -> None:
        self.requests = Way()
        self.answers = Way()
        self._server_port = server_port
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._ended: set[_Link] = set()  # those that had something left to say
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen; returns the address to give to the client."""
        self._listener = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    # Faults

    def cut(self) -> None:
        """From now on nothing passes in either direction, and no connection is closed: a black hole."""
        self.requests.drops = self.answers.drops = True

    def hold_answers(self) -> None:
        """Requests reach the server, but its answers stay here."""
        self.answers.may_pass.clear()

    def let_answers_go(self) -> None:
        self.answers.may_pass.set()

    def reset(self) -> None:
        """Every open connection ends at once, and both its ends are told so by a reset."""
        for link in self._links:
            link.reset()

    def lead_to(self, server_port: int) -> None:
        """The address is that of another server from now on."""
        self._server_port = server_port
        self.reset()

    def heal(self) -> None:
        """All is well again. What was held back arrives now; a connection that lost bytes is reset, as it must be."""
        for link in self._links:
            if link.has_hole:
                link.reset()
        self.requests.heal()
        self.answers.heal()

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in self._ended:
            link.abort()

    # Passing on

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:  # it is down just now
            writer.close()
            return
        link = _Link(writer, server_writer)
        self._links.add(link)
        for source, sink, way in ((reader, server_writer, self.requests), (server_reader, writer, self.answers)):
            task = asyncio.create_task(self._pass_on(link, source, sink, way))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, link: _Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way) -> None:
        try:
            with suppress(OSError, RuntimeError):  # RuntimeError: what uvloop says of a transport that was aborted
                while data := await source.read(PIECE_MAX):
                    async for piece in way.carry(data):
                        if way.drops:
                            link.has_hole = True
                            continue
                        passes, ends = way.cut(piece)
                        sink.write(passes)
                        if ends:
                            return
                await way.may_pass.wait()  # the end of a connection is held back like its bytes
        finally:
            link.close()
            self._links.discard(link)
            if link.has_unsent:
                self._ended.add(link)
