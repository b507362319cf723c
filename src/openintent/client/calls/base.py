"""One exchange as a value, and the small parts of which the calls are made."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Self, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from openintent.client.replies import Reply

T = TypeVar("T")
JSON = Mapping[str, Any]

_KINDS: Final = ("intent", "space", "portfolio", "agent")


class Call(msgspec.Struct, Generic[T], frozen=True):
    method: str
    path: str  # below the API's base path, quoted, with its query
    parse: Callable[[Reply], T]
    body: JSON | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    # Whether sending it twice is the same as sending it once: by its nature, or because it carries its attempt.
    repeatable: bool = True
    timeout_s: float | None = None
    at_root: bool = False  # the path begins at the server's address instead

    def within(self, timeout_s: float) -> Self:
        """The same with that much time. As `replace` makes it, but this is on the way of every request."""
        return type(self)(
            self.method, self.path, self.parse, self.body, self.headers, self.repeatable, timeout_s, self.at_root
        )


def space_path(space: str) -> str:
    """Where the server has what a space is of: `intent:<id>` is below `/intents/<id>`."""
    kind, _, name = space.partition(":")
    assert kind in _KINDS, space
    return f"/{kind}s/{quoted(name)}"


def quoted(segment: str) -> str:
    return quote(segment, safe="")


def query(**fields: object) -> str:
    named = {name: value for name, value in fields.items() if value is not None}
    return f"?{urlencode(named)}" if named else ""


def given(**fields: Any) -> dict[str, Any]:
    """What the caller left out is left out: the server knows its own defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def headers(*, attempt: str | None = None, version: int | None = None, match: bool = False) -> dict[str, str]:
    """`match` asks for a comparison of versions, of which no version is any; without it a version alone does."""
    found = {} if attempt is None else {"Idempotency-Key": attempt}
    if match or version is not None:
        found["If-Match"] = "*" if version is None else str(version)
    return found
