"""New ids of leases."""

from collections.abc import Callable
from typing import Final

TIME_DIGITS: Final = 10
CHANCE_DIGITS: Final = 14
DRAWN_AT_ONCE: Final = 256  # to write many digits takes hardly longer than to write a few


class Ids:
    """Unique, and larger than those of earlier: an engine that orders by key then writes side by side, not all over."""

    __slots__ = ("_at_ms", "_drawn", "_random_bits", "_time")

    def __init__(self, random_bits: Callable[[int], int]) -> None:
        self._random_bits = random_bits
        self._at_ms, self._time = -1, ""
        self._drawn: list[str] = []

    def new(self, now_ms: int) -> str:
        if now_ms != self._at_ms:
            self._at_ms, self._time = now_ms, f"{now_ms:0{TIME_DIGITS}x}"
        if not self._drawn:
            self._draw()
        return self._time + self._drawn.pop()

    def _draw(self) -> None:
        digits = CHANCE_DIGITS * DRAWN_AT_ONCE
        text = f"{self._random_bits(4 * digits):0{digits}x}"
        self._drawn = [text[at : at + CHANCE_DIGITS] for at in range(0, digits, CHANCE_DIGITS)]
