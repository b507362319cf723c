"""Who may come in.

Without configured keys the server is in dev mode: it listens on loopback only, accepts any key or none, and every
caller has operator rights. What it does check then is that the caller is on this machine: a page in a browser that
was tricked into calling localhost (DNS rebinding, cross-site requests) is turned away by its Host or Origin.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from openintent.server import problems
from openintent.server.exchange import Exchange


def is_loopback(host: str) -> bool:
    """Whether this names this machine whatever any name server says: `127.example.org` does not."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Gate:
    """Lets a request in, or raises `Refused`."""

    def __init__(self) -> None:
        self._known_hosts: set[bytes] = set()  # Host values that were found to be fine

    def check(self, exchange: Exchange) -> None:
        headers = exchange.headers
        host = headers.get(b"host")
        if host is not None and host not in self._known_hosts:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is not None and not _from_this_machine(origin.decode("latin-1")):
            raise _forbidden("Origin", "this page is not from this machine")

    def _check_host(self, host: bytes) -> None:
        if not _from_this_machine("//" + host.decode("latin-1")):
            raise _forbidden("Host", "without configured keys only this machine is served, by its loopback names")
        if len(self._known_hosts) < 64:
            self._known_hosts.add(host)


def _from_this_machine(url: str) -> bool:
    try:
        name = urlsplit(url).hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


def _forbidden(header: str, why: str) -> problems.Refused:
    return problems.Refused(403, problems.plain("forbidden", f"{header} refused: {why}"))
