"""A lease as its holder sees it, on a clock that the test moves."""

import os
from datetime import UTC, timedelta

import pytest
from samples import promise, seen

from openintent.client.hold import Hold, Watcher
from openintent.client.lease import Lease, hold_of, show
from openintent.errors import LeaseLost


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock) -> Lease:
    return Lease(seen(), clock=clock)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def kept(lease, told) -> Lease:
    hold_of(lease).enter(Watcher(lambda: told.append("lost"), lambda: told.append("at_risk")))
    return lease


def test_trust_ends_a_margin_before_the_promise(lease, clock):
    assert lease.remaining == pytest.approx(29.9)
    clock.now = 29.89
    lease.check()
    clock.now = 29.9
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert (lost.value.reason, lost.value.token) == ("trust_ended", 7)
    assert lease.lost.is_set()
    assert lease.remaining == 0.0
    assert lease.status == "expired"


def test_trust_counts_from_the_end_of_a_wait(clock):
    clock.now = 40.0
    Lease(seen(promise(sent_at=0.0, waited_s=20.0)), clock=clock).check()
    with pytest.raises(LeaseLost):
        Lease(seen(promise(sent_at=0.0, waited_s=0.0)), clock=clock).check()


def test_a_kept_lease_is_lost_at_the_soft_stop(kept, clock, told):
    clock.now = 24.89
    kept.check()
    clock.now = 24.91
    with pytest.raises(LeaseLost):
        kept.check()
    assert told == ["lost"]


def test_a_renewal_before_the_soft_stop_makes_it_safe_again(kept, clock):
    clock.now = 24.0
    assert hold_of(kept).confirm(promise(sent_at=23.0))
    clock.now = 40.0
    kept.check()


def test_a_reply_after_the_soft_stop_revives_nothing(kept, clock, told):
    clock.now = 24.95
    assert not hold_of(kept).confirm(promise(sent_at=24.0))
    with pytest.raises(LeaseLost):
        kept.check()
    assert told == ["lost"]


def test_once_seen_to_be_lost_it_stays_lost(lease, clock):
    clock.now = 29.95
    assert lease.lost.is_set()
    show(lease, seen(promise(sent_at=29.94)))
    assert lease.lost.is_set()
    assert lease.remaining == 0.0


def test_a_reply_that_comes_after_its_own_deadline_is_ignored(lease, clock):
    clock.now = 20.0
    assert not hold_of(lease).confirm(promise(sent_at=0.0, remaining_s=10.0))


def test_a_slow_reply_takes_no_promise_back(lease, clock):
    clock.now = 5.0
    assert hold_of(lease).confirm(promise(sent_at=0.0, remaining_s=20.0))
    assert lease.remaining == pytest.approx(24.9)


def test_a_longer_ttl_moves_the_soft_stop(kept, clock):
    hold_of(kept).confirm(promise(sent_at=0.0, remaining_s=3.0), ttl_s=3.0)
    assert hold_of(kept).stop_at == pytest.approx(29.9 - 0.5)


def test_a_bound_on_holding_is_a_bound_on_the_ttl(clock):
    lease = Lease(seen(promise(remaining_s=4.0), max_hold_seconds=4.0), clock=clock)
    hold_of(lease).enter(Watcher(lambda: None, lambda: None))
    lease.check()
    assert hold_of(lease).stop_at == pytest.approx(3.9 - 4 / 6)


def test_watchers_are_told_once(kept, told):
    hold = hold_of(kept)
    assert hold.lose("revoked")
    assert not hold.lose("expired")
    assert told == ["lost"]
    assert kept.status == "revoked"
    assert not hold.confirm(promise(sent_at=0.0))


def test_a_released_lease_is_over_but_not_lost(kept, told):
    hold_of(kept).release()
    assert not kept.lost.is_set()
    assert kept.status == "released"
    assert told == []
    with pytest.raises(LeaseLost) as lost:
        kept.check()
    assert lost.value.reason == "released"


def test_the_last_to_leave_ends_it(lease):
    inner, outer = (Watcher(lambda: None, lambda: None) for _ in range(2))
    hold = hold_of(lease)
    assert hold.enter(outer)
    assert hold.enter(inner)
    assert not hold.leave(inner)
    lease.check()
    assert hold.leave(outer)
    assert not hold.enter(inner)


def test_waiting_for_the_loss_ends_without_it(lease):
    assert not lease.lost.wait(0.0)


def test_waiting_for_the_loss_ends_with_it(lease):
    hold_of(lease).lose("revoked")
    assert lease.lost.wait(10.0)


def test_an_ended_lease_is_shown_as_the_server_tells(clock):
    lease = Lease(seen(status="revoked"), clock=clock)
    assert (lease.status, lease.is_active) == ("revoked", False)


def test_a_lease_of_another_agent_is_only_a_view(clock):
    lease = Lease(seen(), held_by_us=False, clock=clock)
    assert lease.is_active
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert lost.value.reason == "foreign"


def test_dates_are_aware_and_move_with_renewals(lease):
    before = lease.expires_at
    assert before.tzinfo is UTC
    hold_of(lease).confirm(promise(sent_at=10.0))
    assert lease.expires_at - before == timedelta(seconds=10)


def test_its_repr_tells_how_it_stands(lease):
    assert repr(lease) == "<Lease L1 'deploy' in intent:i1 token=7 active remaining=29.9>"


def test_a_renewal_at_the_end_of_max_hold_still_counts_as_heard(clock):
    """The deadline no longer moves, but the server answers: that is not at risk for want of renewals."""
    lease = Lease(seen(promise(remaining_s=30.0)), clock=clock)
    hold = hold_of(lease)
    hold.enter(Watcher(lambda: None, lambda: None))
    clock.now = 15.0
    assert hold.confirm(promise(sent_at=15.0, remaining_s=14.9))
    assert hold.watched().at_risk_at == pytest.approx(24.8)
    assert hold.renew_at(chance=0.5) > 15.0


def test_a_reply_at_the_soft_stop_itself_is_too_late(kept, clock):
    clock.now = hold_of(kept).stop_at
    assert not hold_of(kept).confirm(promise(sent_at=24.0))


@pytest.mark.parametrize(("told", "reason"), [({}, "revoked"), ({"ended_reason": "too old"}, "too old")])
def test_a_lease_that_comes_back_ended_is_over_from_the_start(clock, told, reason):
    hold = Hold(seen(status="revoked", **told), clock=clock)
    assert hold.over
    assert hold.failure().reason == reason


def test_what_remains_is_nothing_after_a_loss_and_little_before_the_end(lease, clock):
    clock.now = 29.4
    assert lease.remaining == pytest.approx(0.5)
    hold_of(lease).lose("revoked")
    assert lease.remaining == 0.0


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("trust_ended", "no renewal of the lease was confirmed in time"),
        ("client_closed", "the client that kept the lease alive was closed"),
        ("preempted", "a higher priority asked for the lease, and its time is over"),
        ("max_hold", "the lease has ended: max_hold"),
    ],
)
def test_a_loss_says_why_in_words_and_in_codes(lease, reason, message):
    hold_of(lease).lose(reason)
    lost = hold_of(lease).failure()
    assert (lost.message, lost.code, lost.reason, lost.token) == (message, "lease_lost", reason, 7)


def test_when_the_time_of_a_lease_that_was_asked_for_is_over_that_is_why(lease, clock):
    hold_of(lease).ask_back()
    lease.check()
    clock.now = 29.9
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert lost.value.reason == "preempted"


def test_another_end_of_a_lease_that_was_asked_for_has_its_own_reason(lease):
    hold_of(lease).ask_back()
    hold_of(lease).lose("revoked")
    assert hold_of(lease).failure().reason == "revoked"


def test_everybody_who_works_under_it_is_told_once_that_it_is_asked_for(lease):
    told = []
    first, second = (Watcher(lambda: None, lambda: None, lambda n=n: told.append(n)) for n in (1, 2))
    hold = hold_of(lease)
    hold.enter(first)
    assert not lease.preempt_asked
    hold.ask_back()
    hold.enter(second)
    hold.ask_back()
    hold.ask_back()
    assert told == [1, 2]
    assert lease.preempt_asked


@pytest.mark.parametrize("late", [False, True])
def test_any_reply_may_tell_that_it_is_asked_for_unless_it_comes_too_late(lease, clock, late):
    clock.now = 40.0 if late else 1.0
    show(lease, seen(promise(sent_at=1.0), preempt_asked=True))
    assert lease.preempt_asked is not late


def test_a_lease_that_comes_back_asked_for_is_known_to_be(clock):
    assert Lease(seen(preempt_asked=True), clock=clock).preempt_asked


def test_in_a_forked_child_a_lease_is_lost_because_of_the_fork(lease, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert lease.lost.is_set()
    assert hold_of(lease).failure().reason == "forked"


# Waiting for the end, on a clock that runs only while somebody waits


class Waited:
    """In the place of the event that says that it is over."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.waits: list[float] = []
        self.meanwhile = lambda: None

    def wait(self, seconds: float) -> None:
        assert len(self.waits) < 1_000, "it waits without end"
        assert seconds > 0
        self.waits.append(seconds)
        self.clock.now += seconds
        self.meanwhile()

    def set(self) -> None:
        pass


@pytest.fixture
def waited(lease, clock) -> Waited:
    hold_of(lease)._over = Waited(clock)
    return hold_of(lease)._over


def test_whoever_waits_for_the_end_waits_until_trust_ends(lease, clock, waited):
    assert hold_of(lease).wait_over(None)
    assert clock.now == pytest.approx(29.9)


def test_whoever_waits_for_a_while_waits_no_longer(lease, clock, waited):
    assert not hold_of(lease).wait_over(2.5)
    assert clock.now == pytest.approx(2.5)
    assert hold_of(lease).wait_over(60.0)
    assert clock.now == pytest.approx(29.9)


def test_a_machine_that_slept_is_noticed_within_a_second(lease, waited):
    hold_of(lease).wait_over(None)
    assert max(waited.waits) == 1.0


def test_a_renewal_makes_whoever_waits_wait_on(lease, clock, waited):
    waited.meanwhile = lambda: clock.now == 10.0 and hold_of(lease).confirm(promise(sent_at=10.0))
    assert hold_of(lease).wait_over(None)
    assert clock.now == pytest.approx(39.9)


def test_whoever_waits_goes_on_as_soon_as_it_is_lost(lease, clock, waited):
    waited.meanwhile = lambda: clock.now == 3.0 and hold_of(lease).lose("revoked")
    assert hold_of(lease).wait_over(10.0)
    assert clock.now == 3.0
