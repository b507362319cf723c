"""The feed: every event once and in order, to everybody who keeps up."""

import asyncio

import pytest
from stage import soon

from openintent.grantor.feed import Feed
from openintent.model import Event

pytestmark = pytest.mark.anyio


def events(first: int, last: int, kind: str = "note") -> list[Event]:
    return [Event(seq, kind, "space:s", "ann", 0) for seq in range(first, last + 1)]


async def test_readers_get_every_event_in_order():
    feed = Feed()
    readers = [feed.subscribe(lambda event: True) for _ in range(3)]
    feed.publish(events(1, 3))
    feed.publish(events(4, 5))
    for reader in readers:
        assert [(await soon(reader.next())).seq for _ in range(5)] == [1, 2, 3, 4, 5]
        assert reader.cursor == 5


async def test_a_reader_gets_only_what_it_wants():
    feed = Feed()
    reader = feed.subscribe(lambda event: event.type == "wanted")
    feed.publish([*events(1, 2), *events(3, 3, "wanted")])
    assert (await soon(reader.next())).seq == 3


async def test_a_reader_that_waits_is_woken(anyio_backend):
    feed = Feed()
    reader = feed.subscribe(lambda event: True)
    waiting = asyncio.ensure_future(reader.next())
    await asyncio.sleep(0)
    feed.publish(events(1, 1))
    assert (await soon(waiting)).seq == 1


async def test_one_that_does_not_keep_up_is_closed_with_its_cursor_and_the_others_are_not():
    feed = Feed()
    slow = feed.subscribe(lambda event: True, buffer_max=2)
    quick = feed.subscribe(lambda event: True)
    feed.publish(events(1, 1))
    assert (await soon(slow.next())).seq == 1
    feed.publish(events(2, 4))
    assert slow.closed
    assert len(feed) == 1
    assert [(await soon(slow.next())).seq for _ in range(2)] == [2, 3]
    assert await soon(slow.next()) is None
    assert slow.cursor == 3, "it resumes behind the last one it was handed, and misses nothing"
    feed.publish(events(5, 5))
    assert [(await soon(quick.next())).seq for _ in range(5)] == [1, 2, 3, 4, 5]


async def test_a_closed_reader_is_told_and_costs_nothing():
    feed = Feed()
    reader, other = feed.subscribe(lambda event: True), feed.subscribe(lambda event: True)
    reader.close()
    reader.close()
    feed.publish(events(1, 1))
    assert await soon(reader.next()) is None
    assert (await soon(other.next())).seq == 1


async def test_when_the_feed_closes_everybody_is_told():
    feed = Feed()
    readers = [feed.subscribe(lambda event: True) for _ in range(2)]
    feed.publish(events(1, 1))
    feed.close()
    for reader in readers:
        assert (await soon(reader.next())).seq == 1
        assert await soon(reader.next()) is None
    assert len(feed) == 0
    readers[0].offer(events(2, 2)[0])
    assert await soon(readers[0].next()) is None
