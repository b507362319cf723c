"""ZooKeeper when something breaks, as far as only ZooKeeper breaks so: members that are behind, folds in pages."""

from typing import Any

import pytest
from engine_words import commit, everything, keys, puts, until
from faultproxy import FaultProxy
from posts import Post, ZooKeeperPost
from remote_words import by_way_of, fold_kept, port_of

from openintent.engines.base import Deposed, Engine, Head, OutcomeUncertain, Put, Record
from openintent.engines.zookeeper import open_store
from openintent.errors import EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def kind() -> str:
    return "zookeeper"


# A commit whose answer does not come


async def test_patience_has_an_end(url: str, post: Post):
    """Although the library hears from its server all the time."""
    post.hangs_up = False
    store = open_store(by_way_of(f"{url}?timeout=0.5", await post.start()))
    await store.head()
    post.keeps = post.COMMIT
    with pytest.raises(OutcomeUncertain, match=r"gave no answer within 0\.5 s"):
        await store.append(expect=Head(), head=Head(1), row=None)
    post.keeps = None
    assert await store.head() == Head()
    await store.close()


async def test_a_connection_that_broke_while_nobody_used_it_is_opened_anew(url: str, proxy: FaultProxy):
    store = open_store(by_way_of(url, port_of(proxy)))
    await store.head()
    call = store._front._call
    await proxy.stop()
    await until(lambda: not call.usable)  # a thread of the library notices
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await store.append(expect=Head(), head=Head(1), row=None)
    await store.close()


async def test_the_head_is_read_behind_a_sync(slow: Engine, post: ZooKeeperPost):
    """Of its own accord a member tells what it knows, and that may be old."""
    post.passed.clear()
    await slow.head()
    assert [post.kind_of(request) for request in post.passed] == [post.SYNC, post.GET]


# Folds


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
