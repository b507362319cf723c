"""What a heartbeat renews, and when the next one should come."""

import pytest
from world import World, rows


def beat(world: World, *held: tuple[str, int]):
    return world.heartbeat("ann", list(held))


@pytest.mark.parametrize(
    ("ttls_ms", "next_ms"),
    [((600_000, 300_000), 20_000), ((600_000, 9_000), 3_000), ((9_000, 600_000), 3_000), ((9_000, 3_000), 1_000)],
)
def test_the_next_one_comes_in_time_for_the_shortest(ttls_ms, next_ms):
    world = World()
    leases = [world.acquire("ann", f"s{index}", ttl_ms=ttl_ms).lease for index, ttl_ms in enumerate(ttls_ms)]
    world.now_ms = 500
    verdicts = beat(world, *((lease.id, lease.token) for lease in leases))
    assert rows(verdicts) == [(lease.id, ttl_ms, None) for lease, ttl_ms in zip(leases, ttls_ms, strict=True)]
    assert verdicts.next_ms == next_ms
    assert [lease.deadline_ms for lease in leases] == [500 + ttl_ms for ttl_ms in ttls_ms]


def test_what_renewals_cannot_move_stays_where_it_is():
    world = World()
    bounded = world.acquire("ann", "a", ttl_ms=1_000, max_hold_ms=1_500).lease
    world.now_ms = 900
    assert rows(beat(world, (bounded.id, bounded.token))) == [(bounded.id, 600, None)]
    assert bounded.deadline_ms == 1_500


def test_one_that_is_not_yours_is_lost_and_the_reason_is_not_told():
    world = World()
    theirs = world.acquire("bob", "a").lease
    mine = world.acquire("ann", "b").lease
    verdicts = beat(world, (theirs.id, theirs.token), (mine.id, mine.token + 1), ("nobody's", 1))
    assert rows(verdicts) == [(theirs.id, 0, "unknown"), (mine.id, 0, "unknown"), ("nobody's", 0, "unknown")]


def test_the_same_list_again_renews_no_lease_that_has_ended_since():
    world = World()
    first, second = (world.acquire("ann", scope).lease for scope in "ab")
    listed = (first.id, first.token), (second.id, second.token)
    assert rows(beat(world, *listed)) == [(first.id, 1_000, None), (second.id, 1_000, None)]
    world.revoke(first.id)
    assert rows(beat(world, *listed)) == [(first.id, 0, "revoked"), (second.id, 1_000, None)]
    world.now_ms = 1_000
    assert rows(beat(world, *listed)) == [(first.id, 0, "revoked"), (second.id, 0, "expired")]


def test_the_same_list_of_another_agent_renews_nothing():
    world = World()
    mine = world.acquire("ann", "a").lease
    for _ in range(2):
        assert rows(world.heartbeat("ann", [(mine.id, mine.token)])) == [(mine.id, 1_000, None)]
        assert rows(world.heartbeat("bob", [(mine.id, mine.token)])) == [(mine.id, 0, "unknown")]


def test_a_list_with_a_strange_lease_in_it_is_looked_up_each_time():
    world = World()
    mine = world.acquire("ann", "a").lease
    listed = ("L9", 2), (mine.id, mine.token)
    for _ in range(2):
        assert rows(beat(world, *listed)) == [("L9", 0, "unknown"), (mine.id, 1_000, None)]
    later = world.acquire("ann", "b", lease="L9").lease
    assert rows(beat(world, *listed)) == [(later.id, 1_000, None), (mine.id, 1_000, None)]


def test_what_was_listed_is_forgotten_with_the_last_lease():
    world = World()
    first, second = (world.acquire("ann", scope).lease for scope in "ab")
    beat(world, (first.id, first.token), (second.id, second.token))
    world.release(first.id, "ann")
    assert "ann" in world.books.beats
    world.release(second.id, "ann")
    assert world.books.beats == {}
