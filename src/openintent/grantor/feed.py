"""The feed: every durable event, once and in order, to everybody who listens.

A subscriber has a bounded buffer. One that does not keep up is closed and told the last event it has; it resumes from
there by reading the log. It is never skipped ahead, and it costs the others nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from openintent.model import Event

BUFFER_MAX: Final = 1_024

Wanted = Callable[[Event], bool]


class Subscription:
    """One reader's place in the feed."""

    def __init__(self, feed: "Feed", wanted: Wanted, buffer_max: int) -> None:
        self._feed = feed
        self._wanted = wanted
        self._room = buffer_max
        self._buffer: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self.cursor = 0  # the last event handed out
        self.closed = False

    def offer(self, event: Event) -> None:
        if self.closed or not self._wanted(event):
            return
        if len(self._buffer) >= self._room:
            self.close()
            return
        self._buffer.append(event)
        self._arrived.set()

    async def next(self) -> Event | None:
        """The next event, or None when the subscription is closed and all that was buffered is handed out."""
        while not self._buffer:
            if self.closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        event = self._buffer.popleft()
        self.cursor = event.seq
        return event

    def close(self) -> None:
        self.closed = True
        self._feed.forget(self)
        self._arrived.set()


class Feed:
    def __init__(self) -> None:
        self._readers: dict[Subscription, None] = {}  # in the order of their coming

    def __len__(self) -> int:
        return len(self._readers)

    def subscribe(self, wanted: Wanted, *, buffer_max: int = BUFFER_MAX) -> Subscription:
        reader = Subscription(self, wanted, buffer_max)
        self._readers[reader] = None
        return reader

    def publish(self, events: Iterable[Event]) -> None:
        if not self._readers:
            return
        for event in events:
            for reader in list(self._readers):
                reader.offer(event)

    def close(self) -> None:
        for reader in list(self._readers):
            reader.close()

    def forget(self, reader: Subscription) -> None:
        self._readers.pop(reader, None)
