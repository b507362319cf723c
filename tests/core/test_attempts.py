"""A request under an attempt acts once, also if the server falls down between it and its repeat."""

import pytest
from world import World

from openintent.core.answers import Granted, Held, LimitReached, Lost, Queued, Released
from openintent.core.attempts import FORGOTTEN_AT_ONCE, REST_MS
from openintent.model import Limits


@pytest.fixture
def world():
    return World()


RESTARTS = (World.stop, World.crash)


@pytest.mark.parametrize("restart", RESTARTS)
def test_a_repeat_after_a_restart_gets_the_lease_that_was_granted(world, restart):
    granted = world.acquire("ann", attempt="t1")
    world.commit()
    restart(world)
    again = world.acquire("ann", attempt="t1")
    assert isinstance(again, Granted)
    assert again.lease.token == granted.lease.token


@pytest.mark.parametrize("restart", RESTARTS)
def test_a_repeat_after_a_restart_and_a_release_gets_no_second_lease(world, restart):
    lease = world.acquire("ann", attempt="t1").lease
    world.commit()
    restart(world)
    world.release(lease.id, "ann")
    assert isinstance(world.acquire("ann", attempt="t1"), Lost)


@pytest.mark.parametrize("restart", RESTARTS)
def test_a_repeat_after_a_restart_finds_its_place(world, restart):
    world.acquire("ann")
    waiting = world.acquire("bob", wait_ms=1_000, attempt="t1")
    world.commit()
    restart(world)
    again = world.acquire("bob", wait_ms=1_000, attempt="t1")
    assert isinstance(again, Queued)
    assert again.ticket == waiting.ticket
    assert isinstance(world.acquire("cid"), Held)


# How long they are kept

SMALL = Limits(attempts_max=3, attempt_kept_ms=600, attempt_kept_ms_min=60)


def used(world, *keys):
    """An attempt each, whose lease was released at once."""
    for key in keys:
        lease = world.acquire("ann", attempt=key).lease
        assert isinstance(world.release(lease.id, "ann"), Released)


def remembered(world):
    return sorted(key for _, key in world.books.attempts)


def test_an_attempt_whose_work_has_ended_is_kept_for_its_time():
    world = World(Limits(attempt_kept_ms=600))
    used(world, "t1")
    world.advance(100)
    used(world, "t2")
    world.advance(499)
    assert remembered(world) == ["t1", "t2"]
    world.advance(1)
    assert remembered(world) == ["t2"]
    world.advance(100)
    assert remembered(world) == []
    used(world, "t3")
    world.advance(600)
    assert remembered(world) == []


def test_when_there_are_too_many_the_oldest_goes_for_a_new_one_but_not_too_soon():
    world = World(SMALL)
    used(world, "t1", "t2", "t3")
    world.advance(59)
    assert world.acquire("ann", attempt="t4") == LimitReached("attempts", 3)
    assert remembered(world) == ["t1", "t2", "t3"], "who is refused costs nobody anything"
    world.advance(1)
    used(world, "t4", "t5")
    assert remembered(world) == ["t3", "t4", "t5"]
    assert isinstance(world.acquire("ann", attempt="t3"), Lost), "those that are left act once"
    world.advance(540)
    assert remembered(world) == ["t4", "t5"], "and have their time"


def test_one_whose_work_goes_on_is_not_forgotten_for_another():
    world = World(SMALL)
    for key in ("t1", "t2", "t3"):
        world.acquire("ann", key, attempt=key, ttl_ms=60_000)
    world.advance(10_000)
    assert world.acquire("ann", attempt="t4") == LimitReached("attempts", 3)


def test_the_last_that_is_left_is_still_forgotten_when_its_time_has_come():
    world = World(Limits(attempts_max=1, attempt_kept_ms=600, attempt_kept_ms_min=0))
    used(world, "t1", "t2", "t3")
    assert remembered(world) == ["t3"]
    world.advance(600)
    assert remembered(world) == []


@pytest.mark.parametrize("restart", RESTARTS)
def test_a_restart_changes_nothing_about_who_is_the_oldest(restart):
    world = World(SMALL)
    for key in ("c", "a", "b"):
        used(world, key)
        world.advance(10)
    world.commit()
    restart(world)
    world.advance(100)
    used(world, "d")
    assert remembered(world) == ["a", "b", "d"]
    world.advance(485)
    assert remembered(world) == ["b", "d"]


def test_many_that_fall_due_together_are_forgotten_some_at_a_time():
    world = World(Limits(attempt_kept_ms=600))
    used(world, *(f"t{n}" for n in range(2 * FORGOTTEN_AT_ONCE + 1)))
    world.advance(600)
    assert len(remembered(world)) == FORGOTTEN_AT_ONCE + 1
    world.advance(REST_MS - 1)
    assert len(remembered(world)) == FORGOTTEN_AT_ONCE + 1
    world.advance(1)
    assert len(remembered(world)) == 1
    world.advance(REST_MS)
    assert remembered(world) == []
