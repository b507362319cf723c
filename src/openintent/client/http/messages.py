"""Requests as bytes, and answers from bytes. Nothing here sends, reads or waits.

An answer that breaks the rules is no answer: what it would have said is not guessed. Pieces may be cut anywhere.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import msgspec

from openintent.version import __version__

# More than any server or proxy sends, far less than what would hurt.
HEAD_BYTES_MAX: Final = 64 << 10
# The largest page there is: a thousand intents, each with the largest state.
BODY_BYTES_MAX: Final = 1_250 << 20
# Announcements before the answer. One is usual, where there are any.
INTERIM_MAX: Final = 10
# The line before each chunk: its size, and remarks that nobody makes.
CHUNK_LINE_BYTES_MAX: Final = 4 << 10

_HEAD: Final = re.compile(
    r"HTTP/1\.(?P<minor>[01]) (?P<status>[1-9][0-9][0-9])(?: [^\r\n\0]*)?"
    r"(?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\0]*)*"
)
_CHUNK_LINE: Final = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n\0]*)?")
_PLAIN_URL: Final = re.compile(
    r"http://(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?(?P<below>(/[\w.~-]+)*)", re.ASCII
)


class NotSent(Exception):  # what happened, not what kind of thing it is
    """Nothing of the request can have arrived."""


class NoAnswer(Exception):
    """The request left, at least in part, and no answer came that can be understood."""


LATE: Final = "no answer came in time"

# Out


class Who(Protocol):
    """Who asks, as it stands in every request."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def head(self) -> bytes:
        """The same as lines."""
        ...


class Asked(msgspec.Struct, frozen=True):
    """One request. `timeout_s` is for all of the answer, or for each silence of one without an end."""

    method: str
    target: str  # path and query, quoted
    who: Who
    headers: Mapping[str, str]  # those of this request
    body: bytes | None
    timeout_s: float
    connect_s: float


class Origin(NamedTuple):
    """Where a server is: a host and a port, or the path of a socket."""

    host: str
    port: int  # 0: `host` is the path of a socket
    below: str  # what the paths of its requests begin with
    head: bytes  # the header lines that all requests to it have


UNIX: Final = "unix:"
_AGENT: Final = f"User-Agent: openintent/{__version__}\r\nAccept-Encoding: identity\r\n"


@lru_cache(maxsize=256)
def origin_of(url: str, host: str | None = None) -> Origin | None:
    """What a plain address means; None if it is of another kind. `host` is what requests call it, if not its name."""
    if url.startswith(UNIX):
        return Origin(url.removeprefix(UNIX), 0, "", f"Host: {host or 'localhost'}\r\n{_AGENT}".encode())
    found = _PLAIN_URL.fullmatch(url)
    if found is None:
        return None
    named, port = found["host"], found["port"]
    own = named if port is None else f"{named}:{port}"
    return Origin(named.strip("[]"), int(port or 80), found["below"], f"Host: {host or own}\r\n{_AGENT}".encode())


def header_line(name: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"what {name} should say cannot be written in a header: only printable ASCII can")
    return f"{name}: {value}\r\n"


def request_bytes(origin: Origin, asked: Asked) -> bytes:
    own = "".join([header_line(name, value) for name, value in asked.headers.items()])
    first = f"{asked.method} {origin.below}{asked.target} HTTP/1.1\r\n"
    if asked.body is not None:
        own += f"Content-Length: {len(asked.body)}\r\n"
    elif asked.method not in {"GET", "DELETE"}:
        own += "Content-Length: 0\r\n"
    return b"".join([first.encode("ascii"), origin.head, asked.who.head, own.encode(), b"\r\n", asked.body or b""])


# In


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]  # by their names in small letters
    body: bytes


class Head(NamedTuple):
    status: int
    headers: dict[str, str]
    length: int | None  # of the body; None: it ends with its last chunk, or with the connection
    chunked: bool
    reusable: bool  # whether the connection stays after it


def parse_head(raw: bytes) -> Head:
    """All up to the empty line, without it."""
    text = raw.decode("latin-1")
    found = _HEAD.fullmatch(text)
    if found is None:
        raise NoAnswer(f"this is no answer in HTTP/1.1: {text[:80]!r}")
    headers: dict[str, str] = {}
    for line in text.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    status, modern = int(found["status"]), found["minor"] == "1"
    chunked = _chunked(headers, modern=modern)
    length = 0 if status in (204, 304) or status < 200 else _length(headers)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise NoAnswer("the answer is compressed, and was not to be")
    reusable = modern and "close" not in headers.get("connection", "").lower()
    return Head(status, headers, length, chunked and length is None, reusable)


def _length(headers: Mapping[str, str]) -> int | None:
    told = headers.get("content-length")
    if told is None:
        return None
    if not (told.isascii() and told.isdecimal() and len(told) < 19):
        raise NoAnswer(f"this is no length: {told[:40]!r}")
    return int(told)


def _chunked(headers: Mapping[str, str], *, modern: bool) -> bool:
    coding = headers.get("transfer-encoding")
    if coding is None:
        return False
    # With a length beside it, two readers of one answer could disagree on where it ends.
    if coding.lower() != "chunked" or "content-length" in headers or not modern:
        raise NoAnswer(f"where the answer ends is not understood: {coding[:40]!r}")
    return True


class Chunks:
    """Takes a body out of its chunks."""

    __slots__ = ("_at", "_buffer", "_left", "_trailer_bytes", "_trailing", "done", "surplus")

    def __init__(self) -> None:
        self.done = False
        self.surplus = False  # whether more came than belongs to it
        self._buffer = b""
        self._at = 0  # up to here the buffer was read
        self._left = 0  # of the current chunk, with the line end after it
        self._trailing = False
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> bytes:
        parts: list[bytes] = []
        self._buffer = self._buffer[self._at :] + data
        self._at = 0
        while not self.done and (self._take(parts) if self._left else self._next_line()):
            pass
        self.surplus = self.done and self._at < len(self._buffer)
        return b"".join(parts)

    def _take(self, parts: list[bytes]) -> bool:
        """A part of the current chunk; false if there is nothing to take."""
        if self._left > 2:
            ready = self._buffer[self._at : self._at + self._left - 2]
            parts.append(ready)
        else:
            ready = self._buffer[self._at : self._at + self._left]
            if not b"\r\n"[2 - self._left :].startswith(ready):
                raise NoAnswer("a chunk is longer than was said")
        self._at += len(ready)
        self._left -= len(ready)
        return bool(ready)

    def _next_line(self) -> bool:
        """The size of the next chunk, or a line after the last; false if it has not wholly come."""
        end = self._buffer.find(b"\r\n", self._at)
        if (len(self._buffer) if end < 0 else end) - self._at > CHUNK_LINE_BYTES_MAX:
            raise NoAnswer("the line before a chunk has no end")
        if end < 0:
            return False
        line, self._at = self._buffer[self._at : end], end + 2
        if self._trailing:
            self._skip(line)
        else:
            self._begin(line)
        return True

    def _begin(self, line: bytes) -> None:
        found = _CHUNK_LINE.fullmatch(line)
        if found is None:
            raise NoAnswer(f"this is no size of a chunk: {line[:40]!r}")
        size = int(found[1], 16)
        self._trailing = size == 0
        self._left = size + 2 if size else 0

    def _skip(self, line: bytes) -> None:
        self.done = not line
        self._trailer_bytes += len(line)
        if self._trailer_bytes > HEAD_BYTES_MAX:
            raise NoAnswer("what comes after the last chunk has no end")


class Reading:
    """One answer as it comes in."""

    __slots__ = ("_buffer", "_chunks", "_interim", "_left", "done", "head", "reusable")

    def __init__(self) -> None:
        self.head: Head | None = None
        self.done = False
        self.reusable = False  # once it is done: whether its connection may be used again
        self._buffer = b""
        self._interim = 0
        self._left: int | None = None
        self._chunks: Chunks | None = None

    def feed(self, data: bytes) -> bytes:
        """What of the body is in this piece."""
        if self.head is None:
            rest = self._feed_head(data)
            if rest is None:
                return b""
            data = rest
        if self._chunks is not None:
            body = self._chunks.feed(data)
            self._end_if(self._chunks.done, surplus=self._chunks.surplus)
            return body
        if self._left is None:
            return data
        body = data[: self._left]
        self._left -= len(body)
        self._end_if(not self._left, surplus=len(data) > len(body))
        return body

    def _end_if(self, done: bool, *, surplus: bool) -> None:  # noqa: FBT001
        assert self.head is not None
        self.done = done
        self.reusable = done and self.head.reusable and not surplus

    def end(self) -> None:
        """The connection has ended. For some answers that is how they end."""
        if self.done:
            return
        if self.head is None:
            raise NoAnswer("the server hung up without an answer")
        if self._chunks is not None or self._left is not None:
            raise NoAnswer("the server hung up in the middle of its answer")
        self.done = True

    def _feed_head(self, data: bytes) -> bytes | None:
        """What comes after the head; None if that has not wholly come."""
        seen = max(0, len(self._buffer) - 3)
        buffer = self._buffer + data
        while (end := buffer.find(b"\r\n\r\n", seen)) >= 0:
            if end > HEAD_BYTES_MAX:
                break
            head, buffer, seen = parse_head(buffer[:end]), buffer[end + 4 :], 0
            if head.status >= 200:
                self._begin(head)
                return buffer
            self._skip(head)
        if len(buffer) > HEAD_BYTES_MAX:
            raise NoAnswer("the headers of the answer have no end")
        self._buffer = buffer
        return None

    def _begin(self, head: Head) -> None:
        self.head, self._left = head, head.length
        self._chunks = Chunks() if head.chunked else None

    def _skip(self, head: Head) -> None:
        self._interim += 1
        if head.status == 101 or self._interim > INTERIM_MAX:
            raise NoAnswer(f"the server answered {head.status}, for which nobody asked")


class Gathering:
    """A whole answer, from its pieces."""

    __slots__ = ("_bytes", "_parts", "reading")

    def __init__(self, reading: Reading | None = None, first: bytes = b"") -> None:
        self.reading = Reading() if reading is None else reading
        self._parts = [first] if first else []
        self._bytes = len(first)

    def feed(self, data: bytes) -> bool:
        """Whether that was the last of it. No data means that the connection has ended."""
        reading = self.reading
        if not data:
            reading.end()
            return True
        body = reading.feed(data)
        if body:
            self.add(body)
        return reading.done

    def add(self, body: bytes) -> None:
        self._bytes += len(body)
        self._parts.append(body)
        assert self.reading.head is not None
        if max(self._bytes, self.reading.head.length or 0) > BODY_BYTES_MAX:
            raise NoAnswer(f"the answer is longer than {BODY_BYTES_MAX} bytes")

    def answer(self) -> Answer:
        head = self.reading.head
        assert head is not None
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return Answer(head.status, head.headers, body)
