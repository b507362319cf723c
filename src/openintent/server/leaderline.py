"""A connection to the server that leads: one request at a time, and its answer, whole or as it comes."""

import asyncio
from typing import Final

import httptools

from openintent.server.exchange import STATUS_LINES

STREAM: Final = b"text/event-stream"
# Of a stream whose reader is slow, so much is kept here. Then the leader has to wait, and notices.
HELD_BYTES_MAX: Final = 65_536


class Unanswered(Exception):
    """The connection ended before the answer did, or what came is none."""


class _Unasked(Exception):
    """More came than was asked for."""


class Answer:
    """What the parser tells of an answer."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self.complete = False
        self.keeps: bool = False  # the connection may be used again
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    @property
    def is_stream(self) -> bool:
        return self.status == 200 and self.headers.get(b"content-type", b"").startswith(STREAM)

    def number(self, name: bytes) -> int:
        text = self.headers.get(name, b"0")
        return int(text) if text.isdigit() else 0

    def on_message_begin(self) -> None:
        if self.complete:
            raise _Unasked

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200 or self.status not in STATUS_LINES:
            raise Unanswered

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.complete = True
        self.keeps = self._parser.should_keep_alive()  # afterwards the parser has forgotten it


class Line(asyncio.Protocol):
    """`over` once it is closed, by whomever. What comes unasked closes it."""

    def __init__(self, member: str) -> None:
        self.member = member  # whom it leads to
        self.idle_since_s = 0.0
        self.over = False
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._news = asyncio.Event()
        self._paused = False

    async def ask(self, request: bytes) -> Answer:
        """The answer, whole; of a stream its beginning."""
        assert self._transport is not None
        answer = self._answer = Answer()
        self._transport.write(request)
        while not answer.complete and not answer.is_stream:
            await self._more()
        return answer

    async def piece(self) -> bytes:
        """What has come of a stream since; nothing at its end."""
        assert self._answer is not None
        assert self._transport is not None
        while not self._answer.body:
            if self._answer.complete:
                return b""
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            await self._more()
        piece = bytes(self._answer.body)
        self._answer.body.clear()
        return piece

    async def _more(self) -> None:
        if self.over:
            raise Unanswered
        self._news.clear()
        await self._news.wait()

    def close(self) -> None:
        """At once: nobody wants what might still come."""
        self.over = True
        self._news.set()
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        if self.over:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.complete:
            self.close()
            return
        try:
            answer.feed(data)
        except httptools.HttpParserError:
            self.close()
            return
        if answer.is_stream and len(answer.body) > HELD_BYTES_MAX:
            self._pause()
        self._news.set()

    def _pause(self) -> None:
        assert self._transport is not None
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # as asyncio calls it
        self.over = True
        self._news.set()
