"""`openintent cluster`: which servers share the engine, and who leads."""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from openintent.cli import show
from openintent.cli.options import Session, asks_server
from openintent.cli.report import printable, problem_of
from openintent.cli.show import Cell, Column
from openintent.errors import OpenIntentError

if TYPE_CHECKING:
    from rich.table import Table

JSON = Mapping[str, Any]

INTERVAL_S: Final = 1.0
# Looked at every 3 s: whoever was not heard of for longer than this has missed one.
LATE_S: Final = 5.0

COLUMNS: Final = [
    Column("SERVER", style="bold", whole=True),
    Column("ROLE"),
    Column("HEARD OF", justify="right", whole=True),
]


@click.command(
    epilog="""\b
Examples:
  openintent cluster
  openintent cluster --watch
  openintent cluster --json | jq -r .leader

\b
Exit codes:
  0   shown; with --watch, ended with Ctrl-C
  2   the command line is wrong
  69  no server can be reached, or it did not answer
"""
)
@click.option("--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@asks_server(agent=False)
def cluster(session: Session, watch: bool) -> None:
    """Show which servers share the engine, and who leads.

    Any of them can be asked. One that stands by asks the leader whom it has heard of.
    """
    seen = _look(session)
    if not watch:
        _print(session, seen)
        return
    try:
        _follow(session, seen)
    except KeyboardInterrupt:
        return  # the way in which it is meant to end


def _look(session: Session) -> JSON:
    from openintent.cli.api import as_told  # noqa: PLC0415  # see options._session
    from openintent.client.calls import Call  # noqa: PLC0415

    told: JSON = session.api.ask(Call("GET", "/cluster", as_told))
    return told


def _print(session: Session, seen: JSON) -> None:
    if session.as_json:
        show.print_json(seen)
        return
    click.echo(_headline(seen))
    show.print_table(COLUMNS, _rows(seen), empty="no servers are known")


def _follow(session: Session, seen: JSON) -> None:
    never = threading.Event()  # nobody sets it: a wait that Ctrl-C ends
    if session.as_json or not show.is_terminal():
        while True:
            _print(session, seen)
            never.wait(INTERVAL_S)
            seen = _look_again(session) or seen
    _live(session, seen, never)


def _look_again(session: Session) -> JSON | None:
    """A server that is away for a moment ends nothing."""
    try:
        return _look(session)
    except OpenIntentError as exc:
        problem_of(exc, as_json=session.as_json).show()
        return None


def _live(session: Session, seen: JSON, never: threading.Event) -> None:
    from rich.console import Console  # noqa: PLC0415  # only who looks pays for it
    from rich.live import Live  # noqa: PLC0415

    trouble = ""
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            live.update(_table(seen, trouble), refresh=True)
            never.wait(INTERVAL_S)
            try:
                seen, trouble = _look(session), ""
            except OpenIntentError as exc:
                trouble = printable(exc.message)


def _table(seen: JSON, trouble: str) -> "Table":
    from rich.markup import escape  # noqa: PLC0415

    caption = escape(f"{_headline(seen)}. Ctrl-C ends.")
    return show.rich_table(
        COLUMNS, _rows(seen), caption=f"{caption}\n[red]{escape(trouble)}[/]" if trouble else caption
    )


def _headline(seen: JSON) -> str:
    engine = seen["engine"]
    kinds = [name for name, true in (("durable", engine["durable"]), ("shared", engine["shared"])) if true]
    promised = f" ({', '.join(kinds)})" if kinds else ""
    leader = printable(seen["leader"]) if seen["leader"] else "nobody"
    return f"{leader} leads in term {seen['term']}, on {printable(engine['scheme'])}{promised}"


def _rows(seen: JSON) -> list[list[Cell | str]]:
    return [_row(member) for member in seen["members"]]


def _row(member: JSON) -> list[Cell | str]:
    age_s = member["heard_seconds_ago"]
    heard = Cell("never", "yellow") if age_s is None else Cell(f"{age_s:.1f} s ago", "yellow" if age_s > LATE_S else "")
    return [member["url"], Cell(member["role"], "green" if member["role"] == "grantor" else ""), heard]
