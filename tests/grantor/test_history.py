"""The log, read back from the engine in whatever chunks it was written."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent import records
from openintent.core.answers import Ended
from openintent.core.books import event_key
from openintent.core.commands import LogEvent, Release
from openintent.engines.base import Head, Put
from openintent.engines.memory import MemoryEngine
from openintent.grantor import history as module
from openintent.grantor.history import History
from openintent.model import Event

pytestmark = pytest.mark.anyio


async def written(chunks: list[list[tuple[int, str]]], space: str = "space:s") -> History:
    """A history of events, each a number and a type, in chunks as commits leave them."""
    engine = MemoryEngine()
    made = [[Event(seq, kind, space, "ann", 0) for seq, kind in chunk] for chunk in chunks]
    changes = [Put(event_key(space, chunk[-1].seq), records.encode(chunk)) for chunk in made]
    await engine.commit(expect=Head(), head=Head(term=1), changes=changes)
    return History(engine)


def chunked(count: int, size: int) -> list[list[tuple[int, str]]]:
    numbered = [(seq, "even" if seq % 2 == 0 else "odd") for seq in range(1, count + 1)]
    return [numbered[at : at + size] for at in range(0, count, size)]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
@pytest.mark.parametrize("scanned", [1, 2, 64])
async def test_paging_misses_nothing_in_either_direction(size, scanned, monkeypatch):
    monkeypatch.setattr(module, "CHUNKS_PER_SCAN", scanned)
    history = await written(chunked(20, size))
    read: list[int] = []
    while page := await history.events("space:s", after=read[-1] if read else 0, limit=3):
        read += [event.seq for event in page]
    assert read == list(range(1, 21))
    newest = await history.events("space:s", limit=5, newest_first=True)
    assert [event.seq for event in newest] == [20, 19, 18, 17, 16]
    down_to = await history.events("space:s", after=12, limit=100, newest_first=True)
    assert [event.seq for event in down_to] == list(range(20, 12, -1))


@pytest.mark.parametrize("newest_first", [False, True])
async def test_types_are_picked_before_the_limit_counts(newest_first, monkeypatch):
    monkeypatch.setattr(module, "CHUNKS_PER_SCAN", 2)
    history = await written(chunked(20, 3))
    found = await history.events("space:s", limit=4, types={"even"}, newest_first=newest_first)
    assert [event.seq for event in found] == ([20, 18, 16, 14] if newest_first else [2, 4, 6, 8])


async def test_spaces_have_logs_of_their_own(stage):
    for space in ("space:a", "space:a", "space:b", "space:aa"):
        await stage.do(LogEvent(space=space, actor="ann", type="note", payload={})).heard()
    read = stage.grantor.history.events
    assert [event.seq for event in await read("space:a", limit=9)] == [1, 2]
    assert [event.seq for event in await read("space:b", limit=9)] == [3]
    assert await read("space:c", limit=9) == []
    assert await read("space:a", limit=0) == []


async def test_one_event_is_found_by_its_number(stage):
    for _ in range(3):
        await stage.do(LogEvent(space="space:a", actor="ann", type="note", payload={})).heard()
    assert (await stage.grantor.history.event("space:a", 2)).seq == 2
    assert await stage.grantor.history.event("space:a", 4) is None


async def test_a_lease_that_ended_is_found_in_the_log(stage):
    await stage.acquire("ann").heard()
    await stage.acquire("ann", "y").heard()
    assert await stage.grantor.history.ended_lease(Ended("L1", None, None)) is None
    await stage.do(Release(lease_id="L1", holder="ann")).heard()
    lease = await stage.grantor.history.ended_lease(Ended("L1", None, None))
    assert (lease.holder, lease.status, lease.token) == ("ann", "released", 1)
    story = await stage.grantor.history.lease_events("space:s", "L1")
    assert [event.type for event in story] == ["lease_acquired", "lease_released"]
    assert [event.type for event in story] == ["lease_acquired", "lease_released"]


@given(st.lists(st.integers(1, 4), max_size=12), st.integers(0, 40), st.integers(1, 40), st.booleans())
def test_any_page_is_a_slice_of_the_whole(sizes, after, limit, newest_first):
    numbers = iter(range(1, sum(sizes) + 1))
    chunks = [[(next(numbers), "note") for _ in range(size)] for size in sizes]

    async def page() -> list[int]:
        history = await written(chunks)
        found = await history.events("space:s", after=after, limit=limit, newest_first=newest_first)
        return [event.seq for event in found]

    above = list(range(after + 1, sum(sizes) + 1))
    assert anyio.run(page) == (above[::-1] if newest_first else above)[:limit]
