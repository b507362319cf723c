"""Records of the ZooKeeper engine in their pages."""

import random
from typing import Any

import pytest
from engine_words import LAST, commit, everything, keys, opened, puts
from proving import size
from server_zookeeper import Server

from openintent.engines import zookeeper_pages
from openintent.engines.base import Change, Delete, DeleteRange, Engine, Put, Record
from openintent.engines.memory import MemoryEngine
from openintent.errors import EngineCorrupt

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def kind() -> str:
    return "zookeeper"


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are lists of lists of them."""
    for name, value in {"PAGE_BYTES": 300, "PAGE_BYTES_MIN": 75, "NODE_BYTES": 500, "ROOT_BYTES": 200}.items():
        monkeypatch.setattr(zookeeper_pages, name, value)
    monkeypatch.setattr(zookeeper_pages, "CACHE_BYTES", 1_500)


async def check_pages(engine: Engine) -> int:
    """What is stored is what is listed, in order. How high it is."""
    store: Any = engine._store
    await store._sweep(-2, ("check", store._place.head, -1), await root_of(engine))
    root = await root_of(engine)
    names = [name async for entry in store._walk(root) for name in entry.names]
    assert sorted(names) == sorted(await (await store._back.call()).children(store._place.pages))
    assert len(names) == len(set(names))
    return root.height


async def root_of(engine: Engine) -> zookeeper_pages.Root:
    store: Any = engine._store
    (top,) = await (await store._back.call()).get(store._place.root)
    return zookeeper_pages.decode_root(top.value)


def change(rng: random.Random) -> Change:
    first, last = (f"{rng.randrange(400):03}" for _ in range(2))
    kinds = [
        Put(first, rng.randbytes(rng.choice([0, 3, 30, 700]))),
        Delete(first),
        DeleteRange(first, min(last, f"{first}~")),
    ]
    return rng.choices([*kinds, DeleteRange(first, last)], weights=[30, 12, 4, 0.3])[0]


async def test_any_history_in_small_pages_ends_as_the_plain_model_says(server: Server, small_pages: None):
    rng, model = random.Random(3), MemoryEngine()
    highest = 0
    async with opened(server.fresh_url()) as engine:
        for number in range(size("zookeeper_histories", 16)):
            changes = [change(rng) for _ in range(rng.randrange(90))]
            if number % 8 == 7:
                changes.append(DeleteRange("", f"{rng.randrange(500):03}"))
            await commit(engine, *changes)
            await commit(model, *changes)
            assert await everything(engine) == await everything(model)
            first, last = sorted(f"{rng.randrange(400):03}" for _ in range(2))
            for reverse in (False, True):
                wanted = {"limit": rng.randrange(1, 50), "reverse": reverse}
                assert await engine.scan(first, last, **wanted) == await model.scan(first, last, **wanted)
            highest = max(highest, await check_pages(engine))
        await commit(engine, DeleteRange("", LAST))
        assert await keys(engine) == []
        assert await root_of(engine) == zookeeper_pages.Root()
        assert await check_pages(engine) == 0
    assert highest >= 2


async def test_pages_that_became_small_are_joined(server: Server):
    names = [f"{number:04}" for number in range(2_000)]
    async with opened(server.fresh_url()) as engine:
        await commit(engine, *(Put(name, bytes(200)) for name in names))
        await everything(engine)
        many = len((await root_of(engine)).entries)
        for nth in range(20):
            await commit(engine, *(Delete(name) for place, name in enumerate(names) if place % 40 == nth))
            await commit(engine, *(Delete(name) for place, name in enumerate(names) if place % 40 == nth + 19))
            await everything(engine)
        few = len((await root_of(engine)).entries)
        assert len(await keys(engine)) == 2_000 // 40
    assert many > 20
    assert few < many / 3


async def test_a_large_value_goes_with_all_its_nodes(server: Server):
    async with opened(server.fresh_url()) as engine:
        await commit(engine, Put("a", b""), Put("k", bytes(3_000_000)), Put("z", b""))
        assert [len(record.value) for record in await everything(engine)] == [0, 3_000_000, 0]
        store: Any = engine._store
        call = await store._back.call()
        assert len(await call.children(store._place.pages)) == 7
        await commit(engine, Put("k", b"small"))
        assert await keys(engine) == ["a", "k", "z"]
        await check_pages(engine)
        assert len(await call.children(store._place.pages)) <= 3
        assert await call.children(store._place.staged) == await call.children(store._place.journal) == []


async def test_a_page_that_is_gone_is_noticed(server: Server):
    url = server.fresh_url()
    async with opened(url) as engine:
        await commit(engine, *puts("abc"))
        await everything(engine)
    async with opened(url) as engine:
        await commit(engine, term=2)
        store: Any = engine._store
        call = await store._back.call()
        names = await call.children(store._place.pages)
        await call.commit([("delete", f"{store._place.pages}/{name}") for name in names])
        with pytest.raises(EngineCorrupt, match="a page is gone that is listed"):
            await everything(engine)
        await commit(engine, Put("a", b""))
        with pytest.raises(EngineCorrupt, match="a page is gone that is listed"):
            await everything(engine)
        await call.commit([("delete", store._place.root)])
        with pytest.raises(EngineCorrupt, match="the list of all pages is gone"):
            await everything(engine)


# Large


def test_a_request_stays_below_what_zookeeper_takes():
    writing = zookeeper_pages.Writing("stamp")
    records = [(f"{number:05}", bytes(number)) for number in range(5_000)] + [("big", bytes(2_700_000))]
    entries = writing.packed(records)
    assert max(map(len, writing.made.values())) <= zookeeper_pages.NODE_BYTES < 1_000_000
    assert sum(entry.nodes for entry in entries) == len(writing.made)
    assert sum(len(records) for _, records in writing.pages) == len(records)
    usual = [entry.size for entry in entries if entry.first != "big"]
    assert zookeeper_pages.PAGE_BYTES_MIN < min(usual[1:-1]) <= max(usual) < 2 * zookeeper_pages.PAGE_BYTES


def test_pages_and_lists_that_cannot_be_read_are_said_to_be_corrupt():
    entry = zookeeper_pages.Entry("", "x", 1, 1)
    for read in (
        lambda: zookeeper_pages.decode_root(b"\xc1"),
        lambda: zookeeper_pages.decode_page(entry, b"\xc1"),
        lambda: zookeeper_pages.listed([("", b"\xc1")]),
    ):
        with pytest.raises(EngineCorrupt, match="cannot be read"):
            read()


def test_the_pages_used_last_are_kept_up_to_a_size():
    cache = zookeeper_pages.Cache(10)
    entries = [zookeeper_pages.Entry(name, name, 1, 4) for name in "abc"]
    for entry in entries[:2]:
        cache.put(entry, [(entry.first, b"")])
    assert cache.get(entries[0]) == [("a", b"")]
    cache.put(entries[2], [("c", b"")])
    assert [cache.get(entry) is not None for entry in entries] == [True, False, True]
    assert cache.get(zookeeper_pages.Entry()) == []
    assert Record("k", b"") in zookeeper_pages.Span("", LAST, reverse=False).of([("k", b"")])
