"""`openintent leases watch`: who holds what, live."""

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import click

from openintent.cli import show
from openintent.cli.options import Seconds, Session, asks_server, place_of, place_options
from openintent.cli.report import printable, problem_of
from openintent.cli.show import Cell, Column
from openintent.errors import OpenIntentError

JSON = Mapping[str, Any]

INTERVAL_S_MIN: Final = 0.1
INTERVAL_S_MAX: Final = 86_400.0
# Each space has a queue of its own, which is one more question. Beyond these, the waiting are not counted.
QUEUES_MAX: Final = 32

COLUMNS: Final = [
    Column("SCOPE", style="bold"),
    Column("HOLDER"),
    Column("TOKEN", justify="right"),
    Column("LEFT", whole=True),
    Column("WAITING", justify="right"),
    Column("SPACE"),
]


@click.command(
    epilog="""\b
Examples:
  openintent leases watch
  openintent leases watch --space default --interval 0.5
  openintent leases watch --once --json | jq '.leases[].scope'

\b
Exit codes:
  0   ended with Ctrl-C, or shown --once
  2   the command line is wrong
  69  no server can be reached, or it did not answer (with --once, or at the start)
"""
)
@place_options
@click.option(
    "--interval",
    type=Seconds(INTERVAL_S_MIN, INTERVAL_S_MAX),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option("--once", is_flag=True, help="Show it once and end.")
@asks_server(agent=False)
def watch(session: Session, intent: str | None, space: str | None, interval: float, once: bool) -> None:
    """Watch the live leases and who waits for them, until Ctrl-C.

    With --json it prints one line for each look: {"leases": [...], "waiters": [...]}.
    """
    place = place_of(intent, space)
    first = look(session, place)
    if once:
        _print(session, first)
        return
    try:
        _follow(session, place, first, interval_s=interval)
    except KeyboardInterrupt:
        return  # the way in which it is meant to end


def look(session: Session, place: str | None) -> dict[str, Any]:
    """The leases, and the queues of their spaces."""
    leases: list[dict[str, Any]] = session.api.leases(place)["leases"]
    spaces = sorted({lease["space"] for lease in leases} | ({place} if place else set()))
    waiters = [{**waiter, "space": space} for space in spaces[:QUEUES_MAX] for waiter in session.api.queue(space)]
    return {"leases": leases, "waiters": waiters}


def _print(session: Session, seen: JSON) -> None:
    if session.as_json:
        show.print_json(seen)
        return
    show.print_table(COLUMNS, _rows(seen), empty="no leases are held")


def _follow(session: Session, place: str | None, seen: JSON, *, interval_s: float) -> None:
    # Nobody sets it: a wait that Ctrl-C ends.
    never = threading.Event()
    if session.as_json or not show.is_terminal():
        while True:
            _print(session, seen)
            never.wait(interval_s)
            seen = _look_again(session, place) or seen
    _live(session, place, seen, never, interval_s=interval_s)


def _look_again(session: Session, place: str | None) -> JSON | None:
    """A server that is away for a moment ends nothing."""
    try:
        return look(session, place)
    except OpenIntentError as exc:
        problem_of(exc, as_json=session.as_json).show()
        return None


def _live(session: Session, place: str | None, seen: JSON, never: threading.Event, *, interval_s: float) -> None:
    from rich.console import Console  # noqa: PLC0415  # only who looks pays for it
    from rich.live import Live  # noqa: PLC0415

    trouble = ""
    with Live(console=Console(highlight=False), auto_refresh=False, transient=False) as live:
        while True:
            live.update(_table(session, seen, trouble), refresh=True)
            never.wait(interval_s)
            try:
                seen, trouble = look(session, place), ""
            except OpenIntentError as exc:
                trouble = printable(exc.message)


def _table(session: Session, seen: JSON, trouble: str) -> Any:
    from rich.markup import escape  # noqa: PLC0415

    counts = f"{len(seen['leases'])} held, {len(seen['waiters'])} waiting"
    now = datetime.now().astimezone().strftime("%H:%M:%S")
    caption = escape(f"{counts} at {session.api.url}, {now}. Ctrl-C ends.")
    return show.rich_table(
        COLUMNS, _rows(seen), caption=f"{caption}\n[red]{escape(trouble)}[/]" if trouble else caption
    )


def _rows(seen: JSON) -> list[list[Cell | str]]:
    return [_row(lease, seen["waiters"]) for lease in seen["leases"]]


def _row(lease: JSON, waiters: list[JSON]) -> list[Cell | str]:
    from openintent.core.scopes import overlap  # noqa: PLC0415

    waiting = [
        waiter for waiter in waiters if waiter["space"] == lease["space"] and overlap(waiter["scope"], lease["scope"])
    ]
    count = Cell(str(len(waiting)), "yellow" if waiting else "dim")
    return [lease["scope"], lease["agent_id"], str(lease["token"]), show.left(lease), count, lease["space"]]
