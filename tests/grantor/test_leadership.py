"""Who may write: by the operating system's lock, or by a head that stood still."""

import asyncio

import pytest
from stage import BootClock, FaultyEngine, soon

from openintent.engines.base import Deposed, Head
from openintent.engines.memory import MemoryEngine
from openintent.grantor.leadership import Leadership

pytestmark = pytest.mark.anyio

TTL_S = 10.0


class Candidate:
    """A candidate with a clock of its own, on an engine that others can open as well."""

    def __init__(self, inner: MemoryEngine, member: str, *, exclusive: bool = False) -> None:
        self.clock = BootClock()
        self.engine = FaultyEngine(inner, exclusive=exclusive)
        self.engine.on_changed = lambda: self.wait(1)
        self.waited_s = 0
        self.leadership = Leadership(self.engine, member=member, leader_ttl_s=TTL_S, clock=lambda: self.clock.seconds)

    def wait(self, seconds: int) -> bool:
        """Time passes while nothing is known to change: a hint that may well be wrong."""
        self.clock.ms += seconds * 1_000
        self.waited_s += seconds
        return True

    async def take_over(self) -> Head:
        return await soon(self.leadership.take_over())

    async def beat(self) -> None:
        """What the reigning grantor does now and then."""
        last = self.leadership.head
        await self.leadership.commit(Head(term=last.term, beat=last.beat + 1, member=last.member), [])


@pytest.fixture
def inner(anyio_backend):
    return MemoryEngine()


async def test_where_a_lock_decides_takeover_is_at_once(inner):
    for term in (1, 2, 3):
        candidate = Candidate(inner, f"m{term}", exclusive=True)
        assert (await candidate.take_over()).term == term - 1
        assert (await inner.head()).term == term
        assert candidate.waited_s == 0
        candidate.clock.ms += 3_600_000
        assert candidate.leadership.trusted()


async def test_an_engine_that_nobody_ever_wrote_to_is_taken_at_once(inner):
    first = Candidate(inner, "m1")
    assert await first.take_over() == Head()
    assert first.waited_s == 0


async def test_a_new_term_goes_on_where_the_last_one_ended(inner):
    left = Head(term=4, beat=9, rev=77, clock_ms=123, member="m1", token=55, seq=66)
    await inner.commit(expect=Head(), head=left, changes=[])
    second = Candidate(inner, "m2")
    assert await second.take_over() == left
    assert second.leadership.seen == left
    assert await inner.head() == Head(term=5, clock_ms=123, member="m2", token=55, seq=66)


async def test_a_candidate_waits_until_the_head_has_stood_still_for_the_ttl(inner):
    await Candidate(inner, "m1").take_over()
    second = Candidate(inner, "m2")
    assert (await second.take_over()).member == "m1"
    assert second.waited_s == TTL_S


async def test_every_beat_of_the_reigning_one_begins_the_wait_anew(inner):
    first, second = Candidate(inner, "m1"), Candidate(inner, "m2")
    await first.take_over()
    plan = [3, 9, 4]  # seconds until each beat

    async def changed(seen: Head) -> None:
        if plan:
            second.wait(plan.pop(0))
            await first.beat()
        else:
            second.wait(1)

    second.engine.changed = changed
    await second.take_over()
    assert second.waited_s == 3 + 9 + 4 + TTL_S


async def test_a_clean_stop_is_not_waited_for(inner):
    await inner.commit(expect=Head(), head=Head(term=1, beat=3, member="m1", farewell=True), changes=[])
    second = Candidate(inner, "m2")
    assert (await second.take_over()).farewell
    assert second.waited_s == 0


async def test_of_two_candidates_the_slower_one_waits_for_the_faster_ones_reign(inner):
    await Candidate(inner, "m1").take_over()
    second, third = Candidate(inner, "m2"), Candidate(inner, "m3")
    commit = third.engine.commit

    async def too_late(*, expect: Head, head: Head, changes: list) -> None:
        third.engine.commit = commit
        await second.take_over()
        await commit(expect=expect, head=head, changes=changes)

    third.engine.commit = too_late
    assert await third.take_over() == Head(term=2, member="m2")
    assert third.waited_s == 2 * TTL_S
    with pytest.raises(Deposed):
        await second.beat()


async def test_a_hint_that_never_comes_does_not_keep_a_candidate_from_looking_at_its_clock(inner):
    await Candidate(inner, "m1").take_over()
    second = Candidate(inner, "m2")
    second.leadership._ttl_s = 0.01
    looked = []

    def clock() -> float:
        looked.append(len(looked))
        return len(looked) * 0.003

    second.leadership._clock = clock
    second.engine.on_changed = lambda: None
    await second.take_over()
    assert len(looked) > 3


async def test_a_candidate_with_next_to_nothing_left_to_wait_lets_the_clock_move_on(inner, monkeypatch):
    """A clock of whole milliseconds, read into floats, can stand a breath before the end."""
    await Candidate(inner, "m1").take_over()
    second = Candidate(inner, "m2")
    now, waits = [0.0], []

    async def wait_for(hint, seconds: float) -> None:
        hint.close()
        waits.append(seconds)
        now[0] = TTL_S - 1e-15 if len(waits) == 1 else TTL_S
        raise TimeoutError

    monkeypatch.setattr(asyncio, "wait_for", wait_for)
    second.leadership._clock = lambda: now[0]
    await second.leadership.take_over()
    assert waits == [TTL_S, 0.001]


async def test_trust_is_counted_from_when_the_commit_was_sent_and_ends_before_the_ttl(inner):
    first = Candidate(inner, "m1")
    commit = first.engine.commit

    async def slow(**words) -> None:
        await commit(**words)
        first.clock.ms += 4_000

    first.engine.commit = slow
    await first.take_over()
    assert first.leadership.trusted()
    first.clock.ms += 5_899
    assert first.leadership.trusted()
    first.clock.ms += 2
    assert not first.leadership.trusted()


async def test_nobody_is_trusted_before_its_first_commit_or_after_a_failed_one(inner):
    first = Candidate(inner, "m1")
    assert not first.leadership.trusted()
    await first.take_over()
    first.clock.ms += 9_000
    first.engine.faults = ["after"]
    with pytest.raises(Exception, match="after"):
        await first.beat()
    first.clock.ms += 1_000
    assert not first.leadership.trusted()


async def test_each_commit_extends_trust(inner):
    first = Candidate(inner, "m1")
    await first.take_over()
    for _ in range(5):
        first.clock.ms += 8_000
        assert first.leadership.trusted()
        await first.beat()


async def test_the_reigning_ones_trust_has_ended_when_another_takes_over(inner):
    first, second = Candidate(inner, "m1"), Candidate(inner, "m2")
    await first.take_over()
    second.engine.on_changed = lambda: (first.wait(1), second.wait(1))
    await second.take_over()
    assert not first.leadership.trusted()
