"""Coordinators: whoever leads an intent or a portfolio holds a lease, beside those of its parts."""

import pytest
from world import World

from openintent.core import commands
from openintent.core.answers import Granted, Held, Lost, Missing, Queued

SPACES = {"intent:i1": {"intent": "i1"}, "portfolio:p1": {"portfolio": "p1"}}


@pytest.fixture(params=SPACES)
def home(request):
    """The space of what is coordinated."""
    return request.param


@pytest.fixture
def world():
    world = World()
    world.create("i1")
    world.portfolio("p1")
    world.commit()
    return world


def test_there_is_one_coordinator_at_a_time(world, home):
    assert isinstance(world.coordinate("ann", **SPACES[home], lease="C1"), Granted)
    held = world.coordinate("bob", **SPACES[home])
    assert isinstance(held, Held)
    assert held.lease.holder == "ann"
    world.release("C1", "ann")
    assert isinstance(world.coordinate("bob", **SPACES[home]), Granted)


def test_coordinating_takes_nothing_from_those_who_do_the_work(world):
    world.coordinate("ann", intent="i1")
    assert isinstance(world.acquire("bob", "*", space="intent:i1"), Granted)
    assert world.do(commands.ListLeases(space="intent:i1")).leases[0].holder == "bob"
    assert world.do(commands.ListLeases(space="coordinator:intent:i1")).leases[0].holder == "ann"


def test_nobody_coordinates_what_is_not_there(world):
    assert world.coordinate("ann", intent="ix") == Missing("intent")
    assert world.coordinate("ann", portfolio="px") == Missing("portfolio")
    assert world.do(commands.ListLeases(space="coordinator:portfolio:px")) == Missing("portfolio")
    assert world.do(commands.ListQueue(space="coordinator:intent:ix")) == Missing("intent")
    assert world.books.spaces == {}


def test_its_story_is_a_part_of_that_of_what_it_coordinates(world, home):
    world.coordinate("ann", **SPACES[home], lease="C1")
    world.release("C1", "ann")
    begun, ended = world.books.events
    assert (begun.type, begun.space, begun.also) == ("lease_acquired", home, None)
    assert (ended.type, ended.space, ended.also, ended.lease.id) == ("lease_released", home, None, "C1")


def test_a_lapse_is_a_failover_in_both_logs_and_the_next_one_has_a_larger_token(world, home):
    first = world.coordinate("ann", **SPACES[home], lease="C1", ttl_ms=1_000).lease
    assert isinstance(world.coordinate("bob", **SPACES[home], lease="C2", wait_ms=9_000), Queued)
    assert world.advance(999) == []
    [(_, granted)] = world.advance(1)
    assert (granted.lease.id, granted.lease.holder) == ("C2", "bob")
    assert granted.lease.token > first.token
    failed, begun = world.books.events[-2:]
    assert (failed.type, failed.space, failed.also) == ("coordinator.failed_over", home, "agent:ann")
    assert (failed.lease.id, failed.lease.status, failed.lease.ended_reason) == ("C1", "expired", "expired")
    assert begun.payload["lease_id"] == "C2"
    world.commit()
    assert [event.seq for event in world.stored_log("agent:ann")] == [failed.seq]
    assert failed.seq in [event.seq for event in world.stored_log(home)]


def test_one_that_is_taken_away_was_replaced(world, home):
    world.coordinate("ann", **SPACES[home], lease="C1")
    world.revoke("C1")
    ended = world.books.events[-1]
    assert (ended.type, ended.space, ended.also, ended.actor) == (
        "coordinator.replaced",
        home,
        "agent:ann",
        "operator",
    )
    assert isinstance(world.renew("C1", "ann"), Lost)


def test_a_plain_lease_ends_under_its_plain_name_and_its_holder_is_told_too(world):
    for lease, end in (("L1", lambda: world.advance(1_000)), ("L2", lambda: world.revoke("L2"))):
        world.acquire("ann", space="intent:i1", lease=lease, ttl_ms=1_000)
        end()
        ended = world.books.events[-1]
        assert (ended.type, ended.space, ended.also) == ("lease_released", "intent:i1", "agent:ann")


@pytest.mark.parametrize("restart", [World.stop, World.crash])
def test_a_coordinator_survives_a_restart(world, home, restart):
    world.coordinate("ann", **SPACES[home], lease="C1", metadata={"role": "lead"})
    world.coordinate("bob", **SPACES[home], lease="C2", wait_ms=9_000, attempt="t1")
    world.commit()
    restart(world)
    assert world.books.leases["C1"].metadata == {"role": "lead"}
    assert isinstance(world.coordinate("bob", **SPACES[home], wait_ms=9_000, attempt="t1"), Queued)
    world.release("C1", "ann")
    assert world.books.leases["C2"].holder == "bob"


def test_a_policy_of_the_intent_says_who_may_coordinate_it(world):
    world.govern("i1", allowed_agents=["ann"])
    assert world.coordinate("bob", intent="i1").rule == "allowed_agents"
    assert isinstance(world.coordinate("ann", intent="i1"), Granted)
    assert isinstance(world.coordinate("bob", portfolio="p1"), Granted)
