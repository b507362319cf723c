"""docs/proof.md: what was counted, in tables."""

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from outcome import Outcome

LIMITS = Path(__file__).with_name("limits.md")
Figure = dict[str, Any]


def written(outcomes: Sequence[Outcome]) -> str:
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    machine = f"{os.cpu_count()} cores, {system}, Python {platform.python_version()}"
    lines = [
        "# Proof",
        "",
        "Made by `make proof`: what the tests did, and what they counted. Every line can be had again with the",
        "command of its part, in the project's folder with `.venv/bin` on the path; without the sizes in front it is",
        f"the short run that `make test` does; `LONG=1` makes them the full ones. Seen on {machine}.",
        "",
        *_parts(outcomes),
        *(line for outcome in outcomes for line in _section(outcome)),
        LIMITS.read_text(encoding="utf-8").rstrip(),
        "",
    ]
    return "\n".join(lines)


def _parts(outcomes: Sequence[Outcome]) -> list[str]:
    rows = [
        (outcome.name, "holds" if outcome.holds else "**fails**", outcome.summary, f"{outcome.seconds:.0f} s")
        for outcome in outcomes
    ]
    return [*_table(("part", "", "tests", "time"), rows), ""]


def _section(outcome: Outcome) -> Iterator[str]:
    yield from (f"## {outcome.name[0].upper()}{outcome.name[1:]}", "", "```", outcome.command, "```", "")
    kinds: dict[str, list[Figure]] = {}
    for figure in outcome.figures:
        kinds.setdefault(figure["what"], []).append(figure["counted"])
    alone = [(what, _said(rows[0])) for what, rows in kinds.items() if len(rows) == 1]
    if alone:
        yield from (*_table(("what", "seen"), alone), "")
    for what, rows in kinds.items():
        if len(rows) > 1:
            yield from (f"{what[0].upper()}{what[1:]}:", "", *_many(rows), "")


def _many(rows: Sequence[Figure]) -> list[str]:
    """Many of one kind: a column for each thing that was counted."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return _table([_words(name) for name in columns], [[_value(row.get(name, "")) for name in columns] for row in rows])


def _said(counted: Figure) -> str:
    return ", ".join(f"{_words(name)} {_value(value)}" for name, value in counted.items())


def _words(name: str) -> str:
    return name.replace("_", " ")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"  # three digits are enough
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (heads, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|---" * len(heads) + "|", *lines[1:]]
