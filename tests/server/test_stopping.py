"""When a server that was told to stop begins to: others on its engine wait for that."""

import asyncio
import signal
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
