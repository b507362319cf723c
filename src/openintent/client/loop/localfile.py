"""HTTP to whoever serves a file, to be awaited. `client/localfile.py` has its twin."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from openintent.client.http.awaited import Incoming, Line
from openintent.client.http.messages import Answer, Asked, NotSent
from openintent.client.joining import Place
from openintent.client.localfile import HOST, LOOK_S, Patience

A = TypeVar("A", Answer, Incoming | Answer)


class AsyncLocalLine:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._line = Line(HOST)

    async def exchange(self, _url: str, asked: Asked) -> Answer:
        return await self._ask(self._line.exchange, asked)

    async def listen(self, _url: str, asked: Asked) -> Incoming | Answer:
        return await self._ask(self._line.listen, asked)

    async def _ask(self, ask: Callable[[str, Asked], Awaitable[A]], asked: Asked) -> A:
        patience = Patience(self._place, asked)
        while True:
            try:
                where = patience.aim()
                answer = await ask(where, asked)
            except NotSent:
                if patience.over:
                    raise
            else:
                if patience.ends_with(answer.status):
                    return answer
                self._line.leave(where)
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        await self._line.close()
