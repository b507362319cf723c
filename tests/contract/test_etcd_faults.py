"""etcd when something breaks, as far as only etcd breaks so: several members to ask, and folds of several requests."""

import asyncio
from typing import Any

import pytest
from engine_words import commit, everything, following, keys, opened, puts, until
from faultproxy import FaultProxy
from posts import Post
from remote_words import by_way_of, fold_kept, port_of
from server_etcd import Server

from openintent.engines import etcd_keys, open_engine
from openintent.engines.base import Engine, Head, OutcomeUncertain, Put
from openintent.engines.etcd import open_store
from openintent.errors import EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def kind() -> str:
    return "etcd"


# A commit whose answer does not come


async def test_a_commit_without_an_answer_is_not_sent_again_to_another_member(url: str, proxy: FaultProxy):
    """That would find the head moved, by itself, and take the writer for deposed."""
    async with opened(url.replace("127.0.0.1:", f"127.0.0.1:{port_of(proxy)},127.0.0.1:")) as engine:
        head = await commit(engine, term=1)
        proxy.answers.cut_after = 0
        with pytest.raises(OutcomeUncertain):
            await engine.commit(expect=head, head=following(head), changes=[])
        assert await engine.head() == following(head)  # asked of the other


async def test_patience_has_an_end(url: str, post: Post):
    post.hangs_up, post.keeps = False, b"/v3/kv/"
    store = open_store(by_way_of(f"{url}?timeout=0.2", await post.start()))
    store._gateway._admitted = True
    with pytest.raises(EngineUnavailable, match=r"gave no answer within 0\.2 s"):
        await store.head()
    with pytest.raises(OutcomeUncertain, match=r"gave no answer within 0\.2 s"):
        await store.append(expect=Head(), head=Head(1), row=None)
    await store.close()


@pytest.mark.parametrize("ends", ["reopen", "close"])
async def test_whoever_waits_is_told_when_the_line_is_given_up(slow: Engine, post: Post, ends: str):
    head = await slow.head()
    post.hangs_up, post.keeps = False, post.COMMIT
    waiting = asyncio.create_task(slow.commit(expect=head, head=following(head), changes=[]))
    await until(lambda: bool(post.kept))
    await getattr(slow, ends)()
    with pytest.raises(OutcomeUncertain):
        await waiting


# Folds


async def test_a_fold_that_was_given_up_and_arrives_in_the_midst_of_the_next_stores_nothing(
    slow: Engine, post: Post, monkeypatch: pytest.MonkeyPatch
):
    """Of the same term, so that this alone would let it in."""
    monkeypatch.setattr(etcd_keys, "REQUEST_OPERATIONS", 2)
    await commit(slow, *puts(["a", "b", "c", "d"]), Put("k", b"old"))
    await fold_kept(slow, post)
    await commit(slow, Put("k", b"new"), Put("a", b"new"))
    # "a" and another one are stored by the first of several requests; the second does not arrive.
    store, sent = slow._store, 0
    fold_some = store._fold_some

    async def second_is_kept(*words: Any) -> int:
        nonlocal sent
        sent += 1
        post.keeps = post.FOLDS[0] if sent == 2 else None
        revision: int = await fold_some(*words)
        return revision

    monkeypatch.setattr(store, "_fold_some", second_is_kept)
    with pytest.raises(EngineUnavailable):
        await everything(slow)
    monkeypatch.undo()
    assert not await post.deliver()
    found = {record.key: record.value for record in await everything(slow)}
    assert (found["a"], found["k"], len(found)) == (b"new", b"new", 6)


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
