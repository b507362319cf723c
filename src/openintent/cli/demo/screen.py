"""How the demo looks: one picture that changes, for a terminal; a line for each thing that happens, elsewhere."""

import os
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from openintent.cli import show
from openintent.cli.demo.cast import AGENTS
from openintent.cli.demo.child import SCOPES
from openintent.cli.demo.scene import Accident, Line, Scene
from openintent.cli.show import Cell, Column
from openintent.client.lease import Lease
from openintent.client.values import Waiter

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

LINES_SHOWN: Final = 10
WIDTH_MAX: Final = 100
TIME_CELLS: Final = 20

# One for each agent, wherever it is named. Red is for what goes wrong.
COLOURS: Final[Mapping[str, str]] = dict(
    zip(AGENTS, ("cyan", "magenta", "yellow", "blue", "bright_green", "bright_cyan"), strict=True)
)
MOODS: Final[Mapping[str, str]] = {"good": "bold green", "bad": "bold red", "plain": ""}
STATES: Final[Mapping[str, str]] = {"works": "", "waits": "dim", "killed": "bold red", "hangs": "bold red"}

COLUMNS: Final = [
    Column("SCOPE", style="bold"),
    Column("HOLDER"),
    Column("TOKEN", justify="right"),
    Column("TIME LEFT", whole=True),
    Column("WAITING, IN ORDER"),
]


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is to be seen at one moment."""

    passed_s: float
    seconds: float
    leases: Sequence[Lease]
    waiters: Sequence[Waiter]
    states: Mapping[str, str]
    lines: Sequence[Line]
    caption: str


@contextmanager
def showing(*, as_json: bool) -> Iterator[Callable[[Picture], None]]:
    """A way to show pictures, for as long as the block lasts."""
    if as_json:
        yield lambda _: None
    elif show.is_terminal() and os.environ.get("TERM") != "dumb":
        with _live() as live:
            yield lambda picture: live.update(draw(picture), refresh=True)
    else:
        yield _Teller().tell


def _live() -> "Live":
    from rich.console import Console  # noqa: PLC0415  # only who looks pays for it
    from rich.live import Live  # noqa: PLC0415

    width = min(shutil.get_terminal_size().columns, WIDTH_MAX)
    return Live(console=Console(highlight=False, width=width), auto_refresh=False)


class _Teller:
    """Prints each line of the story once, and each caption when it changes."""

    def __init__(self) -> None:
        self._lines = 0
        self._caption = ""

    def tell(self, picture: Picture) -> None:
        for line in picture.lines[self._lines :]:
            click.echo(f"{line.at_s:6.2f} s  {line.text}")
        self._lines = len(picture.lines)
        if picture.caption != self._caption:
            self._caption = picture.caption
            indent = " " * len("  0.00 s  ")
            click.echo(textwrap.fill(picture.caption, WIDTH_MAX, initial_indent=indent, subsequent_indent=indent))


# The picture


def draw(picture: Picture) -> "Group":
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    blank = Text("")
    table = show.rich_table(COLUMNS, [_row(scope, picture) for scope in SCOPES])
    table.expand = True
    story = [_story_line(line) for line in picture.lines[-LINES_SHOWN:]]
    # The story keeps its height, so that nothing jumps.
    story += [blank] * (LINES_SHOWN - len(story))
    caption = Text(picture.caption, style="italic")
    return Group(_title(picture), blank, table, blank, _agents(picture), blank, *story, blank, caption)


def _title(picture: Picture) -> "Table":
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    passed_s = min(picture.passed_s, picture.seconds)
    line = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=picture.seconds, completed=passed_s, width=TIME_CELLS)
    line.add_row(Text("openintent demo", style="bold"), bar, f"{passed_s:.1f} of {picture.seconds:.0f} s")
    return line


def _row(scope: str, picture: Picture) -> list[Cell | str]:
    lease = next((lease for lease in picture.leases if lease.scope == scope), None)
    waiting = [waiter.agent_id for waiter in picture.waiters if waiter.scope == scope]
    in_line = Cell(", ".join(waiting), "dim")
    if lease is None:
        return [scope, Cell("nobody", "dim"), "", "", in_line]
    state = picture.states.get(lease.agent_id, "works")
    style = STATES[state] or COLOURS.get(lease.agent_id, "")
    holder = lease.agent_id if state == "works" else f"{lease.agent_id} ({state})"
    left = show.left({"status": "active", "remaining_seconds": lease.remaining, "ttl_seconds": lease.ttl_seconds})
    return [scope, Cell(holder, style), str(lease.token), left, in_line]


def _agents(picture: Picture) -> "Text":
    from rich.text import Text  # noqa: PLC0415

    parts: list[tuple[str, str] | str] = [("agents  ", "bold")]
    for name in AGENTS:
        state = picture.states[name]
        parts += [(name, STATES[state] or COLOURS[name]), (f" {state}   ", STATES[state] or "dim")]
    return Text.assemble(*parts)


def _story_line(line: Line) -> "Text":
    from rich.text import Text  # noqa: PLC0415

    text = Text(line.text, style=MOODS[line.mood])
    if line.mood == "plain":
        text.highlight_words(["token"], "dim")
        for name, colour in COLOURS.items():
            text.highlight_words([name], colour)
    return Text.assemble((f"{line.at_s:6.2f} s  ", "dim"), text, no_wrap=True, overflow="ellipsis")


# The sum at the end


def told(scene: Scene, *, seconds: float) -> dict[str, Any]:
    """For programs."""
    accidents: dict[str, Any] = {accident.kind: _told(accident) for accident in scene.accidents}
    return {
        "ok": not scene.broken,
        "broken": scene.broken,
        "seconds": round(seconds, 1),
        "agents": len(AGENTS),
        "scopes": len(SCOPES),
        "grants": scene.grants,
        "hand_overs": scene.hand_overs,
        "lapsed": scene.lapsed,
        "tokens": [scene.token_first, scene.token],
        **accidents,
    }


def _told(accident: Accident) -> dict[str, Any]:
    successor = accident.successor
    return {
        "agent": accident.holder,
        "scope": accident.scope,
        "token": accident.token,
        "successor": successor and successor.holder,
        "successor_token": successor and successor.token,
        "after_seconds": accident.after_s,
        "after_ttl_ms": accident.after_ttl_ms,
        "stale_write_refused": accident.refused,
    }


def print_sum(scene: Scene, *, seconds: float) -> None:
    click.echo()
    click.echo(click.style(f"What happened in {seconds:.0f} s", bold=True))
    show.print_fields(_fields(scene))
    click.echo()
    click.echo("Your turn:")
    click.echo("  openintent serve                    a server that stays")
    click.echo("  openintent hold build -- make       run a command under a lease")
    click.echo("  openintent leases watch             who holds what, live")


def _fields(scene: Scene) -> Iterator[tuple[str, str]]:
    given_back = scene.hand_overs - scene.lapsed
    yield "grants", f"{scene.grants}, with tokens {scene.token_first} to {scene.token}, each larger than the one before"
    yield "hand-overs", f"{scene.hand_overs}: {given_back} given back, {scene.lapsed} lapsed"
    for accident in scene.accidents:
        how = "killed with kill -9" if accident.kind == "killed" else "frozen"
        yield accident.kind, f"{accident.holder} was {how} while it held {accident.scope} with token {accident.token}"
        if accident.successor is not None:
            late = f"{accident.how_late} after the ttl was over"
            took = f"{accident.successor.holder} took over {accident.after_s:.1f} s later, {late}"
            yield "", f"{took}, with token {accident.successor.token}"
        if accident.refused:
            yield "stale write", f"{accident.holder} woke up and wrote with token {accident.token}: refused"
    yield "overlaps", "none: no scope ever had two holders" if not scene.broken else ""
    for fault in scene.broken:
        yield "BROKEN", fault
