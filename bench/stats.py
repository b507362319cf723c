"""The arithmetic of measuring: what is typical, how far rounds differ, and how two servers compare."""

import statistics
from collections.abc import Sequence

SI = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> float:
    """How far the rounds are apart, as a share of the median; 0 for a single one."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not exceeded by that share of all."""
    if not 0 <= share <= 1:
        raise ValueError(f"a share is from 0 to 1, not {share}")
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def ratio(ours: float, theirs: float) -> float | None:
    """How many times theirs ours is; None where there is nothing to divide by."""
    return ours / theirs if theirs else None


def times(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}x" if value >= 100 else f"{value:.1f}x" if value >= 10 else f"{value:.2f}x"


def amount(value: float) -> str:
    """A number for a table: as many digits as mean something."""
    size = abs(value)
    if size >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.095 else f"{value:.3f}"


def short(value: float) -> str:
    """A number for an axis."""
    for size, letter in SI:
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
