"""Short words for what the tests do with etcd."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from engine_words import commit, keys

from openintent.engines import open_engine
from openintent.engines.base import Engine, Put
from openintent.errors import EngineUnavailable


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Engine]:
    engine = open_engine(url)
    try:
        yield engine
    finally:
        await engine.close()


async def refusal(url: str) -> str:
    async with opened(url) as engine:
        with pytest.raises(EngineUnavailable) as refused:
            await engine.head()
    message = str(refused.value)
    assert "\n" not in message
    return message


async def one_commit(url: str) -> Engine:
    """The engine after one commit, closed: for what it says of itself."""
    async with opened(url) as engine:
        await commit(engine, Put("k", b""))
        assert await keys(engine) == ["k"]
    return engine
