"""Passing a request on to the server that leads, and its answer back: any address of a cluster works.

Promised: a request is passed on once, and those of one connection in their order, each when those before it have been
answered. If the answer does not come, the client is told that it may have happened, as long as it could have; its
attempt id makes a repeat safe. Nobody waits for a leader that has been replaced. A stream is passed on as it comes; the
client resumes it by its last event, wherever it asks then.

A client that would rather ask the leader itself says so with `Prefer: redirect` (RFC 7240): it is told where, and
nothing is passed on. A server that does not know the word passes it on, which is right too.
"""

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import Final
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec
from starlette.types import Receive, Send

from openintent.clock import boot_s
from openintent.grantor.grantor import Grantor, Refusal
from openintent.server.exchange import At, Exchange
from openintent.server.leaderline import Answer, Line, Unanswered

BY: Final = b"x-forwarded-by"  # the member that passes it on
TO: Final = b"x-forwarded-to"  # the member that it takes for the leader, as only those know it who read the engine
CONNECT_S_MAX: Final = 2.0
# An acquire may wait for 300 s; nothing takes longer.
ANSWER_S_MAX: Final = 330.0
IDLE_MAX: Final = 256
# Less than the 75 s after which the leader closes it: or it would, now and then, while a request is on its way.
IDLE_S_MAX: Final = 30.0
WATCH_S: Final = 0.1
# What is between two neighbours and no further, and what we say ourselves.
NOT_PASSED_ON: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        BY,
        TO,
    }
)
NOT_PASSED_BACK: Final = frozenset(
    {b"connection", b"content-length", b"content-type", b"transfer-encoding", b"x-request-id", b"x-term", b"x-rev"}
)
# A leader may be another one the next moment: nobody is to remember where it was.
REDIRECTED: Final = b"location: %b\r\ncache-control: no-store\r\npreference-applied: redirect\r\n"


class StreamExchange(Exchange):
    """One of a lane that knows streams."""

    def relay(self, stream: "Relay") -> None:
        """What follows the head of the answer is the leader's stream."""
        raise AssertionError((self, stream))


class Forwarder:
    def __init__(self, grantor: Grantor, member: str, stopping: asyncio.Event) -> None:
        self._grantor = grantor
        self._member = member
        self._stopping = stopping
        self._lines: WeakSet[Line] = WeakSet()  # all of them
        self._idle: list[Line] = []
        self._numbers = count(1)
        self._tasks: dict[int, asyncio.Task[object]] = {}
        self._last: dict[object, asyncio.Task[object]] = {}  # by the connection that it came by
        self._watcher: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        self.hang_up()

    @property
    def leader(self) -> str | None:
        """The member that leads; None if that is not known, or we are it, or were it before we were restarted.

        Whoever moves a ledger leads, too, and can be asked nothing: it has no address.
        """
        leader = self._grantor.leader
        return leader if "://" in leader and url_of(leader) != url_of(self._member) else None

    def takes(self, exchange: Exchange) -> bool:
        """Whether there is somebody to pass it on to. What was passed on once goes no further, nor does a mere part."""
        return exchange.whole and BY not in exchange.headers and self.leader is not None and not self._stopping.is_set()

    async def forward(self, exchange: Exchange) -> None:
        if exchange.done:
            return  # its client went away at once
        if prefers_redirect(exchange.headers):
            self._redirect(exchange)
            return
        task = asyncio.current_task()
        assert task is not None
        before, self._last[exchange.origin] = self._last.get(exchange.origin), task
        number = self._note_waiting(exchange, task)
        try:
            if before is not None:
                await asyncio.wait({before})
            await self._pass_on(exchange)
        finally:
            self._tasks.pop(number, None)
            if self._last.get(exchange.origin) is task:
                del self._last[exchange.origin]

    async def ask(self, method: str, target: str, *, within_s: float, headers: dict[bytes, bytes]) -> Answer:
        """What the leader says to a question of our own. `OSError` or `Unanswered` if it says nothing."""
        async with asyncio.timeout(within_s):
            line = await self._connected()
            try:
                answer = await line.ask(self._request(line.member, method, target, headers, b""))
            except BaseException:
                line.close()
                raise
        self._give_back(line, answer)
        return answer

    def abandon(self, number: int) -> None:
        """Its client has gone; the leader sees that nobody waits any more."""
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()

    def hang_up(self) -> None:
        """Wait for no answer any more: whoever asked is told so."""
        for line in tuple(self._lines):
            line.close()

    async def _watch(self) -> None:
        """No line leads to anybody but the leader: one that was frozen, and replaced, would never answer."""
        while True:
            await asyncio.sleep(WATCH_S)
            leader = self._grantor.leader
            for line in tuple(self._lines):
                if line.member != leader:
                    line.close()

    # The way there

    def _redirect(self, exchange: Exchange) -> None:
        leader = self.leader
        if leader is None:
            exchange.refuse(Refusal.UNAVAILABLE)
            return
        location = url_of(leader) + _target(exchange)
        extra = REDIRECTED % location.encode("latin-1")
        exchange.conclude_at_once(307, msgspec.json.encode({"location": location}), extra=extra)

    def _note_waiting(self, exchange: Exchange, task: asyncio.Task[object]) -> int:
        """A client that goes away is to be noticed over there. Below 0: the grantor's own numbers are above."""
        number = exchange.waiting = -next(self._numbers)
        self._tasks[number] = task
        return number

    async def _pass_on(self, exchange: Exchange) -> None:
        try:
            line = await self._connected()
        except (OSError, TimeoutError):
            exchange.refuse(Refusal.UNAVAILABLE)
            return
        request = self._request(line.member, exchange.method, _target(exchange), exchange.headers, exchange.body)
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                answer = await line.ask(request)
        except (Unanswered, TimeoutError):
            _unanswered(exchange, line)
        except BaseException:
            line.close()
            raise
        else:
            self._pass_back(exchange, answer, line)

    async def _connected(self) -> Line:
        leader = self.leader
        if leader is None:
            raise ConnectionError("nobody leads at the moment")
        oldest_s = boot_s() - IDLE_S_MAX
        while self._idle:
            line = self._idle.pop()
            if line.member == leader and line.idle_since_s > oldest_s and not line.over:
                return line
            line.close()
        line = Line(leader)
        self._lines.add(line)
        parts = urlsplit(url_of(leader))
        async with asyncio.timeout(CONNECT_S_MAX):
            await asyncio.get_running_loop().create_connection(lambda: line, parts.hostname or "", parts.port or 80)
        return line

    def _request(self, member: str, method: str, target: str, headers: dict[bytes, bytes], body: bytes) -> bytes:
        lines = [
            f"{method} {target} HTTP/1.1".encode("latin-1"),
            b"host: " + urlsplit(url_of(member)).netloc.encode(),
            b"content-length: %d" % len(body),
            BY + b": " + self._member.encode(),
            TO + b": " + member.encode(),
            *(name + b": " + value for name, value in headers.items() if name not in NOT_PASSED_ON),
        ]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    # The way back

    def _pass_back(self, exchange: Exchange, answer: Answer, line: Line) -> None:
        exchange.waiting = 0
        exchange.place = At(answer.number(b"x-term"), answer.number(b"x-rev"))
        if answer.is_stream and isinstance(exchange, StreamExchange):
            exchange.relay(Relay(line, self._stopping))
            exchange.conclude_at_once(200, b"")
            return
        if answer.is_stream:  # what was asked for has none: whoever answered does not speak as we do
            _unanswered(exchange, line)
            return
        self._give_back(line, answer)
        extra = b"".join(b"%b: %b\r\n" % each for each in answer.headers.items() if each[0] not in NOT_PASSED_BACK)
        exchange.conclude_at_once(answer.status, bytes(answer.body), extra=extra)

    def _give_back(self, line: Line, answer: Answer) -> None:
        if answer.complete and answer.keeps and not line.over and len(self._idle) < IDLE_MAX:
            line.idle_since_s = boot_s()
            self._idle.append(line)
        else:
            line.close()


class Relay:
    """A stream of the leader's, for a reader of ours."""

    def __init__(self, line: Line, stopping: asyncio.Event) -> None:
        self._line = line
        self._stopping = stopping

    async def run(self, receive: Receive, send: Send) -> None:
        """Until either end hangs up, or this server stops: then the reader asks the next one."""
        gone, stop = asyncio.ensure_future(receive()), asyncio.ensure_future(self._stopping.wait())
        copying = asyncio.ensure_future(self._copy(send))
        try:
            await asyncio.wait({gone, stop, copying}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left = gone.done()
            for each in (gone, stop, copying):
                each.cancel()
            await asyncio.wait({gone, stop, copying})
            self.discard()
        if not left:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _copy(self, send: Send) -> None:
        try:
            while piece := await self._line.piece():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except (OSError, Unanswered):
            return  # either end has gone

    def discard(self) -> None:
        self._line.close()


def prefers_redirect(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the client wants to ask the leader itself."""
    preferences = headers.get(b"prefer", b"").lower().split(b",")
    return any(each.partition(b";")[0].strip() == b"redirect" for each in preferences)


def _target(exchange: Exchange) -> str:
    return exchange.path + (f"?{exchange.query}" if exchange.query else "")


def _unanswered(exchange: Exchange, line: Line) -> None:
    line.close()
    exchange.refuse(Refusal.UNAVAILABLE if exchange.method == "GET" else Refusal.OUTCOME_UNKNOWN)


def url_of(member: str) -> str:
    """A member is its address, and behind a `#` what tells its runs apart."""
    return member.partition("#")[0]
