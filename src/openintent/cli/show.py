"""How things are shown: tables for people, plain columns for what reads a pipe, JSON for programs.

Whatever others wrote (scopes, names, purposes) is shown letter by letter: no markup in it is obeyed, and no control
character reaches the terminal.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from openintent.cli.report import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column as RichColumn
    from rich.table import Table
    from rich.text import Text

BAR_CELLS: Final = 10
GAP_CELLS: Final = 3  # between two columns, as rich draws them
CELLS_MAX: Final = 10_000  # wider than any terminal
# Below these shares of its ttl a lease that is kept alive should not be: it is renewed at two thirds.
LOW_SHARE: Final = 1 / 3
SOON_SHARE: Final = 0.6

STATUS_STYLES: Final[Mapping[str, str]] = {
    "active": "green",
    "released": "dim",
    "expired": "yellow",
    "revoked": "red",
    "blocked": "yellow",
    "completed": "dim",
    "abandoned": "dim",
    "draining": "yellow",
    "unhealthy": "yellow",
    "dead": "red",
    "deregistered": "dim",
}


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    justify: Literal["left", "right"] = "left"
    style: str = ""
    whole: bool = False  # never broken into lines: it is to be copied, or is a picture


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, with a style of its own; `share` draws a bar before it, where bars can be drawn."""

    text: str
    style: str = ""
    share: float | None = None


Row = Sequence[Cell | str]


def print_json(value: Any) -> None:
    """One line for each answer: what reads it can tell one from the next."""
    click.echo(json.dumps(value, ensure_ascii=False))


def is_terminal() -> bool:
    return sys.stdout.isatty()


def print_table(columns: Sequence[Column], rows: Sequence[Row], *, empty: str) -> None:
    if not rows:
        # Nothing is an answer that a pipe should see as nothing.
        click.echo(empty, err=not is_terminal())
    elif not is_terminal() or not _printed(rich_table(columns, rows)):
        click.echo(plain_table(columns, rows))


def _printed(table: "Table") -> bool:
    """False if the terminal is too narrow: columns would be broken in the middle of words, or left out."""
    from rich.console import Console  # noqa: PLC0415  # only who looks pays for it

    console = Console(highlight=False)
    if _unbroken_cells(console, table) > console.width:
        return False
    console.print(table)
    return True


def _unbroken_cells(console: "Console", table: "Table") -> int:
    """How wide it is at least if no word of it is broken."""
    from rich.measure import Measurement  # noqa: PLC0415

    anywhere = console.options.update(width=CELLS_MAX)

    def needed(column: "RichColumn") -> int:
        cells = [Measurement.get(console, anywhere, cell) for cell in (column.header, *column.cells)]
        return max(cell.maximum if column.no_wrap else cell.minimum for cell in cells)

    return sum(map(needed, table.columns)) + GAP_CELLS * (len(table.columns) - 1)


def plain_table(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """Columns at fixed places, nothing cut off."""
    lines = [[column.title for column in columns], *([_plain(cell) for cell in row] for row in rows)]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    return "\n".join(_line(columns, widths, line) for line in lines)


def _line(columns: Sequence[Column], widths: Sequence[int], texts: Sequence[str]) -> str:
    fields = zip(columns, widths, texts, strict=True)
    aligned = [text.rjust(width) if column.justify == "right" else text.ljust(width) for column, width, text in fields]
    return "  ".join(aligned).rstrip()


def _plain(cell: Cell | str) -> str:
    # An empty field would move all that follow it, for who splits at blanks.
    return printable(cell.text if isinstance(cell, Cell) else cell) or "-"


def rich_table(columns: Sequence[Column], rows: Iterable[Row], *, caption: str | None = None) -> "Table":
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        header_style="bold",
        caption=caption,
        caption_justify="left",
    )
    for column in columns:
        table.add_column(
            column.title, justify=column.justify, style=column.style, overflow="fold", no_wrap=column.whole
        )
    for row in rows:
        table.add_row(*(_rich(cell) for cell in row))
    return table


def _rich(cell: Cell | str) -> "Text":
    from rich.text import Text  # noqa: PLC0415

    if isinstance(cell, str):
        return Text(printable(cell))
    if cell.share is None:
        return Text(printable(cell.text), style=cell.style)
    return Text.assemble(*_bar(cell.share, cell.style), (f" {cell.text:>8}", cell.style))


def _bar(share: float, style: str) -> list[tuple[str, str]]:
    full = round(max(0.0, min(share, 1.0)) * BAR_CELLS)
    # Two letters, not two colours of one: a terminal may have none.
    spent, rest = ("━", "─") if _has_lines() else ("=", "-")
    return [(spent * full, style), (rest * (BAR_CELLS - full), "bright_black")]


def _has_lines() -> bool:
    # The real one: while a table is live, `sys.stdout` is a stand-in that does not know its encoding.
    return "utf" in getattr(sys.__stdout__, "encoding", "").lower()


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """One thing, a line for each of its fields; what it does not have is left out."""
    shown = [(name, value) for name, value in fields if value]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {printable(value)}")


# Words


def left(lease: Mapping[str, Any]) -> Cell:
    """How long a lease lives unless it is renewed."""
    if lease["status"] != "active":
        return Cell("")
    remaining_s, ttl_s = lease["remaining_seconds"], lease["ttl_seconds"]
    share = remaining_s / ttl_s if ttl_s else 0.0
    style = "red" if share < LOW_SHARE else "yellow" if share < SOON_SHARE else "green"
    return Cell(seconds(remaining_s), style, share)


def status(word: str) -> Cell:
    return Cell(word, STATUS_STYLES.get(word, ""))


def seconds(value: float) -> str:
    if value < 100:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m" if hours else f"{minutes} m {rest:02d} s"


def date(text: str | None) -> str:
    """The server's dates are UTC without saying so; people read their own clocks."""
    if not text:
        return ""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def compact(value: Any) -> str:
    return "" if value in (None, {}, []) else json.dumps(value, ensure_ascii=False)
