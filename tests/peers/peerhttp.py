"""The two that speak OpenIntent's HTTP: our server, and the public package's own."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from peer import HOLDERS, AnswerLost, Grant, Locks, Peer, Program
from rawhttp import Answer, Connection
from serverprocess import READY, ServerProcess

from openintent.version import __version__

PUBLIC_VERSION = "0.17.0"
IDLE_S_MAX = 2.0  # the public server closes a connection that is idle for 5 s


class HttpLocks(Locks):
    """Leases below one path. A holder has as many connections as it has requests under way."""

    def __init__(self, port: int, leases: str) -> None:
        self._port = port
        self._leases = leases
        self._idle: dict[str, list[tuple[Connection, float]]] = {}  # and since when

    async def acquire(self, resource: str, *, holder: str, ttl_s: float, attempt: str | None = None) -> Grant | None:
        sent_at = monotonic()
        answer = await self._call(holder, "POST", self._leases, {"scope": resource, **ttl(ttl_s)}, key=attempt)
        if not answer.ok:
            return None
        return Grant(resource, holder, sent_at, answer.body["id"], answer.body.get("token"))

    async def renew(self, grant: Grant, *, ttl_s: float) -> bool:
        answer = await self._call(grant.holder, "PATCH", f"{self._leases}/{grant.handle}", ttl(ttl_s))
        return answer.ok

    async def release(self, grant: Grant) -> bool:
        return (await self._call(grant.holder, "DELETE", f"{self._leases}/{grant.handle}")).ok

    def as_stranger(self, grant: Grant, *, holder: str) -> Grant:
        """An id is no secret: every refusal names it."""
        return Grant(grant.resource, holder, grant.sent_at, grant.handle, grant.token)

    async def wall_s(self) -> float:
        answer = await self._call(HOLDERS[0], "POST", self._leases, {"scope": f"clock-{uuid4()}", **ttl(1)})
        return datetime.fromisoformat(answer.body["expires_at"]).replace(tzinfo=UTC).timestamp() - 1

    async def aclose(self) -> None:
        for connection, _ in (one for idle in self._idle.values() for one in idle):
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)  # a transport closes in the next turn of the loop, which may have no other

    async def _call(self, holder: str, method: str, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        connection = self._connection(holder)
        answer = await connection.call(method, path, body, key=key)
        self._idle[holder].append((connection, monotonic()))
        if answer.unknown or answer.status >= 500:
            raise AnswerLost(f"{method} {path}: {answer}")
        return answer

    def _connection(self, holder: str) -> Connection:
        """An idle one, unless the server may be about to close it."""
        idle = self._idle.setdefault(holder, [])
        while idle:
            connection, since = idle.pop()
            if monotonic() < since + IDLE_S_MAX:
                return connection
            connection.close()
        # The public server knows its agents by their keys, ours by their names; each ignores the other's header.
        return Connection(self._port, holder, api_key=holder)


def ttl(ttl_s: float) -> dict[str, float]:
    """The public server takes whole seconds only."""
    return {"duration_seconds": int(ttl_s) if ttl_s == int(ttl_s) else ttl_s}


class Ours(Peer):
    name = "openintent-leases"
    version = __version__
    settings = "openintent serve, SQLite"
    ours = True
    fences = True
    repeats = True
    leases = "/spaces/peers/leases"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = Program(folder / f"ours-{self.port}.log", ready=READY)

    async def start(self) -> bool:
        server = ServerProcess(self.folder / "ours.db")
        server.port, server.wrapper = self.port, self.wrapper
        return await self._program.start(server.command)

    def kill(self) -> None:
        self._program.kill()

    def locks(self, port: int | None = None) -> HttpLocks:
        return HttpLocks(port or self.port, self.leases)

    def second(self) -> "Ours":
        return Ours(self.folder)

    def spelled(self) -> list[str]:
        return ["http", str(self.port), self.leases]


class Public(Peer):
    """`openintent-server`, with a key for each holder. Leases are parts of an intent, so one is made at the start."""

    name = "openintent (public)"
    version = PUBLIC_VERSION
    settings = "openintent-server, SQLite (its default), one API key per holder"

    def __init__(self, folder: Path, *, program: Path, leases: str = "") -> None:
        super().__init__(folder)
        self._path = program
        self._leases = leases
        self._program = Program(folder / f"public-{self.port}.log", ready="Uvicorn running on")

    async def start(self) -> bool:
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--api-keys", ",".join(HOLDERS)]
        options += ["--database-url", f"sqlite:///{self.folder / 'public.db'}"]
        started = await self._program.start([*self.wrapper, str(self._path), *options])
        if started and not self._leases:
            self._leases = f"/intents/{await self._intent()}/leases"
        return started

    async def _intent(self) -> str:
        connection = Connection(self.port, HOLDERS[0], api_key=HOLDERS[0])
        answer = await connection.call("POST", "/intents", {"title": "peers", "created_by": HOLDERS[0]})
        connection.close()
        assert answer.ok, answer
        return str(answer.body["id"])

    def kill(self) -> None:
        self._program.kill()

    def locks(self, port: int | None = None) -> HttpLocks:
        return HttpLocks(port or self.port, self._leases)

    def second(self) -> "Public":
        return Public(self.folder, program=self._path, leases=self._leases)

    def spelled(self) -> list[str]:
        return ["http", str(self.port), self._leases]
