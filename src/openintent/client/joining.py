"""Who sees to it that a database file is served. It is said here, and not asked before a client names such a file."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Place(Protocol):
    """A file that is being served, by this process or another one. Any thread may ask."""

    def where(self) -> str | None:
        """`unix:/path` or `http://host:port`, or None while that changes. Raises if nobody can serve the file."""
        ...

    def trouble(self) -> str:
        """What keeps the file from being served, as far as is known."""
        ...

    def leave(self) -> None:
        """Not needed any more by whoever joined. May take a moment, if it was this process that served the file."""
        ...


Join = Callable[["Path"], Place]
_joins: Final[list[Join]] = []


def offer(join: Join) -> None:
    """From now on files are served by what this returns."""
    _joins[:] = [join]


def join(path: "Path") -> Place:
    return _joins[0](path)
