"""Of leases that have ended, what memory still has; the log has them all."""

import pytest
from world import World, rows

from openintent.core import commands
from openintent.core.answers import Lost
from openintent.core.books import RELEASED_KEPT_MAX
from openintent.model import Limits


@pytest.fixture
def world():
    return World()


def given_back(world, count):
    for number in range(count):
        world.acquire("ann", lease=f"L{number}")
        world.release(f"L{number}", "ann")


def in_memory(world):
    return [number for number in range(1_000) if isinstance(world.do(commands.GetLease(lease_id=f"L{number}")), Lost)]


def test_of_leases_that_were_given_back_memory_has_a_few_and_all_that_the_log_may_not_have_yet(world):
    given_back(world, 300)
    world.take()
    assert in_memory(world) == list(range(300))
    world.arrive()
    assert in_memory(world) == list(range(300))
    world.acquire("bob", lease="later")
    world.take()
    assert in_memory(world) == list(range(300 - RELEASED_KEPT_MAX, 300))


def test_the_same_holds_for_those_that_were_taken_however_few_are_to_be_kept():
    """Else, if the commit fails, a lease would live of which its holder was told that there is no such lease."""
    world = World(Limits(ended_kept_max=1))
    for number in range(3):
        world.acquire("ann", f"s{number}", lease=f"L{number}")
    world.commit()
    for number in range(3):
        world.revoke(f"L{number}")
    world.take()
    assert in_memory(world) == [0, 1, 2]
    world.arrive()
    world.acquire("bob", lease="later")
    world.take()
    assert in_memory(world) == [2]


def test_where_no_ended_leases_are_to_be_kept_none_is_that_the_log_has():
    world = World(Limits(ended_kept_max=0))
    given_back(world, 3)
    world.commit()
    world.acquire("bob", lease="later")
    world.take()
    assert in_memory(world) == []


def test_leases_that_were_given_back_do_not_crowd_out_why_others_were_lost():
    world = World(Limits(ended_kept_max=RELEASED_KEPT_MAX))
    lost = world.acquire("bob", "y", lease="lost").lease
    world.revoke("lost")
    for _ in range(3):
        given_back(world, 300)
        world.commit()
    assert rows(world.heartbeat("bob", [("lost", lost.token)])) == [("lost", 0, "revoked")]
