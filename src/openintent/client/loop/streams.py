"""Streams of events for programs with an event loop. `client/streams.py` has their twins, and what both share."""

import asyncio
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, Self, TypeVar

from openintent.client.drivers import drawn_s
from openintent.client.flows import Pause
from openintent.client.following import Following, Told
from openintent.client.loop.transport import AsyncHttpTransport
from openintent.client.streams import Buffer
from openintent.clock import boot_s
from openintent.errors import OpenIntentError

T = TypeVar("T")

# The connection is closed behind our back; for one that hangs in that nobody should wait.
CLOSE_S_MAX: Final = 2.0


class _AsyncPump:
    """The task that reads ahead."""

    def __init__(self, following: Following, transport: AsyncHttpTransport) -> None:
        self.buffer = Buffer(following)
        self._transport = transport
        self._task: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()

    async def take(self) -> Told | None:
        if self._task is None and not self.buffer.closed:
            self._task = asyncio.create_task(self._work(), name="openintent-stream")
        while not self.buffer.ready:
            self._arrived.clear()
            await self._arrived.wait()
        self._room.set()
        return self.buffer.take()

    async def close(self) -> None:
        self._stop()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSE_S_MAX)

    def _stop(self) -> None:
        self.buffer.closed = True
        self._arrived.set()
        if self._task is not None:
            self._task.cancel()

    def abandon(self) -> None:
        """From wherever the garbage is collected."""
        if self._task is not None and not self._task.done():
            with suppress(RuntimeError):  # its loop is closed, and the task with it
                self._task.get_loop().call_soon_threadsafe(self._stop)

    async def _work(self) -> None:
        try:
            while True:
                pause = await self._connect()
                await asyncio.sleep(drawn_s(pause))
        except asyncio.CancelledError:
            self.buffer.closed = True
            raise
        except Exception as exc:  # noqa: BLE001  # whoever waits for an event must hear why none will come
            self.buffer.fail(exc)
        finally:
            self._arrived.set()

    async def _connect(self) -> Pause:
        """One connection, from its request to its end; how long to wait for the next."""
        following = self.buffer.following
        try:
            incoming = await self._transport.listen(following.call(now=boot_s()))
            try:
                async for piece in incoming.pieces():
                    await self._put(piece)
            finally:
                await incoming.close()
        except OpenIntentError as exc:
            return following.failed(exc, now=boot_s())
        return following.ended()

    async def _put(self, piece: bytes) -> None:
        self.buffer.put(self.buffer.following.read(piece))
        self._arrived.set()
        while self.buffer.full:
            self._room.clear()
            await self._room.wait()


class AsyncStream(Generic[T]):
    """Events as they happen. It may be closed from any task of its loop; then the iteration ends."""

    def __init__(self, following: Following, transport: AsyncHttpTransport, read: Callable[[Told], T]) -> None:
        self._pump = _AsyncPump(following, transport)
        self._read = read
        weakref.finalize(self, self._pump.abandon)

    @property
    def cursor(self) -> int | None:
        """The place in the log: `after=stream.cursor` goes on from here. None before anything was heard."""
        return self._pump.buffer.cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        told = await self._pump.take()
        if told is None:
            raise StopAsyncIteration
        return self._read(told)

    async def close(self) -> None:
        await self._pump.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
