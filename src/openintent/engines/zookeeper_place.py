"""The URL of the ZooKeeper engine, and the names of its nodes."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from openintent.engines.patience import timeout_s_of

PORT: Final = 2181
PORT_MAX: Final = 65_535
# A number has so many digits, so that rows have the order of their names for whoever looks at them.
DIGITS: Final = 12

URL_FORM: Final = "zookeeper://host1:2181,host2:2181/path?auth=digest:user:password, special characters as %XX"
TLS_OPTIONS: Final = ("ca", "cert", "key")
OPTIONS: Final = ("auth", "timeout", "tls", *TLS_OPTIONS)


class Place(NamedTuple):
    """Where the nodes are, and how to get there."""

    hosts: tuple[str, ...]
    path: str
    auth: tuple[str, str] | None
    timeout_s: float
    tls: Mapping[str, str] | None

    @property
    def name(self) -> str:
        return f"zookeeper://{','.join(self.hosts)}{self.path}"

    @property
    def head(self) -> str:
        return f"{self.path}/head"

    @property
    def term(self) -> str:
        return f"{self.path}/term"

    @property
    def root(self) -> str:
        return f"{self.path}/root"

    @property
    def journal(self) -> str:
        return f"{self.path}/journal"

    @property
    def staged(self) -> str:
        return f"{self.path}/staged"

    @property
    def pages(self) -> str:
        return f"{self.path}/pages"

    def row(self, number: int) -> str:
        return f"{self.journal}/{number:0{DIGITS}}"

    def above(self) -> list[str]:
        """What the path lies below, from the top."""
        names = self.path.split("/")[1:-1]
        return ["/" + "/".join(names[: count + 1]) for count in range(len(names))]


def place_of(url: str) -> Place:
    """What the URL says. A `ValueError` does not repeat the URL: there may be a password in it."""
    base, _, query = url.partition("?")
    hosts, _, path = base.partition("://")[2].partition("/")
    asked = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(asked) - set(OPTIONS)):
        raise ValueError(f"{unknown[0]} is no option of the ZooKeeper engine; there are {', '.join(OPTIONS)}")
    if "@" in hosts:
        raise ValueError(f"a user and a password are given by ?auth=: write {URL_FORM}")
    return Place(
        hosts=tuple(map(_host, hosts.split(","))),
        path=_path(unquote(path)),
        auth=_auth(asked.get("auth")),
        timeout_s=timeout_s_of(asked.get("timeout")),
        tls=_tls(asked),
    )


def _host(text: str) -> str:
    host, colon, port = text.rpartition(":") if text.rpartition("]")[2].count(":") else (text, ":", str(PORT))
    if not host or not colon or not port.isdecimal() or not 0 < int(port) <= PORT_MAX:
        raise ValueError(f"the URL of the engine names no host, or one that cannot be; write {URL_FORM}")
    return f"{host}:{port}"


def _path(text: str) -> str:
    names = [name for name in text.split("/") if name] or ["openintent"]
    if names[0] == "zookeeper" or any(name in (".", "..") or not name.isprintable() for name in names):
        raise ValueError(f"the path {text!r} cannot be one of ours")
    return "/" + "/".join(names)


def _auth(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    scheme, _, who = text.partition(":")
    user, _, password = who.partition(":")
    if scheme != "digest" or not user or not password:
        raise ValueError("auth= is not of the form digest:user:password")
    return scheme, who


def _tls(asked: Mapping[str, str]) -> Mapping[str, str] | None:
    chosen = asked.get("tls", "no")
    if chosen not in ("no", "yes"):
        raise ValueError(f"tls={chosen!r} is neither 'no' nor 'yes'")
    files = {name: asked[name] for name in TLS_OPTIONS if name in asked}
    if files and chosen == "no":
        raise ValueError(f"{next(iter(files))} is for TLS: add tls=yes")
    if ("cert" in files) != ("key" in files):
        raise ValueError("cert and key go together: name both")
    return files if chosen == "yes" else None
