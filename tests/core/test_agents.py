"""The registry of agents, their marks, and their assignments."""

import pytest
from world import World

from openintent.core import commands
from openintent.core.answers import Assigned, Done, LimitReached, Missing, Violation
from openintent.model import Limits

BEAT_MS = 1_000


@pytest.fixture
def world():
    world = World()
    world.create("i1")
    return world


def status(world: World, agent: str = "ann") -> str:
    return world.books.agents[agent].status


def listed(world: World, **words) -> list[str]:
    return [each.id for each in world.do(commands.ListAgents(**words)).agents]


def changes(world: World, agent: str = "ann") -> list[tuple[str, str]]:
    """The marks that the agent was given, as its own log tells them."""
    events = [event for event in world.log + world.books.events if event.space == f"agent:{agent}"]
    return [(event.type, event.payload["new_status"]) for event in events if "new_status" in event.payload]


# The registry


def test_registering_again_brings_an_agent_up_to_date(world):
    world.now_ms = 5
    world.register("ann", role_id="writer", capabilities=["text"])
    world.now_ms = 9
    agent = world.register("ann", role_id="reader").agent
    assert (agent.role_id, agent.capabilities, agent.version, agent.registered_at_ms) == ("reader", [], 2, 5)
    assert [event.type for event in world.books.events if event.space == "agent:ann"] == ["agent.registered"] * 2
    assert world.do(commands.GetAgent("ann")).agent is agent
    world.commit()
    world.crash()
    assert (world.books.agents["ann"].role_id, world.books.agents["ann"].version) == ("reader", 2)


def test_what_is_not_registered_is_missing(world):
    assert world.do(commands.GetAgent("nobody")) == Missing("agent")
    assert world.mark("nobody", "draining") == Missing("agent")
    assert world.heartbeat("nobody").status is None


def test_agents_are_listed_in_the_order_of_their_registration_also_after_a_restart(world):
    for number, agent in enumerate(["cid", "ann", "bob"]):
        world.now_ms = number
        world.register(agent, role_id="writer" if agent == "bob" else None)
    world.register("cid")
    assert listed(world) == ["cid", "ann", "bob"]
    assert listed(world, role_id="writer") == ["bob"]
    assert listed(world, offset=1, limit=1) == ["ann"]
    assert world.do(commands.ListAgents(limit=2)).more
    world.stop()
    assert listed(world) == ["cid", "ann", "bob"]


def test_whoever_left_is_listed_only_when_asked_for(world):
    world.register("ann")
    world.register("bob")
    world.mark("ann", "deregistered")
    assert listed(world) == ["bob"]
    assert listed(world, status="deregistered") == ["ann"]
    assert listed(world, status="dead") == []


def test_whoever_left_hears_so_at_its_next_heartbeat_and_is_not_marked_any_more(world):
    world.register("ann")
    world.mark("ann", "deregistered")
    world.advance(100 * BEAT_MS)
    assert world.heartbeat("ann").status == "deregistered"
    assert changes(world) == [("agent.status_changed", "deregistered")]
    world.register("ann")
    assert status(world) == "active"


def test_a_full_registry_forgets_one_that_left_and_refuses_if_nobody_did():
    world = World(Limits(agents_max=2))
    world.register("ann")
    world.register("bob")
    assert world.do(commands.RegisterAgent(world.books.agents["ann"])).agent.version == 2, "known already"
    world.commit()
    assert world.register("cid") == LimitReached("agents", 2)
    world.mark("bob", "deregistered")
    assert world.register("cid").agent.id == "cid"
    assert listed(world, status="deregistered") == []
    world.commit()
    world.crash()
    assert sorted(world.books.agents) == ["ann", "cid"]


def test_a_full_registry_forgets_who_left_before_the_dead_and_of_these_who_was_silent_for_longest():
    world = World(Limits(agents_max=4))
    for agent in ("ann", "bob", "cid", "dan"):
        world.register(agent, BEAT_MS)
    world.advance(BEAT_MS)
    world.heartbeat("ann")
    world.heartbeat("dan")
    world.advance(5 * BEAT_MS)
    world.heartbeat("dan")
    world.mark("cid", "deregistered")
    assert [status(world, agent) for agent in ("ann", "bob", "dan")] == ["dead", "dead", "active"]
    for newcomer, forgotten in (("eve", "cid"), ("fay", "bob"), ("gus", "ann")):
        assert forgotten in world.books.agents
        assert world.register(newcomer, BEAT_MS).agent.id == newcomer
        assert forgotten not in world.books.agents
    assert world.register("hal") == LimitReached("agents", 4), "the others are alive"
    assert world.books.timers.next_ms > world.now_ms
    world.commit()
    world.crash()
    assert sorted(world.books.agents) == ["dan", "eve", "fay", "gus"]


def test_whoever_was_forgotten_is_heard_as_if_it_had_never_registered_and_may_come_back():
    world = World(Limits(agents_max=1))
    world.register("ann", BEAT_MS)
    lease = world.acquire("ann", lease="L1", ttl_ms=100 * BEAT_MS).lease
    world.advance(5 * BEAT_MS)
    world.register("bob", BEAT_MS)
    assert world.heartbeat("ann", [("L1", lease.token)]).status is None
    assert lease.deadline_ms == world.now_ms + lease.ttl_ms, "its leases live on"
    assert world.register("ann") == LimitReached("agents", 1)
    world.advance(5 * BEAT_MS)
    assert world.register("ann").agent.version == 1


# Marks


def test_an_agent_is_unhealthy_after_two_missed_heartbeats_and_dead_after_five(world):
    world.register("ann", BEAT_MS)
    world.advance(2 * BEAT_MS - 1)
    assert status(world) == "active"
    world.advance(1)
    assert status(world) == "unhealthy"
    world.advance(3 * BEAT_MS - 1)
    assert status(world) == "unhealthy"
    world.advance(1)
    assert status(world) == "dead"
    assert changes(world) == [("agent.status_changed", "unhealthy"), ("agent.dead", "dead")]


def test_both_marks_are_given_in_order_if_nobody_looked_for_long(world):
    world.register("ann", BEAT_MS)
    world.advance(100 * BEAT_MS)
    assert changes(world) == [("agent.status_changed", "unhealthy"), ("agent.dead", "dead")]
    assert world.ledger.due_ms() > world.now_ms


def test_a_heartbeat_begins_the_count_anew(world):
    world.register("ann", BEAT_MS)
    for _ in range(10):
        world.advance(2 * BEAT_MS - 1)
        world.heartbeat("ann")
    assert changes(world) == []


@pytest.mark.parametrize("missed", [2, 5])
def test_whoever_was_given_up_and_is_heard_of_again_is_active_and_watched(world, missed):
    world.register("ann", BEAT_MS)
    world.advance(missed * BEAT_MS)
    version = world.books.agents["ann"].version
    assert world.heartbeat("ann").status == "active"
    assert world.books.agents["ann"].version == version + 1
    world.advance(2 * BEAT_MS - 1)
    assert status(world) == "active"
    world.advance(1)
    assert status(world) == "unhealthy"


def test_no_lease_lives_or_dies_by_a_mark(world):
    world.acquire("ann", lease="L1", ttl_ms=100 * BEAT_MS)
    world.acquire("bob", wait_ms=100 * BEAT_MS, lease="L2")
    world.register("ann", BEAT_MS)
    deadline_ms = world.books.leases["L1"].deadline_ms
    world.advance(5 * BEAT_MS)
    assert status(world) == "dead"
    world.mark("ann", "deregistered")
    assert world.books.leases["L1"].deadline_ms == deadline_ms
    assert list(world.books.waiters) == ["L2"]
    world.advance(deadline_ms - world.now_ms - 1)
    assert list(world.books.leases) == ["L1"]
    world.advance(1)
    assert list(world.books.leases) == ["L2"]


def test_a_registered_agent_is_told_to_come_as_often_as_it_said(world):
    world.acquire("ann", lease="L1", ttl_ms=9_000)
    assert world.heartbeat("ann", [("L1", 1)]).next_ms == 3_000
    world.register("ann", 500)
    assert world.heartbeat("ann", [("L1", 1)]).next_ms == 500
    world.register("ann", 50_000)
    assert world.heartbeat("ann", [("L1", 1)]).next_ms == 3_000


def test_a_heartbeat_tells_the_load_and_waits_for_nothing(world):
    world.register("ann", load=1)
    world.commit()
    world.heartbeat("ann", load=4)
    assert world.last.after == 0
    world.heartbeat("ann")
    assert world.books.agents["ann"].load == 4
    assert world.books.written < world.books.batch, "heartbeats are not written down"


def test_who_drains_goes_on_draining_until_it_is_silent_for_so_long_that_it_must_be_dead(world):
    world.register("ann", BEAT_MS)
    world.advance(BEAT_MS)
    assert world.mark("ann", "draining", actor="ops").agent.status == "draining"
    assert (world.books.events[-1].actor, world.books.events[-1].payload) == (
        "ops",
        {"old_status": "active", "new_status": "draining"},
    )
    world.advance(4 * BEAT_MS)
    assert world.heartbeat("ann").status == "draining"
    world.advance(5 * BEAT_MS)
    assert status(world) == "dead"


def test_the_same_mark_again_changes_nothing(world):
    world.register("ann")
    seq, version = world.books.seq, world.books.agents["ann"].version
    assert world.mark("ann", "active").agent.version == version
    assert world.books.seq == seq


@pytest.mark.parametrize("restart", [World.stop, World.crash])
@pytest.mark.parametrize(("missed", "mark"), [(0, "active"), (2, "unhealthy"), (5, "dead")])
def test_a_restart_gives_everybody_the_benefit_of_the_doubt_but_takes_no_mark_away(world, restart, missed, mark):
    world.register("ann", BEAT_MS)
    world.advance(missed * BEAT_MS + BEAT_MS // 2)
    world.commit()
    restart(world)
    assert status(world) == mark
    world.advance(2 * BEAT_MS - 1)
    assert status(world) == mark
    world.advance(10 * BEAT_MS)
    assert status(world) == "dead"


def test_agents_who_can_get_no_mark_any_more_cost_no_timer(world):
    for _ in range(5_000):
        world.register("ann", BEAT_MS)
        world.mark("ann", "dead")
    assert len(world.books.timers) <= 1_100
    world.stop()
    assert len(world.books.timers) == 0


# Assignments


def test_an_agent_need_not_be_registered_to_be_assigned(world):
    world.now_ms = 7
    made = world.assign("i1", "ann", actor="bob").assignment
    assert (made.role, made.assigned_by, made.assigned_at_ms) == ("worker", "bob", 7)
    event = world.books.events[-1]
    assert (event.type, event.space, event.also, event.actor) == ("agent_assigned", "intent:i1", "agent:ann", "bob")
    assert event.payload == {"intent_id": "i1", "agent_id": "ann", "role": "worker"}


def test_assigning_again_is_the_same_and_with_another_role_changes_that(world):
    first = world.assign("i1", "ann")
    seq = world.books.seq
    assert world.assign("i1", "ann", actor="other") == first
    assert world.books.seq == seq
    assert world.assign("i1", "ann", role="reviewer").assignment.role == "reviewer"
    assert [each.role for each in world.books.assigned["i1"].values()] == ["reviewer"]
    world.commit()
    world.crash()
    assert world.books.assignments["ann"]["i1"].role == "reviewer"


def test_who_works_on_an_intent_and_on_what_an_agent_works(world):
    world.create("i2")
    world.assign("i1", "bob")
    world.now_ms = 1
    world.assign("i1", "ann")
    world.assign("i2", "bob")
    rows = world.do(commands.ListAssigned("i1")).rows
    assert [(each.agent_id, intent.id) for each, intent in rows] == [("bob", "i1"), ("ann", "i1")]
    assert [intent.id for _, intent in world.do(commands.ListAssignments("bob")).rows] == ["i1", "i2"]
    assert world.do(commands.ListAssignments("nobody")).rows == []


@pytest.mark.parametrize("done", ["completed", "abandoned"])
def test_only_what_is_still_to_be_done_is_an_open_assignment(world, done):
    world.assign("i1", "ann")
    world.status("i1", done)
    assert world.do(commands.ListAssignments("ann")).rows == []
    assert len(world.do(commands.ListAssigned("i1")).rows) == 1
    world.status("i1", "active")
    assert len(world.do(commands.ListAssignments("ann")).rows) == 1


def test_unassigning_tells_both_logs_and_only_once(world):
    world.assign("i1", "ann", role="reviewer")
    assert world.unassign("i1", "ann", actor="bob") == Done()
    event = world.books.events[-1]
    assert (event.type, event.space, event.also, event.actor) == ("agent_unassigned", "intent:i1", "agent:ann", "bob")
    assert event.payload["role"] == "reviewer"
    assert world.unassign("i1", "ann") == Missing("assignment")
    assert (world.books.assigned, world.books.assignments) == ({}, {})


def test_what_is_not_there_cannot_be_assigned_or_asked_for(world):
    assert world.assign("ix", "ann") == Missing("intent")
    assert world.unassign("ix", "ann") == Missing("intent")
    assert world.do(commands.ListAssigned("ix")) == Missing("intent")


def test_there_are_bounds_to_assignments_but_not_to_changing_a_role():
    world = World(Limits(agents_per_intent_max=1, assignments_per_agent_max=2))
    for intent in ("i1", "i2", "i3"):
        world.create(intent)
    world.assign("i1", "ann")
    assert world.assign("i1", "bob") == LimitReached("agents for this intent", 1)
    assert isinstance(world.assign("i1", "ann", role="reviewer"), Assigned)
    world.assign("i2", "ann")
    assert world.assign("i3", "ann") == LimitReached("assignments of this agent", 2)
    world.unassign("i1", "ann")
    assert isinstance(world.assign("i3", "ann"), Assigned)


def test_a_policy_may_name_who_can_be_assigned_but_wants_nobody_assigned_before(world):
    world.govern("i1", allowed_agents=["ann"], write_scope="assigned_only", operator=True)
    assert world.assign("i1", "bob").rule == "allowed_agents"
    assert isinstance(world.assign("i1", "ann"), Assigned)
    world.govern("i1", "ann", allowed_agents=["bob"], write_scope="assigned_only")
    assert isinstance(world.assign("i1", "ann", role="reviewer"), Violation)
