"""Numbers for those who watch a server: how long commits took, and how many failed."""

import pytest
from stage import FaultyEngine

from openintent.engines.base import Head, OutcomeUncertain
from openintent.grantor.durations import BOUNDS_S, Durations
from openintent.grantor.leadership import Leadership


@pytest.mark.parametrize(
    ("seconds", "place"),
    [(0.0, 0), (BOUNDS_S[0], 0), (BOUNDS_S[0] * 1.01, 1), (BOUNDS_S[-1], len(BOUNDS_S) - 1), (60.0, len(BOUNDS_S))],
)
def test_a_bound_is_the_longest_that_it_counts(seconds: float, place: int):
    took = Durations()
    took.add(seconds)
    assert took.counts == [int(n == place) for n in range(len(BOUNDS_S) + 1)]
    assert took.sum_s == seconds


@pytest.mark.anyio
async def test_a_commit_that_fails_is_counted_as_that_alone():
    engine = FaultyEngine()
    leadership = Leadership(engine, member="m")
    await leadership.take_over()
    engine.faults = ["after"]
    with pytest.raises(OutcomeUncertain):
        await leadership.commit(Head(1, 1), [])
    assert leadership.commits.failed == 1
    assert sum(leadership.commits.took.counts) == 1
