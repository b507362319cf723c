"""One request and its answer, whichever lane it came by."""

import os
from collections.abc import Callable, Sequence
from http import HTTPStatus
from itertools import count
from typing import Any, ClassVar, Final, Protocol

import msgspec

from openintent.core.answers import Reply
from openintent.grantor.grantor import Refusal
from openintent.server.heads import Head
from openintent.server.keys import NOBODY, Principal
from openintent.server.routing import Route

_RUN: Final = os.urandom(4).hex().encode()  # tells the answers of two runs apart
_MARK: Final = b"x-request-id: " + _RUN + b"-%d\r\n"
_MARK_WITH_REV: Final = _MARK + b"x-term: %d\r\nx-rev: %d\r\n"
_KIND: Final = b"content-type: application/json\r\ncontent-length: %d\r\n"
_HEAD: Final = _KIND + _MARK + b"%b"
_HEAD_WITH_REV: Final = _KIND + _MARK_WITH_REV + b"%b"

USUAL: Final = b"HTTP/1.1 200 OK\r\n" + _KIND + _MARK_WITH_REV + b"\r\n%b"
next_number: Final = count(1).__next__

Render = Callable[[Any, "Exchange", Reply], None]  # the first is the desk


class Desk(Protocol):
    """What an exchange needs of the service behind it."""

    def refuse(self, exchange: "Exchange", refusal: Refusal) -> None: ...

    def abandon(self, request: int) -> None: ...


class Place(Protocol):
    """Where among all commands an answer was decided."""

    @property
    def term(self) -> int: ...

    @property
    def rev(self) -> int: ...


class At(msgspec.Struct, frozen=True):
    term: int
    rev: int


NOWHERE: Final = At(0, 0)  # the ledger had no part in it


class Exchange(msgspec.Struct, eq=False):
    """Filled by a lane, answered by a handler. A lane provides `write`; all else is the same for both.

    A struct, because there is one for each request: it has its many values sooner than by twenty lines of Python.
    """

    desk: Desk
    method: str
    path: str  # raw: not percent-decoded
    query: str
    headers: dict[bytes, bytes]  # names in lower case
    body: bytes = b""
    route: Route | None = None  # once it was found
    names: Sequence[str | None] = ()  # in the path: raw, or the handler's arguments if the head is known
    head: Head | None = None  # if its headers were recognised; then its path is plain too
    principal: Principal = NOBODY  # until the gate has let it in
    render: Render | None = None  # how to show an answer that comes later
    waiting: int = 0  # the number under which it waits in a queue
    done: bool = False  # answered, or nobody is there to answer
    status: int = 200
    payload: bytes = b""
    extra: bytes = b""  # more header lines, each ended by CRLF
    place: Place = NOWHERE
    parts: Sequence["Exchange"] = ()  # of a batch that is not answered yet

    whole: ClassVar[bool] = True  # a request by itself: it may be passed on to another server

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method} {self.path}>"  # not all of it: among the headers is a key

    # What handlers do

    def conclude_at_once(self, status: int, payload: bytes, *, extra: bytes = b"") -> None:
        self.status, self.payload, self.extra = status, payload, extra
        self.send()

    # What the grantor does

    def send(self) -> None:
        """Let the answer leave. If the client is gone this does nothing, and costs nobody else anything."""
        if not self.done:
            self.done = True
            self.write()

    def refuse(self, refusal: Refusal) -> None:
        self.waiting, self.place = 0, NOWHERE  # what the ledger had said is not told
        if not self.done:
            self.desk.refuse(self, refusal)

    def answer(self, reply: Reply) -> None:
        self.waiting = 0
        assert self.render is not None
        self.render(self.desk, self, reply)

    # What lanes do

    @property
    def address(self) -> str:
        """Where it came from; empty if that has no address."""
        return ""

    @property
    def origin(self) -> object:
        """What it has in common with those that are to be carried out before it."""
        return self

    def write(self) -> None:
        """Put the answer on the connection."""
        raise AssertionError(self)

    def gone(self) -> None:
        """The client went away."""
        self.done = True
        if self.waiting:
            self.desk.abandon(self.waiting)
            self.waiting = 0
        parts, self.parts = self.parts, ()
        for part in reversed(parts):  # the last one first: none moves up to a grant that it would not hear of
            part.gone()

    def head_lines(self) -> bytes:
        """The header lines of the answer, each ended by CRLF."""
        place = self.place
        if not place.rev:
            return _HEAD % (len(self.payload), next_number(), self.extra)
        return _HEAD_WITH_REV % (len(self.payload), next_number(), place.term, place.rev, self.extra)

    def mark_lines(self) -> bytes:
        """Which answer this is: its own number, and its place among all commands if the ledger had a part in it."""
        place = self.place
        if not place.rev:
            return _MARK % next_number()
        return _MARK_WITH_REV % (next_number(), place.term, place.rev)


STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
