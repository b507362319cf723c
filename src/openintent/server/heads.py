"""Requests like those before: what was read once need not be read again.

A client sends the same headers with every request, to the byte, to a few places. The parser reads a head once; from
then on it is recognised as a whole, and so is the way to a route. Only what the parser took as one plain, whole request
of the hot lane is remembered; whatever is different by a byte goes to the parser.
"""

import re
from typing import Final

from openintent.server.keys import NOBODY, Principal
from openintent.server.routing import Door, Router

HEADS_MAX: Final = 8_192
HEAD_BYTES_MAX: Final = 1_024
DOORS_MAX: Final = 4_096
# With one of these a head is not seen again.
UNIQUE: Final = frozenset({b"traceparent", b"x-request-id"})
# Nor with one of these; but then the rest of it is. Their lines, as our own client spells them.
VARYING: Final = {b"idempotency-key": b"\r\nIdempotency-Key: ", b"if-match": b"\r\nIf-Match: "}
VARYING_BYTES_MAX: Final = 64

VERSION: Final = b" HTTP/1.1"
# A request line that can mean only one thing: no query, nothing encoded. The first part leads to a door.
LINE: Final = re.compile(
    rb"(?P<door>(?P<method>GET|POST|PUT|PATCH|DELETE) (?P<path>(?:/[A-Za-z0-9._:~-]+)*))/[A-Za-z0-9._:~-]+"
)
LINE_BYTES_MAX: Final = 256


def parted(head: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """A head without the fields that are different each time, and these."""
    varying: dict[bytes, bytes] = {}
    for name, line in VARYING.items():
        before, _, rest = head.partition(line)
        value, end, after = rest.partition(b"\r\n")
        if value.isalnum() and len(value) <= VARYING_BYTES_MAX:  # what else may be in it is for the parser to judge
            varying[name] = value
            head = before + end + after
    return head, varying


class Head:
    """All headers of a request, and what was found out about them; shared by all requests that come with them."""

    __slots__ = ("agent", "edition", "fields", "length", "principal")

    def __init__(self, fields: dict[bytes, bytes], length: int) -> None:
        self.fields = fields  # not to be changed
        self.length = length  # of the body
        self.agent: str | None = None  # who asks, once that was found to be well formed
        self.principal: Principal = NOBODY  # whom the key stands for,
        self.edition: object = None  # as long as these keys are in force


class Heads:
    """Heads by their bytes behind the request line, and doors by the bytes of that line up to the last slash."""

    def __init__(self, router: Router, *, name_chars_max: int) -> None:
        self._router = router
        # In a line no longer than this no name is too long. What is recognised is not looked at again.
        self.line_bytes_max = min(LINE_BYTES_MAX, name_chars_max)
        self.heads: dict[bytes, Head] = {}
        self.doors: dict[bytes, Door] = {}

    def with_varying(self, lines: bytes) -> tuple[Head | None, dict[bytes, bytes]]:
        """The head that these lines are but for what is different each time, and the fields with that."""
        rest, varying = parted(lines)
        head = self.heads.get(rest) if varying else None
        return head, {} if head is None else {**head.fields, **varying}

    def remember(self, data: bytes, fields: dict[bytes, bytes], length: int) -> None:
        """The parser found just one request in these bytes, plain and whole, with these fields."""
        before, _, body = data.partition(b"\r\n\r\n")
        line, _, lines = before.partition(VERSION)
        head, varying = parted(lines)
        if varying != {name: fields[name] for name in VARYING if name in fields}:
            return
        fields = {name: value for name, value in fields.items() if name not in VARYING}
        if len(head) > HEAD_BYTES_MAX or not UNIQUE.isdisjoint(fields) or len(body) != length:
            return
        plain = LINE.fullmatch(line) if len(line) <= self.line_bytes_max else None
        if plain is None:
            return
        if plain["door"] not in self.doors:
            self._open_door(plain["door"], plain["method"], plain["path"])
        if len(self.heads) >= HEADS_MAX:
            self.heads.clear()
        self.heads[head] = Head(fields, length)

    def _open_door(self, way: bytes, method: bytes, path: bytes) -> None:
        if len(self.doors) >= DOORS_MAX:
            self.doors.clear()
        self.doors[way] = self._router.door(method.decode("ascii"), path.decode("ascii") + "/")
