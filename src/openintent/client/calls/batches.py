"""Many calls in one: how they travel, and how each finds its own answer in what comes back."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from openintent.client import replies
from openintent.client.calls.base import Call
from openintent.errors import OpenIntentError
from openintent.model import Limits
from openintent.wire import API, PartBody

T = TypeVar("T")

BATCH_MAX: Final = Limits().requests_per_batch_max
BATCH_BYTES_MAX: Final = 1_000_000  # the server takes bodies of a little more


def batches(asked: Sequence[Call[T]]) -> Iterator[Call[list[T | OpenIntentError]]]:
    """In the same order, and as few as the server's bounds allow."""
    parts = [msgspec.json.encode(_part(call)) for call in asked]
    size = min(BATCH_MAX, max(1, BATCH_BYTES_MAX // max(map(len, parts), default=1)))
    for first in range(0, len(asked), size):
        some = slice(first, first + size)
        readers = [call.parse for call in asked[some]]
        body = {"requests": [msgspec.Raw(part) for part in parts[some]]}
        repeatable = all(call.repeatable for call in asked[some])
        yield Call("POST", "/batch", partial(replies.each, readers), body, repeatable=repeatable)


def _part(call: Call[Any]) -> PartBody:
    return PartBody(
        call.method,
        API + call.path,
        UNSET if call.body is None else msgspec.Raw(msgspec.json.encode(call.body)),
        call.headers.get("Idempotency-Key"),
        call.headers.get("If-Match"),
    )
