"""Streams: answers that do not end, each telling a reader what happens in a log.

Promised: a reader that names the last event it has (`Last-Event-ID`) gets every later one, once and in order, also over
a stop or a crash of the server; or it is told that the log no longer reaches back so far. Not promised: that a reader
which does not read is kept. It is closed and told its cursor, and neither it nor any number of its kind makes the
others wait.

A reader that resumes is first told what the log has, while the feed already gathers what is new; then it goes on with
that. If the log took so long that the feed's buffer ran over, it starts over from where it is by then.
"""

import asyncio
from typing import Final

from starlette.types import Receive, Send

from openintent.core.books import Books
from openintent.errors import EngineError
from openintent.grantor.feed import News, Reader
from openintent.grantor.grantor import Grantor
from openintent.grantor.replay import EventsGone, Replay, along_at
from openintent.model import Assignment
from openintent.server import sse
from openintent.server.auth import Gate
from openintent.server.keys import Principal
from openintent.spaces import AGENT_SPACE, PORTFOLIO_SPACE, intent_of, intent_space

STREAMS_MAX: Final = 2_000
PING_S: Final = 8.0  # nobody is left without a sign of life for 10 s
LOOK_S: Final = 0.5  # a revoked key ends within a second, of which the key file takes a quarter
WRITE_BYTES: Final = 65_536  # about as much goes into one write
SOCKET_BYTES_MAX: Final = 131_072  # that the system may hold for a reader that does not read


class Streams:
    """All open streams: how many there may be, and what ends or wakes them."""

    def __init__(self, gate: Gate, stopping: asyncio.Event, *, most: int = STREAMS_MAX) -> None:
        self.most = most
        self._gate = gate
        self._stopping = stopping
        self._open: set[Stream] = set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        return len(self._open) >= self.most

    def add(self, stream: "Stream") -> None:
        self._open.add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())

    def remove(self, stream: "Stream") -> None:
        self._open.discard(stream)

    async def _watch(self) -> None:
        """Until the last one is gone, or the server stops."""
        while self._open and not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), LOOK_S)
            except TimeoutError:
                self.look()
        for stream in tuple(self._open):
            stream.end("stopping")

    def look(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for stream in tuple(self._open):
            if not self._gate.stands(stream.principal):
                stream.end("key_revoked")
            elif now_s - stream.told_s >= PING_S:
                stream.ping()


class Stream:
    """One reader's stream, from its request on. It reads `own`, and if that is a portfolio or an agent, its intents."""

    def __init__(
        self,
        grantor: Grantor,
        own: str,
        family: sse.Family,
        *,
        principal: Principal,
        cursor: int | None,
        assigned: list[Assignment],
    ) -> None:
        self._grantor = grantor
        self._own = own
        self._family = family
        self._assigned = assigned
        self._reason: str | None = None
        self._ping_due = False
        self._reader: Reader | None = None
        self._send: Send | None = None
        self.principal = principal
        self.told_s = 0.0
        if cursor is None:
            self._reader = self._subscribe()
            family.settle(self._states(self._reader))
        self._cursor = grantor.books.seq if cursor is None else cursor

    # From outside

    def end(self, reason: str) -> None:
        self._reason = self._reason or reason
        if self._reader is not None:
            self._reader.wake()

    def ping(self) -> None:
        self._ping_due = True
        if self._reader is not None:
            self._reader.wake()

    def discard(self) -> None:
        """It is over, or will never begin."""
        if self._reader is not None:
            self._reader.close()

    async def run(self, receive: Receive, send: Send) -> None:
        """Tell the reader everything until something ends it. The head of the answer has been sent."""
        self._send = send
        watch = asyncio.ensure_future(receive())  # all that may still come is that the client goes
        watch.add_done_callback(lambda _: self.end("gone"))
        try:
            await self._tell()
            if self._reason != "gone":
                last = self._family.closed(self._reason or "term_ended", self._place)
                await send({"type": "http.response.body", "body": last, "more_body": False})
        finally:
            watch.cancel()
            self.discard()

    # Telling

    async def _tell(self) -> None:
        open_ones = self._family.open_ones(self._assigned, self._cursor)
        await self._write(self._family.greeting % self._cursor + open_ones)
        try:
            while self._reason is None:
                if self._reader is None:
                    await self._catch_up()
                else:
                    await self._follow(self._reader)
        except EventsGone:
            self.end("events_gone")
        except EngineError:
            self.end("unavailable")

    async def _follow(self, reader: Reader) -> None:
        """Hand on what the feed has, until it has no more."""
        while self._reason is None:
            messages = reader.take(WRITE_BYTES) or self._lengths(reader)
            if messages:
                reader.busy = True
                await self._write(messages)
                reader.busy = False
            elif reader.closed:
                return self._after(reader)
            else:
                await self._ping_if_due()
                await reader.wait()
        return None

    def _after(self, reader: Reader) -> None:
        """The feed let go of this reader."""
        if not reader.overflowed:
            self.end("term_ended")
        elif reader.slow:
            self.end("slow")
        else:  # too much came at once; the log has it
            self._cursor, self._reader = self._place, None

    def _lengths(self, reader: Reader) -> bytes:
        lengths = reader.take_lengths()
        return b"".join(sse.queue_length(*where, length) for where, length in lengths.items())

    async def _ping_if_due(self) -> None:
        if self._ping_due:
            # Nothing waits in the buffer: the reader has everything that is durable by now.
            self._cursor = max(self._place, self._grantor.feed.seq)
            await self._write(sse.PING % self._cursor)

    @property
    def _place(self) -> int:
        """The last event that the reader has."""
        return self._cursor if self._reader is None else max(self._cursor, self._reader.cursor)

    # The log

    def _subscribe(self) -> Reader:
        """Have the feed gather everything from here on: the ledger has just logged its newest event."""
        books, feed = self._grantor.books, self._grantor.feed
        along = along_now(books, self._own)
        return feed.subscribe(self._own, self._family, after=books.seq, along=along, lengths=self._family.lengths)

    def _states(self, reader: Reader) -> sse.States:
        """The states of all intents that are read, for who will be told what they change from."""
        if not isinstance(self._family, sse.Upper):
            return {}
        intents = self._grantor.books.intents
        read = {topic: intents.get(intent_of(topic) or "") for topic in reader.topics}
        return {topic: intent.state for topic, intent in read.items() if intent is not None}

    async def _catch_up(self) -> None:
        """Tell what the log has between the cursor and now; from now on, the feed has it."""
        if not self._grantor.serving:
            self.end("term_ended")
            return
        reader = self._subscribe()
        try:
            along, states = reader.topics - {self._own}, self._states(reader)
            # What the ledger has logged is in the log only when it is durable.
            if not await self._grantor.feed.reached(reader.cursor):
                self.end("term_ended")
            elif await self._told_again(reader.cursor, along, states):
                self._family.settle(states)
                self._cursor, self._reader = reader.cursor, reader
        finally:
            if self._reader is not reader:
                reader.close()

    async def _told_again(self, upto: int, along: set[str], states: sse.States) -> bool:
        """Whether all of it was told, and nothing came in between that ends the stream."""
        pending: list[bytes] = []
        size = 0
        async for event in (await self._replay(upto, along)).events():
            if self._reason is not None:
                return False
            pending.append(self._family(News(event, states.get(event.space))))
            size += len(pending[-1])
            if size >= WRITE_BYTES or self._ping_due:
                await self._write(b"".join(pending) or sse.STILL_HERE)
                self._cursor = event.seq
                pending, size = [], 0
        await self._write(b"".join(pending))
        self._cursor = upto
        return self._reason is None

    async def _replay(self, upto: int, along: set[str]) -> Replay:
        grantor, own, after = self._grantor, self._own, self._cursor
        then: set[str] | None = None
        if reads_along(own):
            then = await along_at(grantor.history, own, at=after, along=along, horizon=self._horizon)
        return Replay(grantor.history, own, after=after, upto=upto, along=then, horizon=self._horizon)

    def _horizon(self) -> int:
        return self._grantor.books.horizon

    # Writing

    async def _write(self, messages: bytes) -> None:
        assert self._send is not None
        if messages:
            await self._send({"type": "http.response.body", "body": messages, "more_body": True})
            self.told_s = asyncio.get_running_loop().time()
            self._ping_due = False


def reads_along(own: str) -> bool:
    return own.startswith((PORTFOLIO_SPACE, AGENT_SPACE))


def along_now(books: Books, own: str) -> set[str] | None:
    """The logs that are read along with this one, as the ledger has it; None if there never are any."""
    if own.startswith(PORTFOLIO_SPACE):
        return {intent_space(each) for each in books.members.get(own.removeprefix(PORTFOLIO_SPACE), ())}
    if own.startswith(AGENT_SPACE):
        return {intent_space(each) for each in books.assignments.get(own.removeprefix(AGENT_SPACE), ())}
    return None
