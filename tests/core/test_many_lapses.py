"""Many things that fall due at once: time stands still rather than everybody."""

from collections import Counter

from world import World

from openintent.core.ledger import DUE_PER_COMMAND_MAX, DUE_PER_TICK_MAX, LAPSES_PER_BATCH_MAX
from openintent.core.loading import LOADED_PER_MS
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


def test_those_who_end_in_the_same_millisecond_end_together_and_no_request_waits_for_them():
    world = World(Limits(leases_per_agent_max=MANY))
    for index in range(MANY):
        world.acquire("ann", f"s{index}", ttl_ms=1_000)
    world.now_ms = 1_500
    world.acquire("bob", "new")
    assert len(world.books.leases) == MANY + 1
    assert world.books.now_ms < 1_000
    world.advance(0)
    assert [lease.holder for lease in world.books.leases.values()] == ["bob"]


def test_after_a_crash_not_all_leases_end_in_the_same_instant():
    world = World(Limits(leases_per_agent_max=MANY))
    for index in range(MANY):
        world.acquire("ann", f"s{index}", ttl_ms=1_000)
    world.commit()
    world.crash()
    books = world.books
    ends = Counter(lease.deadline_ms for lease in books.leases.values())
    assert min(ends) == books.now_ms + 1_000
    assert set(ends.values()) == {LOADED_PER_MS}


def test_a_batch_takes_in_so_many_lapses_and_time_stands_still_until_it_is_taken():
    many = LAPSES_PER_BATCH_MAX + 2 * DUE_PER_TICK_MAX
    world = World(Limits(leases_per_agent_max=many))
    for index in range(many):
        world.acquire("ann", f"s{index}", ttl_ms=1_000 + index // 2)
    world.commit()
    books = world.books
    for _ in range(many):
        world.now_ms = books.now_ms
        world.advance(10_000)
    assert LAPSES_PER_BATCH_MAX <= many - len(books.leases) <= LAPSES_PER_BATCH_MAX + DUE_PER_TICK_MAX
    stands_ms = books.now_ms
    assert world.acquire("bob", "new", ttl_ms=60_000).lease.deadline_ms == stands_ms + 60_000
    assert all(lease.deadline_ms > stands_ms for lease in books.leases.values())
    world.commit()
    for _ in range(2 * many // DUE_PER_TICK_MAX):
        world.now_ms = books.now_ms
        world.advance(1_000)
    assert [lease.holder for lease in books.leases.values()] == ["bob"]
