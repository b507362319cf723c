"""The transport for programs with an event loop. `client/transport.py` has its twin, and what both share."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from openintent.client.calls import Call
from openintent.client.http import awaited
from openintent.client.http.messages import Answer, Asked, NoAnswer, NotSent
from openintent.client.loop.localfile import AsyncLocalLine
from openintent.client.replies import Reply, problem
from openintent.client.transport import Addresses, Asking, Identity, Pool, failed
from openintent.clock import boot_s
from openintent.errors import Unavailable

P = TypeVar("P")


class AnyIncoming(Protocol):
    def pieces(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class AnyLine(Protocol):
    async def exchange(self, url: str, asked: Asked, /) -> Answer: ...

    async def listen(self, url: str, asked: Asked, /) -> AnyIncoming | Answer: ...

    async def close(self) -> None: ...


def line_to(addresses: Addresses) -> AnyLine:
    if addresses.file is not None:
        return AsyncLocalLine(addresses.file.place())
    if addresses.plain:
        return awaited.Line()
    from openintent.client.http import library  # noqa: PLC0415  # most programs never need it, and it takes 40 ms

    return library.AsyncLine(encrypted=addresses.encrypted, trust_env=not addresses.local)


class AsyncHttpTransport(Asking):
    def __init__(self, addresses: Addresses, identity: Callable[[], Identity], *, timeout_s: float) -> None:
        super().__init__(addresses, identity, timeout_s=timeout_s)
        self._pool = Pool(lambda: line_to(addresses))

    async def exchange(self, call: Call[Any]) -> Reply:
        return await self._with_any(self._exchange_with, call)

    async def listen(self, call: Call[Any]) -> "AsyncIncoming":
        """Like `exchange`, for an answer without an end. A refusal is raised."""
        return await self._with_any(self._listen_to, call)

    async def _with_any(self, ask: Callable[[str, Call[Any]], Awaitable[P]], call: Call[Any]) -> P:
        failure: Unavailable | None = None
        for url in self._addresses.in_order():
            try:
                return await ask(url, call)
            except Unavailable as exc:
                failure = exc
        assert failure is not None
        raise failure

    async def _exchange_with(self, url: str, call: Call[Any]) -> Reply:
        line, asked = self._pool.get(owner()), self._asked(call)
        sent_at = boot_s()
        try:
            return self._reply(url, await line.exchange(url, asked), sent_at)
        except (NotSent, NoAnswer) as exc:
            raise failed(url, self._addresses, exc) from exc

    async def _listen_to(self, url: str, call: Call[Any]) -> "AsyncIncoming":
        line, asked = self._pool.get(owner()), self._asked(call)
        sent_at = boot_s()
        try:
            answer = await line.listen(url, asked)
        except (NotSent, NoAnswer) as exc:
            raise failed(url, self._addresses, exc) from exc
        if isinstance(answer, Answer):
            raise problem(self._reply(url, answer, sent_at))
        return AsyncIncoming(answer, url, self._addresses)

    async def close(self) -> None:
        line = self._pool.close(owner())
        if line is not None:
            await line.close()
        if self._addresses.file is not None:
            await asyncio.to_thread(self._addresses.file.leave)


class AsyncIncoming:
    """An answer as it comes in; cancelling interrupts it."""

    def __init__(self, incoming: AnyIncoming, url: str, addresses: Addresses) -> None:
        self._incoming = incoming
        self._url = url
        self._addresses = addresses

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._incoming.pieces():
                yield piece
        except (NotSent, NoAnswer) as exc:
            raise failed(self._url, self._addresses, exc) from exc
        self._addresses.leave(self._url)

    async def close(self) -> None:
        await self._incoming.close()


def owner() -> object:
    return os.getpid(), asyncio.get_running_loop()
