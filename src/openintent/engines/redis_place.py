"""The URL of the Redis engine."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from openintent.engines.patience import timeout_s_of
from openintent.engines.redis_scripts import keys_below

PORT: Final = 6379

URL_FORM: Final = "redis://user:password@host:6379/0?prefix=openintent, special characters written as %XX"
OWN_OPTIONS: Final = ("durability", "prefix", "timeout")
TLS_OPTIONS: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
PREFIX: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def place_of(url: str) -> "Place":
    """What the URL says. A `ValueError` does not repeat the URL: there may be a password in it."""
    try:
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        host, port, database = unquote(parts.hostname or ""), parts.port or PORT, int(parts.path.strip("/") or 0)
    except ValueError:
        host = ""
    if not host or parts.fragment:
        raise ValueError(f"the URL of the engine cannot be read; write {URL_FORM}")
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    secure = parts.scheme == "rediss"
    for name in asked:
        if name not in OWN_OPTIONS + (TLS_OPTIONS if secure else ()):
            raise ValueError(f"{parts.scheme}: has no option {name!r}; write {URL_FORM}")
    params: dict[str, Any] = {"host": host, "port": port, "db": database}
    params |= {name: value for name, value in (("username", user), ("password", password)) if value}
    params |= {name: value for name, value in asked.items() if name in TLS_OPTIONS}
    prefix, durability = asked.get("prefix", "openintent"), asked.get("durability", "full")
    if PREFIX.fullmatch(prefix) is None:
        raise ValueError(f"prefix={prefix!r} is not a name of letters, digits and any of _ . : -")
    if durability not in ("full", "trust", "weak"):
        raise ValueError(f"durability={durability!r} is none of 'full', 'trust' and 'weak'")
    return Place(params, secure, prefix, timeout_s_of(asked.get("timeout")), durability)


class Place(NamedTuple):
    """Where the keys are, and how to get there."""

    params: Mapping[str, Any]
    secure: bool
    prefix: str
    timeout_s: float
    durability: str

    @property
    def name(self) -> str:
        host = f"{self.params['host']}:{self.params['port']}"
        return f"{'rediss' if self.secure else 'redis'}://{host}/{self.params['db']}"

    @property
    def keys(self) -> tuple[str, str, str, str]:
        return keys_below(self.prefix)
