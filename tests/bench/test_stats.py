"""The arithmetic behind the tables."""

import pytest
import stats


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [
        ([5], 0.99, 5),
        ([3, 1, 2], 0.0, 1),
        ([3, 1, 2], 0.5, 2),
        ([3, 1, 2], 1.0, 3),
        (range(1, 101), 0.5, 51),
        (range(1, 101), 0.99, 100),
    ],
)
def test_a_percentile_is_one_of_the_values(values, share, found):
    assert stats.percentile(list(values), share) == found


@pytest.mark.parametrize("share", [-0.1, 1.1, 50])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="a share is from 0 to 1"):
        stats.percentile([1, 2], share)


def test_the_spread_is_a_share_of_the_median():
    assert stats.spread([90, 100, 120]) == pytest.approx(0.3)
    assert stats.spread([7]) == 0
    assert stats.spread([0, 0]) == 0


def test_a_ratio_to_nothing_is_none():
    assert stats.ratio(10, 4) == 2.5
    assert stats.ratio(10, 0) is None


@pytest.mark.parametrize(("value", "shown"), [(0.456, "0.46x"), (12.34, "12.3x"), (1234.5, "1,234x"), (None, "-")])
def test_ratios_have_three_digits(value, shown):
    assert stats.times(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.0123, "0.012"), (0.1, "0.10"), (9.876, "9.88"), (98.76, "98.8"), (12345.6, "12,346")],
)
def test_amounts_have_the_digits_that_mean_something(value, shown):
    assert stats.amount(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(1, "1"), (256, "256"), (10_000, "10k"), (1_500_000, "1.5M"), (2e9, "2G")]
)
def test_axes_are_short(value, shown):
    assert stats.short(value) == shown
