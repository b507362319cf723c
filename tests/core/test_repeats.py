"""An attempt means one request: the same again acts once, and any other under its name is refused."""

import pytest
from world import World, rows

from openintent.core import commands
from openintent.core.answers import ArbitrationAsked, AttemptReused, DecisionSeen, Done, IntentSeen, Lost, Missing
from openintent.model import Decision, Limits

ATTEMPT = "t1"


@pytest.fixture
def world():
    world = World()
    world.create("i1")
    world.create("i2")
    return world


def decide(world, *, id="d1", intent_id="i1", type="review", outcome="approved", reasoning="fine"):  # noqa: A002  # as they are called
    decision = Decision(id=id, intent_id=intent_id, actor="ann", type=type, outcome=outcome, reasoning=reasoning)
    return world.do(commands.RecordDecision(decision=decision, attempt=ATTEMPT))


def arbitrate(world, *, id="a1", intent_id="i1", reason="stuck", context=None):  # noqa: A002  # as it is called
    words = {"intent_id": intent_id, "actor": "ann", "reason": reason, "context": context or {}}
    return world.do(commands.Arbitrate(id=id, attempt=ATTEMPT, **words))


def patch(world, *, intent_id="i1", path="a", value=1):
    return world.patch(intent_id, ("set", path, value), actor="ann", attempt=ATTEMPT)


def log(world, *, space="intent:i1", type="note", payload=None):  # noqa: A002  # as it is called
    words = {"space": space, "type": type, "payload": payload or {}}
    return world.do(commands.LogEvent(actor="ann", attempt=ATTEMPT, **words))


def create(world, *, id="made-up", title="T"):  # noqa: A002  # as it is called
    return world.create(id, title=title, actor="ann", chosen_id=False, attempt=ATTEMPT)


def set_status(world, *, intent_id="i1", status="active", reason=None):
    return world.status(intent_id, status, "ann", reason=reason, attempt=ATTEMPT)


def test_a_decision_is_recorded_once(world):
    first = decide(world)
    assert decide(world, id="another") == first
    assert isinstance(first, DecisionSeen)


def test_an_arbitration_is_asked_for_once(world):
    first = arbitrate(world)
    assert arbitrate(world, id="another") == first
    assert isinstance(first, ArbitrationAsked)


def test_a_status_is_set_once(world):
    assert isinstance(set_status(world), IntentSeen)
    world.status("i1", "blocked")
    assert set_status(world).intent.status == "blocked"


def test_an_intent_whose_id_was_made_up_for_it_is_made_once(world):
    first = create(world)
    assert create(world, id="made-up-anew") == first
    assert isinstance(first, IntentSeen)


def create_chosen(world):
    return world.create("i3", title="T", actor="ann", attempt=ATTEMPT)


@pytest.mark.parametrize("ask", [patch, set_status, create_chosen])
@pytest.mark.parametrize("restart", [lambda world: None, World.stop, World.crash], ids=["running", "stop", "crash"])
def test_a_repeat_is_not_told_that_it_acted_on_another_intent_under_the_same_id(world, ask, restart):
    id_ = ask(world).intent.id
    world.delete(id_)
    another = world.create(id_, title="T", actor="ann").intent
    world.commit()
    restart(world)
    assert ask(world) == AttemptReused(ATTEMPT)
    assert world.books.intents[id_].version == another.version == 1


OTHERS = [
    (decide, {"intent_id": "i2"}),
    (decide, {"type": "completion"}),
    (decide, {"outcome": "rejected"}),
    (decide, {"reasoning": "no"}),
    (arbitrate, {"intent_id": "i2"}),
    (arbitrate, {"reason": "lost"}),
    (arbitrate, {"context": {"a": 1}}),
    (create, {"title": "U"}),
    (patch, {"intent_id": "i2"}),
    (patch, {"path": "b"}),
    (patch, {"value": 2}),
    (log, {"space": "intent:i2"}),
    (log, {"type": "remark"}),
    (log, {"payload": {"a": 1}}),
    (set_status, {"intent_id": "i2"}),
    (set_status, {"status": "blocked"}),
    (set_status, {"reason": "so"}),
]


@pytest.mark.parametrize(("ask", "other"), OTHERS)
def test_another_request_under_the_same_attempt_is_refused(world, ask, other):
    ask(world)
    assert ask(world, **other) == AttemptReused(ATTEMPT)


# Leases


def test_an_attempt_that_got_a_lease_back_can_be_given_up_and_is_kept_for_a_while():
    world = World(Limits(attempt_kept_ms=5_000))
    world.acquire("ann", ttl_ms=60_000)
    world.acquire("ann", ttl_ms=60_000, reentrant=True, attempt=ATTEMPT)
    world.advance(4_999)
    assert world.give_up("ann", ATTEMPT) == Done()
    world.advance(1)
    assert world.give_up("ann", ATTEMPT) == Missing("attempt")


def test_a_lease_that_is_given_up_by_its_attempt_was_released_by_its_holder(world):
    lease = world.acquire("ann", attempt=ATTEMPT).lease
    world.give_up("ann", ATTEMPT)
    assert (lease.status, lease.ended_reason) == ("released", "released")
    event = world.books.events[-1]
    assert (event.type, event.actor, event.also) == ("lease_released", "ann", None)


WITH_A_LEASE = {
    "renew": lambda world, **where: world.renew("L", "ann", **where),
    "release": lambda world, **where: world.release("L", "ann", **where),
    "progress": lambda world, **where: world.progress("L", "ann", **where),
    "revoke": lambda world, **where: world.revoke("L", **where),
    "look": lambda world, **where: world.do(commands.GetLease(lease_id="L", **where)),
}


@pytest.mark.parametrize("do", WITH_A_LEASE.values(), ids=WITH_A_LEASE)
def test_a_lease_that_ended_is_found_in_its_own_space_and_in_no_other(world, do):
    lease = world.acquire("ann", lease="L").lease
    world.release("L", "ann")
    assert do(world, space="space:other") == Missing("lease")
    assert do(world, space="space:s") == do(world, space=None) == Lost(lease)


def test_nothing_remains_of_a_lease_that_is_revoked_or_lost(world):
    lease = world.acquire("ann", lease="L").lease
    assert world.revoke("L").remaining_ms == 0
    verdicts = world.heartbeat("ann", [("L", lease.token), ("M", 1)])
    assert rows(verdicts) == [("L", 0, "revoked"), ("M", 0, "unknown")]
