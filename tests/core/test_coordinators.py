"""Coordinators: whoever leads an intent or a portfolio holds a lease, beside those of its parts."""

import pytest
from world import World

from openintent.core import commands, looking
from openintent.core.answers import Granted, Held, IntentSeen, Lost, Missing, Queued, Stale

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
    assert begun.lease_id == "C2"
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


# Writing by the coordinator's token


def patch(world, token, *, intent="i1", actor="ann"):
    return world.patch(intent, ("set", "plan", 1), actor=actor, token=token)


def status(world, token, *, intent="i1", actor="ann"):
    return world.status(intent, "active", actor, token=token)


@pytest.fixture(params=[patch, status])
def write(request):
    """Both ways of changing an intent that may name a token."""
    return request.param


@pytest.fixture
def family(world):
    """Three intents, each a part of the one before it: i1, i2, i3. The first is in p1, the third in p3."""
    world.create("i2", parent_id="i1")
    world.create("i3", parent_id="i2")
    world.portfolio("p3")
    world.add("p1", "i1")
    world.add("p3", "i3")
    return world


OF_I3 = ({"intent": "i3"}, {"intent": "i2"}, {"intent": "i1"}, {"portfolio": "p3"}, {"portfolio": "p1"})


@pytest.mark.parametrize("what", OF_I3)
def test_the_coordinator_of_an_intent_or_of_what_it_belongs_to_writes_by_its_token(family, write, what):
    token = family.coordinate("ann", **what, lease="C1").lease.token
    assert isinstance(write(family, token, intent="i3"), IntentSeen)
    assert write(family, token, intent="i3", actor="bob") == Stale(token, None), "it is another's"
    family.release("C1", "ann")
    assert write(family, token, intent="i3") == Stale(token, None)
    successor = family.coordinate("bob", **what).lease.token
    assert write(family, token, intent="i3") == Stale(token, successor)
    assert isinstance(write(family, successor, intent="i3", actor="bob"), IntentSeen)


@pytest.mark.parametrize("what", [{"intent": "i3"}, {"intent": "elsewhere"}, {"portfolio": "p3"}, {"portfolio": "p9"}])
def test_the_token_of_another_coordinator_is_no_good_and_its_successor_is_nobodys_business(family, write, what):
    family.create("elsewhere")
    family.portfolio("p9")
    token = family.coordinate("ann", **what, lease="C1").lease.token
    assert write(family, token, intent="i1") == Stale(token, None)
    family.release("C1", "ann")
    family.coordinate("bob", **what)
    assert write(family, token, intent="i1") == Stale(token, None)


def test_a_portfolio_that_lost_the_intent_has_lost_its_coordinators_token_too(family, write):
    token = family.coordinate("ann", portfolio="p1").lease.token
    assert isinstance(write(family, token), IntentSeen)
    family.remove("p1", "i1")
    assert write(family, token) == Stale(token, None)


def test_at_the_deadline_the_coordinators_token_is_stale(world, write):
    token = world.coordinate("ann", intent="i1", ttl_ms=1_000).lease.token
    world.advance(999)
    assert isinstance(write(world, token), IntentSeen)
    world.advance(1)
    assert write(world, token) == Stale(token, None)


def test_a_coordinator_does_not_write_under_the_lease_of_a_worker(world):
    token = world.coordinate("ann", intent="i1").lease.token
    world.acquire("bob", "plan", space="intent:i1")
    assert patch(world, token).lease.holder == "bob"
    assert isinstance(status(world, token), IntentSeen), "nobody holds the status"


def test_a_stale_token_changes_nothing_and_is_said_before_what_the_version_is(world, write):
    before, seq = world.books.intents["i1"].version, world.books.seq
    assert write(world, 7) == Stale(7, None)
    assert world.status("i1", "active", "ann", token=7, expect=9) == Stale(7, None)
    assert (world.books.intents["i1"].version, world.books.seq) == (before, seq)


def test_a_change_of_status_by_the_token_of_a_part_is_refused_once_that_is_lost(world):
    token = world.acquire("ann", "plan", space="intent:i1", lease="L1").lease.token
    assert status(world, token).intent.status == "active"
    world.release("L1", "ann")
    live = world.acquire("bob", "plan", space="intent:i1").lease.token
    assert status(world, token) == Stale(token, live)


def test_a_repeated_change_of_status_is_answered_though_its_lease_is_gone(world):
    token = world.coordinate("ann", intent="i1", lease="C1").lease.token
    words = {"actor": "ann", "token": token, "attempt": "t1"}
    first = world.status("i1", "active", **words)
    world.release("C1", "ann")
    assert world.status("i1", "active", **words) == first


def test_how_many_coordinators_are_asked_has_a_bound(world, monkeypatch):
    monkeypatch.setattr(looking, "COORDINATORS_MAX", 3)
    for number in range(2, 6):
        world.create(f"i{number}", parent_id=f"i{number - 1}")
    token = world.coordinate("ann", intent="i1").lease.token
    assert isinstance(patch(world, token, intent="i3"), IntentSeen)
    assert patch(world, token, intent="i4") == Stale(token, None)
