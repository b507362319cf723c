"""What is said between a server and the process that has its SQLite file: a request, an answer, in this order.

Each is one frame: its length, then msgpack. Both ends are of the same version, so nothing here need stay as it is.
"""

import socket
import struct
import traceback
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from openintent.engines.base import Change, Deposed, Head, OutcomeUncertain
from openintent.errors import EngineCorrupt, EngineInUse, EngineUnavailable

_RECEIVE_BYTES: Final = 256 * 1_024
_LENGTH: Final = struct.Struct("<Q")
# These arrive as what they are; of any other, which is a bug of ours, only what it says. See also `Deposed`.
_CROSSING: Final = (EngineInUse, EngineUnavailable, EngineCorrupt, OutcomeUncertain, AssertionError)


class Open(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The first one."""

    address: str
    pid: int  # of the server
    known: Head | None = None  # what was durable, if another process had the file before


class Commit(msgspec.Struct, frozen=True, array_like=True, tag=2):
    expect: Head
    head: Head
    changes: Sequence[Change]


class CommitHeard(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The same as it arrives."""

    expect: Head
    head: Head
    changes: msgspec.Raw  # in one piece: as they are in the journal


class Scan(msgspec.Struct, frozen=True, array_like=True, tag=3):
    first: str
    last: str
    limit: int
    reverse: bool


class Announce(msgspec.Struct, frozen=True, array_like=True, tag=4):
    address: str


class Reopen(msgspec.Struct, frozen=True, array_like=True, tag=5):
    known: Head  # what was durable, as far as the server knows


class Close(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The last one."""


class CatchUp(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The server has committed by itself."""


Request = Open | Commit | Scan | Announce | Reopen | Close | CatchUp
Heard = Open | CommitHeard | Scan | Announce | Reopen | Close | CatchUp


class Failed(msgspec.Struct, frozen=True, array_like=True):
    """An exception on its way."""

    name: str
    text: str
    trace: str = ""  # of a bug


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """How the database is after the request, and what came of that."""

    head: Head | None  # None: the database is not open, and the process ends
    failure: str | None = None  # why the database is not used, if it is not
    notice: str | None = None
    error: Failed | None = None
    records: tuple[tuple[str, bytes], ...] = ()
    token_ready: int = -1  # `SqliteDatabase.token_ready`


_encode_into: Final = msgspec.msgpack.Encoder().encode_into
decode_request: Final = msgspec.msgpack.Decoder(Heard).decode
decode_answer: Final = msgspec.msgpack.Decoder(Answer).decode


class Outbox:
    """Messages in, frames out."""

    def __init__(self) -> None:
        self._frame = bytearray(_LENGTH.size)

    def frame(self, message: Request | Answer) -> bytearray:
        """Good until the next one is made, in the same memory; of a large one that is let go of behind it."""
        frame = self._frame
        _encode_into(message, frame, _LENGTH.size)
        _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
        return frame


def frame(message: Request | Answer) -> bytes:
    return bytes(Outbox().frame(message))


class Inbox:
    """Bytes in, whole messages out."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        # One for good: to get that much from the system for each small answer took longer than the answer itself.
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))

    def receive(self, source: socket.socket) -> bool:
        """Some of what has arrived; False if that was all, and the other end is closed."""
        count = source.recv_into(self._buffer)
        self.add(self._buffer[:count])
        return count > 0

    def add(self, some: bytes | memoryview) -> None:
        self._bytes += some

    def messages(self) -> Iterator[bytes]:
        while len(self._bytes) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._bytes)[0]
            if len(self._bytes) < end:
                return
            message = bytes(self._bytes[_LENGTH.size : end])
            del self._bytes[:end]
            yield message


def failed(error: Exception) -> Failed:
    trace = "" if isinstance(error, (Deposed, *_CROSSING)) else "".join(traceback.format_exception(error))
    return Failed(type(error).__name__, sayable(str(error)), sayable(trace))


def sayable(text: str) -> str:
    """A path need not be UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def raised(error: Failed, head: Head) -> Exception:
    if error.name == Deposed.__name__:
        return Deposed(head)
    for known in _CROSSING:
        if error.name == known.__name__:
            return known(error.text)
    bug = RuntimeError(f"{error.name}: {error.text}")
    bug.add_note(error.trace)
    return bug
