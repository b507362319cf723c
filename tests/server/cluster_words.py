"""Several real servers in one process, on one engine in memory, and a leader that only pretends to be one.

They have real sockets, and share an engine as several processes share a database: whoever moves its head is the writer.
What it takes to be processes of their own is the affair of `tests/e2e/test_failover.py`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from rawhttp import Connection

from openintent.engines.base import Guarantees, Head
from openintent.engines.memory import MemoryEngine
from openintent.server.app import Server, bound, url_of
from openintent.server.auth import Gate
from openintent.server.settings import Settings

SOON_S = 10.0
TAKE = {"scope": "a", "ttl_seconds": 30}
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nx-term: 1\r\nx-rev: 1\r\n\r\n{}"
LONG_S = 300.0


class SharedMemory(MemoryEngine):
    """One that several may have open."""

    guarantees = Guarantees(durable=False, survives_node_loss=False, exclusive_open=False)


class Member(Server):
    """A server in this process; signals are for pytest."""

    url: str
    task: asyncio.Task[None]

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def grantor(self) -> Any:
        return self._grantor

    @property
    def forwarder(self) -> Any:
        return self._service.forwarder

    async def stop(self) -> None:
        self.should_exit = True
        await soon(asyncio.shield(self.task))


async def started(
    engine: MemoryEngine, *, name: str = "", gate: Gate | None = None, url: str = "", **settings: Any
) -> Member:
    """Ready when it returns. What is after the `#` of its member is its name."""
    listener, ready = bound("127.0.0.1", 0), asyncio.Event()
    chosen = Settings(**{"leader_ttl_seconds": LONG_S, "stop_seconds": 0.5, **settings})
    own_url = url_of(listener)
    member = Member(chosen, engine, lambda _: ready.set(), gate, member=f"{url or own_url}#{name}")
    member.url = own_url
    member.task = asyncio.ensure_future(member.serve([listener]))
    await soon(ready.wait())
    return member


@asynccontextmanager
async def cluster(count: int, **settings: Any) -> AsyncIterator[list[Member]]:
    """The first of them leads."""
    engine = SharedMemory()
    members: list[Member] = []
    try:
        for number in range(count):
            members.append(await started(engine, name=f"m{number}", **settings))
            await until(lambda: members[0].grantor.serving and all(member.grantor.leader for member in members))
        yield members
    finally:
        for member in reversed(members):
            await member.stop()


Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def pretended(behave: Behaviour, **settings: Any) -> AsyncIterator[Member]:
    """A server that stands by for a leader that is no server of ours: it does what the test says."""
    async with listening(behave) as url:
        engine = SharedMemory()
        await engine.commit(expect=Head(), head=Head(term=1, member=f"{url}#pretender"), changes=[])
        member = await started(engine, name="standby", **settings)
        try:
            await until(lambda: member.grantor.leader)
            yield member
        finally:
            await member.stop()


@asynccontextmanager
async def listening(behave: Behaviour) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await behave(reader, writer)
        except (asyncio.CancelledError, OSError, EOFError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield url_of(server.sockets[0])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """One request, whole, but for the quiet looks of those who stand by."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(length or 0))
        if not head.startswith(b"GET /readyz "):
            return head + body


@contextmanager
def connected(*members: Member, agent: str = "ada") -> Iterator[list[Connection]]:
    lines = [Connection(member.port, agent) for member in members]
    try:
        yield lines
    finally:
        for line in lines:
            line.close()


async def until(wanted: Callable[[], Any]) -> None:
    async with asyncio.timeout(SOON_S):
        while not wanted():  # noqa: ASYNC110  # what it looks at has no event to wait for
            await asyncio.sleep(0.005)


async def soon(what: Awaitable[Any]) -> Any:
    async with asyncio.timeout(SOON_S):
        return await what


def raw(method: str, path: str, body: object = None, *lines: str) -> bytes:
    sent = b"" if body is None else json.dumps(body).encode()
    head = [f"{method} /api/v1{path} HTTP/1.1", "Host: localhost", "X-Agent-ID: ada", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(sent)}", "", ""]).encode() + sent
