"""A reply waits until what it tells is durable, and for nothing else."""

import pytest
from world import SPACE, World

from openintent.core import commands
from openintent.core.answers import Done
from openintent.core.versions import WHOLE_BYTES_MAX

LEASE = "lease"


@pytest.fixture
def world():
    """One thing of each kind, all durable; and something that is not, which concerns none of them."""
    world = World()
    world.create("i1", title="first", attempt="t-intent")
    world.create("i2")
    world.depend("i1", "i2")
    world.portfolio("p1")
    world.register("ann")
    world.acquire("ann", ttl_ms=60_000, lease=LEASE, attempt="t-lease")
    world.acquire("ann", "ended", lease="ended")
    world.release("ended", "ann")
    world.acquire("ann", "closed", lease="closed", cooldown_ms=60_000)
    world.revoke("closed")
    world.commit()
    world.create("other")
    return world


def again(world: World, holder: str, **more):
    return world.acquire(holder, ttl_ms=60_000, **more)


LOOKS = {
    "an intent": lambda world: world.do(commands.GetIntent("i1")),
    "an intent, made again": lambda world: world.create("i2"),
    "an intent, made again under its attempt": lambda world: world.create("i1", title="first", attempt="t-intent"),
    "a dependency, added again": lambda world: world.depend("i1", "i2"),
    "a portfolio": lambda world: world.do(commands.GetPortfolio("p1")),
    "a portfolio, made again": lambda world: world.portfolio("p1"),
    "a portfolio's name that is taken": lambda world: world.portfolio("p1", name="another"),
    "an agent": lambda world: world.do(commands.GetAgent("ann")),
    "an agent, marked as it is": lambda world: world.mark("ann", "active"),
    "a lease": lambda world: world.do(commands.GetLease(lease_id=LEASE)),
    "a lease, asked for again": lambda world: again(world, "ann", attempt="t-lease"),
    "a scope that another holds": lambda world: again(world, "bob"),
    "a scope that one holds": lambda world: again(world, "ann"),
    "a scope that one gets back": lambda world: again(world, "ann", reentrant=True),
    "a renewal": lambda world: world.renew(LEASE, "ann"),
}
MEMORIES = {  # a new term has none, and leaves them to whoever reads the log
    "a lease that ended": lambda world: world.do(commands.GetLease(lease_id="ended")),
    "a late renewal": lambda world: world.renew("ended", "ann"),
}


@pytest.mark.parametrize("look", [*LOOKS.values(), *MEMORIES.values()], ids=[*LOOKS, *MEMORIES])
def test_what_is_durable_is_told_at_once(world, look):
    look(world)
    assert world.last.after == world.durable == 1


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_what_was_there_before_a_restart_is_told_at_once(world, look):
    world.crash()
    world.create("another")
    look(world)
    assert world.last.after == 0


def test_what_one_gets_back_under_an_attempt_waits_until_the_attempt_is_durable(world):
    again(world, "ann", reentrant=True, attempt="t2")
    assert world.last.after == world.books.batch


def test_a_request_that_went_away_is_an_answer_too(world):
    assert world.gone(99) == Done()


def test_what_is_wiped_counts_as_written(world):
    world.commit()
    world.books.wipe("a", "b")
    assert world.books.written == world.books.batch


def test_a_cooldown_that_is_over_leaves_nothing_behind(world):
    world.advance(60_000)
    world.commit()
    assert [key for key in world.store if key.startswith("d/")] == []
    assert SPACE not in world.books.spaces


def test_a_ledger_in_which_nothing_was_written_has_nothing_to_wait_for():
    world = World()
    world.do(commands.ListLeases())
    assert world.last.after == 0


# What is stored


def test_an_intent_that_is_written_whole_takes_no_other_intents_steps_along(world):
    for intent in ("Z", "a"):  # in the order of keys, one before most names and one after
        world.create(intent, state={"text": "x" * WHOLE_BYTES_MAX})
        world.commit()
        world.patch(intent, ("set", "n", 1))
    world.commit()
    world.status("a", "active")
    world.commit()
    assert [key for key in world.store if key.startswith("p/")] == ["p/Z\t0000000000000002"]
    world.crash()
    assert world.books.intents["Z"].state["n"] == 1


def test_a_step_in_the_batch_that_made_the_intent_is_taken_once(world):
    world.create("i3", state={"text": "x" * WHOLE_BYTES_MAX, "items": []})
    world.patch("i3", ("append", "items", 1))
    world.commit()
    world.crash()
    assert world.books.intents["i3"].state["items"] == [1]
