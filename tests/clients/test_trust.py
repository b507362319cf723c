"""What a promise is worth, and by which clock."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent import clock
from openintent.trust import Trust, margin_s

spans = st.floats(min_value=0.0, max_value=86_400.0)


@given(spans, spans, spans)
def test_a_promise_is_counted_from_the_request_and_the_time_in_the_queue_once(sent_at, waited_s, remaining_s):
    trust = Trust(sent_at=sent_at, waited_s=waited_s, remaining_s=remaining_s)
    held_back_s = margin_s(waited_s=waited_s, remaining_s=remaining_s)
    assert trust.until == pytest.approx(sent_at + waited_s + remaining_s - held_back_s, abs=1e-6)
    assert held_back_s >= 0.002 * (waited_s + remaining_s)


def test_a_short_promise_is_cut_by_a_tenth_and_a_longer_one_by_a_tenth_of_a_second():
    assert margin_s(waited_s=0.0, remaining_s=0.5) == pytest.approx(0.05)
    assert margin_s(waited_s=0.0, remaining_s=30.0) == pytest.approx(0.1)


def test_at_the_very_end_of_trust_it_is_over():
    trust = Trust(sent_at=0.0, waited_s=0.0, remaining_s=30.0)
    assert trust.live(trust.until - 1e-6)
    assert not trust.live(trust.until)


def test_the_clock_that_decides_is_the_one_that_nobody_can_set():
    before_s = time.clock_gettime(clock._BOOT_CLOCK)
    assert before_s <= clock.boot_s() <= time.clock_gettime(clock._BOOT_CLOCK)
    assert before_s * 1_000 - 1 <= clock.boot_ms() <= time.clock_gettime(clock._BOOT_CLOCK) * 1_000
    assert clock._BOOT_CLOCK != time.CLOCK_REALTIME


def test_milliseconds_are_whole_and_the_wall_clock_is_the_one_on_the_wall():
    before_s = time.time()
    shown_ms = clock.wall_ms()
    assert before_s * 1_000 - 1 <= shown_ms <= time.time() * 1_000
    assert type(shown_ms) is type(clock.boot_ms()) is int
