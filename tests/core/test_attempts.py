"""A request under an attempt acts once, also if the server falls down between it and its repeat."""

import pytest
from world import World

from openintent.core.answers import Granted, Held, Lost, Queued


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
