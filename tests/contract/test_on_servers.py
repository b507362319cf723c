"""What every engine on a server promises besides: who cannot come in, whose place is whose, and what is found again."""

import asyncio
import re
from typing import Any

import pytest
from engine_words import LAST, commit, everything, keys, opened
from ports import free_port
from proving import Figures, size
from remote_words import ON_SERVERS, SOFTWARE, one_commit, refusal

from openintent.engines import open_engine
from openintent.engines.base import Deposed, Head, Put
from openintent.errors import EngineError

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=ON_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


# Who cannot come in


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://127.0.0.1:@/x", "Connection refused"),
        ("etcd://127.0.0.1:@/place", "etcd at http://127.0.0.1:@ cannot be reached"),
        ("redis://127.0.0.1:@/0", "^redis://127.0.0.1:@/0 cannot be reached: .*Connect call failed"),
        ("zookeeper://127.0.0.1:@/place", "zookeeper://127.0.0.1:@/place cannot be reached.*refused"),
    ],
)
async def test_an_unreachable_server_is_one_line(url: str, said: str):
    port = str(free_port())
    assert re.search(said.replace("@", port), await refusal(url.replace("@", port)))


@pytest.mark.parametrize("kind", ["etcd", "zookeeper"], indirect=True)
async def test_the_next_host_is_asked_if_one_cannot_be_reached(url: str):
    for _ in range(3):  # ZooKeeper's library begins with any of them
        await one_commit(url.replace("127.0.0.1:", f"127.0.0.1:{free_port()},127.0.0.1:"))


async def test_after_close_every_call_is_refused(url: str):
    engine = await one_commit(url)
    for call in (engine.head(), engine.reopen(), commit(engine)):
        with pytest.raises(EngineError, match="is closed"):
            await call


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("etcd", "has one member"),
        ("redis", "when a replica takes over, commits that were acknowledged may be lost"),
        ("zookeeper", "has one member"),
    ],
    indirect=["kind"],
)
async def test_one_server_is_durable_but_not_to_be_lost(url: str, told: str):
    engine = await one_commit(url)
    assert engine.guarantees.durable
    assert not engine.guarantees.survives_node_loss
    assert not engine.guarantees.exclusive_open
    assert told in (engine.notice or "")


# Places


async def test_who_come_at_the_same_time_find_one_place(url: str):
    engines = [open_engine(url) for _ in range(5)]
    assert await asyncio.gather(*(engine.head() for engine in engines)) == [Head()] * 5
    seen = await commit(engines[0], Put("k", b""))
    assert await asyncio.gather(*(engine.head() for engine in engines)) == [seen] * 5
    for engine in engines:
        await engine.close()


# PostgreSQL more often: there they all make tables.
@pytest.mark.parametrize("kind", [*ON_SERVERS, *4 * ["postgres"]], indirect=True)
async def test_of_many_that_come_first_at_once_one_writes(url: str):
    engines = [open_engine(url) for _ in range(4)]
    attempts = [
        engine.commit(expect=Head(), head=Head(1, 1, member=str(number)), changes=[Put(str(number), b"")])
        for number, engine in enumerate(engines)
    ]
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(outcome, Deposed) for outcome in outcomes) == 3
    (winner,) = [number for number, outcome in enumerate(outcomes) if outcome is None]
    assert await keys(engines[winner]) == [str(winner)]
    for engine in engines:
        await engine.close()


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("postgres", "{fresh}"),  # another schema
        ("etcd", "{url}/below"),
        ("redis", "{fresh}"),  # another prefix
        ("redis", "{database}"),
        ("zookeeper", "{url}2"),
    ],
    indirect=["kind"],
)
async def test_two_places_know_nothing_of_each_other(server: Any, url: str, other: str):
    known = {"url": url, "fresh": server.fresh_url(), "database": url.replace("/0?", "/1?")}
    async with opened(url) as one, opened(other.format(**known)) as another:
        await commit(one, Put("k", b""))
        assert await another.head() == Head()
        assert await everything(another) == []
        await commit(another, Put("l", b""))
        assert (await keys(one), await keys(another)) == (["k"], ["l"])


# Large


@pytest.mark.timeout(600)
async def test_all_records_are_found_by_the_next_writer(kind: str, url: str, figures: Figures):
    count, portion = size("engine_records", 3_000), 1_000
    async with opened(url) as engine:
        for start in range(0, count, portion):
            names = [f"k/{number:08}" for number in range(start, min(start + portion, count))]
            await commit(engine, *(Put(name, bytes(200)) for name in names))
    async with opened(url) as again:
        began = asyncio.get_running_loop().time()
        await commit(again, term=2)
        found, first = 0, ""
        while page := await again.scan(first, LAST, limit=10_000):
            found += len(page)
            first = page[-1].key + "\0"
        seconds = round(asyncio.get_running_loop().time() - began, 2)
    assert found == count
    figures.add(f"recovery from {SOFTWARE[kind]}", records=count, found=found, seconds=seconds)
