"""The alarm and the ledger's clock, with a boot clock that is moved by hand and timers that are rung by hand."""

import asyncio

import pytest
from stage import Listener, Stage, settled

from openintent.clock import LEAP_MS_MAX, LedgerClock
from openintent.core.commands import GetLease
from openintent.core.ledger import DUE_PER_TICK_MAX, LAPSES_PER_BATCH_MAX
from openintent.grantor.grantor import BEAT_MS, REST_MS, TURN_MS_MAX, NotServing

pytestmark = pytest.mark.anyio


class Alarms:
    """Stands in for the loop's timers of the grantor: what was set, and by how much it is ahead."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.call_later_really = asyncio.get_running_loop().call_later
        self.set: list[tuple[int, asyncio.TimerHandle]] = []

    def call_later(self, delay_s, callback, *args):
        if callback != self.stage.grantor._turn:
            return self.call_later_really(delay_s, callback, *args)
        loop = asyncio.get_running_loop()
        handle = asyncio.TimerHandle(loop.time() + delay_s, callback, args, loop)
        self.set.append((self.stage.clock.ms + round(delay_s * 1_000), handle))
        return handle

    @property
    def ahead_ms(self) -> int:
        [at_ms] = [at_ms for at_ms, handle in self.set if not handle.cancelled()]
        return at_ms - self.stage.clock.ms

    def ring(self) -> None:
        """Move the clock to the alarm, and let it ring."""
        [(at_ms, handle)] = [entry for entry in self.set if not entry[1].cancelled()]
        self.set.clear()
        self.stage.clock.ms = max(self.stage.clock.ms, at_ms)
        handle._callback(*handle._args)


@pytest.fixture
async def alarms(stage, monkeypatch):
    made = Alarms(stage)
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", made.call_later)
    stage.grantor._turn()  # replaces the alarm of the real loop by one of ours
    return made


async def test_the_loop_turns_also_when_it_has_nothing_to_do(stage, alarms):
    assert alarms.ahead_ms == TURN_MS_MAX
    before_ms = stage.grantor.books.now_ms
    for _ in range(4):
        alarms.ring()
    assert stage.grantor.books.now_ms == before_ms + 4 * TURN_MS_MAX


async def test_a_short_lease_ends_on_time_although_the_alarm_stood_later(stage, alarms):
    assert alarms.ahead_ms == TURN_MS_MAX
    stage.acquire("ann", ttl_ms=100)
    assert alarms.ahead_ms == 100
    listener = Listener(stage.grantor.feed, after=stage.grantor.books.seq, wanted="lease_released")
    alarms.ring()
    assert (await listener.next()).lease_id == "L1"


async def test_a_waiter_is_granted_at_the_instant_of_the_lapse(stage, alarms):
    await stage.acquire("ann", ttl_ms=100).heard()
    bob, _ = stage.wait("bob")
    assert alarms.ahead_ms == 100
    alarms.ring()
    assert await bob.heard() == "sent"
    assert bob.reply.answer.waited_ms == 100


async def test_a_renewed_lease_costs_one_turn_and_lives_on(stage, alarms):
    stage.acquire("ann", ttl_ms=100)
    stage.clock.ms += 60
    stage.do(GetLease(lease_id="L1"))
    assert alarms.ahead_ms == 40


async def test_ledger_time_is_written_down_while_nothing_happens(stage, alarms):
    before = await stage.engine.head()
    for _ in range(BEAT_MS // TURN_MS_MAX):
        alarms.ring()
        await settled()
    beaten = await stage.engine.head()
    assert (beaten.beat, beaten.clock_ms) == (before.beat + 1, before.clock_ms + BEAT_MS)


async def test_a_grantor_that_was_frozen_does_not_kill_the_leases(stage, alarms):
    await stage.acquire("ann", ttl_ms=5_000).heard()
    stage.clock.ms += 3_600_000
    seen = stage.do(GetLease(lease_id="L1")).reply.answer
    assert seen.remaining_ms == 5_000 - LEAP_MS_MAX


async def test_after_the_stop_nothing_rings_any_more(stage, alarms):
    [(_, handle)] = alarms.set
    await stage.grantor.stop()
    assert handle.cancelled()
    commits = len(stage.engine.commits)
    stage.grantor._turn()
    await settled()
    assert len(stage.engine.commits) == commits


async def test_a_grantor_whose_trust_ended_says_nothing_until_a_commit_brings_it_back(stage, alarms):
    leadership = stage.grantor._leadership
    leadership.alone, leadership.until_ms = False, 0
    with pytest.raises(NotServing):
        stage.acquire("ann")
    for _ in range(BEAT_MS // TURN_MS_MAX):
        alarms.ring()
        await settled()
    assert await stage.acquire("ann").heard() == "sent"


async def test_a_real_alarm_ends_a_real_lease(anyio_backend):
    stage = Stage()
    loop = asyncio.get_running_loop()
    began = loop.time()
    stage.grantor._boot_ms = lambda: int((loop.time() - began) * 1_000)
    await stage.grantor.start()
    listener = Listener(stage.grantor.feed, after=stage.grantor.books.seq, wanted="lease_released")
    stage.acquire("ann", ttl_ms=100)
    assert (await listener.next()).lease.ended_reason == "expired"
    await stage.grantor.stop()


# The ledger's clock


def test_ledger_time_goes_on_from_where_it_was():
    clock = LedgerClock(start_ms=77, boot_now_ms=1_000)
    assert clock.read(1_000) == 77
    assert clock.read(1_250) == 327


def test_one_reading_leaps_no_further_than_the_limit_and_the_rest_is_forgotten():
    clock = LedgerClock(start_ms=0, boot_now_ms=0)
    assert clock.read(LEAP_MS_MAX) == LEAP_MS_MAX
    assert clock.read(100 * LEAP_MS_MAX) == 2 * LEAP_MS_MAX
    assert clock.read(100 * LEAP_MS_MAX + 1) == 2 * LEAP_MS_MAX + 1


def test_ledger_time_never_goes_back():
    clock = LedgerClock(start_ms=0, boot_now_ms=1_000)
    assert clock.read(1_500) == 500
    assert clock.read(1_200) == 500
    assert clock.read(1_600) == 600


async def test_time_that_stood_still_is_not_made_up_for(stage, alarms):
    """While many leases end at once, one that is granted keeps its whole ttl by the clock on the wall."""
    for index in range(2 * DUE_PER_TICK_MAX):
        stage.acquire("ann", f"s{index}", ttl_ms=500 + index // 4)
    stage.clock.ms += 900
    caller = stage.acquire("bob", "new", ttl_ms=1_000)
    granted_at_ms = stage.clock.ms
    while "new" in {lease.scope for lease in stage.grantor.books.leases.values()}:
        alarms.ring()
    assert stage.clock.ms >= granted_at_ms + 1_000
    assert await caller.heard() == "sent"


async def test_while_a_commit_is_on_its_way_no_more_leases_end_than_the_next_one_can_take(stage, alarms):
    many = LAPSES_PER_BATCH_MAX + 3 * DUE_PER_TICK_MAX
    for index in range(many):
        stage.acquire("ann", f"s{index}", ttl_ms=500 + index // 4)
    await settled()
    stage.engine.hold()
    stage.acquire("bob", "slow")
    for _ in range(many):
        alarms.ring()
    left = len(stage.grantor.books.leases) - 1
    assert many - LAPSES_PER_BATCH_MAX - DUE_PER_TICK_MAX <= left <= many - LAPSES_PER_BATCH_MAX
    assert alarms.ahead_ms >= REST_MS, "it waits, and does not ask again and again"
    stage.engine.let_go()
    await settled()
    assert alarms.ahead_ms < REST_MS, "and goes on at once"
    while len(stage.grantor.books.leases) > 1:
        alarms.ring()
        await settled()


async def test_what_is_decided_together_is_decided_at_the_time_of_the_look(stage):
    stage.grantor.look()
    looked_ms = stage.grantor._clock.now_ms
    stage.clock.ms += 400  # as long as the commands before it took, or the process slept
    first = stage.grantor.decide(stage.asked("ann", "x", ttl_ms=1_000))
    second = stage.grantor.decide(stage.asked("bob", "y", ttl_ms=1_000))
    assert [reply.answer.lease.deadline_ms - 1_000 for reply in (first, second)] == [looked_ms, looked_ms]
    assert (second.rev, second.term) == (first.rev + 1, first.term)
    later = stage.grantor.apply(stage.asked("cid", "z", ttl_ms=1_000))
    assert later.answer.lease.deadline_ms - 1_000 == looked_ms + 400


async def test_nothing_is_committed_before_somebody_sees_to_it(stage):
    commits = len(stage.engine.commits)
    stage.grantor.look()
    stage.grantor.decide(stage.asked("ann", "x", ttl_ms=1_000))
    await settled()
    assert len(stage.engine.commits) == commits
    stage.grantor.see_to_it()
    await settled()
    assert len(stage.engine.commits) == commits + 1
