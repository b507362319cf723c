"""When a server that was told to stop begins to: others on its engine wait for that."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from openintent.engines.memory import MemoryEngine
from openintent.server import app
from openintent.server.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[app.Server]:
    engine = MemoryEngine()
    server = app.Server(Settings(engine="memory:"), engine, lambda _: None)
    server.config.load()
    yield server
    await engine.close()


async def test_a_signal_is_obeyed_at_once(server: app.Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "LOOK_S", 3_600.0)
    serving = asyncio.create_task(server.main_loop())
    await asyncio.sleep(0)
    assert not serving.done()
    server.handle_exit(signal.SIGTERM, None)
    await asyncio.wait_for(serving, 10)


async def test_whoever_only_says_that_it_should_end_is_heard_soon(server: app.Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "LOOK_S", 0.001)
    serving = asyncio.create_task(server.main_loop())
    await asyncio.sleep(0)
    server.should_exit = True
    await asyncio.wait_for(serving, 10)


def acquire(agent: str, scope: str) -> bytes:
    body = json.dumps({"scope": scope, "wait_seconds": 60}).encode()
    head = f"POST /v1/spaces/s/leases HTTP/1.1\r\nHost: localhost\r\nX-Agent-ID: {agent}\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def granted(listener: socket.socket, *requests: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    for request in requests:
        writer.write(request)
        assert b" 200 " in await reader.readuntil(b'"preempt_asked":false}')
    return reader, writer


async def test_whoever_is_read_as_the_stop_begins_is_told_so_and_does_not_wait(server: app.Server):
    listener = app.bound("127.0.0.1", 0)
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup([listener])
    _, holder = await granted(listener, acquire("bob", "six"))
    others = set(server.server_state.connections)
    # The second is like the first: such requests are carried out at the end of a turn.
    reader, writer = await granted(listener, acquire("ada", "one"), acquire("ada", "two"))
    (connection,) = server.server_state.connections - others
    connection.data_received(acquire("ada", "six"))
    await server.shutdown([listener])
    assert (await reader.read()).startswith(b"HTTP/1.1 503")
    for each in (holder, writer):
        each.close()
        await each.wait_closed()
