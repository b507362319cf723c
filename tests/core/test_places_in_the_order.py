"""All that happens has a place of its own in the order of everything, also what time does and nobody asked for."""

import pytest
from world import SPACE, World

from openintent.core import commands
from openintent.core.answers import Granted, Held, Violation, WaitOver


@pytest.fixture
def world():
    return World()


def places_taken(world: World, ms: int) -> int:
    """How many things happened while time passed, besides our looking."""
    before = world.last.rev
    world.now_ms += ms
    world.do(commands.Tick())
    return world.last.rev - before - 1


def test_the_first_command_of_a_term_has_the_first_place_and_its_batch_says_so(world):
    world.acquire("ann")
    assert (world.last.rev, world.last.term) == (1, 1)
    assert world.ledger.take_batch().rev == 1


def test_each_lease_that_lapses_has_a_place(world):
    world.acquire("ann", "x")
    world.acquire("bob", "y")
    assert places_taken(world, 999) == 0
    assert places_taken(world, 1) == 2


def test_a_scope_that_opens_again_has_a_place(world):
    world.acquire("ann", "x", cooldown_ms=500)
    assert places_taken(world, 1_000) == 1
    assert places_taken(world, 499) == 0
    assert places_taken(world, 1) == 1


def test_each_mark_of_a_silent_agent_has_a_place(world):
    world.register("ann")
    assert places_taken(world, 2_000) == 1
    assert places_taken(world, 3_000) == 1
    assert places_taken(world, 60_000) == 0


def test_the_end_of_a_wait_has_a_place(world):
    world.acquire("ann", ttl_ms=9_000)
    world.acquire("bob", wait_ms=100)
    assert places_taken(world, 100) == 1
    ((_, reply),) = world.answers
    assert isinstance(reply.answer, WaitOver)
    assert reply.rev == world.last.rev - 1


def test_each_grant_that_a_release_makes_has_the_next_place(world):
    lease = world.acquire("ann", "x/**", ttl_ms=9_000).lease
    world.acquire("bob", "x/1", wait_ms=5_000)
    world.acquire("cid", "x/2", wait_ms=5_000)
    world.release(lease.id, "ann")
    released = world.last.rev
    assert [(type(reply.answer), reply.rev - released) for _, reply in world.answers] == [(Granted, 1), (Granted, 2)]
    world.acquire("dot", "z")
    assert world.last.rev == released + 3


def test_each_waiter_that_a_policy_turns_away_has_a_place(world):
    world.create("i1")
    world.acquire("ann", space="intent:i1", ttl_ms=9_000)
    world.acquire("bob", space="intent:i1", wait_ms=5_000)
    world.acquire("cid", space="intent:i1", wait_ms=5_000)
    world.govern("i1", "ann", allowed_agents=["ann"])
    governed = world.last.rev
    assert [(type(reply.answer), reply.rev - governed) for _, reply in world.answers] == [
        (Violation, 1),
        (Violation, 2),
    ]


# Who goes first


def test_whoever_asks_with_priority_passes_those_behind_but_none_that_is_ahead_in_another_line(world):
    world.acquire("ann", "x/z", ttl_ms=60_000)
    world.acquire("bob", "x/**", wait_ms=50_000, priority=2)
    world.acquire("cid", "x/y", wait_ms=50_000)
    assert world.acquire("dot", "x/y", priority=1).first == "bob"


def test_whoever_was_held_up_only_by_one_that_went_away_is_granted_in_that_moment(world):
    world.advance(1)
    world.acquire("ann", "x/z", ttl_ms=60_000)
    world.acquire("bob", "x/**", wait_ms=50_000, attempt="t1")
    world.acquire("cid", "x/y", wait_ms=50_000)
    world.gone(1)
    assert [type(answer) for _, answer in world.new_answers()] == [Granted]


def test_a_wait_of_a_millisecond_is_a_wait_and_its_end_names_the_ticket(world):
    world.acquire("ann")
    world.acquire("bob", wait_ms=1, lease="ticket")
    ((_, over),) = world.advance(1)
    assert (over.ticket, over.place, over.waited_ms, type(over.why)) == ("ticket", 1, 1, Held)


def test_the_end_of_a_wait_names_who_is_ahead_and_nobody_behind(world):
    world.acquire("ann", "x/z", ttl_ms=60_000)
    world.acquire("bob", "x/**", wait_ms=50_000)
    world.acquire("cid", "x/y", wait_ms=100)
    world.acquire("dot", "x/y", wait_ms=50_000)
    ((_, over),) = world.advance(100)
    assert over.why.first == "bob"


def test_whoever_watches_the_queues_is_told_their_lengths(world):
    world.acquire("ann", ttl_ms=9_000)
    world.acquire("bob", wait_ms=100)
    world.acquire("cid", wait_ms=200)
    assert world.ledger.take_lengths() == {(SPACE, "x"): 2}
    world.advance(100)
    assert world.ledger.take_lengths() == {(SPACE, "x"): 1}
    assert world.do(commands.ListQueue(space=SPACE)).now_ms == 100


def test_whoever_waited_before_a_restart_goes_first_for_a_second_and_no_longer(world):
    lease = world.acquire("ann").lease
    world.acquire("bob", wait_ms=5_000, attempt="t1")
    world.commit()
    world.crash()
    world.release(lease.id, "ann")
    world.now_ms += world.limits.return_ms - 1
    assert world.acquire("cid").first == "bob"
    world.now_ms += 1
    assert isinstance(world.acquire("cid"), Granted)


def test_a_closed_scope_says_how_many_wait_for_it(world):
    world.acquire("ann", lease="L", cooldown_ms=9_000)
    world.revoke("L")
    world.acquire("bob", wait_ms=5_000)
    assert world.acquire("cid").queue_length == 1


def test_a_note_is_kept_for_its_own_scope(world):
    world.acquire("ann", "x", lease="L")
    world.progress("L", "ann", checkpoint={"done": 3})
    world.revoke("L")
    assert world.acquire("bob", "y").lease.checkpoint is None
    assert world.acquire("bob", "x").lease.checkpoint == {"done": 3}


def test_whoever_need_not_wait_has_not_waited(world):
    granted = world.acquire("ann", attempt="t1")
    again = world.acquire("ann", attempt="t1")
    back = world.acquire("ann", reentrant=True)
    assert granted.waited_ms == again.waited_ms == back.waited_ms == 0
