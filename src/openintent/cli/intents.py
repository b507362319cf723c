"""`openintent intents`: what there is to work on."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from openintent.cli import show
from openintent.cli.options import ListsByDefault, Session, asks_server, pairs
from openintent.cli.report import EXIT_CODES, printable
from openintent.cli.show import Column

JSON = Mapping[str, Any]

STATUSES = ("draft", "active", "blocked", "suspended_awaiting_input", "completed", "abandoned")

COLUMNS = [
    Column("ID", style="bold"),
    Column("STATUS"),
    Column("VERSION", justify="right"),
    Column("CREATED BY"),
    Column("UPDATED"),
    Column("TITLE"),
]


@click.group(cls=ListsByDefault)
def intents() -> None:
    """See what there is to work on, and add to it.

    Without a command it lists them, as `openintent intents ls` does.
    """


@intents.command(
    epilog=f"""\b
Examples:
  openintent intents ls
  openintent intents ls --status active --json
{EXIT_CODES}"""
)
@click.option("--status", type=click.Choice(STATUSES), help="Only those.")
@asks_server()
def ls(session: Session, status: str | None) -> None:
    """List intents."""
    told = session.api.intents(status)
    if session.as_json:
        show.print_json(told)
        return
    show.print_table(COLUMNS, [_row(intent) for intent in told["intents"]], empty="there are no intents")


def _row(intent: JSON) -> list[show.Cell | str]:
    return [
        intent["id"],
        show.status(intent["status"]),
        str(intent["version"]),
        intent.get("created_by") or "",
        show.date(intent["updated_at"]),
        intent["title"],
    ]


@intents.command(
    name="show",
    epilog=f"""\b
Example:
  openintent intents show report-7
{EXIT_CODES}""",
)
@click.argument("intent")
@asks_server()
def show_intent(session: Session, intent: str) -> None:
    """Show one intent, with its state."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.get_intent(intent))
    if session.as_json:
        show.print_json(told)
        return
    show.print_fields(_fields(told))


def _fields(intent: JSON) -> Iterator[tuple[str, str]]:
    yield "id", intent["id"]
    yield "title", intent["title"]
    yield "description", intent["description"]
    yield "status", intent["status"]
    yield "version", str(intent["version"])
    yield "created", f"{show.date(intent['created_at'])} by {intent.get('created_by') or 'nobody'}"
    yield "updated", show.date(intent["updated_at"])
    yield "parent", intent.get("parent_id") or ""
    yield "depends on", ", ".join(intent["depends_on"])
    yield "constraints", show.compact(intent["constraints"])
    for key, value in intent["state"].items():
        yield f"state {key}", show.compact(value) or "null"


@intents.command(
    epilog=f"""\b
Examples:
  openintent intents new "Quarterly report"
  openintent intents new "Quarterly report" --id report-7 --state pages=12 --state 'tags=["a", "b"]'

\b
With --id it may be repeated: the same content gives the same intent.
{EXIT_CODES}"""
)
@click.argument("title")
@click.option("--id", "chosen", metavar="ID", help="An id of your choice.  [default: a new one]")
@click.option("--description", default="", metavar="TEXT", help="More about it.")
@click.option("--state", multiple=True, metavar="K=JSON", help="What its state begins with; may be repeated.")
@asks_server()
def new(session: Session, title: str, chosen: str | None, description: str, state: tuple[str, ...]) -> None:
    """Make an intent."""
    from openintent.client import calls, spelling  # noqa: PLC0415  # see options._session
    from openintent.client.holder import new_attempt  # noqa: PLC0415

    body = spelling.intent_of(title, description, {"id": chosen, "initial_state": pairs(state, "--state") or None})
    told = session.api.ask(calls.create_intent(body, attempt=new_attempt()))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(printable(told["id"]))
