"""The engines under test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from engine_words import Opener

from openintent.engines import open_engine
from openintent.engines.base import Engine


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the engine anew each time, on the same storage if it has one."""
    url = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/leases.db"}[request.param]

    @asynccontextmanager
    async def opened() -> AsyncIterator[Engine]:
        engine = open_engine(url)
        try:
            yield engine
        finally:
            await engine.close()

    return opened


@pytest.fixture
async def engine(opener: Opener) -> AsyncIterator[Engine]:
    async with opener() as engine:
        yield engine
