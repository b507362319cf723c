"""etcd's lock by its JSON gateway: a holder and a waiter for the takeover."""

import base64
import http.client
import json
import time
from typing import Any

from pace import arguments, tell


def ask(line: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    line.request("POST", f"/v3/{path}", json.dumps(body))
    answer = line.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


def locked(line: http.client.HTTPConnection, scope: str, ttl_s: float) -> str:
    lease: str = ask(line, "lease/grant", {"TTL": str(round(ttl_s))})["ID"]
    ask(line, "lock/lock", {"name": base64.b64encode(scope.encode()).decode(), "lease": lease})
    return lease


def hold(port: int, scope: str, ttl_s: float) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port)
    lease = locked(line, scope, ttl_s)
    tell(time.monotonic())
    while True:
        time.sleep(ttl_s / 3)
        ask(line, "lease/keepalive", {"ID": lease})


def wait(port: int, scope: str, ttl_s: float) -> None:
    """Its own lease must live until it is granted: it is longer than the holder's."""
    line = http.client.HTTPConnection("127.0.0.1", port)
    tell(time.monotonic())
    locked(line, scope, ttl_s + 60)
    tell(time.monotonic())


if __name__ == "__main__":
    told = arguments(__doc__, "hold", "wait")
    (hold if told.part == "hold" else wait)(told.port, told.scope, told.ttl)
