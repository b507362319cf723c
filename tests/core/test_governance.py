"""What a policy forbids, decisions, and asking a person."""

import pytest
from world import World, rule

from openintent.core import commands
from openintent.core.answers import (
    ArbitrationAsked,
    AttemptReused,
    Conflict,
    DecisionSeen,
    Granted,
    IntentSeen,
    LimitReached,
    Missing,
    Violation,
    WaitOver,
)
from openintent.model import Limits

SPACE = "intent:i1"


@pytest.fixture
def world():
    world = World()
    world.create("i1")
    return world


def decisions(world: World) -> list[str]:
    return [each.id for each in world.do(commands.ListDecisions("i1")).decisions]


# What is forbidden


def everything_one_can_do(world: World, agent: str) -> list:
    """One attempt at each thing that a policy binds."""
    world.create("other")
    return [
        world.patch("i1", ("set", "a", 1), actor=agent),
        world.status("i1", "active", agent),
        world.acquire(agent, space=SPACE),
        world.coordinate(agent, intent="i1"),
        world.depend("i1", "other", agent),
        world.depend_no_more("i1", "other", agent),
        world.govern("i1", agent),
        world.delete("i1", agent),
    ]


def test_an_agent_that_is_not_allowed_can_do_nothing_and_changes_nothing(world):
    world.depend("i1", "other")
    world.create("other")
    world.depend("i1", "other")
    world.govern("i1", allowed_agents=["ann"])
    before, seq = world.books.intents["i1"].version, world.books.seq
    # That it already depends on the other one is said before anything else: nothing would change.
    answers = everything_one_can_do(world, "bob")
    assert [rule(answer) for answer in answers] == ["allowed_agents"] * 4 + [None] + ["allowed_agents"] * 3
    assert (world.books.intents["i1"].version, world.books.seq, world.books.leases) == (before, seq, {})


def test_only_who_is_assigned_may_act_if_the_policy_says_so(world):
    world.govern("i1", write_scope="assigned_only")
    answers = everything_one_can_do(world, "ann")
    assert [rule(answer) for answer in answers if not isinstance(answer, Missing)] == ["write_scope"] * 7
    world.assign("i1", "ann")
    assert [rule(answer) for answer in everything_one_can_do(world, "ann")] == [None] * 8


def test_an_empty_list_of_agents_allows_everybody(world):
    world.govern("i1", allowed_agents=[], write_scope="any")
    assert isinstance(world.acquire("ann", space=SPACE), Granted)


def test_a_policy_of_one_intent_binds_nobody_in_another(world):
    world.create("i2")
    world.govern("i1", allowed_agents=["ann"])
    assert isinstance(world.acquire("bob", space="intent:i2"), Granted)
    assert isinstance(world.acquire("bob"), Granted)


def test_a_policy_can_be_there_from_the_beginning_and_is_there_after_a_restart(world):
    world.create("i2", governance_policy={"allowed_agents": ["ann"]})
    assert rule(world.acquire("bob", space="intent:i2")) == "allowed_agents"
    world.commit()
    world.crash()
    assert rule(world.acquire("bob", space="intent:i2")) == "allowed_agents"
    assert isinstance(world.acquire("ann", space="intent:i2"), Granted)


def test_a_policy_takes_nothing_back_and_a_lost_reply_can_still_be_asked_for(world):
    world.acquire("bob", space=SPACE, lease="L1", attempt="t1")
    world.govern("i1", "ann", allowed_agents=["ann"])
    assert world.renew("L1", "bob").lease.id == "L1"
    assert world.acquire("bob", space=SPACE, attempt="t1").lease.id == "L1"
    assert rule(world.acquire("bob", "y", space=SPACE)) == "allowed_agents"
    world.release("L1", "bob")
    assert rule(world.acquire("bob", space=SPACE)) == "allowed_agents"


@pytest.mark.parametrize("attempt", [None, "t1"])
def test_whoever_waits_for_what_is_forbidden_now_is_told_so_and_the_next_one_moves_up(world, attempt):
    world.acquire("ann", space=SPACE, lease="L1")
    world.acquire("bob", space=SPACE, lease="L2", wait_ms=5_000, attempt=attempt)
    world.acquire("cid", space=SPACE, lease="L3", wait_ms=5_000)
    world.govern("i1", "ann", allowed_agents=["ann", "cid"])
    [(request, answer)] = world.new_answers()
    assert (request, rule(answer)) == (1, "allowed_agents")
    assert (list(world.books.waiters), world.books.attempts) == (["L3"], {})
    world.release("L1", "ann")
    assert list(world.books.leases) == ["L3"]
    world.stop()
    assert list(world.books.leases) == ["L3"]


def test_those_behind_somebody_who_is_turned_away_go_at_once_if_nothing_else_is_in_the_way(world):
    world.acquire("ann", "a", space=SPACE)
    world.acquire("bob", "*", space=SPACE, wait_ms=5_000)
    world.acquire("cid", "c", space=SPACE, wait_ms=5_000, lease="L3")
    world.govern("i1", "ann", allowed_agents=["ann", "cid"])
    (first, refused), (second, granted) = world.new_answers()
    assert (first, rule(refused), second, granted.lease.id) == (1, "allowed_agents", 2, "L3")


def test_several_who_are_turned_away_are_not_granted_in_between(world):
    world.acquire("ann", "a", space=SPACE)
    world.acquire("bob", "*", space=SPACE, wait_ms=5_000)
    world.acquire("cid", "free", space=SPACE, wait_ms=5_000)  # only behind bob
    world.govern("i1", "ann", allowed_agents=["ann"])
    assert [rule(answer) for _, answer in world.new_answers()] == ["allowed_agents"] * 2
    assert [lease.holder for lease in world.books.leases.values()] == ["ann"]
    assert world.books.waiters == {}


def test_an_absent_waiter_loses_its_place_too(world):
    world.acquire("ann", space=SPACE, lease="L1")
    world.acquire("bob", space=SPACE, wait_ms=5_000, attempt="t1")
    world.gone(world.request)
    world.release("L1", "ann")
    world.govern("i1", "ann", allowed_agents=["ann"])
    assert (world.books.waiters, world.books.spaces, world.new_answers()) == ({}, {}, [])
    assert rule(world.acquire("bob", space=SPACE, wait_ms=5_000, attempt="t1")) == "allowed_agents"


def test_whoever_is_unassigned_while_it_waits_is_turned_away(world):
    for agent in ("ann", "bob"):
        world.assign("i1", agent)
    world.govern("i1", "ann", write_scope="assigned_only")
    world.coordinate("ann", intent="i1", lease="L1")
    world.coordinate("bob", intent="i1", wait_ms=5_000)
    world.unassign("i1", "bob")
    [(_, answer)] = world.new_answers()
    assert rule(answer) == "write_scope"
    world.release("L1", "ann")
    assert world.books.spaces == {}


def test_whoever_may_still_have_it_waits_on(world):
    world.acquire("ann", space=SPACE)
    world.acquire("bob", space=SPACE, wait_ms=5_000)
    world.govern("i1", "ann", require_status_reason=True)
    assert world.new_answers() == []
    [(_, answer)] = world.advance(5_000)
    assert isinstance(answer, WaitOver | Granted)


# Status


def test_a_change_of_status_needs_a_reason_if_the_policy_says_so(world):
    world.govern("i1", require_status_reason=True)
    assert rule(world.status("i1", "active")) == "require_status_reason"
    assert rule(world.status("i1", "active", reason="")) == "require_status_reason"
    assert world.status("i1", "active", reason="begun").intent.status == "active"


def test_completing_needs_an_approval_if_the_policy_says_so(world):
    world.govern("i1", completion_mode="require_approval")
    assert world.status("i1", "active").intent.status == "active", "only completing needs one"
    refused = world.status("i1", "completed")
    assert refused.message.startswith("completing it needs 1 decisions")
    assert refused.message.endswith("there are 0")
    world.decide("i1", "ann", outcome="rejected")
    world.decide("i1", "ann", type="budget")
    assert rule(world.status("i1", "completed")) == "completion_mode"
    world.decide("i1", "ann")
    assert world.status("i1", "completed").intent.status == "completed"


def test_whoever_changes_its_mind_no_longer_approves(world):
    world.govern("i1", completion_mode="require_approval")
    world.decide("i1", "ann")
    world.decide("i1", "ann", outcome="rejected")
    assert rule(world.status("i1", "completed")) == "completion_mode"


def test_a_quorum_is_a_share_of_those_who_are_assigned(world):
    for agent in ("ann", "bob", "cid", "dan", "eve"):
        world.assign("i1", agent)
    world.govern("i1", completion_mode="quorum", quorum_threshold=0.6)
    for agent in ("ann", "ann", "bob", "stranger"):
        world.decide("i1", agent)
    assert world.status("i1", "completed").message.startswith("completing it needs 3 ")
    world.decide("i1", "cid")
    assert isinstance(world.status("i1", "completed"), IntentSeen)


def test_a_quorum_of_nobody_is_one(world):
    world.govern("i1", completion_mode="quorum")
    world.decide("i1", "ann")
    assert rule(world.status("i1", "completed")) == "completion_mode"
    world.assign("i1", "ann")
    assert isinstance(world.status("i1", "completed"), IntentSeen)


def test_seven_of_twenty_five_are_enough_for_a_quorum_of_28_percent(world):
    for number in range(25):
        world.assign("i1", f"agent-{number}")
    world.govern("i1", completion_mode="quorum", quorum_threshold=0.28)
    for number in range(7):
        world.decide("i1", f"agent-{number}")
    assert isinstance(world.status("i1", "completed"), IntentSeen)


def test_a_refusal_waits_for_what_it_saw(world):
    world.govern("i1", completion_mode="require_approval")
    world.decide("i1", "ann")
    world.commit()
    world.decide("i1", "ann", outcome="rejected")
    assert isinstance(world.status("i1", "completed"), Violation)
    assert world.last.after == 2, "the rejection could still vanish in a crash"


# The policy itself


def test_a_policy_is_a_new_version_and_is_logged(world):
    seen = world.govern("i1", "ann", expect=1, write_scope="any").intent
    assert (seen.version, seen.governance_policy) == (2, {"write_scope": "any"})
    event = world.books.events[-1]
    assert (event.type, event.actor) == ("governance.policy_set", "ann")
    assert event.payload == {"governance_policy": {"write_scope": "any"}, "version": 2}
    assert world.govern("i1", expect=2).intent.governance_policy is None
    assert (world.books.events[-1].type, world.books.governed) == ("governance.policy_removed", {})


def test_a_policy_is_changed_by_whom_it_allows_or_by_an_operator(world):
    world.govern("i1", allowed_agents=["ann"])
    assert rule(world.govern("i1", "bob", allowed_agents=["bob"])) == "allowed_agents"
    assert isinstance(world.govern("i1", "bob", operator=True, allowed_agents=["bob"]), IntentSeen)
    assert isinstance(world.govern("i1", "bob"), IntentSeen)


def test_a_policy_of_another_version_or_for_nothing_is_refused(world):
    assert world.govern("i1", expect=7, write_scope="any") == Conflict(1)
    assert world.govern("ix", write_scope="any") == Missing("intent")
    assert world.books.governed == {}


def test_removing_what_is_not_there_is_no_harm(world):
    assert world.govern("i1").intent.governance_policy is None


# Decisions


def test_decisions_are_kept_in_order_and_logged(world):
    world.now_ms = 4
    made = world.decide("i1", "ann", type="budget", outcome="cut", reasoning="dear").decision
    assert (made.actor, made.type, made.outcome, made.reasoning, made.made_at_ms) == ("ann", "budget", "cut", "dear", 4)
    event = world.books.events[-1]
    assert (event.type, event.actor, event.payload["decision_id"]) == ("decision_recorded", "ann", made.id)
    ids = [made.id, *(world.decide("i1", "bob").decision.id for _ in range(20))]
    assert decisions(world) == ids
    world.stop()
    assert decisions(world) == ids


@pytest.mark.parametrize("restart", [World.stop, World.crash, lambda _: None])
def test_a_repeated_decision_is_made_once_also_over_a_restart(world, restart):
    first = world.decide("i1", "ann", attempt="t1").decision
    world.commit()
    restart(world)
    assert world.decide("i1", "ann", attempt="t1") == DecisionSeen(first)
    assert decisions(world) == [first.id]
    assert world.decide("i1", "ann", outcome="rejected", attempt="t1") == AttemptReused("t1")
    assert isinstance(world.decide("i1", "bob", attempt="t1"), DecisionSeen)


def test_an_attempt_at_a_decision_about_an_intent_that_was_made_anew_is_not_its_own(world):
    world.decide("i1", "ann", attempt="t1")
    world.delete("i1")
    world.create("i1")
    assert world.decide("i1", "ann", attempt="t1") == AttemptReused("t1")
    assert decisions(world) == []


def test_an_attempt_is_forgotten_after_a_while(world):
    world.decide("i1", "ann", attempt="t1")
    world.advance(Limits().attempt_kept_ms)
    world.decide("i1", "ann", attempt="t1")
    assert len(decisions(world)) == 2


def test_there_are_bounds_to_decisions():
    world = World(Limits(decisions_per_intent_max=1, attempts_max=1))
    world.create("i1")
    world.create("i2")
    assert isinstance(world.decide("i1", "ann", attempt="t1"), DecisionSeen)
    assert world.decide("i1", "ann") == LimitReached("decisions about this intent", 1)
    assert world.decide("i2", "ann", attempt="t2") == LimitReached("attempts", 1)
    assert world.arbitrate("i2", attempt="t3") == LimitReached("attempts", 1)
    assert isinstance(world.decide("i2", "ann"), DecisionSeen)


def test_nobody_decides_about_what_is_not_there(world):
    assert world.decide("ix", "ann") == Missing("intent")
    assert world.arbitrate("ix") == Missing("intent")
    assert world.do(commands.ListDecisions("ix")) == Missing("intent")


# Asking a person


@pytest.mark.parametrize("restart", [World.stop, World.crash, lambda _: None])
def test_a_person_is_asked_once_also_over_a_restart(world, restart):
    world.now_ms = 6
    asked = world.arbitrate("i1", "ann", attempt="t1")
    assert (asked.at_ms, world.books.events[-1].type) == (6, "arbitration_requested")
    assert world.books.events[-1].payload == {"arbitration_id": asked.id, "reason": "why not", "context": {}}
    world.commit()
    restart(world)
    seq = world.books.seq
    world.advance(1)
    assert world.arbitrate("i1", "ann", attempt="t1") == asked == ArbitrationAsked(asked.id, 6)
    assert world.arbitrate("i1", "ann", reason="other", attempt="t1") == AttemptReused("t1")
    assert world.books.seq == seq


def test_one_key_cannot_be_used_for_two_kinds_of_things(world):
    world.create("i2", actor="ann", attempt="t1")
    assert world.arbitrate("i1", "ann", attempt="t1") == AttemptReused("t1")
    assert world.decide("i1", "ann", attempt="t1") == AttemptReused("t1")
    assert world.portfolio("p1", actor="ann", attempt="t1") == AttemptReused("t1")
    assert world.patch("i1", ("set", "a", 1), actor="ann", attempt="t1") == AttemptReused("t1")
    log = commands.LogEvent(space=SPACE, actor="ann", type="note", payload={}, attempt="t1")
    assert world.do(log) == AttemptReused("t1")
    assert world.acquire("ann", attempt="t1") == AttemptReused("t1")
