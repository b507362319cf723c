"""A TCP proxy between a client and the server that can go deaf, or hold answers back and let them go later."""

import asyncio
from contextlib import suppress


class FaultProxy:
    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._answers_may_pass = asyncio.Event()
        self._answers_may_pass.set()
        self._deaf = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen; returns the address to give to the client."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """From now on nothing passes in either direction, and no connection is closed: a black hole."""
        self._deaf = True

    def hold_answers(self) -> None:
        """Requests reach the server, but its answers stay here."""
        self._answers_may_pass.clear()

    def let_answers_go(self) -> None:
        self._answers_may_pass.set()

    async def stop(self) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        for source, sink, answers in ((reader, server_writer, False), (server_reader, writer, True)):
            task = asyncio.create_task(self._pass_on(source, sink, answers=answers))
            self._tasks.add(task)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(65_536):
                    if answers:
                        await self._answers_may_pass.wait()
                    if not self._deaf:
                        sink.write(data)
        finally:
            sink.close()
