"""An engine that remembers nothing: for tests, for trying things out, and as the plain model of all the others."""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Sequence

from openintent.engines.base import Change, Delete, Deposed, Guarantees, Head, Put, Record


class MemoryEngine:
    """Python orders strings by code point, which is the order of their UTF-8 bytes."""

    guarantees = Guarantees(durable=False, survives_node_loss=False, exclusive_open=True)
    notice: str | None = None

    def __init__(self) -> None:
        self._head = Head()
        self._keys: list[str] = []
        self._values: dict[str, bytes] = {}
        self._moved = asyncio.Event()

    async def head(self) -> Head:
        return self._head

    async def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        actual = self._head
        if (expect.term, expect.beat, expect.rev) != (actual.term, actual.beat, actual.rev):
            raise Deposed(actual)
        assert head.token >= actual.token, (head, actual)  # a token that falls is a bug of the writer
        for change in changes:
            self._apply(change)
        self._head = head
        # Set and cleared at once: whoever waits is woken, whoever comes later waits for the next commit.
        self._moved.set()
        self._moved.clear()

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        keys = self._keys[bisect_left(self._keys, first) : bisect_left(self._keys, last)]
        if reverse:
            keys.reverse()
        return [Record(key, self._values[key]) for key in keys[:limit]]

    async def changed(self, seen: Head) -> None:
        if seen == self._head:
            await self._moved.wait()

    async def announce(self, address: str) -> None:
        """Nobody else can open this engine, so nobody needs to know where its server is."""

    async def reopen(self) -> None:
        """There is nothing to reopen: a commit to memory cannot fail halfway."""

    async def close(self) -> None:
        """What was stored stays readable until the engine itself is dropped."""

    def _apply(self, change: Change) -> None:
        if isinstance(change, Put):
            if change.key not in self._values:
                insort(self._keys, change.key)
            self._values[change.key] = change.value
        elif isinstance(change, Delete):
            self._remove(change.key, change.key + "\0")
        else:
            self._remove(change.first, change.last)

    def _remove(self, first: str, last: str) -> None:
        span = slice(bisect_left(self._keys, first), bisect_left(self._keys, last))
        for key in self._keys[span]:
            del self._values[key]
        del self._keys[span]
