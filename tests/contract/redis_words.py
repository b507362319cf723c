"""Short words for what the tests do with Redis."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

from server_redis import Server

from openintent.engines.base import Record
from openintent.engines.redis import RedisStore, open_store
from openintent.engines.redis_scripts import Script


@asynccontextmanager
async def opened_store(url: str) -> AsyncIterator[RedisStore]:
    """A store both lines of which are open."""
    store = open_store(url)
    try:
        await store.head()
        await store.rows(after=0, limit=1)
        yield store
    finally:
        await store.close()


@contextmanager
def impatient(store: RedisStore) -> Iterator[None]:
    """While this lasts it does not wait long for an answer that is not going to come."""
    place = store._place
    for line in (store._front, store._back):
        line._place = place._replace(timeout_s=0.1)
    yield
    for line in (store._front, store._back):
        line._place = place


def scripts_run(server: Server) -> int:
    """How many scripts the server has been sent, known to it or not."""
    stats = server.run("INFO", "commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


def rows(server: Server, url: str) -> list[int]:
    """The numbers of the rows in the journal."""
    return [int(row.partition(b":")[0]) for row in server.run("ZRANGE", key(url, "journal"), 0, -1)]


def key(url: str, name: str) -> str:
    return f"{{{url.rpartition('=')[2]}}}:{name}"


def stored(server: Server, url: str) -> list[object]:
    """All that a fold could have changed."""
    names = server.run("ZRANGE", key(url, "names"), 0, -1)
    return [rows(server, url), names, server.run("HGETALL", key(url, "records"))]


async def found(store: RedisStore) -> list[Record]:
    return await store.scan("", "z", limit=10, reverse=False)


def meddle(store: RedisStore, script: Script, place: int, deed: Callable[[], object]) -> None:
    """Just before the store sends this script for the n-th time, something happens."""
    ask, times = store._back.ask, count(1)

    async def meddled(*commands: Any, **how: Any) -> list[Any]:
        if script.digest in commands[0] and next(times) == place:
            deed()
        return await ask(*commands, **how)

    store._back.ask = meddled  # type: ignore[method-assign]
