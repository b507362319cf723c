"""Where a ledger is remembered. An engine commits batches; it knows no lease rule, no election and no clock."""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final
from urllib.parse import unquote

from openintent.engines.base import Engine
from openintent.errors import EngineUnavailable

OFFERED: Final = (
    "sqlite:///relative.db, sqlite:////absolute.db, memory:, etcd://host:2379/prefix,"
    " postgresql://user@host/database, redis://host:6379/0, zookeeper://host:2181/path"
)


def open_engine(url: str, *, address: str = "", apart: bool = False) -> Engine:
    """The engine that the URL names. `address` is what it tells others about who has it open.

    `apart`: work that would hold up this process is done in another one. That is for servers; it starts more slowly.
    """
    scheme, _, rest = url.partition(":")
    if scheme != "sqlite" and scheme not in _OPENERS:
        raise ValueError(f"no engine for {without_secret(url)!r}; offered are {OFFERED}")
    if scheme == "sqlite":
        return _open_sqlite(rest, address, apart=apart)
    return _OPENERS[scheme](rest)


def without_secret(url: str) -> str:
    """The URL as it may be shown: a password in it, or in its query, is nobody's business.

    A password that should have been written with %XX makes a wrong URL, and is one nevertheless: all is hidden from
    where one may begin up to the last `@`.
    """
    if url.startswith("sqlite:///"):
        return url  # a file, whatever its name has in it
    shown = _OPTION.sub(_without_value, url)
    scheme = shown[: shown.find("://") + 3] if "://" in shown else ""
    user, at, place = shown.removeprefix(scheme).rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{scheme}{name}{colon}{'***' if colon else ''}{at}{place}"


def _without_value(option: re.Match[str]) -> str:
    name = unquote(option[1])
    return f"{option[1]}=***" if any(word in name.lower() for word in _SECRETS) else option[0]


def _open_memory(rest: str) -> Engine:
    if rest:
        raise ValueError(f"'memory:{rest}' is not 'memory:': what is in memory has no name")
    from openintent.engines.memory import MemoryEngine  # noqa: PLC0415

    return MemoryEngine()


def _open_sqlite(rest: str, address: str, *, apart: bool) -> Engine:
    path = rest.removeprefix("///")
    if path in ("", rest):
        raise ValueError(f"'sqlite:{rest}' names no file; write sqlite:///relative.db or sqlite:////absolute.db")
    # Imported here, so that who uses another engine needs no SQLite.
    if apart:
        from openintent.engines.apart import ApartEngine  # noqa: PLC0415

        return ApartEngine(path, address=address)
    from openintent.engines.sqlite import SqliteEngine  # noqa: PLC0415

    return SqliteEngine(path, address=address)


def _on_a_server(scheme: str) -> Callable[[str], Engine]:
    """An engine whose module is named by its scheme, and imported only when it is used: it needs a library."""

    def opened(rest: str) -> Engine:
        from openintent.engines.journaled import JournaledEngine  # noqa: PLC0415  # the process of `apart` needs none

        try:
            module = import_module(f"openintent.engines.{_MODULES[scheme]}")
        except ModuleNotFoundError as missing:
            wanted = f"pip install 'openintent-leases[{_MODULES[scheme]}]'"
            raise EngineUnavailable(f"{scheme}: needs the library {missing.name}: {wanted}") from missing
        _refuse_torn(rest)
        engine: Engine = JournaledEngine(module.open_store(f"{scheme}:{rest}"))
        return engine

    return opened


def _refuse_torn(url: str) -> None:
    """A `?` in a password cuts it in two. The second half looks like an option that nobody knows, and is not named."""
    if any("@" in option.partition("=")[0] for option in url.partition("?")[2].split("&")):
        raise ValueError("the URL of the engine cannot be read: special characters in a password are written as %XX")


_OPTION: Final = re.compile(r"(?<=[?&])([^=&]*)=[^&]*")
_SECRETS: Final = ("pass", "auth", "secret")
_MODULES: Final = {
    "etcd": "etcd",
    "etcds": "etcd",
    "postgres": "postgres",
    "postgresql": "postgres",
    "redis": "redis",
    "rediss": "redis",
    "zookeeper": "zookeeper",
}
_OPENERS: Final[Mapping[str, Callable[[str], Engine]]] = {
    "memory": _open_memory,
    **{scheme: _on_a_server(scheme) for scheme in _MODULES},
}
