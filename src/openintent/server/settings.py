"""How the server is told what to do: flags, then environment, then a TOML file, then these defaults.

Everything that is wrong is said at once.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from openintent.model import Limits
from openintent.server.auth import is_loopback

ENV_PREFIX: Final = "OPENINTENT_"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of `openintent serve`."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0 takes any free one
    engine: str = "sqlite:///openintent.db"
    log_level: str = "info"
    connections_max: int = 10_000
    connections_per_address_max: int = 4_096
    stop_seconds: float = 2.0  # how long open requests may still take at a stop
    limits: Limits = Limits()


class BadSettings(Exception):
    """Something in flags, environment or file cannot be right; the message has a line for each."""


def load(flags: Mapping[str, Any], *, config: str | None = None, env: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force; `flags` that are None were not given."""
    path = config or env.get(f"{ENV_PREFIX}CONFIG")
    values: dict[str, Any] = _from_file(path) if path else {}
    values |= _from_env(env)
    values |= {name: value for name, value in flags.items() if value is not None}
    settings, faults = _converted(values)
    faults += _unfit(settings)
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
        f"host: without configured keys only loopback addresses are served, not {settings.host}": is_loopback(
            settings.host
        ),
        "limits: ttl_ms_min <= ttl_ms_default <= ttl_ms_max": (
            limits.ttl_ms_min <= limits.ttl_ms_default <= limits.ttl_ms_max
        ),
        "limits: ttl_ms_min must be at least 100": limits.ttl_ms_min >= 100,
        "connections_per_address_max: must be from 1 to connections_max": (
            1 <= settings.connections_per_address_max <= settings.connections_max
        ),
        "stop_seconds: must be from 0 to 3600": 0 <= settings.stop_seconds <= 3_600,
    }
    return [fault for fault, fine in checks.items() if not fine]


_LEVELS: Final = ("debug", "info", "warning", "error")
