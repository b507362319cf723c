"""Short words for what the tests do with engines on servers."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from engine_words import commit, everything, following, keys, opened
from faultproxy import FaultProxy
from posts import Post

from openintent.engines.base import Engine, OutcomeUncertain, Put
from openintent.errors import EngineUnavailable

# Each has a module `server_<name>.py` beside this one: `missing()` says what is not installed, and `running(folder)` is
# a context manager around a real server which gives a function that makes the URL of a place where nothing is yet.
ON_SERVERS = ("postgres", "etcd", "redis", "zookeeper")
SOFTWARE = {"postgres": "PostgreSQL", "etcd": "etcd", "redis": "Redis", "zookeeper": "ZooKeeper"}


async def refusal(url: str) -> str:
    """The line that an operator reads."""
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


async def commit_kept(slow: Engine, post: Post) -> None:
    """A commit of the slow writer leaves it, and does not arrive."""
    seen = await slow.head()
    post.keeps = post.COMMIT
    with pytest.raises(OutcomeUncertain):
        await slow.commit(expect=seen, head=following(seen), changes=[Put("late", b"")])
    post.keeps = None


async def fold_kept(slow: Engine, post: Post, fold: int = 0) -> None:
    """A fold of the slow writer leaves it, and does not arrive. Whoever reads is told that this cannot be done now."""
    post.keeps = post.FOLDS[fold]
    with pytest.raises(EngineUnavailable):
        await everything(slow)
    post.keeps = None


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


def port_of(proxy: FaultProxy) -> int:
    assert proxy._listener is not None
    port: int = proxy._listener.sockets[0].getsockname()[1]
    return port


def by_way_of(url: str, port: int) -> str:
    """The same place, over a line that leads through this port."""
    return re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", url)


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"
