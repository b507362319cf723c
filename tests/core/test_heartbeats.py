"""What a heartbeat renews, and when the next one should come."""

import pytest
from world import World

from openintent.core.commands import Heartbeat


def beat(world: World, *held: tuple[str, int]):
    return world.do(Heartbeat(holder="ann", held=list(held)))


@pytest.mark.parametrize(
    ("ttls_ms", "next_ms"),
    [((600_000, 300_000), 20_000), ((600_000, 9_000), 3_000), ((9_000, 600_000), 3_000), ((9_000, 3_000), 1_000)],
)
def test_the_next_one_comes_in_time_for_the_shortest(ttls_ms, next_ms):
    world = World()
    leases = [world.acquire("ann", f"s{index}", ttl_ms=ttl_ms).lease for index, ttl_ms in enumerate(ttls_ms)]
    world.now_ms = 500
    verdicts = beat(world, *((lease.id, lease.token) for lease in leases))
    assert verdicts.rows == [(lease.id, ttl_ms, None) for lease, ttl_ms in zip(leases, ttls_ms, strict=True)]
    assert verdicts.next_ms == next_ms
    assert [lease.deadline_ms for lease in leases] == [500 + ttl_ms for ttl_ms in ttls_ms]


def test_what_renewals_cannot_move_stays_where_it_is():
    world = World()
    bounded = world.acquire("ann", "a", ttl_ms=1_000, max_hold_ms=1_500).lease
    world.now_ms = 900
    assert beat(world, (bounded.id, bounded.token)).rows == [(bounded.id, 600, None)]
    assert bounded.deadline_ms == 1_500


def test_one_that_is_not_yours_is_lost_and_the_reason_is_not_told():
    world = World()
    theirs = world.acquire("bob", "a").lease
    mine = world.acquire("ann", "b").lease
    rows = beat(world, (theirs.id, theirs.token), (mine.id, mine.token + 1), ("nobody's", 1)).rows
    assert rows == [(theirs.id, 0, "unknown"), (mine.id, 0, "unknown"), ("nobody's", 0, "unknown")]
