"""Links between the members of an etcd cluster, so that one of them can be cut off from the others.

A member dials the others at the addresses that they advertise. Behind each of these is a listener of ours. What members
say to each other is HTTP, and its head tells who says it: so any two have a link for themselves. All of it runs in a
thread, because a cluster outlives the event loop of a test.
"""

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from faultproxy import FaultProxy

FROM = re.compile(rb"\r\nx-server-from: *([0-9a-f]+)\r\n", re.IGNORECASE)
CALL_S_MAX = 10.0


class PeerLinks:
    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports  # that the members listen on
        self.addresses: list[int] = []  # the ports that they are to advertise
        self._links: dict[tuple[bytes, int], FaultProxy] = {}  # from whom, by its id, to whom, by its number
        self._lost: tuple[bytes, int] | None = None
        self._listeners: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def cut_off(self, number: int, member_id: int) -> None:
        """From all others, in both directions. No connection is closed."""
        self._call(self._cut_off(b"%x" % member_id, number))

    def heal(self) -> None:
        self._call(self._heal())

    def start(self) -> None:
        self._thread.start()
        self._call(self._listen())

    def stop(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S_MAX)
        self._loop.close()

    # In the thread

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S_MAX)

    async def _listen(self) -> None:
        for number in range(len(self._ports)):
            listener = await asyncio.start_server(partial(self._accept, number), "127.0.0.1", 0)
            self._listeners.append(listener)
            self.addresses.append(listener.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for link in self._links.values():
            await link.stop()

    async def _cut_off(self, member: bytes, number: int) -> None:
        self._lost = (member, number)
        for pair, link in self._links.items():
            if member == pair[0] or number == pair[1]:
                link.cut()

    async def _heal(self) -> None:
        self._lost = None
        for link in self._links.values():
            link.heal()

    async def _accept(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, EOFError):
            writer.close()
            return
        reader._buffer[:0] = head  # only looked at
        told = FROM.search(head)
        await self._link(told[1].lower() if told else b"", number).serve(reader, writer)

    def _link(self, member: bytes, number: int) -> FaultProxy:
        link = self._links.get((member, number))
        if link is None:
            link = self._links[member, number] = FaultProxy(self._ports[number])
            if self._lost is not None and (member == self._lost[0] or number == self._lost[1]):
                link.cut()
        return link


@contextmanager
def peer_links(ports: Sequence[int]) -> Iterator[PeerLinks]:
    links = PeerLinks(ports)
    links.start()
    try:
        yield links
    finally:
        links.stop()
