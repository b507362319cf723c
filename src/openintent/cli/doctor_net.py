"""Who is at an address: nobody, a server of ours, or somebody else."""

import errno
import http.client
import json
import os
import socket
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

ANSWER_S_MAX: Final = 3.0
BODY_BYTES_MAX: Final = 65_536
OUR_NAME: Final = "openintent-leases"
HEARTBEAT: Final = "/api/v1/agents/doctor/heartbeat"  # it lists no lease, so it renews none

Who = Literal["nobody", "ours", "other", "unusable"]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """`unusable`: nobody listens, but the address cannot be had either, and `reason` says why."""

    url: str
    who: Who
    reason: str = ""
    version: str = ""
    ready: bool = False
    term: int = 0
    ahead_s: float | None = None  # its wall clock against ours


def neighbour(host: str, port: int) -> Neighbour:
    """Who has this address of ours; if nobody, whether it could be had."""
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    found = ask(url)
    return found if found.who != "nobody" else Neighbour(url, *_bindable(host, port))


def _bindable(host: str, port: int) -> tuple[Who, str]:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as failure:
        return "unusable", "reserved for the administrator" if failure.errno == errno.EACCES else _said(failure)
    return "nobody", ""


def ask(url: str) -> Neighbour:
    if not _is_address(url):
        return Neighbour(url, "unusable", "not the address of a server")
    try:
        version = _json(url, "GET", "/version")
    except (ConnectionRefusedError, socket.gaierror) as failure:
        return Neighbour(url, "nobody", _said(failure))
    except (OSError, http.client.HTTPException) as failure:
        return Neighbour(url, "other", _said(failure))
    if version.get("name") != OUR_NAME:
        return Neighbour(url, "other", "it speaks HTTP, and is no server of openintent-leases")
    return _ours(url, version)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # half an IPv6 address, or a port that is none
        return False


def _ours(url: str, version: dict[str, Any]) -> Neighbour:
    try:
        ready = _json(url, "GET", "/readyz")
        told = _json(url, "POST", HEARTBEAT)
    except (OSError, http.client.HTTPException) as failure:
        return Neighbour(url, "other", _said(failure))
    return Neighbour(
        url,
        "ours",
        version=str(version.get("version")),
        ready=ready.get("status") == "ready",
        term=int(ready.get("term") or 0),
        ahead_s=_ahead_s(told.get("server_timestamp")),
    )


def _ahead_s(date: Any) -> float | None:
    """None if it does not tell, because it wants a key that we do not have."""
    if not isinstance(date, str):
        return None
    return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp() - time.time()


def _json(url: str, method: str, path: str) -> dict[str, Any]:
    """What it answers, whatever the status; `{}` if that is no JSON object."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    with closing(kind(parts.hostname or "", parts.port, timeout=ANSWER_S_MAX)) as connection:
        key = os.environ.get("OPENINTENT_API_KEY")
        shown = {"X-API-Key": key} if key and key.isascii() and key.isprintable() else {}
        headers = {"X-Agent-ID": "doctor", **shown}
        connection.request(method, path, body=b"{}" if method == "POST" else None, headers=headers)
        body = connection.getresponse().read(BODY_BYTES_MAX)
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _said(failure: Exception) -> str:
    return getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
