"""The engine beneath the server of a test: SQLite, or each one in turn where a test is marked so.

PROOF_BLACK_BOX_ENGINES=6 runs what is marked on all six; else it runs on SQLite alone. Each is a real one.
"""

import subprocess
from contextlib import closing, suppress
from http.client import HTTPConnection
from json import loads
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from proving import size
from serverprocess import ServerProcess

ENGINES = ("sqlite", "memory", "postgres", "etcd", "redis", "zookeeper")[: size("black_box_engines", 1)]
LEADER_TTL_S = 1.0
LEADS_S_MAX = 30.0
LOOK_S = 0.01

on_every_engine = pytest.mark.parametrize("engine", ENGINES, indirect=True)
# In memory nothing outlives the process; that is declared.
on_every_durable_engine = pytest.mark.parametrize(
    "engine", [name for name in ENGINES if name != "memory"], indirect=True
)


class SharedServer(ServerProcess):
    """On an engine that others may share: it listens at once, and is ready when it leads.

    After a stop that is soon, because of the farewell. After a kill it is when the leader ttl is over: before that
    nobody can know that the one that was killed is not merely slow.
    """

    takeover_s = LEADER_TTL_S

    def __init__(self, database: Path, engine: str) -> None:
        super().__init__(database, engine=engine)
        self.settings["OPENINTENT_LEADER_TTL_SECONDS"] = str(LEADER_TTL_S)

    def start(self) -> float:
        super().start()
        launched_at = looked_at = self.started_at
        before: dict[int, float] = {}  # by the term that it knew of: the last look at which it did not lead
        while (found := self._readiness())["role"] != "grantor":
            before[found["term"]] = looked_at
            self._rest(until=launched_at + LEADS_S_MAX)
            looked_at = monotonic()
        # Its promises are counted from a moment after this one. Later in its own term it may have been out of trust.
        earlier = (at for term, at in before.items() if term < found["term"])
        self.started_at = max(earlier, default=launched_at)
        return monotonic() - launched_at

    def _readiness(self) -> dict[str, Any]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=LEADS_S_MAX)) as line:
            line.request("GET", "/readyz")
            return dict(loads(line.getresponse().read()))

    def _rest(self, *, until: float) -> None:
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(LOOK_S)
        assert self._process.poll() is None, self.log.read_text()
        assert monotonic() < until, self.log.read_text()


def server_on(engine: str, database: Path) -> ServerProcess:
    """One that nobody has started yet; on a server's engine, if the URL is one's."""
    here = engine.startswith(("sqlite:", "memory:"))
    return ServerProcess(database, engine=engine) if here else SharedServer(database, engine)
