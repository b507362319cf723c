"""How a run is shown: one picture that changes, for a terminal; elsewhere a line, or a JSON object, for each change."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec.structs import replace

from openintent.cli import show
from openintent.cli.report import printable
from openintent.cli.show import Cell, Column

if TYPE_CHECKING:
    from rich.table import Table

    from openintent.workflows.progress import Progress, StepProgress

Show = Callable[["Progress"], None]

STYLES: Final[Mapping[str, str]] = {
    "waiting": "dim",
    "open": "",
    "running": "bold cyan",
    "done": "green",
    "skipped": "dim",
    "failed": "bold red",
    "parked": "yellow",
    "blocked": "red",
    "completed": "bold green",
}
COLUMNS: Final = [
    Column("STEP", style="bold", whole=True),
    Column("STATUS", whole=True),
    Column("ATTEMPT", justify="right"),
    Column("AGENT"),
    Column("TIME", justify="right", whole=True),
    Column("WHY"),
]


@contextmanager
def showing(*, as_json: bool, caption: Callable[[], str]) -> Iterator[Show]:
    """A way to show a run again and again, for as long as the block lasts."""
    if show.is_terminal() and not as_json and os.environ.get("TERM") != "dumb":
        from rich.console import Console  # noqa: PLC0415  # only who looks pays for it
        from rich.live import Live  # noqa: PLC0415

        with Live(console=Console(highlight=False), auto_refresh=False) as live:
            yield lambda progress: live.update(picture(progress, caption()), refresh=True)
    else:
        yield Teller(as_json=as_json).tell


def print_once(progress: "Progress", *, as_json: bool) -> None:
    if as_json:
        show.print_json(msgspec.to_builtins(progress))
    elif show.is_terminal():
        from rich.console import Console  # noqa: PLC0415  # as above

        Console(highlight=False).print(picture(progress, ""))
    else:
        click.echo(show.plain_table(COLUMNS, [_row(step, step.name) for step in progress.steps]))
        click.echo(printable(_headline(progress)))


# A picture


def picture(progress: "Progress", caption: str) -> "Table":
    from rich.markup import escape  # noqa: PLC0415

    rows = [_row(step, f"{_branch(level)}{step.name}") for level, step in in_tree(progress.steps)]
    said = "\n".join(line for line in (_headline(progress), caption) if line)
    return show.rich_table(COLUMNS, rows, caption=escape(printable(said).replace("\\n", "\n")))


def in_tree(steps: Sequence["StepProgress"]) -> list[tuple[int, "StepProgress"]]:
    """Each step below the one that it waits longest for, and how far below."""
    below: dict[str | None, list[StepProgress]] = {}
    for step in steps:
        below.setdefault(step.after, []).append(step)
    found: list[tuple[int, StepProgress]] = []
    left = [(0, step) for step in reversed(below.get(None, []))]
    while left:
        level, step = left.pop()
        found.append((level, step))
        left += [(level + 1, each) for each in reversed(below.get(step.name, []))]
    return found


def _branch(level: int) -> str:
    # The real one: while a table is live, `sys.stdout` is a stand-in that does not know its encoding.
    lines = "utf" in (getattr(sys.__stdout__, "encoding", "") or "").lower()
    return "" if level == 0 else "  " * (level - 1) + ("└ " if lines else "- ")


def _row(step: "StepProgress", name: str) -> list[Cell | str]:
    return [
        name,
        Cell(step.status, STYLES[step.status]),
        _attempt(step),
        step.holder or step.agent,
        "" if step.elapsed_seconds is None else show.seconds(step.elapsed_seconds),
        _why(step),
    ]


def _attempt(step: "StepProgress") -> str:
    if step.attempt == 0:
        return ""
    return str(step.attempt) if step.attempts_max is None else f"{step.attempt}/{step.attempts_max}"


def _why(step: "StepProgress") -> str:
    if step.status == "running" and step.why:
        return f"before: {step.why}"
    again = f"again after {step.retry_in_seconds:g} s" if step.retry_in_seconds else ""
    return ": ".join(part for part in (again, step.why) if part)


def _headline(progress: "Progress") -> str:
    ended = sum(step.status in ("done", "skipped") for step in progress.steps)
    why = f": {progress.why}" if progress.why else ""
    return f"{progress.name}: {progress.status}, {ended} of {len(progress.steps)} steps, run {progress.run_id}{why}"


# Lines


class Teller:
    """Tells each step when something about it has changed; that time passes is no change."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._told: dict[str, StepProgress] = {}

    def tell(self, progress: "Progress") -> None:
        for step in progress.steps:
            timeless = replace(step, elapsed_seconds=None)
            if self._told.get(step.name, None if step.status != "waiting" else timeless) != timeless:
                self._print(progress, step)
            self._told[step.name] = timeless

    def _print(self, progress: "Progress", step: "StepProgress") -> None:
        if self._as_json:
            show.print_json({"run_id": progress.run_id, "step": msgspec.to_builtins(step)})
            return
        _, _, attempt, agent, _, why = _row(step, step.name)
        about = [f"attempt {attempt}" if attempt else "", str(agent) if step.attempt else "", str(why)]
        told = ", ".join(part for part in about if part)
        click.echo(printable(f"{step.name:<24} {step.status:<8} {told}".rstrip()))


def print_end(progress: "Progress", *, as_json: bool) -> None:
    """The last that is said of a run: how it ended."""
    if as_json:
        told: dict[str, Any] = msgspec.to_builtins(progress)
        show.print_json({"outcome": progress.status, **told})
    elif not show.is_terminal():
        click.echo(printable(_headline(progress)))
