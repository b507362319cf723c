"""The checks can fail: a service that grants everything to everybody is found out by each of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from careless import CarelessPeer
from peer import Locks
from peerchecks import authority, clock_steps, crashes, expiry, increments, race, repeats, second_server
from peerpause import pauses
from proving import Figures
from wallclock import WallClock

pytestmark = pytest.mark.anyio

WRONG = [
    *("two_winners", "lost_updates"),
    *("granted_early", "revived", "freed_anothers", "renewed_after_the_end", "overlaps_of_belief"),
    *("stale_writes_accepted", "lost", "tokens_back", "granted_again_after_release", "ended_early"),
    *("renewed_by_another", "released_by_another", "granted_for_a_negative_ttl", "granted_for_a_ttl_of_zero"),
]


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[CarelessPeer]:
    peer = CarelessPeer(tmp_path)
    peer.clock = WallClock(tmp_path)
    peer.wrapper = peer.clock.wrapper
    assert await peer.start()
    yield peer
    peer.kill()


async def test_each_check_finds_out_a_service_that_grants_everything(
    peer: CarelessPeer, locks: Locks, figures: Figures
):
    seen = {
        **await race([locks], rounds=2, progress=figures.progress),
        **await increments(locks, rounds=20),
        **await expiry(locks, rounds=2, progress=figures.progress),
        **await authority(locks, rounds=2),
        **await pauses(peer, rounds=2, progress=figures.progress),
        **await crashes(peer, kills=1, seed=1, progress=figures.progress),
        **await repeats(peer, rounds=2, progress=figures.progress),
        **await clock_steps(peer, peer.clock.set, rounds=2, step_s=3_600),
    }
    second = await second_server(peer, rounds=2, progress=figures.progress)
    assert [name for name in WRONG if not seen[name]] == []
    assert second["two_winners"] > 0
