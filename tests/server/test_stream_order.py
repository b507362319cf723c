"""A reader gets each event once and in order, whatever happens while it is told the log and goes over to the feed."""

import asyncio

import pytest
from stage import settled
from stream_words import INTENTS, PATIENCE_S, Telling, World

from openintent.core.commands import Assign, LogEvent, PatchState, Unassign
from openintent.grantor import feed as feed_module
from openintent.model import Assignment, Patch
from openintent.server import stream as stream_module
from openintent.server.auth import Gate
from openintent.server.keys import NOBODY
from openintent.server.stream import Streams

pytestmark = pytest.mark.anyio

LOGS = ["intent:a", "portfolio:p", "agent:ann"]


async def begun(seed: int = 0, length: int = 0) -> World:
    world = World(seed)
    await world.start()
    await world.tell(length)
    return world


async def ended(world: World) -> None:
    world.engine.meanwhile = None
    await world.grantor.stop()


@pytest.mark.parametrize("own", LOGS)
@pytest.mark.parametrize("seed", range(12))
async def test_a_reader_that_resumes_while_the_world_goes_on_gets_each_event_once(own, seed):
    world = await begun(seed, length=60)
    after = world.rng.randrange(world.grantor.feed.seq)
    world.left, world.engine.meanwhile = 100, world.step
    telling = Telling(world, own, after=after)
    await _all_told(world, telling, own, after)
    assert telling.numbers == await world.expected(own, after)
    await telling.hang_up()
    await ended(world)


async def _all_told(world: World, telling: Telling, own: str, after: int) -> None:
    while world.left:  # what the stream itself did not bring about
        await world.step()
    expected = await world.expected(own, after)
    if expected:
        await telling.until(expected[-1])


@pytest.mark.parametrize("own", LOGS)
@pytest.mark.parametrize("seed", range(6))
async def test_a_buffer_that_runs_over_while_the_log_is_told_costs_nothing(own, seed, monkeypatch):
    monkeypatch.setattr(feed_module, "EVENTS_MAX", 1)
    monkeypatch.setattr(stream_module, "WRITE_BYTES", 1)
    world = await begun(seed, length=60)
    world.left, world.engine.meanwhile = 100, world.step
    telling = Telling(world, own, after=0)
    await _all_told(world, telling, own, 0)
    assert telling.numbers == await world.expected(own, 0)
    assert not telling.task.done()
    await telling.hang_up()
    await ended(world)


@pytest.mark.parametrize("own", LOGS)
@pytest.mark.parametrize("seed", range(6))
async def test_one_that_is_closed_because_it_is_slow_resumes_by_its_cursor_and_misses_nothing(own, seed, monkeypatch):
    monkeypatch.setattr(feed_module, "EVENTS_MAX", 2)
    world = await begun(seed, length=30)
    cursor, told, closed = 0, [], 0
    world.left = 150
    while world.left or told[-1:] != (await world.expected(own, 0))[-1:]:
        telling = Telling(world, own, after=cursor)
        telling.at_each_write = lambda: _several(world, 5)
        # Until it was slow once, a busy machine gets the time that it takes.
        await asyncio.wait({telling.task}, timeout=0.5 if not world.left else 0.05 if closed else 0.2)
        told += telling.numbers
        cursor = telling.cursor
        closed += telling.messages[-1:][0].event == "closed" if telling.messages else 0
        await telling.hang_up()
    assert told == await world.expected(own, 0)
    assert closed, "it was never slow: this proves nothing"
    await ended(world)


async def _several(world: World, count: int) -> None:
    for _ in range(count):
        await world.step()


async def test_a_reader_that_begins_now_gets_what_comes_and_nothing_else():
    world = await begun(length=20)
    place, scans = world.grantor.feed.seq, world.engine.scans
    telling = Telling(world, "intent:a", after=None)
    await world.do(LogEvent(space="intent:a", actor="boss", type="note", payload={}))
    await telling.until(place + 1)
    assert world.engine.scans == scans, "for that nobody needs to read the log"
    assert telling.numbers == [place + 1]
    assert telling.text.startswith(f"retry: 1000\nid: {place}\n: connected\n\n")
    await telling.hang_up()
    await ended(world)


async def test_a_reader_begins_behind_what_is_logged_but_not_durable_yet():
    world = await begun()
    world.grantor.apply(LogEvent(space="intent:a", actor="boss", type="before", payload={}))
    telling = Telling(world, "intent:a", after=None)
    await world.do(LogEvent(space="intent:a", actor="boss", type="after", payload={}))
    await telling.until(world.grantor.feed.seq)
    assert [each.event for each in telling.messages] == ["after"]
    assert telling.text.startswith(f"retry: 1000\nid: {telling.numbers[0] - 1}\n"), "that is its place from now on"
    await telling.hang_up()
    await ended(world)


# States


async def set_n(world: World, intent_id: str, value: int) -> None:
    await world.do(PatchState(intent_id=intent_id, actor="boss", steps=[Patch("set", ("n",), value)]))


def changes(telling: Telling) -> list[tuple]:
    shown = [each.data for each in telling.messages if each.event == "STATE_CHANGED"]
    return [(each["intent_id"], each["old_state"], each["new_state"]) for each in shown]


async def test_a_state_changes_from_what_the_reader_was_last_shown():
    world = await begun()
    await set_n(world, "a", 1)
    telling = Telling(world, "intent:a", after=None, upper=True)
    await set_n(world, "a", 2)
    await set_n(world, "a", 3)
    await telling.until(world.grantor.feed.seq)
    assert changes(telling) == [("a", {"n": 1}, {"n": 2}), ("a", {"n": 2}, {"n": 3})]
    await telling.hang_up()
    await ended(world)


@pytest.mark.parametrize("own", ["intent:a", "agent:ann"])
async def test_that_others_are_unassigned_makes_nobody_forget_a_state(own):
    world = await begun()
    for agent_id in ("ann", "bob"):
        await world.do(Assign(assignment=Assignment(intent_id="a", agent_id=agent_id), actor="boss"))
    await set_n(world, "a", 1)
    telling = Telling(world, own, after=None, upper=True)
    await world.do(Unassign(intent_id="a", agent_id="bob", actor="boss"))
    await set_n(world, "a", 2)
    await telling.until(world.grantor.feed.seq)
    assert changes(telling) == [("a", {"n": 1}, {"n": 2})]
    await telling.hang_up()
    await ended(world)


async def test_after_a_resumption_the_old_state_is_not_known_and_the_new_one_is_that_of_now():
    world = await begun()
    place = world.grantor.feed.seq
    for value in (1, 2):
        await set_n(world, "a", value)
    telling = Telling(world, "intent:a", after=place, upper=True)
    await telling.until(world.grantor.feed.seq)
    assert changes(telling) == [("a", {}, {"n": 2}), ("a", {"n": 2}, {"n": 2})]
    await set_n(world, "a", 3)
    await telling.until(world.grantor.feed.seq)
    assert changes(telling)[2:] == [("a", {"n": 2}, {"n": 3})]
    await telling.hang_up()
    await ended(world)


async def test_one_that_resumes_without_having_missed_a_change_knows_the_state_it_changes_from():
    world = await begun()
    await set_n(world, "a", 1)
    place = world.grantor.feed.seq
    await world.do(LogEvent(space="intent:a", actor="boss", type="note", payload={}))
    telling = Telling(world, "intent:a", after=place, upper=True)
    await settled()
    assert telling.stream._reader is not None, "it has not caught up: this proves nothing"
    await set_n(world, "a", 2)
    await telling.until(world.grantor.feed.seq)
    assert changes(telling) == [("a", {"n": 1}, {"n": 2})]
    await telling.hang_up()
    await ended(world)


async def test_no_state_is_shown_before_it_is_durable():
    world = await begun()
    telling = Telling(world, "intent:a", after=None, upper=True)
    await asyncio.sleep(0)
    steps = [[Patch("set", ("n",), value)] for value in (1, 2)]
    commit, second = world.engine.commit, []

    async def commit_and_go_on(**given):
        if not second:  # applied while the first is on its way
            second.append(asyncio.ensure_future(world.do(PatchState(intent_id="a", actor="boss", steps=steps[1]))))
            await asyncio.sleep(0)
        await commit(**given)

    world.engine.commit = commit_and_go_on
    await world.do(PatchState(intent_id="a", actor="boss", steps=steps[0]))
    await second[0]
    await telling.until(world.grantor.feed.seq)
    assert changes(telling) == [("a", {}, {"n": 1}), ("a", {"n": 1}, {"n": 2})]
    await telling.hang_up()
    await ended(world)


# Ends


async def test_when_the_term_ends_the_stream_ends_with_its_cursor_and_the_reader_resumes():
    world = await begun()
    telling = Telling(world, "intent:a", after=None)
    await world.do(LogEvent(space="intent:a", actor="boss", type="note", payload={}))
    await telling.until(world.grantor.feed.seq)
    commit = world.engine.commit

    async def fails(**given):
        world.engine.commit = commit
        await commit(**given)
        raise RuntimeError("after it happened")

    world.engine.commit = fails
    cursor = world.grantor.feed.seq
    world.grantor.apply(LogEvent(space="intent:a", actor="boss", type="unsure", payload={}))
    async with asyncio.timeout(10):
        await telling.task
    assert telling.messages[-1] == (cursor, "closed", {"reason": "term_ended", "cursor": cursor})
    await settled()
    assert world.grantor.serving
    again = Telling(world, "intent:a", after=cursor)
    await again.until(cursor + 1)
    assert [each.event for each in again.messages] == ["unsure"], "the commit had happened, although nobody was told"
    await again.hang_up()
    await ended(world)


async def test_pings_move_the_cursor_of_one_who_has_nothing_to_read():
    world = await begun()
    telling = Telling(world, "space:quiet", after=None)
    await asyncio.sleep(0)
    await world.tell(10)
    telling.stream.ping()
    await telling.until_said(": ping")
    assert telling.cursor == world.grantor.feed.seq
    assert telling.messages == []
    await telling.hang_up()
    await ended(world)


# Assignments


async def test_assignments_that_are_told_again_do_not_move_the_cursor():
    world = await begun()
    await world.do(Assign(assignment=Assignment(intent_id="a", agent_id="ann"), actor="boss"))
    place = world.grantor.feed.seq
    await world.do(Unassign(intent_id="a", agent_id="ann", actor="boss"))
    given = [Assignment(intent_id=each, agent_id="ann", assigned_by="boss") for each in INTENTS]
    telling = Telling(world, "agent:ann", after=place, assigned=given)
    await telling.until(place + 1)
    *again, last = telling.messages
    assert [(each.id, each.event, each.data["replayed"]) for each in again] == [(place, "agent_assigned", True)] * 3
    assert (last.id, last.event) == (place + 1, "agent_unassigned")
    await telling.hang_up()
    await ended(world)


# The look at all of them


@pytest.fixture
async def world():
    world = World()
    await world.start()
    yield world
    await world.grantor.stop()


async def test_only_a_stream_that_was_silent_for_a_while_gets_a_ping(world, monkeypatch):
    streams = Streams(Gate(), asyncio.Event())
    telling = Telling(world, "space:s", after=None)
    streams.add(telling.stream)
    await telling.until_said(": connected")
    streams.look()
    await world.do(LogEvent(space="space:s", actor="boss", type="note", payload={}))
    await telling.until_said("note")
    assert ": ping" not in telling.text
    monkeypatch.setattr(stream_module, "PING_S", 0.0)
    streams.look()
    await telling.until_said(f": ping\nid: {world.grantor.feed.seq}\n\n")
    await telling.hang_up()
    streams.remove(telling.stream)
    await asyncio.wait_for(streams._task, PATIENCE_S)


async def test_a_stop_ends_all_streams_at_once_also_one_that_is_still_told_the_log(world):
    stopping = asyncio.Event()
    streams = Streams(Gate(), stopping)
    await world.tell(50)
    blocked = asyncio.Event()
    world.engine.meanwhile = blocked.wait
    tellings = [Telling(world, "agent:ann", after=after) for after in (None, 3)]
    for telling in tellings:
        streams.add(telling.stream)
        await telling.until_said(": connected")
    stopping.set()
    await asyncio.wait_for(tellings[0].task, PATIENCE_S)
    world.engine.meanwhile = None
    blocked.set()
    await asyncio.wait_for(tellings[1].task, PATIENCE_S)
    assert tellings[1].messages[-1] == (3, "closed", {"reason": "stopping", "cursor": 3})
    assert len(world.grantor.feed) == 0


async def test_a_principal_that_stands_no_longer_loses_its_stream(world):
    streams = Streams(Gate(), asyncio.Event())
    telling = Telling(world, "space:s", after=None)
    telling.stream.principal = NOBODY
    streams.add(telling.stream)
    streams.look()
    await asyncio.wait_for(telling.task, PATIENCE_S)
    assert telling.messages[-1].data["reason"] == "key_revoked"
    streams.remove(telling.stream)
    await asyncio.wait_for(streams._task, PATIENCE_S)


async def test_a_stream_that_ends_while_its_last_words_leave_names_the_last_of_them(world):
    """A reader goes on from there: whatever was told before it would be told again."""
    await world.tell(50)
    telling = Telling(world, "agent:ann", after=0)
    told = telling.stream._write

    async def write(messages):
        await told(messages)
        if b"event: " in messages:
            telling.stream.end("stopping")

    telling.stream._write = write
    await asyncio.wait_for(telling.task, PATIENCE_S)
    *before, closed = telling.messages
    assert closed.event == "closed"
    assert closed.id >= max(each.id for each in before)
