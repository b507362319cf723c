"""Words for tests of the whole server in process: its real service behind its real connections, without a socket."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import invariants
from lane_words import Wire
from strategies import AGENT, KEPT
from uvicorn.config import Config
from uvicorn.server import ServerState

from openintent.engines.memory import MemoryEngine
from openintent.grantor.grantor import Grantor
from openintent.model import Limits
from openintent.server.asgi import make_app
from openintent.server.auth import Gate
from openintent.server.hotlane import Bounds, hot_protocol
from openintent.server.routes import ROUTER
from openintent.server.service import Service

ANSWER_S_MAX = 20.0
LONG_S = 86_400


class Line(Wire):
    """A connection's other end: knows when an answer is complete, or will not come."""

    def __init__(self) -> None:
        super().__init__()
        self.over = asyncio.Event()

    def write(self, data: bytes) -> None:
        super().write(data)
        head, gap, body = self.sent.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if gap and len(body) >= int(length or 0):
            self.over.set()

    def close(self) -> None:
        super().close()
        self.over.set()

    def abort(self) -> None:
        super().abort()
        self.over.set()

    def answer(self) -> tuple[int, Any]:
        """The status, and what the body says; 0 and nothing if there was no answer."""
        head, _, body = self.sent.partition(b"\r\n\r\n")
        said = json.loads(body) if b"application/json" in head and body else None
        return (int(head[9:12]), said) if head else (0, None)


class House:
    """A server that remembers nothing after it is closed, and the loop that it lives in."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.runner.run(self._open())
        self._number = 0

    async def _open(self) -> None:
        self.engine = MemoryEngine()
        self.grantor = Grantor(self.engine, Limits(), member="test")
        await self.grantor.start()
        self.service = Service(self.grantor, Limits(), ROUTER, Gate())
        protocol = hot_protocol(self.service, Bounds())
        app = make_app(self.service)
        self.config = Config(app, http=protocol, interface="asgi3", lifespan="off", log_config=None, ws="none")
        self.config.load()
        self.state = ServerState()

    def close(self) -> None:
        self.runner.run(self._close())
        self.runner.close()

    async def _close(self) -> None:
        await self.service.close()
        await self.grantor.stop()

    # Asking

    def connect(self) -> tuple[Any, Line]:
        connection = self.config.http_protocol_class(config=self.config, server_state=self.state, app_state={})
        line = Line()
        connection.connection_made(line)
        return connection, line

    def ask(self, raw: bytes) -> tuple[int, Any]:
        """One request as it goes over the wire, and its answer."""
        return self.runner.run(self._ask(raw))

    async def _ask(self, raw: bytes) -> tuple[int, Any]:
        connection, line = self.connect()
        connection.data_received(raw)
        async with asyncio.timeout(ANSWER_S_MAX):
            await line.over.wait()
        connection.connection_lost(None)
        return line.answer()

    def made(self, path: str, body: dict[str, Any], key: str = "") -> str:
        """The id of what a request makes."""
        raw = json.dumps(body).encode()
        lines = [f"POST /api/v1{path} HTTP/1.1", "Host: localhost", f"X-Agent-ID: {AGENT}"]
        lines += [f"Content-Length: {len(raw)}", *([f"Idempotency-Key: {key}"] if key else [])]
        status, said = self.ask("\r\n".join([*lines, "", ""]).encode() + raw)
        assert status == 200, said
        return str(said["id"])

    # Things

    def furnish(self) -> Mapping[str, str]:
        """One of everything that a request can be about, related to each other, and used by no other request."""
        self._number += 1
        n = self._number
        other, dependency = (self.made("/intents", {"id": f"{each}-{n}", "title": each}) for each in ("other", "first"))
        state = {f"kept-{index}": index for index in range(KEPT)}
        whole = {"id": f"intent-{n}", "title": "Report", "state": state, "depends_on": [dependency]}
        intent = self.made("/intents", whole)
        portfolio, free = (self.made("/portfolios", {"name": each}) for each in ("full", "free"))
        self.made(f"/portfolios/{portfolio}/intents", {"intent_id": intent})
        config = {"interval_seconds": LONG_S}
        agent = self.made("/agents/register", {"agent_id": f"agent-{n}", "heartbeat_config": config})
        self.made(f"/intents/{intent}/agents", {"agent_id": agent})
        found = {"intent": intent, "other": other, "dependency": dependency, "portfolio": portfolio, "free": free}
        return {
            **found,
            "agent": agent,
            "space": f"space-{n}",
            "fresh": f"try-{n}",
            **self._leases(intent, portfolio, n),
        }

    def _leases(self, intent: str, portfolio: str, n: int) -> dict[str, str]:
        """Two in each place: one to be named, and one whose attempt is."""
        found: dict[str, str] = {}
        for kind, place in (("intent", f"/intents/{intent}"), ("space", f"/spaces/space-{n}")):
            found[f"{kind}_lease"] = self.made(f"{place}/leases", {"scope": "held", "ttl_seconds": LONG_S})
            key = found[f"attempt_{kind}"] = f"{kind}-attempt-{n}"
            self.made(f"{place}/leases", {"scope": "tried", "ttl_seconds": LONG_S}, key)
        for kind, whom in (("intent", intent), ("portfolio", portfolio)):
            key = found[f"attempt_coordinator_{kind}"] = f"{kind}-lead-{n}"
            body = {f"{kind}_id": whom, "ttl_seconds": LONG_S}
            found["coordinator"] = self.made("/coordinators", body, key)
        return found

    def everything(self) -> dict[str, Any]:
        """All that the ledger and the engine hold, as far as time alone does not change it."""
        found = invariants.durable_part(self.grantor._ledger)
        books = self.grantor.books
        return {
            **found,
            "counters": (books.token, books.seq, books.horizon),
            "records": dict(self.engine._values),
            "events": list(books.events),
        }
