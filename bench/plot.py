"""Plots as SVG, drawn by hand: lines over sizes, and bars. They read on a light and on a dark page."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import stats

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 90
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#64748b")
TEXT, GRID = "#6b7280", "#9ca3af55"
TICKS_MAX = 6

Points = Sequence[tuple[float, float]]


class Scale:
    """From values to places on the page."""

    def __init__(self, values: Sequence[float], span: tuple[float, float], *, log: bool) -> None:
        positive = [value for value in values if value > 0]
        self.log = log and bool(positive)
        least, most = (min(positive), max(positive)) if self.log else (min(0.0, *values), max(values))
        self.low, self.high = self._seen(least), self._seen(most)
        if self.high == self.low:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.span = span

    def _seen(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def place(self, value: float) -> float:
        """A value that has no logarithm stands at the lower edge."""
        seen = self.low if self.log and value <= 0 else self._seen(value)
        start, end = self.span
        return start + (seen - self.low) / (self.high - self.low) * (end - start)

    def ticks(self) -> list[float]:
        if self.log:
            return [10.0**power for power in range(math.floor(self.low), math.ceil(self.high) + 1)]
        step = 10 ** math.floor(math.log10(max(self.high - self.low, 1e-9)))
        while (self.high - self.low) / step < TICKS_MAX / 2:
            step /= 2
        return [step * number for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    def within(self, value: float) -> bool:
        return self.low - 1e-9 <= self._seen(value) <= self.high + 1e-9


def lines(
    title: str, series: Mapping[str, Points], *, x_label: str, y_label: str, log_x: bool = True, log_y: bool = False
) -> str:
    """Each series is a line with a dot for each point."""
    points = [point for each in series.values() for point in each]
    if not points:
        raise ValueError("nothing to draw")
    across = Scale([x for x, _ in points], (LEFT, WIDTH - RIGHT), log=log_x)
    up = Scale([y for _, y in points], (HEIGHT - BOTTOM, TOP), log=log_y)
    parts = [_title(title), *_y_axis(up, y_label), *_x_axis(across, sorted({x for x, _ in points}), x_label)]
    for number, (name, each) in enumerate(series.items()):
        parts += _line([(across.place(x), up.place(y)) for x, y in each], number)
        parts += _legend(name, number)
    return _page(parts)


def bars(title: str, values: Mapping[str, float], *, y_label: str) -> str:
    """A bar for each value; its name may have several lines."""
    if not values:
        raise ValueError("nothing to draw")
    up = Scale([0.0, *values.values()], (HEIGHT - BOTTOM, TOP), log=False)
    room = (WIDTH - LEFT - RIGHT) / len(values)
    parts = [_title(title), *_y_axis(up, y_label)]
    for number, (name, value) in enumerate(values.items()):
        x, y = LEFT + room * (number + 0.15), up.place(value)
        colour, height = COLOURS[number % len(COLOURS)], HEIGHT - BOTTOM - y
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{room * 0.7:.1f}" height="{height:.1f}" fill="{colour}"/>')
        parts.append(_text(x + room * 0.35, y - 5, stats.amount(value), anchor="middle"))
        for line, words in enumerate(name.split("\n")):
            parts.append(_text(x + room * 0.35, HEIGHT - BOTTOM + 16 + 15 * line, words, anchor="middle"))
    return _page(parts)


def _page(parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{TEXT}">{escape(text)}</text>'
    )


def _title(title: str) -> str:
    return _text(LEFT, 18, title, size=14)


def _y_axis(up: Scale, label: str) -> list[str]:
    parts = [_text(LEFT, TOP - 8, label)]
    for value in filter(up.within, up.ticks()):
        y = up.place(value)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_text(LEFT - 8, y + 4, stats.short(value), anchor="end"))
    return parts


def _x_axis(across: Scale, values: Sequence[float], label: str) -> list[str]:
    base = HEIGHT - BOTTOM
    found = [_text(across.place(value), base + 16, stats.short(value), anchor="middle") for value in values]
    return [*found, _text((LEFT + WIDTH - RIGHT) / 2, base + 34, label, anchor="middle")]


def _line(places: Points, number: int) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _legend(name: str, number: int) -> list[str]:
    x, y = LEFT + number % 3 * 190, HEIGHT - 36 + number // 3 * 18
    colour = COLOURS[number % len(COLOURS)]
    return [f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>', _text(x + 16, y, name)]
