"""docs/proof.md: what was counted, in tables. What was not counted anew stays as it was."""

import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from outcome import Outcome

LIMITS = Path(__file__).with_name("limits.md")
COLUMNS = ("part", "", "tests", "time", "seen")
Figure = dict[str, Any]


class Told(NamedTuple):
    """A part, as the page has it."""

    row: Sequence[str]  # of the first table
    section: Sequence[str]


def written(parts: Sequence[str], outcomes: Sequence[Outcome], before: str) -> str:
    """The page, with these outcomes, and what it had of the other parts before."""
    known = {**_read(before), **{outcome.name: _told(outcome) for outcome in outcomes}}
    shown = [known[name] for name in parts if name in known]
    lines = [
        "# Proof",
        "",
        "Made by `make proof`: what the tests did, and what they counted. Every line can be had again with the",
        "command of its part, in the project's folder with `.venv/bin` on the path; without the sizes in front it is",
        "the short run that `make test` does; `LONG=1` makes them the full ones.",
        "",
        *_table(COLUMNS, [told.row for told in shown]),
        "",
        *(line for told in shown for line in told.section),
        LIMITS.read_text(encoding="utf-8").rstrip(),
        "",
    ]
    return "\n".join(lines)


def _told(outcome: Outcome) -> Told:
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    machine = f"{os.cpu_count()} cores, {system}, Python {platform.python_version()}"
    seen = f"{datetime.now(UTC):%Y-%m-%d}, {machine}"
    holds = "holds" if outcome.holds else "**fails**"
    return Told((outcome.name, holds, outcome.summary, f"{outcome.seconds:.0f} s", seen), list(_section(outcome)))


def _read(page: str) -> Mapping[str, Told]:
    """The parts of a page that was written before."""
    head, *sections = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    rows = [line.strip("| ").split(" | ") for line in head.splitlines() if line.startswith("| ")]
    found = {_title(section): section.rstrip("\n").splitlines() for section in sections}
    return {row[0]: Told(row, [*found[row[0]], ""]) for row in rows if row[0] in found}


def _title(section: str) -> str:
    title = section.partition("\n")[0].removeprefix("## ")
    return title[0].lower() + title[1:]


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
