"""The keeper's decisions, as tables. No clock, no thread."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.client import keeping
from openintent.client.keeping import Renew, Sleep, Stop, Warn, Watched
from openintent.trust import Trust

TTL_S = 30.0
LEASE = Watched(at_risk_at=20.0, stop_at=24.9)


def step(now: float, *, renew_at: float = math.inf, **leases: Watched):
    return keeping.next_step(now=now, leases=leases or {"a": LEASE}, renew_at=renew_at)


def test_a_fresh_lease_sleeps_until_its_renewal():
    assert step(0.0, renew_at=10.0) == Sleep(10.0)


def test_a_renewal_is_sent_when_it_is_due():
    assert step(10.0, renew_at=10.0) == Renew()


def test_without_renewals_the_lease_is_at_risk():
    assert step(20.0, renew_at=10.0) == Warn(("a",))


def test_the_warning_comes_once():
    assert step(20.0, a=Watched(20.0, 24.9, warned=True), renew_at=21.0) == Sleep(1.0)


def test_the_soft_stop_comes_before_all_else():
    assert step(24.9, renew_at=10.0) == Stop(("a",))


def test_leases_stop_each_at_its_own_time():
    other = Watched(at_risk_at=99.0, stop_at=120.0)
    assert step(25.0, a=LEASE, b=other) == Stop(("a",))
    assert step(25.0, b=other) == Sleep(99.0 - 25.0)


def test_the_sleep_ends_with_the_first_thing_to_do():
    assert step(19.0, renew_at=50.0) == Sleep(1.0)
    assert step(21.0, renew_at=50.0, a=Watched(20.0, 24.5, warned=True)) == Sleep(3.5)


def test_the_instants_of_a_lease_of_thirty_seconds():
    """The right-hand column of the timing rules."""
    trust = Trust(sent_at=0.0, waited_s=0.0, remaining_s=TTL_S)
    assert trust.until == pytest.approx(29.9)
    assert trust.soft_stop_at(TTL_S) == pytest.approx(24.9)
    assert trust.at_risk_from(TTL_S) == pytest.approx(20.0)
    assert keeping.period_s(TTL_S, chance=0.5) == pytest.approx(10.0)
    assert keeping.try_s(TTL_S) == pytest.approx(5.0)


def test_retries_are_quick_and_bounded():
    delays = [keeping.retry_s(TTL_S, failures=n) for n in range(1, 8)]
    assert delays == pytest.approx([0.25, 0.5, 1.0, 2.0, 3.0, 3.0, 3.0])
    assert keeping.retry_s(1.0, failures=1) == pytest.approx(0.05)
    assert keeping.retry_s(1.0, failures=9_999) == pytest.approx(0.1)


def test_three_tries_that_hang_fit_before_the_soft_stop():
    at = 11.0  # the latest first renewal
    for failures in (1, 2):
        at += keeping.try_s(TTL_S) + keeping.retry_s(TTL_S, failures=failures)
    assert at < 24.9


@given(ttl_s=st.floats(0.1, 86_400.0), chance=st.floats(0.0, 1.0))
def test_the_period_is_a_third_of_the_ttl_give_or_take_a_tenth(ttl_s, chance):
    assert 0.9 * ttl_s / 3 <= keeping.period_s(ttl_s, chance=chance) * (1 + 1e-9)
    assert keeping.period_s(ttl_s, chance=chance) <= 1.1 * ttl_s / 3 * (1 + 1e-9)


def test_the_servers_wish_for_quiet_is_honoured_but_not_to_the_death():
    def at(retry_after_s):
        return keeping.retry_at(now=0.0, ttl_s=TTL_S, failures=1, stop_at=14.9, retry_after_s=retry_after_s)

    assert at(None) == pytest.approx(0.25)
    assert at(4.0) == pytest.approx(4.0)
    assert at(60.0) == pytest.approx(14.9 - 5.0)


@given(ttl_s=st.floats(0.1, 86_400.0), remaining=st.floats(0.01, 1.0), waited_s=st.floats(0.0, 10.0))
def test_the_order_is_always_at_risk_then_stop_then_the_end_of_trust(ttl_s, remaining, waited_s):
    trust = Trust(sent_at=100.0, waited_s=waited_s, remaining_s=ttl_s * remaining)
    assert trust.at_risk_from(ttl_s) <= trust.soft_stop_at(ttl_s) < trust.until
    assert trust.until < trust.confirmed_at + trust.remaining_s


def test_no_try_hangs_for_minutes():
    assert keeping.try_s(86_400.0) == keeping.TRY_S_MAX
