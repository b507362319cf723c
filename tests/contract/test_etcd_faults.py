"""etcd when something breaks: cut lines, late requests, deposed writers, crashes, a leader that dies."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
import server_etcd
from engine_words import commit, everything, following, keys, puts
from faultproxy import FaultProxy
from proving import Figures, size
from server_etcd import Server, url_of

from openintent.engines import etcd_keys, open_engine
from openintent.engines.base import DeleteRange, Deposed, Engine, Head, OutcomeUncertain, Put, Record
from openintent.engines.etcd import open_store
from openintent.errors import EngineError, EngineUnavailable

pytestmark = pytest.mark.anyio

# By these the requests are known.
COMMIT = b'"VALUE","value"'
FOLD = b'"MOD"'
STAGE = b'"compare":[],"success":[{"request_put"'
PATIENCE_S = 20.0


class Post:
    """Stands between an engine and etcd, keeps requests back, and delivers them when it is told to.

    Whoever sent one that is kept is hung up on, so that nobody has to wait until it loses patience.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks = AsyncExitStack()
        self.keeps: bytes | None = None  # requests in which this is
        self.kept: list[bytes] = []
        self.hangs_up = True

    async def start(self) -> int:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._tasks.callback(listener.close)
        port: int = listener.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        await self._tasks.aclose()

    async def deliver(self) -> bytes:
        """The first that was kept; what etcd says to it."""
        self.keeps = None
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(self.kept.pop(0))
        answer = await _message(reader)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200"), answer
        return answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.create_task(_pass_back(there, writer))
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                request = await _message(reader)
                if self.keeps is None or self.keeps not in request:
                    here.write(request)
                    continue
                self.kept.append(request)
                if self.hangs_up:
                    break
        back.cancel()
        for each in (here, writer):
            each.close()


async def _pass_back(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(65_536):
        sink.write(piece)


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return head + (await reader.readexactly(int(length[1])) if length else b"")


@pytest.fixture(scope="session")
def installed(servers: Any) -> None:
    """For those that start a server of their own: they are skipped, too, where there is none."""
    servers.fresh_url("etcd")


@pytest.fixture
def server(installed: None) -> Server:
    return server_etcd.RUNNING[-1]


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
    engine = open_engine(url.replace(f"etcd://127.0.0.1:{server.port}", address.replace("http:", "etcd:")))
    head = await commit(engine, Put("first", b""), term=1)
    getattr(proxy, what).cut_after = 0
    with pytest.raises(OutcomeUncertain, match="gave no answer"):
        await engine.commit(expect=head, head=following(head), changes=[Put("second", b"")])
    await engine.reopen()
    await commit(engine, term=2)
    assert await keys(engine) == (["first"] if what == "requests" else ["first", "second"])
    await engine.close()
    await proxy.stop()


async def test_a_commit_without_an_answer_is_not_sent_again_to_another_member(server: Server, url: str):
    """That would find the head moved, by itself, and take the writer for deposed."""
    proxy = FaultProxy(server.port)
    address = (await proxy.start()).removeprefix("http://")
    engine = open_engine(url.replace("127.0.0.1:", f"{address},127.0.0.1:"))
    head = await commit(engine, term=1)
    proxy.answers.cut_after = 0
    with pytest.raises(OutcomeUncertain):
        await engine.commit(expect=head, head=following(head), changes=[])
    assert await engine.head() == following(head)  # asked of the other
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
    await post.deliver()
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
    assert b'"succeeded":true' not in await post.deliver()
    assert await slow.head() == taken
    assert await keys(slow) == ["first", "next"]


async def test_a_part_that_may_arrive_late_leaves_its_commit_in_doubt(slow: Engine, post: Post):
    """The same writer may give its name to another part, unless it begins a new term."""
    seen, large = await slow.head(), etcd_keys.REQUEST_BYTES
    post.keeps = STAGE
    with pytest.raises(OutcomeUncertain):
        await slow.commit(expect=seen, head=following(seen), changes=[Put("k", bytes(2 * large))])
    post.keeps = None
    await slow.reopen()
    await commit(slow, term=2)
    await commit(slow, Put("k", b"x" * large))
    await post.deliver()
    assert await everything(slow) == [Record("first", b""), Record("k", b"x" * large)]


async def test_patience_has_an_end(server: Server, url: str, post: Post):
    post.hangs_up, post.keeps = False, b"/v3/kv/"
    store = open_store(f"{url}?timeout=0.2".replace(f":{server.port}/", f":{await post.start()}/"))
    store._gateway._admitted = True
    with pytest.raises(EngineUnavailable, match=r"gave no answer within 0\.2 s"):
        await store.head()
    with pytest.raises(OutcomeUncertain, match=r"gave no answer within 0\.2 s"):
        await store.append(expect=Head(), head=Head(1), row=None)
    await store.close()


@pytest.mark.parametrize("ends", ["reopen", "close"])
async def test_whoever_waits_is_told_when_the_line_is_given_up(server: Server, url: str, post: Post, ends: str):
    engine = open_engine(url.replace(f":{server.port}/", f":{await post.start()}/"))
    head = await commit(engine, Put("k", b""), term=1)
    post.hangs_up, post.keeps = False, COMMIT
    waiting = asyncio.create_task(engine.commit(expect=head, head=following(head), changes=[]))
    async with asyncio.timeout(PATIENCE_S):
        while not post.kept:  # noqa: ASYNC110  # it is told by nobody
            await asyncio.sleep(0.01)
    await getattr(engine, ends)()
    with pytest.raises(OutcomeUncertain):
        await waiting
    await engine.close()


# Slow writers


async def fold_kept(slow: Engine, post: Post) -> None:
    """A fold of the slow writer leaves it, and does not arrive."""
    post.keeps = FOLD
    with pytest.raises(OutcomeUncertain):
        await everything(slow)
    post.keeps = None


async def test_a_fold_of_a_deposed_writer_stores_nothing(engine: Engine, slow: Engine, post: Post):
    await commit(slow, Put("k", b"old"), Put("l", b"old"))
    await fold_kept(slow, post)
    await commit(engine, term=2, member="b")
    await commit(engine, Put("k", b"new"), DeleteRange("l", "m"))
    assert b'"succeeded":true' not in await post.deliver()
    assert await everything(engine) == [Record("first", b""), Record("k", b"new")]
    with pytest.raises(EngineUnavailable, match="b writes"):
        await everything(slow)
    with pytest.raises(Deposed):
        await slow.commit(expect=Head(1, 2, 2), head=Head(1, 3, 3), changes=[Put("k", b"late")])


async def test_a_fold_does_not_begin_for_who_was_deposed(server: Server, url: str, engine: Engine):
    await commit(engine, Put("k", b"1"), term=1)
    store = open_store(url)
    await commit(engine, term=2)
    with pytest.raises(Deposed) as deposed:
        await store.fold(term=1, ranges=[], values={"k": b"stale"}, upto=1)
    assert deposed.value.actual == await engine.head()
    await store.close()
    assert await everything(engine) == [Record("k", b"1")]


@pytest.mark.parametrize("when", ["after the next fold", "in the midst of it"])
async def test_a_fold_that_was_given_up_and_arrives_late_stores_nothing(
    slow: Engine, post: Post, when: str, monkeypatch: pytest.MonkeyPatch
):
    """Of the same term, so that this alone would let it in."""
    monkeypatch.setattr(etcd_keys, "REQUEST_OPERATIONS", 2)
    await commit(slow, *puts(["a", "b", "c", "d"]), Put("k", b"old"))
    await fold_kept(slow, post)
    await commit(slow, Put("k", b"new"), Put("a", b"new"))
    if when == "in the midst of it":
        # "a" and another one are stored by the first of several requests; the second does not arrive.
        store, sent = slow._store, 0
        fold_some = store._fold_some

        async def second_is_kept(*words: Any) -> int:
            nonlocal sent
            sent += 1
            post.keeps = FOLD if sent == 2 else None
            revision: int = await fold_some(*words)
            return revision

        monkeypatch.setattr(store, "_fold_some", second_is_kept)
        with pytest.raises(OutcomeUncertain):
            await everything(slow)
        monkeypatch.undo()
    else:
        await everything(slow)
    assert b'"succeeded":true' not in await post.deliver()
    found = {record.key: record.value for record in await everything(slow)}
    assert (found["a"], found["k"], len(found)) == (b"new", b"new", 6)


async def test_a_fold_that_arrives_before_the_next_is_done_again_with_it(slow: Engine, post: Post):
    await commit(slow, Put("k", b"old"))
    await fold_kept(slow, post)
    await commit(slow, Put("k", b"new"))
    assert b'"succeeded":true' in await post.deliver()
    assert await everything(slow) == [Record("first", b""), Record("k", b"new")]


async def test_rows_are_taken_out_only_with_the_last_of_what_they_say(url: str, server: Server):
    """A fold that breaks off at any of its requests leaves all of its rows; whoever is next stores them."""
    prefix = url.rpartition("/")[2]
    store, engine = open_store(url), open_engine(url)
    names = [f"{number:03}" for number in range(250)]
    await commit(engine, *puts(names), term=1)
    whole = list(etcd_keys.Folding(store._keys, has_parts=False).requests([], dict.fromkeys(names, b""), 1))
    assert len(whole) > 2
    revision = 0
    for some in whole[:-1]:
        revision = await store._fold_some(1, revision, [etcd_keys.put(store._keys.fold, b""), *some])
        assert len(server.keys(f"{prefix}/j/")) == 1
    await commit(engine, term=2)
    assert await keys(engine) == names
    assert server.keys(f"{prefix}/j/") == []
    await engine.close()
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


# Servers that die


async def test_what_was_acknowledged_is_there_after_a_crash_of_the_server(installed: None, figures: Figures):
    rounds = size("etcd_crashes", 1)
    with server_etcd.started() as server:
        engine = open_engine(server.url(options="?timeout=2"))
        acknowledged: list[str] = []
        for term in range(1, rounds + 1):
            await commit(engine, term=term)
            killing = asyncio.get_running_loop().call_later(0.3, server.process.kill)
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
        assert found[: len(acknowledged)] == acknowledged
        assert len(acknowledged) >= rounds
        await engine.close()
    figures.add("kill -9 of etcd", kills=rounds, acknowledged=len(acknowledged), lost=0)


async def test_when_the_leader_of_three_dies_the_engine_goes_on(installed: None):
    with server_etcd.running_cluster() as members:
        leader = next(member for member in members if member.leads())
        others = [member for member in members if member is not leader]
        engine = open_engine(url_of([leader, *others], options="?timeout=3"))
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
        leader.start()
        for member in others:
            member.stop(signal.SIGKILL)
        alone = open_store(leader.url(options="?timeout=0.5"))
        alone._gateway._admitted = True
        with pytest.raises(EngineUnavailable):  # it cannot know whether others have gone on without it
            await alone.head()
        await alone.close()
