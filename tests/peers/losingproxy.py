"""A TCP proxy that can lose one answer: the request has been carried out, and its sender will never know."""

import asyncio
from contextlib import suppress


class LosingProxy:
    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._lose = False
        self.lost = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listen; returns the port to give to the client."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._listener.sockets[0].getsockname()[1])

    def lose_next_answer(self) -> None:
        self._lose = True

    async def aclose(self) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        ways = [self._requests(reader, server_writer), self._answers(server_reader, writer)]
        self._tasks.update(map(asyncio.create_task, ways))

    async def _requests(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(65_536):
                    sink.write(data)
        finally:
            sink.transport.abort()

    async def _answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while (data := await source.read(65_536)) and not self._loses():
                    sink.write(data)
        finally:
            sink.transport.abort()

    def _loses(self) -> bool:
        lose, self._lose = self._lose, False
        self.lost += lose
        return lose
