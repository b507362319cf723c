"""ZooKeeper, and everything that can happen on the way to it: lost answers, late requests, members that die."""

import asyncio
import os
import random
import signal
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import server_zookeeper
from engine_words import commit, everything, following, keys, puts
from faultproxy import FaultProxy
from proving import Figures, size
from server_zookeeper import Server, url_of
from zookeeper_post import COMMIT, FOLD, GET, STAGE, SWITCH, SYNC, Post

from openintent.engines import open_engine, zookeeper_pages
from openintent.engines.base import DeleteRange, Deposed, Engine, Head, OutcomeUncertain, Put, Record
from openintent.engines.zookeeper import open_store
from openintent.errors import EngineError, EngineUnavailable

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


@pytest.fixture(scope="session")
def installed(servers: Any) -> None:
    """For those that start a server of their own: they are skipped, too, where there is none."""
    servers.fresh_url("zookeeper")


@pytest.fixture
def server(installed: None) -> Server:
    return server_zookeeper.RUNNING[-1]


@pytest.fixture
def url(server: Server) -> str:
    return server.fresh_url()


@pytest.fixture
async def engine(url: str) -> AsyncIterator[Engine]:
    engine = open_engine(url)
    yield engine
    await engine.close()


@pytest.fixture
async def post(server: Server) -> AsyncIterator[Post]:
    post = Post(server.port)
    yield post
    await post.stop()


@pytest.fixture
async def slow(server: Server, url: str, post: Post) -> AsyncIterator[Engine]:
    """The same place as that of `engine`; what it sends may stay with the post."""
    engine = open_engine(url.replace(f":{server.port}/", f":{await post.start()}/"))
    await commit(engine, Put("first", b""), term=1, member="slow")
    yield engine
    await engine.close()


# A commit whose answer does not come


@pytest.mark.parametrize("what", ["requests", "answers"])
async def test_a_commit_over_a_line_that_is_cut_is_in_doubt_and_the_next_term_tells(
    server: Server, url: str, what: str
):
    proxy = FaultProxy(server.port)
    address = await proxy.start()
    engine = open_engine(url.replace(f"zookeeper://127.0.0.1:{server.port}", address.replace("http:", "zookeeper:")))
    head = await commit(engine, Put("first", b""), term=1)
    getattr(proxy, what).cut_after = 0
    with pytest.raises(OutcomeUncertain, match="gave no answer"):
        await engine.commit(expect=head, head=following(head), changes=[Put("second", b"")])
    await engine.reopen()
    await commit(engine, term=2)
    assert await keys(engine) == (["first"] if what == "requests" else ["first", "second"])
    await engine.close()
    await proxy.stop()


@pytest.mark.parametrize("somebody_takes_over", [False, True])
async def test_a_commit_that_arrives_late_fails_if_there_is_a_new_term(
    engine: Engine, slow: Engine, post: Post, somebody_takes_over: bool
):
    seen = await slow.head()
    post.keeps = COMMIT
    with pytest.raises(OutcomeUncertain, match="gave no answer"):
        await slow.commit(expect=seen, head=following(seen), changes=[Put("late", b"")])
    assert await engine.head() == seen
    taken = await commit(engine, term=2, member="b") if somebody_takes_over else following(seen)
    assert await post.deliver() is not somebody_takes_over
    assert await engine.head() == taken
    if somebody_takes_over:
        assert await keys(engine) == ["first"]


async def test_a_commit_in_doubt_is_settled_by_the_next_term_of_the_same_writer(slow: Engine, post: Post):
    seen = await slow.head()
    post.keeps = COMMIT
    with pytest.raises(OutcomeUncertain):
        await slow.commit(expect=seen, head=following(seen), changes=[Put("late", b"")])
    post.keeps = None
    await slow.reopen()
    taken = await commit(slow, Put("next", b""), term=2)
    assert not await post.deliver()
    assert await slow.head() == taken
    assert await keys(slow) == ["first", "next"]


async def test_a_part_that_may_arrive_late_leaves_its_commit_in_doubt(slow: Engine, post: Post):
    """The same writer may give its name to another part, unless it begins a new term."""
    seen, large = await slow.head(), zookeeper_pages.NODE_BYTES
    post.keeps = STAGE
    with pytest.raises(OutcomeUncertain):
        await slow.commit(expect=seen, head=following(seen), changes=[Put("k", bytes(2 * large))])
    post.keeps = None
    await slow.reopen()
    await commit(slow, term=2)
    await commit(slow, Put("k", b"x" * large))
    assert await post.deliver()
    assert await everything(slow) == [Record("first", b""), Record("k", b"x" * large)]


async def test_patience_has_an_end(server: Server, url: str, post: Post):
    post.hangs_up = False
    store = open_store(f"{url}?timeout=0.5".replace(f":{server.port}/", f":{await post.start()}/"))
    await store.head()
    post.keeps = COMMIT
    with pytest.raises(OutcomeUncertain, match=r"gave no answer within 0\.5 s"):
        await store.append(expect=Head(), head=Head(1), row=None)
    post.keeps = None
    assert await store.head() == Head()
    await store.close()


async def test_a_connection_that_broke_while_nobody_used_it_is_opened_anew(server: Server, url: str):
    proxy = FaultProxy(server.port)
    address = await proxy.start()
    store = open_store(url.replace(f"zookeeper://127.0.0.1:{server.port}", address.replace("http:", "zookeeper:")))
    await store.head()
    call = store._front._call
    await proxy.stop()
    async with asyncio.timeout(PATIENCE_S):
        while call.usable:  # noqa: ASYNC110  # a thread of the library notices
            await asyncio.sleep(0.01)
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await store.append(expect=Head(), head=Head(1), row=None)
    await store.close()


async def test_the_head_is_read_behind_a_sync(slow: Engine, post: Post):
    """Of its own accord a member tells what it knows, and that may be old."""
    post.passed.clear()
    await slow.head()
    kinds = [struct.unpack_from(">ii", request)[1] for request in post.passed]
    assert kinds == [SYNC, GET]


# Slow writers


async def fold_kept(slow: Engine, post: Post, what: bytes = SWITCH) -> None:
    """A fold of the slow writer leaves it, and does not arrive."""
    post.keeps = what
    with pytest.raises(OutcomeUncertain):
        await everything(slow)
    post.keeps = None


@pytest.mark.parametrize("what", [FOLD, SWITCH])
async def test_a_fold_of_a_deposed_writer_stores_nothing(engine: Engine, slow: Engine, post: Post, what: bytes):
    await commit(slow, Put("k", b"old"), Put("l", b"old"))
    await fold_kept(slow, post, what)
    await commit(engine, term=2, member="b")
    await commit(engine, Put("k", b"new"), DeleteRange("l", "m"))
    assert not await post.deliver()
    assert await everything(engine) == [Record("first", b""), Record("k", b"new")]
    with pytest.raises(EngineUnavailable, match="b writes"):
        await everything(slow)
    with pytest.raises(Deposed):
        await slow.commit(expect=Head(1, 2, 2), head=Head(1, 3, 3), changes=[Put("k", b"late")])


async def test_a_fold_does_not_begin_for_who_was_deposed(url: str, engine: Engine):
    await commit(engine, Put("k", b"1"), term=1)
    store = open_store(url)
    await commit(engine, term=2)
    with pytest.raises(Deposed) as deposed:
        await store.fold(term=1, ranges=[], values={"k": b"stale"}, upto=1)
    assert deposed.value.actual == await engine.head()
    await store.close()
    assert await everything(engine) == [Record("k", b"1")]


async def test_who_is_deposed_in_the_midst_of_a_fold_stores_nothing(
    url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    await commit(engine, Put("k", b"1"), term=1)
    store = open_store(url)
    staged_upto = store._staged_upto

    async def and_deposed(number: int) -> list[str]:
        await commit(engine, term=2)
        return await staged_upto(number)

    monkeypatch.setattr(store, "_staged_upto", and_deposed)  # the last that it does before it switches
    with pytest.raises(Deposed) as deposed:
        await store.fold(term=1, ranges=[], values={"k": b"stale"}, upto=1)
    assert deposed.value.actual == await engine.head()
    await store.close()
    assert await everything(engine) == [Record("k", b"1")]


async def test_a_fold_that_was_given_up_and_arrives_late_stores_nothing(slow: Engine, post: Post):
    """Of the same term, so that this alone would let it in."""
    await commit(slow, Put("k", b"old"))
    await fold_kept(slow, post)
    await commit(slow, Put("k", b"new"))
    assert await everything(slow) == [Record("first", b""), Record("k", b"new")]
    await commit(slow, Put("l", b""))
    assert not await post.deliver()
    assert await everything(slow) == [Record("first", b""), Record("k", b"new"), Record("l", b"")]


async def test_a_fold_that_arrives_before_the_next_is_taken_for_done(slow: Engine, post: Post):
    await commit(slow, Put("k", b"old"))
    await fold_kept(slow, post)
    await commit(slow, Put("k", b"new"))
    assert await post.deliver()
    assert await everything(slow) == [Record("first", b""), Record("k", b"new")]


async def test_rows_go_in_the_same_step_in_which_what_they_say_is_seen(slow: Engine, url: str, post: Post):
    """A fold that breaks off anywhere leaves all of its rows; whoever is next stores them, and what was left goes."""
    store = open_store(url)
    names = [f"{number:04}" for number in range(400)]
    await commit(slow, *puts(names))
    await fold_kept(slow, post)
    assert await store._journal() == [1, 2]
    assert await store.scan("", "z", limit=9, reverse=False) == []
    left = await (await store._back.call()).children(store._place.pages)
    assert left
    await commit(slow, term=2)
    assert await keys(slow) == [*names, "first"]
    assert await store._journal() == []
    assert not set(left) & set(await (await store._back.call()).children(store._place.pages))
    await store.close()


async def test_of_two_engines_on_one_place_the_one_that_writes_may_read(url: str, engine: Engine):
    other = open_engine(url)
    first = await commit(engine, Put("k", b"1"), term=1, member="a")
    assert await other.head() == first
    second = await commit(other, Put("k", b"2"), term=2, member="b")
    with pytest.raises(Deposed) as deposed:
        await engine.commit(expect=first, head=following(first), changes=[Put("k", b"3")])
    assert deposed.value.actual == second
    with pytest.raises(EngineUnavailable, match="b writes"):
        await everything(engine)
    assert await everything(other) == [Record("k", b"2")]
    await commit(engine, Put("l", b""), term=3, member="a")
    assert await everything(engine) == [Record("k", b"2"), Record("l", b"")]
    await other.close()


async def test_a_scan_begins_anew_when_folds_have_replaced_what_it_reads(
    url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    """Each fold deletes what the one before it has replaced: after two, what was listed first is gone."""
    names = [f"{number:04}" for number in range(500)]
    await commit(engine, *(Put(name, bytes(100)) for name in names), term=1)
    await everything(engine)
    reader = open_store(url)
    read, folds = reader._read, 2

    async def after_two_folds(entries: Any) -> list[bytes]:
        nonlocal folds
        for _ in range(folds):
            await commit(engine, *(Put(name, b"new") for name in names))
            await everything(engine)
        folds = 0
        return await read(entries)

    monkeypatch.setattr(reader, "_read", after_two_folds)
    found = await reader.scan("", "z", limit=10_000, reverse=False)
    assert found == [Record(name, b"new") for name in names]
    await reader.close()


# Servers that die


@pytest.mark.slow
async def test_what_was_acknowledged_is_there_after_a_crash_of_the_server(installed: None, figures: Figures):
    rounds = size("zookeeper_crashes", 2)
    with server_zookeeper.started() as server:
        engine = open_engine(server.url(options="?timeout=2"))
        acknowledged: list[str] = []
        for term in range(1, rounds + 1):
            await commit(engine, term=term)
            pause_s = random.Random(term).uniform(0.1, 0.5)
            killing = asyncio.get_running_loop().call_later(pause_s, os.kill, server.process.pid, signal.SIGKILL)
            with suppress(EngineError):
                while True:
                    name = f"{len(acknowledged):06}"
                    await commit(engine, Put(name, b""))
                    acknowledged.append(name)
            killing.cancel()
            server.stop(signal.SIGKILL)
            server.start()
            await engine.reopen()
        await commit(engine, term=rounds + 1)
        found = await keys(engine)
        assert set(acknowledged) <= set(found)
        assert len(acknowledged) >= rounds
        await engine.close()
    figures.add("kill -9 of ZooKeeper", kills=rounds, acknowledged=len(acknowledged), lost=0)


@pytest.mark.slow
async def test_when_the_leader_of_three_dies_the_engine_goes_on(installed: None):
    with server_zookeeper.running_ensemble() as members:
        leader = next(member for member in members if member.leads())
        engine = open_engine(url_of(members, options="?timeout=3"))
        seen = await commit(engine, Put("first", b""), term=1)
        assert engine.guarantees.survives_node_loss
        assert engine.notice is None
        leader.stop(signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                # Whether a commit in doubt has happened is told by the next term.
                with suppress(OutcomeUncertain, EngineUnavailable):
                    await engine.reopen()
                    seen = await commit(engine, Put("second", b""), term=(await engine.head()).term + 1)
                    break
        assert await engine.head() == seen
        assert await keys(engine) == ["first", "second"]
        await engine.close()
        await only_reading_is_refused([member for member in members if member is not leader])


async def only_reading_is_refused(members: list[Server]) -> None:
    """Who is left alone serves those who only want to read: it cannot know whether others have gone on."""
    members[0].stop(signal.SIGKILL)
    alone = members[1]
    async with asyncio.timeout(PATIENCE_S):
        while alone.says(b"isro") != "ro":  # noqa: ASYNC110  # it happens in another process
            await asyncio.sleep(0.1)
    store = open_store(alone.url(options="?timeout=2"))
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await store.head()
    await store.close()
