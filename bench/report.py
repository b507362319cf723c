"""docs/benchmarks.md and its plots, made from the results and nothing else."""

from pathlib import Path

import peers
import plot
import stats
import wanted
from results import Outcome, Results, Row
from suite import Column, Workload
from workloads import ALL

FOLDER = "benchmarks"
SPREAD_SHOWN = 0.3  # rounds that differ by more than this share are said to
INTRODUCTION = """\
# Benchmarks

Made by `make bench`; do not edit. Every server is a single one on loopback that writes to disk before it answers, and
the load runs on the same machine. The servers of a table are measured in turns (A B A B), each while the others are
idle: absolute numbers move with the machine, so read the ratios. Figures are medians of the rounds; a rate is marked
with ± where rounds differ by more than 30 %. *Ours is* sets ours against that server: for rates more is better, for
times and bytes less.
"""


def write(results: Results, folder: Path) -> Path:
    """The report and its plots, below this folder."""
    plots = folder / FOLDER
    plots.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings(results).items():
        (plots / f"{name}.svg").write_text(drawing, encoding="utf-8")
    page = folder / "benchmarks.md"
    page.write_text(text(results), encoding="utf-8")
    return page


def text(results: Results) -> str:
    parts = [INTRODUCTION, _shown(results), _machine(results), _servers(results)]
    parts += [_section(workload, results) for workload in ALL.values()]
    return "\n".join(parts)


# The list


def _shown(results: Results) -> str:
    lines = ["## In short\n", "| what | wanted | seen | |", "|---|---|---|---|"]
    for promise in wanted.ALL:
        seen = promise.look(results)
        verdict = ("not measured", "") if seen is None else (seen.text, "yes" if seen.holds else "**no**")
        lines.append(f"| {promise.what} | {promise.wanted} | {verdict[0]} | {verdict[1]} |")
    return "\n".join([*lines, ""])


def _machine(results: Results) -> str:
    lines = ["## The machine\n", "| | |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in results.machine.items()), ""])


def _servers(results: Results) -> str:
    lines = ["## The servers\n", "| server | version | settings |", "|---|---|---|"]
    lines += [f"| {each['title']} | {each['version']} | {each['settings']} |" for each in results.peers.values()]
    return "\n".join([*lines, ""])


# A workload


def _section(workload: Workload, results: Results) -> str:
    outcome = results.outcomes.get(workload.name)
    head = [f"## {workload.title}\n", f"{workload.about}\n"]
    if outcome is None:
        return "\n".join([*head, f'Not measured yet: `make bench ARGS="--only {workload.name}"`.\n'])
    lines = [*head, f"{_measured(workload, outcome)} Again: `{outcome.command}`\n", *_table(workload, outcome), ""]
    lines += [f"![{workload.title}]({FOLDER}/{name}.svg)\n" for name in plots_of(workload, outcome)]
    return "\n".join(lines + [f"- {note}" for note in outcome.notes] + [""] * bool(outcome.notes))


def _measured(workload: Workload, outcome: Outcome) -> str:
    how = workload.window or f"{outcome.rounds} times {outcome.seconds:g} s for each row"
    where = f" on {outcome.processor}" if outcome.processor else ""
    what = f"Measured on {outcome.measured_on}{where} with Python {outcome.python}"
    return f"{what}: {how}, {outcome.took_s:,.0f} s in all."


def _table(workload: Workload, outcome: Outcome) -> list[str]:
    shown = [column for column in workload.columns if any(row.has(column.figure) for row in outcome.rows)]
    several = len({row.peer for row in outcome.rows}) > 1
    headings = ["", *(["server"] * several), *(column.heading for column in shown)]
    compared = several and workload.compared
    lines = ["| " + " | ".join([*headings, *(["ours is"] if compared else [])]) + " |"]
    lines.append("|" + "---|" * (1 + several) + "---:|" * (len(shown) + bool(compared)))
    for row in outcome.rows:
        cells = [row.size, *([title(row.peer)] * several), *(_cell(row, column) for column in shown)]
        lines.append("| " + " | ".join([*cells, *([_ratio(workload, outcome, row)] if compared else [])]) + " |")
    return lines


def title(peer: str) -> str:
    return peers.ALL[peer].title


def _cell(row: Row, column: Column) -> str:
    if not row.has(column.figure):
        return "-"
    if column.worst:
        return stats.amount(row.worst(column.figure))
    spread = row.spread(column.figure)
    mark = f" ±{spread / 2:.0%}" if column.figure.endswith("per_s") and spread > SPREAD_SHOWN else ""
    return stats.amount(row.median(column.figure)) + mark


def _ratio(workload: Workload, outcome: Outcome, row: Row) -> str:
    ours = outcome.find("ours", row.size)
    if row.peer == "ours" or ours is None or not (ours.has(workload.compared) and row.has(workload.compared)):
        return ""
    return stats.times(stats.ratio(ours.median(workload.compared), row.median(workload.compared)))


# Plots


def drawings(results: Results) -> dict[str, str]:
    found = {}
    for name, outcome in results.outcomes.items():
        workload = ALL[name]
        for plotted in plots_of(workload, outcome):
            if name == "growth":
                found[plotted] = _growth(outcome, plotted)
            else:
                found[plotted] = _bars(workload, outcome) if workload.bars else _by_size(workload, outcome)
    return found


def plots_of(workload: Workload, outcome: Outcome) -> list[str]:
    """The names of its plots."""
    if workload.name == "growth":
        return [name for name, unit in GROWTH.items() if any(row.size.endswith(unit) for row in outcome.rows)]
    drawn = any(row.has(figure) for row in outcome.rows for figure in (workload.plotted, *workload.bars))
    return [workload.name] if drawn else []


GROWTH = {"growth-held": "held", "growth-events": "events"}


def _growth(outcome: Outcome, name: str) -> str:
    unit = GROWTH[name]
    series = {
        operation: [(max(row.at, 1.0), row.median("per_s")) for row in wanted.series(outcome, operation, unit)]
        for operation in ("renew", "cycle")
    }
    about = {"held": "leases held", "events": "events behind"}[unit]
    return plot.lines(f"Rates as there are more {about}", series, x_label=about, y_label="per second")


def _bars(workload: Workload, outcome: Outcome) -> str:
    headings = {column.figure: column.heading for column in workload.columns}
    several = len({row.peer for row in outcome.rows}) > 1
    values = {
        "\n".join([*row.size.split(", "), headings[figure], *([row.peer] * several)]): row.worst(figure)
        for row in outcome.rows
        for figure in workload.bars
        if row.has(figure)
    }
    return plot.bars(workload.title, values, y_label=workload.unit)


def _by_size(workload: Workload, outcome: Outcome) -> str:
    figure = workload.plotted
    heading = next(column.heading for column in workload.columns if column.figure == figure)
    series = {
        title(peer): sorted((row.at, row.median(figure)) for row in outcome.of(peer) if row.has(figure))
        for peer in dict.fromkeys(row.peer for row in outcome.rows)
    }
    label = outcome.rows[-1].size.split(maxsplit=1)[1]
    return plot.lines(workload.title, series, x_label=label, y_label=heading, log_y=workload.log_y)
