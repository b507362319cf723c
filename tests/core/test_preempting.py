"""Preemption, where it meets storage and restarts; `traces/preempt.txt` tells the rest."""

import pytest
from world import World

from openintent.core.answers import Granted, Held, Queued
from openintent.core.preempting import REASON_CHARS_MAX
from openintent.model import Limits

GRACE_MS = 300


def asked_for(ttl_ms: int = 1_000, **more) -> World:
    """A world in which `ops` has asked for what `ann` holds."""
    world = World(Limits(preempt_grace_ms=GRACE_MS))
    world.acquire("ann", lease="L1", ttl_ms=ttl_ms)
    assert isinstance(press(world, **more), Held | Queued)
    return world


def press(world: World, **more):
    return world.acquire("ops", lease="L2", priority=1, preempt=True, **more)


def marked(world: World) -> tuple[str | None, int]:
    lease = world.books.leases["L1"]
    return lease.preempt_reason, lease.deadline_ms


def test_nobody_is_told_of_a_mark_that_a_crash_could_still_take_back():
    world = World()
    world.acquire("ann", lease="L1")
    world.commit()
    press(world)
    assert world.last.after == world.books.batch
    world.heartbeat("ann", [("L1", 1)])
    assert world.last.after == world.books.batch
    world.commit()
    world.heartbeat("ann", [("L1", 1)])
    assert world.last.after == world.durable


def test_a_mark_that_was_never_durable_is_lost_with_the_refusal_that_would_have_told_of_it():
    world = World()
    world.acquire("ann", lease="L1")
    world.commit()
    press(world)
    world.crash()
    assert marked(world)[0] is None


def test_after_a_crash_a_marked_lease_gets_what_is_left_of_its_last_promise_and_not_its_ttl_anew():
    world = asked_for()
    world.advance(900)
    world.commit()
    world.crash()
    assert world.now_ms == 900
    assert marked(world) == ("ops", 1_000)
    assert world.renew("L1", "ann", ttl_ms=60_000).remaining_ms == 100
    world.advance(100)
    assert world.books.ended["L1"].ended_reason == "preempted"
    assert isinstance(press(world), Granted)


@pytest.mark.parametrize(("ttl_ms", "deadline_ms"), [(200, 250), (1_000, GRACE_MS)])
def test_after_a_crash_no_more_than_the_largest_ttl_that_was_ever_promised_is_given_within_the_grace(
    ttl_ms, deadline_ms
):
    world = asked_for(ttl_ms=100)
    world.advance(50)
    world.renew("L1", "ann", ttl_ms=ttl_ms)
    world.commit()
    world.crash()
    assert marked(world) == ("ops", deadline_ms)


def test_a_renewal_that_nobody_wrote_down_is_kept_by_the_mark_that_came_after_it():
    world = World(Limits(preempt_grace_ms=GRACE_MS))
    world.acquire("ann", lease="L1")
    world.commit()
    world.now_ms = 800
    world.renew("L1", "ann")
    press(world)
    world.commit()
    world.crash()
    assert marked(world) == ("ops", 1_800)


def test_a_clean_stop_keeps_the_mark_and_the_deadline():
    world = asked_for(ttl_ms=100)
    world.stop()
    assert marked(world) == ("ops", 100)
    assert world.renew("L1", "ann", ttl_ms=1_000).remaining_ms == GRACE_MS


def test_the_priority_of_a_lease_is_known_after_a_crash():
    world = World()
    world.acquire("ann", lease="L1", priority=1)
    world.commit()
    world.crash()
    press(world)
    assert marked(world)[0] is None


def test_whoever_waited_with_a_priority_holds_with_it():
    world = World()
    world.acquire("ann", lease="L0")
    world.acquire("bob", lease="L1", priority=1, wait_ms=9_000)
    world.release("L0", "ann")
    press(world)
    assert marked(world)[0] is None


def test_a_mark_survives_with_the_place_of_the_one_who_asked():
    world = asked_for(attempt="t1", wait_ms=9_000)
    world.commit()
    world.crash()
    assert marked(world)[0] == "ops"
    press(world, attempt="t1", wait_ms=9_000)
    [(_, granted)] = world.advance(1_000)
    assert (granted.lease.holder, granted.lease.token) == ("ops", 2)


def test_what_is_kept_of_a_request_has_a_bound():
    world = asked_for(purpose="x" * 4_096)
    assert marked(world)[0] == "ops: " + "x" * (REASON_CHARS_MAX - 5)


def test_a_grant_after_all_marks_nothing():
    world = World()
    world.acquire("ann", "a", lease="L1")
    assert isinstance(press(world, scope="b"), Granted)
    assert marked(world)[0] is None
