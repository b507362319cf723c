"""Every engine on a server when something breaks: cut lines, late requests, deposed writers, crashes."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
import server_etcd
import server_zookeeper
from engine_words import LAST, PATIENCE_S, commit, everything, following, keys, opened, until
from faultproxy import FaultProxy
from posts import POSTS, Post
from proving import Figures, size
from remote_words import ON_SERVERS, SOFTWARE, by_way_of, commit_kept, fold_kept, port_of, with_option

from openintent.engines import etcd, open_engine, zookeeper
from openintent.engines.base import DeleteRange, Deposed, Engine, Head, OutcomeUncertain, Put, Record
from openintent.engines.journaled import JournaledEngine
from openintent.errors import EngineError, EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=ON_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


# PostgreSQL folds in one transaction, Redis in calls of its own kind: see their files.
folds_by_requests = pytest.mark.parametrize("kind", ["etcd", "zookeeper"], indirect=True)


# A commit whose answer does not come


@pytest.mark.parametrize("what", ["requests", "answers"])
async def test_a_commit_over_a_line_that_is_cut_is_in_doubt_and_the_next_term_tells(
    engine: Engine, far: Engine, proxy: FaultProxy, what: str
):
    head = await far.head()
    getattr(proxy, what).cut_after = 0
    with pytest.raises(OutcomeUncertain):
        await far.commit(expect=head, head=following(head), changes=[Put("second", b"")])
    await far.reopen()
    taken = await commit(far, term=2)
    assert await keys(far) == (["first"] if what == "requests" else ["first", "second"])
    assert await engine.head() == taken


@pytest.mark.parametrize("somebody_takes_over", [False, True])
async def test_a_commit_that_arrives_late_fails_if_there_is_a_new_term(
    engine: Engine, slow: Engine, post: Post, somebody_takes_over: bool
):
    seen = await slow.head()
    post.keeps = post.COMMIT
    with pytest.raises(OutcomeUncertain):
        await slow.commit(expect=seen, head=following(seen), changes=[Put("late", b"")])
    assert await engine.head() == seen
    taken = await commit(engine, term=2, member="b") if somebody_takes_over else following(seen)
    await post.deliver()
    assert await engine.head() == taken
    await commit(engine, term=3)  # only the one who writes may read all
    assert await keys(engine) == (["first"] if somebody_takes_over else ["first", "late"])


async def test_a_commit_in_doubt_is_settled_by_the_next_term_of_the_same_writer(slow: Engine, post: Post):
    await commit_kept(slow, post)
    await slow.reopen()
    taken = await commit(slow, Put("next", b""), term=2)
    await post.deliver()
    assert await slow.head() == taken
    assert await keys(slow) == ["first", "next"]


@pytest.mark.parametrize("changes", [(), (Put("mine", b""),)])
async def test_a_commit_that_arrives_after_the_journal_was_read_is_found_by_the_next_term(
    slow: Engine, post: Post, changes: tuple[Put, ...]
):
    """Who had been reading the log all the time read on in between."""
    await commit_kept(slow, post)
    await slow.reopen()
    assert await keys(slow) == ["first"]
    await post.deliver()
    await commit(slow, *changes, term=2)
    await commit(slow, Put("next", b""))
    assert await keys(slow) == sorted(["first", "late", "next", *(put.key for put in changes)])


@folds_by_requests
async def test_a_part_that_may_arrive_late_leaves_its_commit_in_doubt(slow: Engine, post: Post):
    """The same writer may give its name to another part, unless it begins a new term."""
    seen = await slow.head()
    post.keeps = post.STAGE
    with pytest.raises(OutcomeUncertain):
        await slow.commit(expect=seen, head=following(seen), changes=[Put("k", bytes(2 * post.PART_BYTES))])
    post.keeps = None
    await slow.reopen()
    await commit(slow, term=2)
    value = b"x" * post.PART_BYTES
    await commit(slow, Put("k", value))
    assert await post.deliver()
    assert await everything(slow) == [Record("first", b""), Record("k", value)]


async def test_a_line_into_nowhere_is_given_up_in_time(url: str, proxy: FaultProxy):
    async with opened(with_option(by_way_of(url, port_of(proxy)), "timeout=0.8")) as engine:
        head = await commit(engine)
        proxy.cut()
        with pytest.raises(OutcomeUncertain, match="no answer"):
            await engine.commit(expect=head, head=following(head), changes=[])
        proxy.heal()
        await engine.reopen()
        assert await engine.head() == head


async def test_who_begins_anew_does_not_wait_for_what_was_asked_before(far: Engine, proxy: FaultProxy):
    """Such as when a firewall has forgotten all lines, and lets new ones pass."""
    store: Any = cast("JournaledEngine", far)._store
    await keys(far)
    proxy.cut()
    reading = asyncio.create_task(store.scan("", LAST, limit=1, reverse=False))
    await until(lambda: any(link.has_hole for link in proxy._links))
    proxy.requests.drops = proxy.answers.drops = False
    async with asyncio.timeout(PATIENCE_S / 3):
        await far.reopen()
        await commit(far, term=2)
        assert await keys(far) == ["first"]
        with pytest.raises(EngineUnavailable):
            await reading


# Slow writers


@pytest.mark.parametrize(
    ("kind", "fold"), [(kind, fold) for kind in POSTS for fold in range(len(POSTS[kind].FOLDS))], indirect=["kind"]
)
async def test_a_fold_of_a_deposed_writer_stores_nothing(engine: Engine, slow: Engine, post: Post, fold: int):
    await commit(slow, Put("k", b"old"), Put("l", b"old"))
    await fold_kept(slow, post, fold)
    await commit(engine, term=2, member="b")
    await commit(engine, Put("k", b"new"), DeleteRange("l", "m"))
    assert not await post.deliver()
    assert await everything(engine) == [Record("first", b""), Record("k", b"new")]
    with pytest.raises(EngineUnavailable, match="b writes"):
        await everything(slow)
    with pytest.raises(Deposed):
        await slow.commit(expect=Head(1, 2, 2), head=Head(1, 3, 3), changes=[Put("k", b"late")])


@folds_by_requests
async def test_a_fold_that_was_given_up_and_arrives_late_stores_nothing(slow: Engine, post: Post):
    """Of the same term, so that this alone would let it in."""
    await commit(slow, Put("k", b"old"))
    await fold_kept(slow, post)
    await commit(slow, Put("k", b"new"))
    assert await everything(slow) == [Record("first", b""), Record("k", b"new")]
    await commit(slow, Put("l", b""))
    assert not await post.deliver()
    assert await everything(slow) == [Record("first", b""), Record("k", b"new"), Record("l", b"")]


@folds_by_requests
async def test_a_fold_that_arrives_before_the_next_is_not_undone_by_it(slow: Engine, post: Post):
    await commit(slow, Put("k", b"old"))
    await fold_kept(slow, post)
    await commit(slow, Put("k", b"new"))
    assert await post.deliver()
    assert await everything(slow) == [Record("first", b""), Record("k", b"new")]


async def test_of_two_engines_on_one_place_the_one_that_writes_may_read(url: str, engine: Engine):
    async with opened(url) as other:
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


async def test_two_engines_take_turns_and_lose_nothing(url: str):
    """Each folds behind itself while the other takes over."""
    engines = [open_engine(url) for _ in range(2)]
    expected = []
    for term in range(1, 9):
        engine = engines[term % 2]
        await commit(engine, term=term)
        for number in range(10):
            expected.append(f"{term:02}/{number}")
            await commit(engine, Put(expected[-1], b""), Put("last", expected[-1].encode()))
        if term % 3 == 0:
            assert await keys(engine) == [*expected, "last"]
        with pytest.raises(EngineUnavailable):
            await everything(engines[(term + 1) % 2])
    assert await everything(engine) == [*(Record(key, b"") for key in expected), Record("last", expected[-1].encode())]
    for engine in engines:
        await engine.close()


# Servers that die


async def test_what_was_acknowledged_is_there_after_a_crash_of_the_server(
    kind: str, server: Any, url: str, figures: Figures
):
    rounds = size(f"{kind}_crashes", 1)
    acknowledged: list[str] = []
    async with opened(with_option(url, "timeout=2")) as engine:
        for term in range(1, rounds + 1):
            await commit(engine, term=term)
            pause_s = random.Random(term).uniform(0.1, 0.4)
            crash = asyncio.get_running_loop().call_later(pause_s, server.process.send_signal, server.ends_by)
            with suppress(EngineError):
                while True:
                    name = f"{len(acknowledged):06}"
                    await commit(engine, Put(name, b""))
                    acknowledged.append(name)
            crash.cancel()
            server.stop()
            server.start()
            await engine.reopen()
        await commit(engine, term=rounds + 1)
        found = await keys(engine)
    assert found[: len(acknowledged)] == acknowledged
    assert len(acknowledged) >= rounds
    signs = signal.Signals(server.ends_by).name
    figures.add(f"crashes of {SOFTWARE[kind]}", by=signs, crashes=rounds, acknowledged=len(acknowledged), lost=0)


@pytest.mark.parametrize("kind", ["etcd", "zookeeper"], indirect=True)
async def test_when_the_leader_of_three_dies_the_engine_goes_on(kind: str, installed: None):
    module: Any = {"etcd": server_etcd, "zookeeper": server_zookeeper}[kind]
    several = server_etcd.running_cluster if kind == "etcd" else server_zookeeper.running_ensemble
    with several() as members:
        leader = next(member for member in members if member.leads())
        others = [member for member in members if member is not leader]
        async with opened(module.url_of([leader, *others], options="?timeout=3")) as engine:
            seen = await commit(engine, Put("first", b""), term=1)
            assert engine.guarantees.survives_node_loss
            assert engine.notice is None
            leader.stop()
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    # Whether a commit in doubt has happened is told by the next term.
                    with suppress(OutcomeUncertain, EngineUnavailable):
                        await engine.reopen()
                        seen = await commit(engine, Put("second", b""), term=(await engine.head()).term + 1)
                        break
            assert await engine.head() == seen
            assert await keys(engine) == ["first", "second"]
        others[0].stop()
        async with who_is_alone(kind, others[1]) as store:
            with pytest.raises(EngineUnavailable):
                await store.head()


@asynccontextmanager
async def who_is_alone(kind: str, member: Any) -> AsyncIterator[Any]:
    """It cannot know whether others have gone on without it, and serves those who do not mind: we do."""
    store: Any
    if kind == "etcd":
        store = etcd.open_store(member.url(options="?timeout=0.5"))
        store._gateway._admitted = True
    else:
        await until(lambda: member.says(b"isro") == "ro")
        store = zookeeper.open_store(member.url(options="?timeout=2"))
    yield store
    await store.close()
