"""The feed: every event once and in order, to everybody who keeps up."""

import asyncio

import pytest
from stage import Listener, soon

from openintent.grantor import feed as module
from openintent.grantor.feed import Bulletin, Feed, News, moved
from openintent.model import Event, Lease

pytestmark = pytest.mark.anyio


def events(first: int, last: int, space: str = "space:s", kind: str = "note", also: str | None = None) -> list[Event]:
    return [Event(seq, kind, space, "ann", 0, also=also) for seq in range(first, last + 1)]


def publish(feed: Feed, *made: Event) -> None:
    feed.publish(feed.gather(made, lambda _: None), made[-1].seq)


def plain(news: News) -> bytes:
    return b"<%d>" % news.event.seq


async def numbers(listener: Listener, count: int) -> list[int]:
    return [(await listener.next()).seq for _ in range(count)]


async def test_readers_get_every_event_in_order():
    feed = Feed()
    listeners = [Listener(feed) for _ in range(3)]
    publish(feed, *events(1, 3))
    publish(feed, *events(4, 5))
    for listener in listeners:
        assert await numbers(listener, 5) == [1, 2, 3, 4, 5]
        assert listener.reader.cursor == 5


async def test_a_reader_gets_only_the_log_it_reads_and_costs_the_other_logs_nothing():
    feed, rendered = Feed(), []
    reader = feed.subscribe("space:a", lambda news: rendered.append(news) or b"x", after=0)
    publish(feed, *events(1, 3, "space:b"))
    assert rendered == []
    publish(feed, *events(4, 4, "space:a"))
    assert (reader.take(100), reader.cursor) == (b"x", 4)


async def test_an_event_that_stands_in_two_logs_is_told_once():
    feed = Feed()
    both = feed.subscribe("agent:ann", plain, after=0, along={"intent:i"})
    first, second = (feed.subscribe(space, plain, after=0) for space in ("intent:i", "agent:ann"))
    publish(feed, *events(1, 1, "intent:i", also="agent:ann"))
    assert [reader.take(100) for reader in (both, first, second)] == [b"<1>"] * 3


async def test_what_is_made_of_an_event_is_shared_between_its_readers():
    feed, made = Feed(), []

    def once(news: News) -> bytes:
        if "form" not in news.forms:
            news.forms["form"] = b"<%d>" % news.event.seq
            made.append(news.event.seq)
        return news.forms["form"]

    readers = [feed.subscribe("space:s", once, after=0) for _ in range(5)]
    publish(feed, *events(1, 2))
    assert [reader.take(100) for reader in readers] == [b"<1><2>"] * 5
    assert made == [1, 2]


async def test_a_reader_gets_nothing_from_before_its_place():
    feed = Feed()
    reader = feed.subscribe("space:s", plain, after=2)
    publish(feed, *events(1, 3))
    assert reader.take(100) == b"<3>"


async def test_a_reader_that_waits_is_woken():
    feed = Feed()
    listener = Listener(feed)
    waiting = asyncio.ensure_future(listener.next())
    await asyncio.sleep(0)
    publish(feed, *events(1, 1))
    assert (await soon(waiting)).seq == 1


# Logs that are read along


def assigned(seq: int, *, to: str = "intent:i", kind: str = "agent_assigned", **payload: object) -> Event:
    return Event(seq, kind, to, "boss", 0, payload, also="agent:ann")


async def test_what_is_read_along_changes_at_exactly_that_event_also_within_a_batch():
    feed = Feed()
    reader = feed.subscribe("agent:ann", plain, after=0, along=set())
    before, between, after = (events(seq, seq, "intent:i")[0] for seq in (1, 3, 5))
    publish(feed, before, assigned(2), between, assigned(4, kind="agent_unassigned"), after)
    assert reader.take(100) == b"<2><3><4>"
    publish(feed, *events(6, 6, "intent:i"), *events(7, 7, "agent:ann"))
    assert reader.take(100) == b"<7>"


async def test_who_reads_an_intent_does_not_come_to_read_the_portfolio_that_it_joins():
    feed = Feed()
    reader = feed.subscribe("intent:i", plain, after=0)
    publish(feed, Event(1, "added_to_portfolio", "portfolio:p", "boss", 0, also="intent:i"))
    publish(feed, *events(2, 2, "portfolio:p"))
    assert reader.take(100) == b"<1>"


async def test_an_event_that_somebody_made_up_changes_nothing():
    made_up = Event(1, "agent_unassigned", "agent:ann", "eve", 0, {"intent_id": "i"})
    assert moved(made_up, "agent:ann") is None
    assert moved(assigned(1), "agent:bob") is None
    assert moved(assigned(1), "agent:ann") == module.Move("intent:i", joins=True, again=False)
    assert moved(assigned(1, again=True), "agent:ann") == module.Move("intent:i", joins=True, again=True)


# Bounds


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "EVENTS_MAX", 2)


async def test_one_that_does_not_keep_up_is_closed_with_its_cursor_and_the_others_are_not(small):
    feed = Feed()
    slow, quick = (feed.subscribe("space:s", plain, after=0) for _ in range(2))
    publish(feed, *events(1, 1))
    assert [slow.take(100), quick.take(100)] == [b"<1>"] * 2
    slow.busy = True
    for seq in (2, 3, 4):
        publish(feed, *events(seq, seq))
        assert quick.take(100) == b"<%d>" % seq
    assert (slow.closed, slow.overflowed, slow.slow) == (True, True, True)
    assert len(feed) == 1
    assert slow.take(100) == b"<2><3>"
    assert slow.cursor == 3, "it resumes behind the last one it was handed, and misses nothing"


async def test_one_that_got_too_much_at_once_is_not_slow(small):
    feed = Feed()
    reader = feed.subscribe("space:s", plain, after=0)
    publish(feed, *events(1, 3))
    assert (reader.overflowed, reader.slow) == (True, False)


async def test_a_buffer_is_bounded_in_bytes_but_one_message_always_fits(monkeypatch):
    monkeypatch.setattr(module, "BYTES_MAX", 10)
    feed = Feed()
    reader = feed.subscribe("space:s", lambda news: b"x" * 8 * news.event.seq, after=0)
    publish(feed, *events(2, 2))
    assert not reader.closed
    assert len(reader.take(100)) == 16
    publish(feed, *events(3, 4))
    assert (reader.closed, reader.take(100), reader.cursor) == (True, b"x" * 24, 3)


async def test_taking_leaves_what_is_too_much_for_now():
    feed = Feed()
    reader = feed.subscribe("space:s", plain, after=0)
    publish(feed, *events(1, 3))
    assert [reader.take(4), reader.cursor, reader.take(4)] == [b"<1><2>", 2, b"<3>"]


async def test_a_reader_that_fails_is_closed_and_the_others_get_theirs(caplog):
    feed = Feed()
    broken = feed.subscribe("space:s", lambda news: bytes(news.event.seq / 0), after=0)
    other = feed.subscribe("space:s", plain, after=0)
    publish(feed, *events(1, 1))
    assert (broken.closed, other.take(100)) == (True, b"<1>")
    assert "reader lost" in caplog.text


# Queues


async def test_of_the_lengths_of_a_queue_only_the_last_counts(monkeypatch):
    monkeypatch.setattr(module, "LENGTHS_MAX", 2)
    feed = Feed()
    reader = feed.subscribe("intent:i", plain, after=0, lengths=True)
    deaf = feed.subscribe("intent:i", plain, after=0)
    feed.tell_lengths({("intent:i", "a"): 1, ("coordinator:intent:i", "*"): 1, ("intent:j", "a"): 7})
    feed.tell_lengths({("intent:i", "a"): 2})
    await soon(reader.wait())
    assert reader.take_lengths() == {("coordinator:intent:i", "*"): 1, ("intent:i", "a"): 2}
    assert (reader.take_lengths(), deaf.take_lengths()) == ({}, {})
    feed.tell_lengths({("intent:i", scope): 1 for scope in "abc"})
    assert list(reader.take_lengths()) == [("intent:i", "b"), ("intent:i", "c")]


# Ends


async def test_a_closed_reader_is_told_and_costs_nothing():
    feed = Feed()
    reader, other = (feed.subscribe("space:s", plain, after=0) for _ in range(2))
    reader.close()
    reader.close()
    assert len(feed) == 1
    publish(feed, *events(1, 1))
    await soon(reader.wait())
    assert (reader.take(100), other.take(100)) == (b"", b"<1>")


async def test_when_a_term_ends_everybody_is_told_and_keeps_what_was_durable():
    feed = Feed()
    readers = [feed.subscribe(space, plain, after=0) for space in ("space:s", "space:t")]
    publish(feed, *events(1, 1), *events(2, 2, "space:t"))
    late = feed.reached(3)
    feed.close()
    assert [(reader.closed, reader.overflowed) for reader in readers] == [(True, False)] * 2
    assert [reader.take(100) for reader in readers] == [b"<1>", b"<2>"]
    assert len(feed) == 0
    assert await soon(late) is False


async def test_one_can_wait_until_an_event_is_durable():
    feed = Feed()
    feed.begin(7)
    assert await soon(feed.reached(7)) is True
    waiting, later = feed.reached(9), feed.reached(10)
    publish(feed, *events(8, 8))
    assert not waiting.done()
    feed.publish(Bulletin(), 9)
    assert await soon(waiting) is True
    assert not later.done()


async def test_leases_count_as_ended_when_that_is_durable_and_not_before():
    feed = Feed()
    lease = Lease("L1", "space:s", "x", "ann", 1, 1_000, 1_000, 1_000, 0, status="expired")
    bulletin = feed.gather([Event(1, "lease_released", "space:s", "ann", 0, lease=lease)], lambda _: None)
    assert feed.ended.total() == 0
    feed.publish(bulletin, 1)
    assert feed.ended == {"expired": 1}


async def test_nothing_is_prepared_while_nobody_reads():
    feed = Feed()
    assert feed.gather(events(1, 3), lambda _: None).news == ()
    reader = feed.subscribe("space:s", plain, after=0)
    assert len(feed.gather(events(1, 3), lambda _: None).news) == 3
    reader.close()
    assert feed.gather(events(1, 3), lambda _: None).news == ()
