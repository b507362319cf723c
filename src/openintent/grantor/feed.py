"""The feed: every durable event, once and in order, to everybody who reads a log that it stands in.

Readers are found by the logs they read, so an event costs only those whom it concerns. What is made of an event for its
readers is made once and shared between them. A reader has a bounded buffer; one that does not keep up is closed, with
the number of the last event it has, and reads on from there in the log. It is never skipped ahead, and costs the others
nothing.

The lengths of queues are told too. They are not events: nobody resumes by them, and only the last of each counts.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from openintent.model import Event
from openintent.spaces import home_of

log = logging.getLogger("openintent.grantor")

EVENTS_MAX: Final = 1_024  # that wait for one reader
BYTES_MAX: Final = 4 * 1_024 * 1_024  # two of the largest messages
LENGTHS_MAX: Final = 1_024

# Events by which a log comes to be read along with another, and by which that ends.
MOVES: Final = {
    "added_to_portfolio": True,
    "removed_from_portfolio": False,
    "agent_assigned": True,
    "agent_unassigned": False,
}

StateOf = Callable[[str], dict[str, Any] | None]


class News:
    """An event on its way to its readers."""

    __slots__ = ("event", "forms", "state")

    def __init__(self, event: Event, state: dict[str, Any] | None = None) -> None:
        self.event = event
        self.state = state  # of the intent, when the batch of this event was closed
        self.forms: dict[str, Any] = {}  # what was made of it for its readers


Render = Callable[[News], bytes]  # nothing: it is not for this reader


class Bulletin(NamedTuple):
    """What is to be told of a commit when it is durable."""

    news: Sequence[News] = ()
    ended: Sequence[str] = ()  # how each lease did that has


class Move(msgspec.Struct, frozen=True):
    """From this event on another log is read along, or no longer."""

    space: str
    joins: bool
    again: bool  # it was read along before: only its role has changed


def moved(event: Event, own: str) -> Move | None:
    """What the event changes for whoever reads the log of a portfolio, or of an agent, with all that belongs to it."""
    joins = MOVES.get(event.type)
    # Anybody may log an event of that type; but what we log ourselves stands in two logs.
    if joins is None or event.also is None:
        return None
    other = event.also if event.space == own else event.space if event.also == own else None
    return None if other is None else Move(other, joins, again=bool((event.payload or {}).get("again")))


class Reader:
    """One reader's place in the feed. After `closed`, what is in the buffer can still be taken."""

    def __init__(
        self, feed: "Feed", own: str, render: Render, *, after: int, along: Iterable[str] | None, lengths: bool
    ) -> None:
        self._feed = feed
        self._own = own
        self._moves = along is not None
        self._render = render
        self._seen = after  # the last event offered: one that stands in two logs is taken once
        self._buffer: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._lengths: dict[tuple[str, str], int] = {}  # of queues, by space and scope
        self._wants_lengths = lengths
        self._arrived = asyncio.Event()
        self.topics = {own, *(along or ())}
        self.cursor = after  # the last event taken
        self.busy = False  # set by the owner while it waits for its client
        self.closed = False
        self.overflowed = False
        self.slow = False  # it overflowed because its client does not read

    def offer(self, news: News) -> None:
        event = news.event
        if self.closed or event.seq <= self._seen:
            return
        self._seen = event.seq
        if self._moves:
            self._move(event)
        message = self._render(news)
        if message:
            self._put(event.seq, message)

    def note(self, space: str, scope: str, length: int) -> None:
        """A queue has this length now. Who is told of too many loses the oldest."""
        if self._wants_lengths:
            self._lengths.pop((space, scope), None)
            if len(self._lengths) >= LENGTHS_MAX:
                del self._lengths[next(iter(self._lengths))]
            self._lengths[space, scope] = length
            self._arrived.set()

    def take(self, bytes_max: int) -> bytes:
        """The events that have arrived, about as much as is asked for."""
        buffer, taken, size = self._buffer, [], 0
        while buffer and size < bytes_max:
            self.cursor, message = buffer.popleft()
            taken.append(message)
            size += len(message)
        self._bytes -= size
        return b"".join(taken)

    def take_lengths(self) -> dict[tuple[str, str], int]:
        taken, self._lengths = self._lengths, {}
        return taken

    async def wait(self) -> None:
        """Until there is something to take, the reader is closed, or somebody calls `wake`."""
        if not (self._buffer or self._lengths or self.closed):
            await self._arrived.wait()
        self._arrived.clear()

    def wake(self) -> None:
        self._arrived.set()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._feed.forget(self)
            self._arrived.set()

    def _put(self, seq: int, message: bytes) -> None:
        size = self._bytes + len(message)
        if self._buffer and (len(self._buffer) >= EVENTS_MAX or size > BYTES_MAX):
            self.overflowed, self.slow = True, self.busy
            self.close()
            return
        self._buffer.append((seq, message))
        self._bytes = size
        self._arrived.set()

    def _move(self, event: Event) -> None:
        move = moved(event, self._own)
        if move is not None and move.joins:
            self._feed.follow(self, move.space)
        elif move is not None:
            self._feed.unfollow(self, move.space)


class Feed:
    def __init__(self) -> None:
        self.seq = 0  # the newest event that is durable
        self._readers: dict[str, dict[Reader, None]] = {}  # by log, in the order of their coming
        self._count = 0
        self.ended: Counter[str] = Counter()  # leases, by how, since this process began
        self._awaited: list[tuple[int, asyncio.Future[bool]]] = []

    def __len__(self) -> int:
        return self._count

    # Reading

    def subscribe(
        self, own: str, render: Render, *, after: int, along: Iterable[str] | None = None, lengths: bool = False
    ) -> Reader:
        """Read on behind the newest event that the ledger has logged, durable or not: `after` is its number.

        `along`: the logs that are read along at that point; None if events do not change what is read. `lengths`:
        queues too.
        """
        reader = Reader(self, own, render, after=after, along=along, lengths=lengths)
        self._count += 1
        for topic in reader.topics:
            self._readers.setdefault(topic, {})[reader] = None
        return reader

    def reached(self, seq: int) -> "asyncio.Future[bool]":
        """Until this event is durable; False if the term ends before that."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self.seq >= seq:
            future.set_result(True)
        else:
            self._awaited.append((seq, future))
        return future

    # Telling

    def begin(self, seq: int) -> None:
        """A term begins with a log up to this event."""
        self.seq = seq

    def gather(self, events: Sequence[Event], state_of: StateOf) -> Bulletin:
        """What is to be published when these events are durable. Called before anything is applied after them.

        Whoever subscribes later does so behind these events: if nobody reads now, they need not be kept.
        """
        ended = [event.lease.status for event in events if event.lease is not None]
        if not self._count:
            return Bulletin(ended=ended)
        news = [News(event, state_of(event.space) if event.type == "state_patched" else None) for event in events]
        return Bulletin(news, ended)

    def publish(self, bulletin: Bulletin, seq: int) -> None:
        """All events up to this one are durable; the bulletin is what was gathered of those that were not before."""
        self.seq = seq
        self.ended.update(bulletin.ended)
        for each in bulletin.news:
            event = each.event
            self._offer(event.space, each)
            if event.also is not None:
                self._offer(event.also, each)
        if self._awaited:
            self._tell_who_awaits()

    def tell_lengths(self, lengths: dict[tuple[str, str], int]) -> None:
        """Queues have changed: the new lengths, by space and scope."""
        for (space, scope), length in lengths.items():
            for reader in self._readers.get(home_of(space), ()):
                reader.note(space, scope, length)

    def close(self) -> None:
        """The term is over. Readers go on in the log, where there may be events that nobody here was told of."""
        for reader in {reader: None for readers in self._readers.values() for reader in readers}:
            reader.close()
        self._tell_who_awaits(over=True)

    def _offer(self, topic: str, news: News) -> None:
        for reader in tuple(self._readers.get(topic, ())):
            try:
                reader.offer(news)
            except Exception:  # the others must get theirs, and the writer must go on
                log.exception("reader lost")
                reader.close()

    def _tell_who_awaits(self, *, over: bool = False) -> None:
        for seq, future in self._awaited:
            if (over or seq <= self.seq) and not future.done():
                future.set_result(not over)
        self._awaited = [each for each in self._awaited if not each[1].done()]

    # For readers

    def follow(self, reader: Reader, topic: str) -> None:
        reader.topics.add(topic)
        self._readers.setdefault(topic, {})[reader] = None

    def unfollow(self, reader: Reader, topic: str) -> None:
        reader.topics.discard(topic)
        readers = self._readers.get(topic, {})
        readers.pop(reader, None)
        if not readers:
            self._readers.pop(topic, None)

    def forget(self, reader: Reader) -> None:
        self._count -= 1
        for topic in tuple(reader.topics):
            self.unfollow(reader, topic)
