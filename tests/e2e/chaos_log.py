"""What the programs of a chaos run write down: lines of JSON, one file for each process, all on the boot clock.

The machine's processes share that clock, so the order of what they say is the order of the world. A line is one write
to a file that is only added to: a kill cannot tear it, and threads cannot mix theirs.

A call is written twice: when it leaves, without an end, and when it ended. The first stands if the second never came.

    {"p": "c7", "n": 181, "call": ns, "ret": ns|null, "op": "acquire|renew|release|cancel", "res": scope,
     "idem": attempt, "lease": id, "ttl_ms": .., "tok_in": .., "out": "ok|no|lost|error|unknown",
     "tok": .., "ttl_left_ms": .., "waited_ms": .., "term": .., "rev": .., "http": status}
    {"p": "c7", "belief": "start|end", "res": scope, "tok": token, "at": ns, "until": ns}
    {"p": "c7", "act": n, "res": scope, "tok": token, "at": ns, "done": ns, "until": ns}
"""

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from openintent.client.http import awaited as awaited_line
from openintent.client.http import sync
from openintent.client.http.messages import Answer, Asked

LEASES = re.compile(r"/api/v1/spaces/[^/]+/leases$")
LEASE = re.compile(r"/api/v1/leases/(?P<lease>[^/]+)$")
HEARTBEAT = re.compile(r"/api/v1/agents/[^/]+/heartbeat$")

Line = dict[str, Any]


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wall_less_boot_ns() -> int:
    """Whoever is interrupted between the two looks gets too little, so the most is right."""
    return max(time.time_ns() - now_ns() for _ in range(10))


class Log:
    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, **line: Any) -> None:
        os.write(self._file, json.dumps({"p": self.name, **line}).encode() + b"\n")


class Recorder:
    """Writes down every exchange about a lease, where the SDK hands it to its line."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._numbers = count()
        self._known: dict[str, tuple[str, int]] = {}  # lease id to scope and token

    def install(self) -> None:
        plain, awaited = sync.Line.exchange, awaited_line.Line.exchange

        def exchange(line: sync.Line, url: str, asked: Asked) -> Answer:
            heard = self._asks(asked)
            answer = plain(line, url, asked)
            heard(answer)
            return answer

        async def exchange_async(line: awaited_line.Line, url: str, asked: Asked) -> Answer:
            heard = self._asks(asked)
            answer = await awaited(line, url, asked)
            heard(answer)
            return answer

        sync.Line.exchange = exchange  # type: ignore[method-assign]
        awaited_line.Line.exchange = exchange_async  # type: ignore[method-assign]

    def _asks(self, request: Asked) -> Callable[[Answer], None]:
        asked = {"n": next(self._numbers), **self._question(request), "call": now_ns()}
        self._log.say(**asked, ret=None, out="unknown")

        def heard(response: Answer) -> None:
            self._log.say(**{**asked, "ret": now_ns(), **self._answer(asked, response)})

        return heard

    def _question(self, request: Asked) -> Line:
        body = json.loads(request.body) if request.body else {}
        target = urlsplit(request.target)
        if LEASES.search(target.path):
            attempt = request.headers.get("Idempotency-Key") or dict(parse_qsl(target.query)).get("attempt")
            if request.method == "DELETE":
                return {"op": "cancel", "res": None, "idem": attempt}
            return {
                "op": "acquire",
                "res": body["scope"],
                "idem": attempt,
                "ttl_ms": round(body["ttl_seconds"] * 1_000),
            }
        if HEARTBEAT.search(target.path):
            (listed,) = body["leases"]  # a worker holds one lease at a time
            return {"op": "renew", "res": self._scope(listed["id"]), "lease": listed["id"], "tok_in": listed["token"]}
        found = LEASE.search(target.path)
        assert found is not None, request.target
        scope, token = self._known.get(found["lease"], (None, None))
        op = {"DELETE": "release", "PATCH": "renew"}[request.method]
        return {"op": op, "res": scope, "lease": found["lease"], "tok_in": token}

    def _scope(self, lease_id: str) -> str | None:
        return self._known.get(lease_id, (None, 0))[0]

    def _answer(self, asked: Mapping[str, Any], response: Answer) -> Line:
        headers, body = response.headers, json.loads(response.body)
        seen: Line = {"http": response.status, "out": outcome(response.status, body)}
        if "x-rev" in headers:
            seen |= {"term": int(headers["x-term"]), "rev": int(headers["x-rev"])}
        verdicts = body.get("leases") or [body]
        if asked["op"] in {"acquire", "renew"} and seen["out"] == "ok":
            seen["ttl_left_ms"] = round(verdicts[0]["remaining_seconds"] * 1_000)
        if asked["op"] == "acquire" and seen["out"] == "ok":
            seen |= {"tok": body["token"], "lease": body["id"], "waited_ms": int(body["waited_seconds"] * 1_000)}
            self._known[body["id"]] = (body["scope"], body["token"])
        return seen


def outcome(status: int, body: Mapping[str, Any]) -> str:
    """`no` and `lost` say that nothing was done; `unknown` says nothing."""
    if status == 200:
        return "lost" if any(verdict["verdict"] == "lost" for verdict in body.get("leases", ())) else "ok"
    if status == 504:
        return "unknown"
    return "lost" if body.get("error", {}).get("code") == "lease_lost" else "no" if status == 409 else "error"
