"""Many things that fall due at once: time stands still rather than everybody."""

from world import World

from openintent.core.ledger import DUE_PER_COMMAND_MAX, DUE_PER_TICK_MAX
from openintent.model import Limits

MANY = 3 * DUE_PER_TICK_MAX


def crowded() -> World:
    """Two leases end in each millisecond from 1,000 on."""
    world = World(Limits(leases_per_agent_max=MANY))
    for index in range(MANY):
        world.acquire("ann", f"s{index}", ttl_ms=1_000 + index // 2)
    return world


def test_a_command_lets_few_lapse_and_is_carried_out_at_an_earlier_instant():
    world = crowded()
    world.now_ms = 60_000
    granted = world.acquire("bob", "new", ttl_ms=5_000)
    books = world.ledger.books
    assert MANY - DUE_PER_COMMAND_MAX <= len(books.leases) - 1 < MANY
    assert books.now_ms < 1_000 + DUE_PER_COMMAND_MAX
    assert granted.lease.deadline_ms == books.now_ms + 5_000


def test_no_lease_is_there_at_its_deadline_however_late_it_is():
    world = crowded()
    books = world.ledger.books
    while books.leases:
        before, world.now_ms = len(books.leases), books.now_ms
        world.advance(10_000)
        assert before - len(books.leases) <= DUE_PER_TICK_MAX
        assert all(lease.deadline_ms > books.now_ms for lease in books.leases.values())


def test_those_who_end_in_the_same_millisecond_end_together():
    world = World(Limits(leases_per_agent_max=MANY))
    for index in range(MANY):
        world.acquire("ann", f"s{index}", ttl_ms=1_000)
    world.now_ms = 1_500
    world.acquire("bob", "new")
    assert len(world.ledger.books.leases) == 1
