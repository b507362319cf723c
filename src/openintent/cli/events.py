"""`openintent events`: what happened, and what happens."""

from collections.abc import Mapping
from typing import Any, Final

import click

from openintent.cli import show
from openintent.cli.happenings import happening
from openintent.cli.options import SPACE_DEFAULT, Session, asks_server
from openintent.cli.report import printable, say
from openintent.cli.show import Column

JSON = Mapping[str, Any]

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 1_000

COLUMNS: Final = [
    Column("TIME", whole=True, style="dim"),
    Column("SEQ", justify="right"),
    Column("TYPE", style="bold"),
    Column("ACTOR"),
    Column("WHAT"),
]


@click.command(
    epilog="""\b
Examples:
  openintent events --intent report-7
  openintent events --intent report-7 --follow
  openintent events --space default --types lease_acquired,lease_released
  openintent events --agent worker-1 --follow --limit 1 --json   wait for one event
  openintent events --intent report-7 --after 1207 --json        all that came after 1207

\b
With --follow it goes on over restarts of the server, and misses nothing. --after 0 begins with the
oldest event that is kept.

\b
Exit codes:
  0   done, or ended with Ctrl-C
  1   refused or failed; the message says why (also: the log no longer has what came after --after)
  2   the command line is wrong
  69  no server can be reached, or it did not answer
"""
)
@click.option("--intent", metavar="ID", help="The log of this intent.")
@click.option("--space", metavar="NAME", help=f"That of this plain space.  [if no place is named: {SPACE_DEFAULT}]")
@click.option("--portfolio", metavar="ID", help="That of this portfolio; with --follow, of its intents too.")
@click.option("--agent", metavar="ID", help="That of this agent; with --follow, what it is assigned to, too.")
@click.option("--follow", "-f", is_flag=True, help="Show what happens from now on, until Ctrl-C.")
@click.option("--after", type=click.IntRange(min=0), metavar="SEQ", help="Only what came after this event.")
@click.option("--types", metavar="A,B", help="Only events of these types.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    metavar="N",
    help=f"At most so many.  [default: {LIMIT_DEFAULT}; with --follow no end]",
)
@asks_server(agent=False)
def events(
    session: Session, follow: bool, after: int | None, types: str | None, limit: int | None, **places: str | None
) -> None:
    """Show the newest events of a log, or follow it.

    With --json it prints what the server told: one list, or with --follow a line for each event.
    """
    place = _place(**places)
    named = [name for name in (types or "").split(",") if name] or None
    if follow:
        _follow(session, place, after, named, limit)
        return
    told = _read(session, place, after, named, limit or LIMIT_DEFAULT)
    if session.as_json:
        show.print_json(told)
        return
    show.print_table(COLUMNS, [_row(event) for event in told], empty="nothing has happened there")


def _place(*, intent: str | None, space: str | None, portfolio: str | None, agent: str | None) -> str:
    given = {"intent": intent, "space": space, "portfolio": portfolio, "agent": agent}
    named = [f"{kind}:{name.removeprefix(f'{kind}:')}" for kind, name in given.items() if name is not None]
    if len(named) > 1:
        raise click.UsageError("--intent, --space, --portfolio and --agent exclude each other")
    return named[0] if named else f"space:{SPACE_DEFAULT}"


def _read(session: Session, place: str, after: int | None, types: list[str] | None, limit: int) -> list[JSON]:
    """The oldest first, as it happened: what is new is at the end, beside the prompt."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    newest_first = after is None
    order = "desc" if newest_first else "asc"
    told: list[JSON] = session.api.ask(calls.get_events(place, limit=limit, after=after, types=types, order=order))
    return told[::-1] if newest_first else told


def _row(event: JSON) -> list[show.Cell | str]:
    return [
        show.date(event.get("created_at")),
        str(event.get("seq") or ""),
        event["event_type"],
        event.get("actor") or "",
        happening(event),
    ]


def _follow(session: Session, place: str, after: int | None, types: list[str] | None, limit: int | None) -> None:
    stream = session.api.follow(place, after=after, types=types)
    if show.is_terminal() and not session.as_json:
        say(f"following {place} at {session.api.url}; Ctrl-C ends")
    try:
        with stream:
            for count, event in enumerate(stream, start=1):
                _print(session, event)
                if count == limit:
                    return
    except KeyboardInterrupt:
        return  # the way in which it is meant to end


def _print(session: Session, event: JSON) -> None:
    if session.as_json:
        show.print_json(event)
        return
    time, seq, kind, actor, what = (printable(str(cell)) for cell in _row(event))
    click.echo(f"{click.style(time, dim=True)}  {seq:>6}  {click.style(f'{kind:<18}', bold=True)}  {actor:<16}  {what}")
