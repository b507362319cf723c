"""What all the methods stand on."""

from collections.abc import AsyncIterator
from typing import TypeVar

from openintent.client import drivers, flows
from openintent.client.calls import Call
from openintent.client.flows import Flow, PageOf
from openintent.client.front import Front
from openintent.client.loop.transport import AsyncHttpTransport

T = TypeVar("T")


class Base(Front):
    _transport: AsyncHttpTransport

    async def _run(self, flow: Flow[T]) -> T:
        return await drivers.run_async(flow, self._transport)

    async def _ask(self, call: Call[T]) -> T:
        return await self._run(flows.patiently(call, patience_s=self._holder.timeout_s))

    async def _remove(self, call: Call[None]) -> None:
        return await self._run(flows.remove(call, patience_s=self._holder.timeout_s))

    async def _all(self, page_of: PageOf[T]) -> list[T]:
        return await self._run(flows.every(page_of, patience_s=self._holder.timeout_s))

    async def _walk(self, page_of: PageOf[T]) -> AsyncIterator[T]:
        """Page after page, each asked for when the one before it is used up."""
        after: str | None = None
        while True:
            page = await self._ask(page_of(after))
            for item in page.items:
                yield item
            after = page.next
            if after is None:
                return
