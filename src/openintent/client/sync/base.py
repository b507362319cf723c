"""What all the methods stand on."""

from collections.abc import Iterator
from typing import TypeVar

from openintent.client import drivers, flows
from openintent.client.calls import Call
from openintent.client.flows import Flow, PageOf
from openintent.client.front import Front
from openintent.client.transport import HttpTransport

T = TypeVar("T")


class Base(Front):
    _transport: HttpTransport

    def _run(self, flow: Flow[T]) -> T:
        return drivers.run(flow, self._transport)

    def _ask(self, call: Call[T]) -> T:
        return self._run(flows.patiently(call, patience_s=self._holder.timeout_s))

    def _remove(self, call: Call[None]) -> None:
        return self._run(flows.remove(call, patience_s=self._holder.timeout_s))

    def _all(self, page_of: PageOf[T]) -> list[T]:
        return self._run(flows.every(page_of, patience_s=self._holder.timeout_s))

    def _walk(self, page_of: PageOf[T]) -> Iterator[T]:
        """Page after page, each asked for when the one before it is used up."""
        after: str | None = None
        while True:
            page = self._ask(page_of(after))
            yield from page.items
            after = page.next
            if after is None:
                return
