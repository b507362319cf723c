"""Dates as they are shown."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.server.dates import Dates

BEGAN = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_3000_MS = round(datetime(3000, 1, 1, tzinfo=UTC).timestamp() * 1_000)

DATES = Dates()


@given(st.integers(0, YEAR_3000_MS))
def test_a_date_is_what_the_calendar_says(at_ms):
    expected = (BEGAN + timedelta(milliseconds=at_ms)).replace(tzinfo=None).isoformat(timespec="microseconds")
    assert DATES.any(at_ms) == DATES.recent[at_ms] == expected


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000000"),
        (59_999, "1970-01-01T00:00:59.999000"),
        (60_000, "1970-01-01T00:01:00.000000"),
        (951_782_399_999, "2000-02-28T23:59:59.999000"),
        (951_782_400_000, "2000-02-29T00:00:00.000000"),
    ],
)
def test_a_date_on_the_edge(at_ms, expected):
    assert DATES.any(at_ms) == expected


def test_the_dates_of_long_ago_are_not_kept():
    dates = Dates()
    for at_ms in range(0, 10_000_000, 1_000):
        dates.any(at_ms)
    assert not dates.recent


def test_no_more_dates_are_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr("openintent.server.dates.RECENT_KEPT_MAX", 10)
    dates = Dates()
    for at_ms in range(100):
        assert dates.recent[at_ms] == dates.any(at_ms)
        assert len(dates.recent) <= 10
