"""Where a ledger is remembered. An engine commits batches; it knows no lease rule, no election and no clock."""

from collections.abc import Callable, Mapping
from typing import Final

from openintent.engines.base import Engine

OFFERED: Final = "sqlite:///relative.db, sqlite:////absolute.db, memory:"


def open_engine(url: str, *, address: str = "") -> Engine:
    """The engine that the URL names. `address` is what it tells others about who has it open."""
    scheme, _, rest = url.partition(":")
    if scheme not in _OPENERS:
        raise ValueError(f"no engine for {url!r}; offered are {OFFERED}")
    return _OPENERS[scheme](rest, address)


def _open_memory(rest: str, _address: str) -> Engine:
    if rest:
        raise ValueError(f"'memory:{rest}' is not 'memory:': what is in memory has no name")
    from openintent.engines.memory import MemoryEngine  # noqa: PLC0415

    return MemoryEngine()


def _open_sqlite(rest: str, address: str) -> Engine:
    path = rest.removeprefix("///")
    if path in ("", rest):
        raise ValueError(f"'sqlite:{rest}' names no file; write sqlite:///relative.db or sqlite:////absolute.db")
    # Imported here, so that who uses another engine needs no SQLite.
    from openintent.engines.sqlite import SqliteEngine  # noqa: PLC0415

    return SqliteEngine(path, address=address)


_OPENERS: Final[Mapping[str, Callable[[str, str], Engine]]] = {"memory": _open_memory, "sqlite": _open_sqlite}
