"""How long something took, each time, as a few numbers that can be added up over servers and over time."""

from bisect import bisect_left
from typing import Final

# Of a disk that answers at once up to an engine that is about to be given up on.
BOUNDS_S: Final = (0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Durations:
    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)  # by the bound below which it was; the last: above all
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds
