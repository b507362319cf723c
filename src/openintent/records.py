"""How the ledger's things are written down: a format version, then MessagePack.

The first character of a key tells the kind. A record of another format version is refused rather than guessed at;
`docs/decisions/` says how formats change.
"""

from typing import Any, Final

import msgspec

from openintent.errors import EngineCorrupt
from openintent.model import (
    Agent,
    Assignment,
    Attempt,
    Checkpoint,
    Cooldown,
    Decision,
    Event,
    Farewell,
    Horizon,
    Intent,
    Lease,
    LeaseEnd,
    Member,
    PatchRecord,
    Portfolio,
    Waiter,
)

FORMAT: Final = 1
_MARK: Final = bytes([FORMAT])

KINDS: Final[dict[str, Any]] = {
    "a": Attempt,
    "c": Checkpoint,
    "d": Cooldown,
    "e": list[LeaseEnd],
    "f": Farewell,
    "g": Assignment,
    "h": Horizon,
    "i": Intent,
    "l": Lease,
    "m": Member,
    "o": Decision,
    "p": PatchRecord,
    "q": Portfolio,
    "r": Agent,
    "v": list[Event],
    "w": Waiter,
}

_encode = msgspec.msgpack.Encoder().encode
_decoders = {kind: msgspec.msgpack.Decoder(shape) for kind, shape in KINDS.items()}


def encode(value: Any) -> bytes:
    return _MARK + _encode(value)


def decode(key: str, data: bytes) -> Any:
    """The value that was written under this key; `EngineCorrupt` if these bytes cannot be that."""
    if data[:1] != _MARK:
        raise EngineCorrupt(f"record {key!r} has format {data[:1].hex() or 'none'}, and this version reads {FORMAT}")
    try:
        return _decoders[key[:1]].decode(memoryview(data)[1:])
    except (KeyError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as broken:
        raise EngineCorrupt(f"record {key!r} cannot be read: {broken}") from broken
