"""`openintent portfolios`: intents that belong together."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from openintent.cli import show
from openintent.cli.options import ListsByDefault, Session, asks_server, pairs
from openintent.cli.report import EXIT_CODES, printable
from openintent.cli.show import Column

JSON = Mapping[str, Any]

STATUSES: Final = ("active", "completed", "abandoned")
ROLES: Final = ("primary", "member", "dependency")
PAGE: Final = 1_000

COLUMNS: Final = [
    Column("ID", style="bold"),
    Column("STATUS"),
    Column("CREATED BY"),
    Column("UPDATED", whole=True),
    Column("NAME"),
]

MEMBER_COLUMNS: Final = [
    Column("INTENT", style="bold"),
    Column("STATUS"),
    Column("ROLE"),
    Column("PRIORITY", justify="right"),
    Column("TITLE"),
]


@click.group(cls=ListsByDefault)
def portfolios() -> None:
    """See which intents belong together.

    Without a command it lists the portfolios, as `openintent portfolios ls` does.
    """


@portfolios.command(
    epilog=f"""\b
Examples:
  openintent portfolios ls
  openintent portfolios ls --created-by ana@box --json
{EXIT_CODES}"""
)
@click.option("--created-by", metavar="AGENT", help="Only those that this agent made.")
@asks_server()
def ls(session: Session, created_by: str | None) -> None:
    """List portfolios."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.every(lambda at: calls.list_portfolios(created_by=created_by, limit=PAGE, offset=at))
    if session.as_json:
        show.print_json(told)
        return
    show.print_table(COLUMNS, [_row(portfolio) for portfolio in told], empty="there are no portfolios")


def _row(portfolio: JSON) -> list[show.Cell | str]:
    return [
        portfolio["id"],
        show.status(portfolio["status"]),
        portfolio.get("created_by") or "",
        show.date(portfolio["updated_at"]),
        portfolio["name"],
    ]


@portfolios.command(
    epilog=f"""\b
Examples:
  openintent portfolios create "Q3 launch"
  openintent portfolios create "Q3 launch" --id q3 --metadata floor=2

\b
It prints the new id. With --id it may be repeated: the same content gives the same portfolio.
{EXIT_CODES}"""
)
@click.argument("name")
@click.option("--id", "chosen", metavar="ID", help="An id of your choice.  [default: a new one]")
@click.option("--description", default="", metavar="TEXT", help="More about it.")
@click.option("--metadata", multiple=True, metavar="K=JSON", help="More for others to read; may be repeated.")
@asks_server()
def create(session: Session, name: str, chosen: str | None, description: str, metadata: tuple[str, ...]) -> None:
    """Make a portfolio."""
    from openintent.client import calls, spelling  # noqa: PLC0415  # see options._session
    from openintent.client.holder import new_attempt  # noqa: PLC0415

    said = pairs(metadata, "--metadata") or None
    body = spelling.portfolio_of(name, description, {"id": chosen, "metadata": said, "created_by": session.api.agent})
    told = session.api.ask(calls.create_portfolio(body, attempt=new_attempt()))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(printable(told["id"]))


@portfolios.command(
    name="show",
    epilog=f"""\b
Example:
  openintent portfolios show q3

\b
With --json: {{"portfolio", "intents": [...], "memberships": [...], "aggregate_status", "coordinators": [...]}}
{EXIT_CODES}""",
)
@click.argument("portfolio")
@asks_server()
def show_portfolio(session: Session, portfolio: str) -> None:
    """Show one portfolio with what is in it.

    Also how far it is, and who coordinates it.
    """
    from openintent.client import calls, spelling  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.get_portfolio(portfolio))
    inside = session.api.ask(calls.get_members(portfolio))
    coordinators = session.api.ask(calls.list_coordinators(spelling.coordinated(portfolio, None)))
    if session.as_json:
        show.print_json({"portfolio": told, **inside, "coordinators": coordinators})
        return
    show.print_fields(_fields(told, inside["aggregate_status"], coordinators))
    if inside["intents"]:
        click.echo()
        rows = zip(inside["intents"], inside["memberships"], strict=True)
        show.print_table(MEMBER_COLUMNS, [_member(*row) for row in rows], empty="")


def _fields(portfolio: JSON, done: JSON, coordinators: list[JSON]) -> Iterator[tuple[str, str]]:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(done["by_status"].items()))
    yield "id", portfolio["id"]
    yield "name", portfolio["name"]
    yield "description", portfolio["description"]
    yield "status", portfolio["status"]
    yield "intents", f"{done['total']} ({counts})" if counts else "none yet"
    yield "completed", f"{done['completion_percentage']} %"
    for lease in coordinators:
        yield "coordinator", f"{lease['agent_id']} with token {lease['token']}, {_left(lease)}"
    yield "created", f"{show.date(portfolio['created_at'])} by {portfolio.get('created_by') or 'nobody'}"
    yield "updated", show.date(portfolio["updated_at"])
    yield "policy", show.compact(portfolio.get("governance_policy"))
    yield "metadata", show.compact(portfolio.get("metadata"))


def _left(lease: JSON) -> str:
    return f"{show.seconds(lease['remaining_seconds'])} of {show.seconds(lease['ttl_seconds'])} left"


def _member(intent: JSON, member: JSON) -> list[show.Cell | str]:
    return [intent["id"], show.status(intent["status"]), member["role"], str(member["priority"]), intent["title"]]


@portfolios.command(
    epilog=f"""\b
Examples:
  openintent portfolios add q3 report-7
  openintent portfolios add q3 report-7 --role primary --priority 5

\b
An intent that is in it already only changes its role and priority.
{EXIT_CODES}"""
)
@click.argument("portfolio")
@click.argument("intent")
@click.option("--role", type=click.Choice(ROLES), default="member", show_default=True, help="Its part.")
@click.option("--priority", type=int, default=0, show_default=True, help="Higher is more important.")
@asks_server()
def add(session: Session, portfolio: str, intent: str, role: str, priority: int) -> None:
    """Put an intent into a portfolio."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    body = {"intent_id": intent, "role": role, "priority": priority}
    told = session.api.ask(calls.add_member(portfolio, body))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(f"{printable(intent)} is in {printable(portfolio)} as {told['role']}")


@portfolios.command(
    epilog=f"""\b
Example:
  openintent portfolios rm q3 report-7

\b
The intent itself stays.
{EXIT_CODES}"""
)
@click.argument("portfolio")
@click.argument("intent")
@asks_server()
def rm(session: Session, portfolio: str, intent: str) -> None:
    """Take an intent out of a portfolio."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.remove_member(portfolio, intent))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(f"{printable(intent)} is no longer in {printable(portfolio)}")


@portfolios.command(
    epilog=f"""\b
Example:
  openintent portfolios status q3 completed

\b
It is a mark for people: the intents in it keep their own.
{EXIT_CODES}"""
)
@click.argument("portfolio")
@click.argument("status", type=click.Choice(STATUSES), metavar="STATUS")
@asks_server()
def status(session: Session, portfolio: str, status: str) -> None:
    """Change the status of a portfolio.

    STATUS is active, completed or abandoned.
    """
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.set_portfolio_status(portfolio, status))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(f"{printable(portfolio)} is {told['status']}")
