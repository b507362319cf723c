"""Events that stand in two logs: once in each, in order, whatever else is in the batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invariants import check_logs
from world import World

from openintent.core import commands
from openintent.core.answers import Done
from openintent.model import Horizon


@pytest.fixture
def world():
    world = World()
    world.create("i1")
    world.portfolio("p1")
    world.commit()
    return world


def kinds(world: World, space: str) -> list[str]:
    return [event.type for event in world.stored_log(space)]


def test_an_event_of_two_logs_is_found_in_both_and_is_the_same_event(world):
    world.add("p1", "i1")
    world.commit()
    [one] = [event for event in world.stored_log("portfolio:p1") if event.type == "added_to_portfolio"]
    [other] = [event for event in world.stored_log("intent:i1") if event.type == "added_to_portfolio"]
    assert one == other
    assert (one.space, one.also) == ("portfolio:p1", "intent:i1")


def test_the_feed_hears_of_it_once(world):
    before = len(world.log)
    world.assign("i1", "ann")
    world.commit()
    assert [event.type for event in world.log[before:]] == ["agent_assigned"]


def test_both_logs_are_in_order_with_events_of_their_own_before_and_after(world):
    world.patch("i1", ("set", "a", 1))
    world.assign("i1", "ann")
    world.patch("i1", ("set", "a", 2))
    world.register("ann")
    world.unassign("i1", "ann")
    world.commit()
    assert kinds(world, "intent:i1") == [
        "intent_created",
        "state_patched",
        "agent_assigned",
        "state_patched",
        "agent_unassigned",
    ]
    assert kinds(world, "agent:ann") == ["agent_assigned", "agent.registered", "agent_unassigned"]
    check_logs(world)


def test_a_batch_without_such_events_comes_after_one_that_has_them(world):
    world.assign("i1", "ann")
    world.take()
    world.patch("i1", ("set", "a", 1))
    world.acquire("ann")
    world.take()
    world.unassign("i1", "ann")
    world.commit()
    assert kinds(world, "agent:ann") == ["agent_assigned", "agent_unassigned"]
    assert kinds(world, "space:s") == ["lease_acquired"]
    check_logs(world)


def test_each_log_is_one_chunk_for_each_batch(world):
    world.assign("i1", "ann")
    world.assign("i1", "bob")
    world.commit()
    assert len([key for key in world.store if key.startswith("v/intent:i1\t")]) == 2, "that of its creation, and this"
    assert len([key for key in world.store if key.startswith("v/agent:")]) == 2


def test_an_event_that_is_not_durable_is_lost_in_both_logs(world):
    world.assign("i1", "ann")
    world.take()
    world.crash()
    assert (kinds(world, "agent:ann"), kinds(world, "intent:i1")) == ([], ["intent_created"])
    world.assign("i1", "ann")
    world.commit()
    check_logs(world)


acts = st.sampled_from(["patch", "assign", "unassign", "add", "remove", "register", "lapse", "note", "commit", "crash"])


@given(st.lists(acts, max_size=30))
def test_whatever_happens_every_log_has_its_events_once_and_in_order(steps):
    world = World()
    world.create("i1")
    world.portfolio("p1")
    world.commit()
    doing = {
        "patch": lambda: world.patch("i1", ("set", "a", 1)),
        "assign": lambda: world.assign("i1", "ann"),
        "unassign": lambda: world.unassign("i1", "ann"),
        "add": lambda: world.add("p1", "i1"),
        "remove": lambda: world.remove("p1", "i1"),
        "register": lambda: world.register("ann"),
        "lapse": lambda: (world.coordinate("ann", portfolio="p1", ttl_ms=100), world.advance(100)),
        "note": lambda: world.do(commands.LogEvent(space="agent:ann", actor="ann", type="note", payload={})),
        "commit": world.commit,
        "crash": world.crash,
    }
    for step in steps:
        doing[step]()
    world.commit()
    check_logs(world)


# Forgetting


def test_old_chunks_go_and_that_they_may_be_missing_is_known_after_a_restart(world):
    world.assign("i1", "ann")
    world.commit()
    old = [key for key in world.store if key.startswith("v/")]
    assert world.do(commands.Forget(horizon=world.books.seq, keys=old)) == Done()
    assert world.last.after == world.books.batch
    world.assign("i1", "bob")
    world.commit()
    assert (kinds(world, "intent:i1"), kinds(world, "agent:ann")) == (["agent_assigned"], [])
    world.crash()
    assert world.books.horizon == 3


def test_the_horizon_does_not_go_back_and_is_written_only_when_it_moves(world):
    world.do(commands.Forget(horizon=2, keys=[]))
    assert world.books.changes == {"h/": Horizon(2)}
    world.commit()
    world.do(commands.Forget(horizon=1, keys=["v/gone\t1"]))
    assert (world.books.horizon, list(world.books.changes)) == (2, ["v/gone\t1"])
