"""What the journal relies on in every store, seen from the store itself: late and repeated folds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import pytest
from engine_words import PATIENCE_S, add, commit, keys
from remote_words import ON_SERVERS

from openintent.engines.base import DeleteRange, Deposed, Head, OutcomeUncertain, Put, Record
from openintent.engines.journaled import JournaledEngine, Store
from openintent.errors import EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=ON_SERVERS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@asynccontextmanager
async def opened_store(kind: str, url: str) -> AsyncIterator[Store]:
    store = import_module(f"openintent.engines.{kind}").open_store(url)
    yield store
    await store.close()


@pytest.fixture
async def store(kind: str, url: str) -> AsyncIterator[Store]:
    async with opened_store(kind, url) as store:
        yield store


async def rows(store: Store) -> list[int]:
    return [number for number, _ in await store.rows(after=0, limit=100)]


async def found(store: Store) -> list[Record]:
    return await store.scan("", "z", limit=100, reverse=False)


async def test_a_fold_stores_what_it_says_and_takes_its_rows_out(store: Store):
    for number in (1, 2, 3):
        await add(store, number, term=1)
    await store.fold(term=1, ranges=[], values={"a": b"1", "b": b"2", "c": b"3"}, upto=1)
    assert await rows(store) == [2, 3]
    await store.fold(term=1, ranges=[DeleteRange("a", "c")], values={"b": b"4", "c": None}, upto=2)
    assert await found(store) == [Record("b", b"4")]
    assert await rows(store) == [3]


async def test_a_deposed_writer_folds_nothing(kind: str, url: str, store: Store):
    await add(store, 1, term=1)
    async with opened_store(kind, url) as other:
        taken = await add(other, 2, term=2, member="b")
    with pytest.raises(Deposed) as deposed:
        await store.fold(term=1, ranges=[], values={"k": b"stale"}, upto=1)
    assert deposed.value.actual == taken
    assert await found(store) == []
    assert await rows(store) == [1, 2]


async def test_a_fold_that_arrives_after_later_ones_changes_nothing(store: Store):
    """Its answer was lost, it was sent again, and all the time it was on its way. Its term is still the right one."""
    for number in (1, 2, 3):
        await add(store, number, term=1)
    await store.fold(term=1, ranges=[], values={"k": b"old", "l": b"1"}, upto=1)
    await store.fold(term=1, ranges=[], values={"k": b"new", "l": None}, upto=2)
    await store.fold(term=1, ranges=[], values={"k": b"old", "l": b"1"}, upto=1)
    assert await found(store) == [Record("k", b"new")]
    assert await rows(store) == [3]


@pytest.mark.parametrize("changes", [(), (Put("mine", b""),)])
async def test_rows_that_the_writer_adds_after_a_failed_takeover_are_not_missed(store: Store, changes: tuple[Put, ...]):
    """The one that failed has read the journal; the next one is from the same term, and has to read it again."""
    writer, other = JournaledEngine(store), JournaledEngine(store)
    seen = await commit(writer, Put("first", b""), term=1)
    await commit(writer, Put("second", b""))
    with pytest.raises(Deposed):
        await other.commit(expect=seen, head=Head(2, 1, 1), changes=[Put("mine", b"")])
    seen = await commit(writer, Put("third", b""))
    await other.commit(expect=seen, head=Head(2, 1, 1), changes=changes)
    assert await keys(other) == sorted(["first", "second", "third", *(put.key for put in changes)])


async def test_a_commit_in_doubt_that_has_arrived_is_read(store: Store, monkeypatch: pytest.MonkeyPatch):
    writer, append = JournaledEngine(store), store.append

    async def without_an_answer(**asked: Any) -> None:
        await append(**asked)
        raise OutcomeUncertain("no answer")

    await commit(writer, Put("first", b""), term=1)
    monkeypatch.setattr(store, "append", without_an_answer)
    with pytest.raises(OutcomeUncertain):
        await commit(writer, Put("arrived", b""))
    assert await keys(writer) == ["arrived", "first"]


async def test_a_row_that_is_added_while_two_read_the_log_is_not_missed(store: Store, monkeypatch: pytest.MonkeyPatch):
    """Both came when the journal had to be read, and the second found that out while the first did it."""
    writer, read, reads, added = JournaledEngine(store), store.rows, 0, asyncio.Event()

    async def slowly(**asked: Any) -> list[tuple[int, bytes]]:
        nonlocal reads
        reads += 1
        number, found = reads, await read(**asked)
        if number > 1:
            await added.wait()
        return found

    await commit(writer, term=1)
    monkeypatch.setattr(store, "rows", slowly)
    first, second = (asyncio.ensure_future(keys(writer)) for _ in range(2))
    assert await first == []
    await commit(writer, Put("added", b""))
    added.set()
    await second
    await commit(writer, Put("later", b""))
    assert await keys(writer) == ["added", "later"]


async def test_who_reads_the_log_does_not_wait_for_what_is_committed_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    writer, fold, folds = JournaledEngine(store), store.fold, 0

    async def under_load(**asked: Any) -> None:
        nonlocal folds
        folds += 1
        await commit(writer, Put(f"later{folds}", b""))
        await fold(**asked)

    await commit(writer, Put("k", b""), term=1)
    monkeypatch.setattr(store, "fold", under_load)
    async with asyncio.timeout(PATIENCE_S):
        assert await keys(writer) == ["k"]
    assert folds == 1


async def test_who_reads_the_log_while_another_takes_over_is_told_that_it_cannot_be_read(
    kind: str, url: str, store: Store, monkeypatch: pytest.MonkeyPatch
):
    writer, fold = JournaledEngine(store), store.fold

    async def too_late(**asked: Any) -> None:
        async with opened_store(kind, url) as other:
            await commit(JournaledEngine(other), term=2, member="b")
        await fold(**asked)

    await commit(writer, Put("k", b""), term=1)
    monkeypatch.setattr(store, "fold", too_late)
    with pytest.raises(EngineUnavailable, match="written by 'b'"):
        await keys(writer)
