"""Folding on Redis: a few requests, any of which may be late, lost or refused."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from engine_words import add, commit, keys, puts, until
from faultproxy import FaultProxy
from redis_words import impatient, key, meddle, opened_store, rows, scripts_run, stored
from remote_words import by_way_of, port_of
from server_redis import Server

from openintent.engines import open_engine, redis_scripts
from openintent.engines.base import Delete, DeleteRange, Engine, OutcomeUncertain, Put
from openintent.engines.journaled import JournaledEngine
from openintent.engines.redis import RedisStore
from openintent.errors import EngineCorrupt, EngineUnavailable

pytestmark = pytest.mark.anyio

MANY = redis_scripts.KEYS_PER_CALL + 1


@pytest.fixture(scope="module")
def kind() -> str:
    return "redis"


@pytest.fixture
async def store(url: str) -> AsyncIterator[RedisStore]:
    async with opened_store(url) as store:
        yield store


@pytest.fixture
async def far_store(url: str, proxy: FaultProxy) -> AsyncIterator[RedisStore]:
    """The same place as that of `engine`, over a line that can be cut."""
    async with opened_store(by_way_of(url, port_of(proxy))) as store:
        yield store


@pytest.fixture
async def far(far_store: RedisStore) -> Engine:
    engine = JournaledEngine(far_store)
    await commit(engine, Put("first", b""), member="far")
    return engine


STEPS = {
    "the keys of a range": {"ranges": [DeleteRange("", "z")], "values": {}},
    "values": {"ranges": [], "values": {"k": b"stale", "l": b"stale"}},
    "deletions": {"ranges": [], "values": {"k": None}},
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("by", ["a new term", "a later fold"])
async def test_a_part_of_a_fold_that_arrives_late_changes_nothing(
    server: Server, url: str, store: RedisStore, far_store: RedisStore, proxy: FaultProxy, step: str, by: str
):
    """It had begun in time, so that only the part itself can tell."""
    await add(store, 1, term=1)
    # The server knows all scripts from now on.
    await store.fold(term=1, ranges=[DeleteRange("a", "b")], values={"k": b"new"}, upto=1)
    await add(store, 2)
    folding = asyncio.create_task(far_store.fold(term=1, **STEPS[step], upto=2))  # type: ignore[arg-type]
    proxy.hold_answers()  # of the beginning
    await until(lambda: server.run("HGET", key(url, "head"), "fold") == b"2")
    proxy.requests.may_pass.clear()
    with impatient(far_store), pytest.raises(OutcomeUncertain):
        proxy.let_answers_go()
        await folding
    if by == "a later fold":
        await store.fold(term=1, ranges=[], values={"k": b"new"}, upto=2)
    await add(store, 3, term=2 if by == "a new term" else 1)
    before = stored(server, url), scripts_run(server)
    proxy.requests.may_pass.set()
    await until(lambda: scripts_run(server) > before[1])
    assert stored(server, url) == before[0]


async def test_a_late_beginning_of_a_fold_makes_the_one_under_way_begin_again(
    server: Server, url: str, store: RedisStore
):
    await add(store, 1)
    values = {f"{number:04}": b"" for number in range(3 * MANY)}
    # What the late one would do.
    meddle(store, redis_scripts.STORE, 2, lambda: server.run("HINCRBY", key(url, "head"), "fold", 1))
    await store.fold(term=0, ranges=[], values=values, upto=1)
    assert server.run("HGET", key(url, "head"), "fold") == b"3"
    assert server.run("HLEN", key(url, "records")) == len(values)
    assert rows(server, url) == []


@pytest.mark.parametrize(
    ("script", "place"),
    [(redis_scripts.BEGIN_FOLD, 1), (redis_scripts.WIPE, 1), *((redis_scripts.STORE, place) for place in (1, 2, 3))],
    ids=["before all", "before a range", "before values", "between values", "before the last"],
)
async def test_a_fold_that_breaks_off_anywhere_loses_nothing(
    engine: Engine, far: Engine, far_store: RedisStore, proxy: FaultProxy, script: redis_scripts.Script, place: int
):
    names = [f"k/{number:04}" for number in range(2 * MANY)]
    await commit(far, DeleteRange("", "k"), *puts(names))
    meddle(far_store, script, place, lambda: setattr(proxy.requests, "cut_after", 0))
    with pytest.raises(EngineUnavailable):
        await keys(far)
    await commit(engine, term=1)
    assert await keys(engine) == names


async def test_a_fold_does_not_go_on_over_another_connection(server: Server, url: str, store: RedisStore):
    """That may lead to another server, where the beginning of it never arrived."""
    await add(store, 1)
    lost = []

    def lose() -> None:
        lost.append(store._back._wire)
        store._back._wire = None

    meddle(store, redis_scripts.STORE, 2, lose)
    with pytest.raises(EngineUnavailable, match="the connection has ended in between"):
        await store.fold(term=0, ranges=[], values={f"{number:04}": b"" for number in range(MANY)}, upto=1)
    assert rows(server, url) == [1]
    await lost[0].disconnect()


async def test_a_fold_that_fails_takes_no_row_out(server: Server, url: str, engine: Engine):
    await commit(engine, *puts(["a", "b"]))
    server.run("SET", key(url, "names"), "in the way")
    with pytest.raises(EngineUnavailable, match="wrong kind of value"):
        await keys(engine)
    assert rows(server, url) == [1]
    await commit(engine, Delete("b"))
    server.run("DEL", key(url, "names"))
    assert await keys(engine) == ["a"]
    assert rows(server, url) == []


async def test_what_a_failed_append_has_left_is_not_read_and_goes_with_the_next(server: Server, url: str):
    engine, again = open_engine(url), open_engine(url)
    await commit(engine, Put("a", b""))
    server.run("ZADD", key(url, "journal"), 2, b"2:=" + b"never committed")
    await commit(again, term=1)
    await commit(again, Put("b", b""))
    assert rows(server, url) == [1, 2]
    assert await keys(again) == ["a", "b"]
    for each in (engine, again):
        await each.close()


async def test_rows_that_are_gone_with_their_commits_do_not_pass_for_folded(
    server: Server, url: str, store: RedisStore
):
    """As after a replica took over, in the same term."""
    await add(store, 1, term=1)
    older = {name: server.run("DUMP", key(url, name)) for name in ("head", "journal")}
    await add(store, 2)
    for name, dump in older.items():
        server.run("RESTORE", key(url, name), 0, dump, "REPLACE")
    with pytest.raises(EngineCorrupt, match="has lost commits that were acknowledged"):
        await store.fold(term=1, ranges=[], values={"k": b""}, upto=2)


async def test_a_key_without_a_record_is_not_passed_over(server: Server, url: str, engine: Engine):
    await commit(engine, *puts(["a", "b"]))
    assert await keys(engine) == ["a", "b"]
    server.run("HDEL", key(url, "records"), "a")
    with pytest.raises(EngineCorrupt, match="has no record"):
        await keys(engine)
