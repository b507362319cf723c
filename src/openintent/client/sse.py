"""Server-sent events: bytes in, messages out. Nothing here reads, waits, or knows what a message means.

Pieces may be cut anywhere, also within a letter. A line ends with LF, CR or CRLF, a message with an empty line; a line
that begins with a colon says nothing. Whatever is not known is ignored, as the format demands.
"""

import re
from dataclasses import dataclass
from typing import Final

# Well above the largest state that a server keeps: what is longer is no message of ours.
MESSAGE_BYTES_MAX: Final = 8 << 20

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class TooLong(ValueError):
    """A message of the stream has no end."""


@dataclass(frozen=True, slots=True)
class Message:
    """What stood between two empty lines. An `id` without `data` only moves the reader's place."""

    event: str = ""
    data: str | None = None
    id: str | None = None
    retry_ms: int | None = None


class Parser:
    """Put pieces in as they come. After `TooLong` it is of no further use."""

    def __init__(self) -> None:
        self._rest = bytearray()  # of a line whose end has not come
        self._bytes = 0  # of the lines of this message
        self._fields: dict[str, str] = {}
        self._data: list[str] = []
        self._after_cr = False  # a line ended with it; an LF that follows is of the same end
        self._began = False

    def feed(self, piece: bytes) -> list[Message]:
        found = [message for line in self._lines(piece) if (message := self._take(line)) is not None]
        self._refuse_endless(len(self._rest))
        return found

    def _lines(self, piece: bytes) -> list[bytes]:
        if not piece:
            return []
        start = len(self._rest)  # there is no end of a line in the rest: it would not be there
        self._rest += piece[1:] if self._after_cr and piece.startswith(b"\n") else piece
        self._after_cr = piece.endswith(b"\r")
        lines, taken = [], 0
        for end in _LINE_END.finditer(self._rest, start):
            lines.append(bytes(self._rest[taken : end.start()]))
            taken = end.end()
        del self._rest[:taken]
        return lines

    def _refuse_endless(self, more: int) -> None:
        if self._bytes + more > MESSAGE_BYTES_MAX:
            raise TooLong(f"a message of more than {MESSAGE_BYTES_MAX} bytes")

    def _take(self, line: bytes) -> Message | None:
        if not self._began:
            self._began = True
            line = line.removeprefix(_BOM)
        if not line:
            return self._finish()
        if line.startswith(b":"):
            return None
        self._refuse_endless(len(line))
        self._bytes += len(line)
        name, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name in {"event", "retry"} or (name == "id" and "\0" not in value):
            self._fields[name] = value
        return None

    def _finish(self) -> Message | None:
        fields, data = self._fields, self._data
        self._fields, self._data, self._bytes = {}, [], 0
        if not fields and not data:
            return None
        retry = fields.get("retry", "")
        return Message(
            event=fields.get("event", ""),
            data="\n".join(data) if data else None,
            id=fields.get("id"),
            retry_ms=int(retry) if retry.isascii() and retry.isdigit() and len(retry) < 10 else None,
        )
