"""The same races and crashes for us, for OpenIntent's own server and for Redis. We must be clean; of the others the
figures are written down, whatever they are. PROOF_PEER_ROUNDS=100 asks all of them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peer import Locks, Peer
from peerchecks import authority, clock_steps, crashes, expiry, increments, race, repeats, second_server
from peerpause import pauses
from proving import Figures, size
from wallclock import WallClock

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ROUNDS = size("peer_rounds", 4)
ROUNDS_PER_KILL = 10
INCREMENTS_PER_ROUND = 2
SEED = 7
HOUR_S = 3_600

Tell = Callable[..., None]


@pytest.fixture
def tell(peer: Peer, figures: Figures) -> Tell:
    """Write down what was counted, and if it is us, that everything named here was nought."""

    def told(check: str, counted: dict[str, Any], *wrong: str) -> None:
        figures.add(f"peers: {check}", **peer.described(), **counted)
        if peer.ours:
            assert {name: counted[name] for name in wrong} == dict.fromkeys(wrong, 0), counted

    return told


async def test_of_32_racers_exactly_one_wins(locks: Locks, tell: Tell, figures: Figures):
    counted = await race([locks], rounds=ROUNDS, progress=figures.progress)
    tell("races", counted, "two_winners", "no_winner", "unanswered")


async def test_no_update_under_a_lease_is_lost(locks: Locks, tell: Tell):
    counted = await increments(locks, rounds=ROUNDS * INCREMENTS_PER_ROUND)
    tell("increments under a lease", counted, "lost_updates")


@pytest.mark.alone
async def test_a_holder_that_comes_late_revives_nothing_and_frees_nothing(locks: Locks, tell: Tell, figures: Figures):
    counted = await expiry(locks, rounds=ROUNDS, progress=figures.progress)
    wrong = ("granted_early", "revived", "freed_anothers", "renewed_after_the_end", "overlaps_of_belief")
    tell("late holders", counted, *wrong)


async def test_no_write_of_a_paused_holder_gets_past_the_token(peer: Peer, tell: Tell, figures: Figures):
    counted = await pauses(peer, rounds=ROUNDS, progress=figures.progress)
    assert counted["late_writes"] > 0, "the holders must have been sure of their leases when they stopped"
    tell("paused holders", counted, "stale_writes_accepted")


async def test_no_acknowledged_grant_is_lost_when_the_server_is_killed(peer: Peer, tell: Tell, figures: Figures):
    kills = max(1, ROUNDS // ROUNDS_PER_KILL)
    counted = await crashes(peer, kills=kills, seed=SEED, progress=figures.progress)
    tell("kill -9 of the server", counted, "lost", "tokens_back")


async def test_a_repeated_request_is_the_same_request(peer: Peer, tell: Tell, figures: Figures):
    counted = await repeats(peer, rounds=ROUNDS, progress=figures.progress)
    tell("lost answers", counted, "locked_out", "granted_twice", "granted_again_after_release")


@pytest.mark.alone
async def test_a_step_of_the_wall_clock_ends_no_lease_early_or_late(idle_peer: Peer, figures: Figures, tmp_path: Path):
    clock = WallClock(tmp_path)
    idle_peer.wrapper = clock.wrapper
    assert await idle_peer.start()
    counted = await clock_steps(idle_peer, clock.set, rounds=ROUNDS, step_s=HOUR_S)
    figures.add("peers: wall clock steps", **idle_peer.described(), **counted)
    if idle_peer.ours:
        assert (counted["ended_early"], counted["ended_late"]) == (0, 0)


async def test_a_second_server_on_the_same_data_grants_nothing_twice(peer: Peer, tell: Tell, figures: Figures):
    counted = await second_server(peer, rounds=ROUNDS, progress=figures.progress)
    tell("a second server", counted, "two_winners", "no_winner", "unanswered")


async def test_nobody_touches_anothers_lease_and_a_ttl_has_a_length(locks: Locks, tell: Tell):
    counted = await authority(locks, rounds=ROUNDS)
    tell(
        "authority",
        counted,
        "renewed_by_another",
        "released_by_another",
        "granted_for_a_negative_ttl",
        "granted_for_a_ttl_of_zero",
    )
