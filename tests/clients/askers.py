"""The lines that carry requests, plain and over the library, sync and async: one test can be for all of them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openintent.client.http import awaited, library, sync
from openintent.client.http.messages import Asked
from openintent.client.transport import Identity

WHO = Identity("a1", None)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINES = {
    "plain sync": sync.Line,
    "plain async": awaited.Line,
    "library sync": lambda: library.Line(encrypted=False, trust_env=False),
    "library async": lambda: library.AsyncLine(encrypted=False, trust_env=False),
}


@dataclass
class Asker:
    """Either kind of line, to be awaited."""

    line: Any

    async def __call__(self, url: str, *, timeout_s: float = 5.0, connect_s: float = 5.0, body: bytes = b"{}") -> Any:
        asked = Asked("POST", "/x", WHO, {}, body, timeout_s, connect_s)
        return await self._asked(self.line.exchange, url, asked)

    async def listen(self, url: str, *, silence_s: float = 5.0) -> Any:
        return await self._asked(self.line.listen, url, Asked("GET", "/x", WHO, {}, None, silence_s, 5.0))

    async def _asked(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if asyncio.iscoroutinefunction(method):
            return await method(*arguments)
        return await asyncio.to_thread(method, *arguments)

    async def pieces(self, incoming: Any) -> list[bytes]:
        if hasattr(incoming, "interrupt"):
            return await asyncio.to_thread(list, incoming.pieces())
        return [piece async for piece in incoming.pieces()]

    async def close(self, it: Any) -> None:
        closed = it.close()
        if closed is not None:
            await closed
