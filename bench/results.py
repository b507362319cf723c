"""What a run came to: rows of figures, one value for each round, kept as JSON so that reports can be made anew."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import stats

Figures = dict[str, float]


@dataclass
class Row:
    """One server at one size."""

    peer: str
    size: str  # for people: "256 connections"
    at: float = 0.0  # the same as a number, for plots
    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, figures: Figures) -> None:
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)

    def has(self, name: str) -> bool:
        return bool(self.figures.get(name))

    def median(self, name: str) -> float:
        return stats.median(self.figures[name])

    def spread(self, name: str) -> float:
        return stats.spread(self.figures[name])

    def worst(self, name: str) -> float:
        return max(self.figures[name])


@dataclass
class Outcome:
    """One workload, as it was measured last."""

    name: str
    measured_on: str
    rounds: int
    seconds: float
    took_s: float
    command: str
    python: str  # ours, and that of the others that are written in it
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    processor: str = ""  # of the machine that it was measured on, which need not be the one of the others

    def find(self, peer: str, size: str | None = None) -> Row | None:
        return next((row for row in self.rows if row.peer == peer and size in (None, row.size)), None)

    def of(self, peer: str) -> list[Row]:
        return [row for row in self.rows if row.peer == peer]


@dataclass
class Results:
    """Everything that the report is made of. Workloads that were not run again stay as they were."""

    machine: dict[str, str] = field(default_factory=dict)
    peers: dict[str, dict[str, str]] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Results:
    """What was kept; nothing if nothing was."""
    if not path.exists():
        return Results()
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    outcomes = {
        name: Outcome(**(each | {"rows": [Row(**row) for row in each["rows"]]}))
        for name, each in kept["outcomes"].items()
    }
    return Results(kept["machine"], kept["peers"], outcomes)
