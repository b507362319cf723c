"""An event says who did what to which thing: the words that readers of the log go by."""

import pytest
from world import World

from openintent.core import commands
from openintent.core.answers import Agents, Assignments, Exists, Intents, Violation
from openintent.core.scopes import ancestors, problem
from openintent.model import Event, Limits, Patch


@pytest.fixture
def world():
    world = World()
    world.create("i1")
    world.portfolio("p1")
    return world


def newest(world: World) -> Event:
    return world.books.events[-1]


def told(world: World) -> tuple:
    event = newest(world)
    return event.type, event.space, event.actor, event.payload


# Intents


def test_a_change_of_status_is_told_with_its_reason(world):
    world.status("i1", "blocked", "ann", reason="no key")
    payload = {"old_status": "draft", "new_status": "blocked", "reason": "no key"}
    assert told(world) == ("status_changed", "intent:i1", "ann", payload)


def test_the_end_of_an_intent_is_told_as_its_last_change_of_status(world):
    world.delete("i1", "ann")
    payload = {"old_status": "draft", "new_status": "deleted", "reason": None}
    assert told(world) == ("status_changed", "intent:i1", "ann", payload)


def test_dependencies_are_told_by_whom_and_on_what(world):
    world.create("i2")
    world.depend("i2", "i1", "ann")
    assert told(world) == ("dependency_added", "intent:i2", "ann", {"dependency_id": "i1", "version": 2})
    world.depend_no_more("i2", "i1", "bob")
    assert told(world) == ("dependency_removed", "intent:i2", "bob", {"dependency_id": "i1", "version": 3})


def test_a_patch_is_told_with_its_paths_as_they_are_written_on_the_wire(world):
    world.do(commands.PatchState(intent_id="i1", actor="ann", steps=[Patch("set", ("a~b", "c/d"), 1)]))
    steps = [{"op": "set", "path": "a~0b/c~1d", "value": 1}]
    assert told(world) == ("state_patched", "intent:i1", "ann", {"version": 2, "patches": steps})


def test_relatives_come_all_at_once(world):
    assert world.do(commands.GetRelatives("i1", "children")) == Intents([], more=False)


# Agents


def test_an_agent_is_its_own_witness_when_it_falls_silent_and_when_it_is_back(world):
    world.register("ann")
    world.advance(2_000)
    payload = {"old_status": "active", "new_status": "unhealthy"}
    assert told(world) == ("agent.status_changed", "agent:ann", "ann", payload)
    world.advance(3_000)
    assert told(world) == ("agent.dead", "agent:ann", "ann", {"old_status": "unhealthy", "new_status": "dead"})
    world.heartbeat("ann")
    payload = {"old_status": "dead", "new_status": "active"}
    assert told(world) == ("agent.status_changed", "agent:ann", "ann", payload)


def test_a_heartbeat_of_an_agent_that_left_is_not_noted(world):
    world.register("ann")
    agent = world.mark("ann", "deregistered").agent
    world.advance(500)
    world.heartbeat("ann", load=7)
    assert (agent.seen_at_ms, agent.load) == (0, 0)


def test_another_role_is_told_as_a_change_and_leaving_is_not(world):
    world.assign("i1", "ann")
    world.assign("i1", "ann", role="reviewer")
    named = {"intent_id": "i1", "agent_id": "ann", "role": "reviewer"}
    assert told(world) == ("agent_assigned", "intent:i1", "a", {**named, "again": True})
    world.unassign("i1", "ann")
    assert told(world) == ("agent_unassigned", "intent:i1", "a", named)


def test_an_intent_that_nobody_works_on_has_an_empty_list(world):
    assert world.do(commands.ListAssigned("i1")) == Assignments([])


def test_a_page_that_holds_all_agents_is_the_last(world):
    agents = [world.register("ann").agent, world.register("bob").agent]
    assert world.do(commands.ListAgents(limit=2)) == Agents(agents, more=False)
    assert world.do(commands.ListAgents(limit=1)) == Agents(agents[:1], more=True)


# Portfolios


def test_another_part_in_a_portfolio_is_told_as_a_change_and_leaving_is_not(world):
    world.add("p1", "i1", role="member", priority=1)
    world.add("p1", "i1", role="primary", priority=1)
    named = {"portfolio_id": "p1", "intent_id": "i1", "role": "primary", "priority": 1}
    assert told(world) == ("added_to_portfolio", "portfolio:p1", "a", {**named, "again": True})
    world.remove("p1", "i1")
    assert told(world) == ("removed_from_portfolio", "portfolio:p1", "a", named)


def test_who_is_in_a_portfolio_is_told_with_the_portfolio(world):
    world.add("p1", "i1")
    assert world.do(commands.ListMembers("p1")).portfolio.id == "p1"


def test_an_id_that_is_taken_is_named(world):
    assert world.portfolio("p1", name="another") == Exists("p1")


# Policies


def test_whoever_is_allowed_may_delete(world):
    world.govern("i1", allowed_agents=["ann"])
    world.delete("i1", "ann")
    assert "i1" not in world.books.intents


def test_a_change_without_the_reason_that_a_policy_wants_is_told_so(world):
    world.govern("i1", require_status_reason=True)
    violation = Violation("require_status_reason", "a change of status needs a reason here")
    assert world.status("i1", "blocked") == violation


def test_whoever_may_not_act_is_told_which_rule_says_so(world):
    world.govern("i1", allowed_agents=["a"])
    assert world.status("i1", "blocked", "bob") == Violation(
        "allowed_agents", "bob is not among the agents that are allowed here"
    )
    world.govern("i1", write_scope="assigned_only")
    assert world.status("i1", "blocked", "bob") == Violation(
        "write_scope", "only assigned agents may act here, and bob is not assigned"
    )


def test_three_of_four_are_needed_for_a_quorum_of_sixty_percent(world):
    for agent in ("ann", "bob", "cid", "dot"):
        world.assign("i1", agent)
    world.govern("i1", completion_mode="quorum", quorum_threshold=0.6)
    world.decide("i1", "ann")
    world.decide("i1", "bob")
    assert isinstance(world.status("i1", "completed"), Violation)
    world.decide("i1", "cid")
    assert world.status("i1", "completed").intent.status == "completed"


# Scopes


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("", "a scope has 1 to 8 characters"),
        ("x" * 9, "a scope has 1 to 8 characters"),
        ("x\ty", "a scope has no control characters"),
        ("x/y/z", "a scope has at most 2 segments"),
        ("x/y", None),
        ("x" * 8, None),
    ],
)
def test_a_bad_scope_is_refused_with_the_reason(scope, words):
    assert problem(scope, Limits(scope_chars_max=8, scope_segments_max=2)) == words


def test_each_path_above_counts_however_deep(world):
    assert list(ancestors("a/b/c/d")) == ["a/b/c", "a/b", "a", ""]
    for above in ("a/b/c/**", "a/b/**", "a/**", "*"):
        lease = world.acquire("ann", above).lease
        assert world.acquire("bob", "a/b/c/d").lease is lease
        world.release(lease.id, "ann")
