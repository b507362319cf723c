"""How the server is told what to do: flags, then environment, then a TOML file, then these defaults.

Everything that is wrong is said at once.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from openintent.model import Limits
from openintent.server.auth import FAILURES_MAX, is_loopback
from openintent.server.stream import STREAMS_MAX

ENV_PREFIX: Final = "OPENINTENT_"
# A turn may take 100 ms: less than two of them could not be told from a busy moment.
SHED_MS_MIN: Final = 200


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of `openintent serve`."""

    host: str = "127.0.0.1"  # the address to listen on
    port: int = 8000  # the port; 0 takes any free one
    engine: str = "sqlite:///openintent.db"  # where the ledger is kept
    log_level: str = "info"  # debug, info, warning or error
    log_format: str = "text"  # text or json
    keys: str | None = None  # the key file; else the one beside the SQLite database, if there is one
    key_failures_max: int = FAILURES_MAX  # wrong keys from one address in 10 s before it is told to wait
    behind_tls: bool = False  # a proxy in front of the server terminates TLS, and nobody gets past it
    connections_max: int = 10_000  # open at a time
    connections_per_address_max: int = 4_096  # of one client address
    connections_reserved: int = 256  # beyond those, for requests that keep or end what is held
    streams_max: int = STREAMS_MAX  # readers of events at a time
    shed_new_ms: int = 250  # how far behind the server may be before it refuses acquires and creates
    shed_most_ms: int = 1_000  # the same for all but what keeps or ends what is held
    shed_commit_ms: int = 2_000  # how long a commit may take before acquires and creates are refused
    advertise: str | None = None  # where the other servers on the same engine reach this one; else where it listens
    leader_ttl_seconds: float = 10.0  # how long a leader that is not heard of keeps the others from taking over
    stop_seconds: float = 1.0  # how long open requests may still take at a stop
    limits: Limits = Limits()

    @property
    def key_file(self) -> Path | None:
        """Where keys are looked for; None if there is no place for them."""
        if self.keys is not None:
            return Path(self.keys)
        database = self.engine.removeprefix("sqlite:///")
        if database in ("", self.engine):
            return None
        path = Path(database).resolve()  # as the engine does: by another name it is the same database
        return path.with_name(f"{path.name}.keys")


class BadSettings(Exception):
    """Something in flags, environment or file cannot be right; the message has a line for each."""


def load(
    flags: Mapping[str, Any],
    *,
    config: str | None = None,
    env: Mapping[str, str] = os.environ,
    to_serve: bool = True,
) -> Settings:
    """The settings in force; `flags` that are None were not given. `to_serve`: also fit to be served with right now."""
    path = config or env.get(f"{ENV_PREFIX}CONFIG")
    values: dict[str, Any] = _from_file(path) if path else {}
    values |= _from_env(env)
    values |= {name: value for name, value in flags.items() if value is not None}
    settings, faults = _converted(values)
    faults += _unfit(settings) + (_exposed(settings) if to_serve else [])
    if faults:
        raise BadSettings("\n".join(faults))
    return settings


def _from_file(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as failure:
        raise BadSettings(f"{path}: {failure.strerror}") from failure
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise BadSettings(f"{path}: {broken}") from broken


def _from_env(env: Mapping[str, str]) -> dict[str, Any]:
    names = {field.name for field in msgspec.structs.fields(Settings)} - {"limits"}
    found = {name: env.get(ENV_PREFIX + name.upper()) for name in names}
    return {name: value for name, value in found.items() if value}


def _converted(values: Mapping[str, Any]) -> tuple[Settings, list[str]]:
    values = dict(values)
    good: dict[str, Any] = {}
    limits = values.pop("limits", {})
    if isinstance(limits, Mapping):
        found, faults = _fitting(Limits, limits, "limits.")
        good["limits"] = Limits(**found)
    else:
        faults = ["limits: must be a table"]
    found, more = _fitting(Settings, values)
    return Settings(**good, **found), more + faults


def _fitting(shape: type, values: Mapping[str, Any], prefix: str = "") -> tuple[dict[str, Any], list[str]]:
    """Each value by itself, so that one that is wrong does not hide the others. Environment values are strings."""
    known = {field.name: field for field in msgspec.structs.fields(shape)}
    good: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in values.items():
        if name not in known:
            faults.append(f"{prefix}{name}: no such setting (there are {', '.join(sorted(known))})")
            continue
        try:
            good[name] = msgspec.convert(value, known[name].type, strict=not isinstance(value, str))
        except msgspec.ValidationError as broken:
            faults.append(f"{prefix}{name}: {broken}")
    return good, faults


def _unfit(settings: Settings) -> list[str]:
    """What fits each by itself but not together."""
    limits = settings.limits
    checks = {
        "port: must be from 0 to 65535": 0 <= settings.port <= 65535,
        "log_level: must be debug, info, warning or error": settings.log_level in _LEVELS,
        "log_format: must be text or json": settings.log_format in ("text", "json"),
        "key_failures_max: must be at least 1": settings.key_failures_max >= 1,
        "limits: ttl_ms_min <= ttl_ms_default <= ttl_ms_max": (
            limits.ttl_ms_min <= limits.ttl_ms_default <= limits.ttl_ms_max
        ),
        "limits: ttl_ms_min must be at least 100": limits.ttl_ms_min >= 100,
        "connections_per_address_max: must be from 1 to connections_max": (
            1 <= settings.connections_per_address_max <= settings.connections_max
        ),
        "connections_reserved: must be at least 0": settings.connections_reserved >= 0,
        "streams_max: must be at least 0": settings.streams_max >= 0,
        f"shed_new_ms: must be from {SHED_MS_MIN} to shed_most_ms": (
            SHED_MS_MIN <= settings.shed_new_ms <= settings.shed_most_ms
        ),
        f"shed_commit_ms: must be at least {SHED_MS_MIN}": settings.shed_commit_ms >= SHED_MS_MIN,
        "leader_ttl_seconds: must be from 1 to 300": 1 <= settings.leader_ttl_seconds <= 300,
        "advertise: must be an address such as http://10.0.0.7:8000": (
            settings.advertise is None or bool(_ADDRESS.fullmatch(settings.advertise))
        ),
        f"advertise: is needed where the engine is shared and the server listens on {settings.host}": (
            settings.advertise is not None or settings.host not in _EVERYWHERE or _is_own(settings.engine)
        ),
        "stop_seconds: must be from 0 to 3600": 0 <= settings.stop_seconds <= 3_600,
    }
    return [fault for fault, fine in checks.items() if not fine]


def _exposed(settings: Settings) -> list[str]:
    """What would let in whom it must not, or show keys to whoever listens on the network."""
    host, keys = settings.host, settings.key_file
    found = keys is not None and keys.exists()
    if settings.keys is not None and not found:
        return [f"keys: there is no file {keys}; make it with: openintent keys add NAME --file {keys}"]
    if is_loopback(host):
        return []
    if not found:
        hint = "make a key first with: openintent keys add NAME"
        return [f"host: without configured keys only loopback addresses are served, not {host}; {hint}"]
    if not settings.behind_tls:
        why = f"host: keys would cross the network to {host} in plain text"
        todo = "put a proxy that terminates TLS in front and say so with --behind-tls, or listen on 127.0.0.1"
        return [f"{why}; {todo}"]
    return []


def _is_own(engine: str) -> bool:
    """Whether no other server can be on it, that would want to reach this one."""
    return engine.partition(":")[0] in ("sqlite", "memory")


_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104  # to be told from addresses
_ADDRESS: Final = re.compile(r"http://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_LEVELS: Final = ("debug", "info", "warning", "error")
