"""`openintent agents`: who is there, how they are, and what they are to work on."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from openintent.cli import show
from openintent.cli.options import ListsByDefault, Session, asks_server
from openintent.cli.report import EXIT_CODES, printable
from openintent.cli.show import Column

JSON = Mapping[str, Any]

STATUSES: Final = ("active", "unhealthy", "dead", "draining", "deregistered")
PAGE: Final = 1_000

COLUMNS: Final = [
    Column("AGENT", style="bold"),
    Column("STATUS"),
    Column("ROLE"),
    Column("LOAD", justify="right"),
    Column("LAST HEARTBEAT", whole=True),
    Column("CAPABILITIES"),
]

ASSIGNMENT_COLUMNS: Final = [
    Column("INTENT", style="bold"),
    Column("STATUS"),
    Column("ROLE"),
    Column("ASSIGNED", whole=True),
    Column("BY"),
    Column("TITLE"),
]


@click.group(cls=ListsByDefault)
def agents() -> None:
    """See which agents there are, and how they are.

    Without a command it lists them, as `openintent agents ls` does. Agents need not be registered to hold leases:
    `openintent leases ls` shows everybody who does.
    """


@agents.command(
    epilog=f"""\b
Examples:
  openintent agents ls
  openintent agents ls --role researcher --status active
  openintent agents ls --json
{EXIT_CODES}"""
)
@click.option("--status", type=click.Choice(STATUSES), help="Only those.  [default: all but deregistered]")
@click.option("--role", metavar="ID", help="Only those with this role.")
@asks_server()
def ls(session: Session, status: str | None, role: str | None) -> None:
    """List the registered agents."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.every(lambda at: calls.list_agents(status=status, role_id=role, limit=PAGE, offset=at))
    if session.as_json:
        show.print_json(told)
        return
    show.print_table(COLUMNS, [_row(agent) for agent in told], empty="no agents are registered")


def _row(agent: JSON) -> list[show.Cell | str]:
    return [
        agent["agent_id"],
        show.status(agent["status"]),
        agent.get("role_id") or "",
        _load(agent),
        show.date(agent.get("last_heartbeat_at")),
        ", ".join(agent["capabilities"]),
    ]


def _load(agent: JSON) -> str:
    capacity = agent["capacity"]
    return f"{capacity['current_load']}/{capacity['max_concurrent_tasks']}"


@agents.command(
    name="show",
    epilog=f"""\b
Example:
  openintent agents show worker-1
{EXIT_CODES}""",
)
@click.argument("agent_id", metavar="AGENT")
@asks_server()
def show_agent(session: Session, agent_id: str) -> None:
    """Show one registered agent."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.get_agent(agent_id))
    if session.as_json:
        show.print_json(told)
        return
    show.print_fields(_fields(told))


def _fields(agent: JSON) -> Iterator[tuple[str, str]]:
    beats = agent["heartbeat_config"]
    yield "agent", agent["agent_id"]
    yield "name", agent.get("name") or ""
    yield "status", agent["status"]
    yield "role", agent.get("role_id") or ""
    yield "load", _load(agent)
    yield "capabilities", ", ".join(agent["capabilities"])
    yield "endpoint", agent.get("endpoint") or ""
    yield "registered", show.date(agent["registered_at"])
    yield "last heartbeat", show.date(agent.get("last_heartbeat_at"))
    yield "heartbeats", f"every {show.seconds(beats['interval_seconds'])}"
    yield "unhealthy", f"after {show.seconds(beats['unhealthy_after_seconds'])} of silence"
    yield "dead", f"after {show.seconds(beats['dead_after_seconds'])} of silence"
    yield "drain", show.seconds(agent["drain_timeout_seconds"]) if agent.get("drain_timeout_seconds") else ""
    yield "metadata", show.compact(agent.get("metadata"))


@agents.command(
    epilog=f"""\b
Example:
  openintent agents assignments worker-1
{EXIT_CODES}"""
)
@click.argument("agent_id", metavar="AGENT")
@asks_server()
def assignments(session: Session, agent_id: str) -> None:
    """List what an agent is to work on.

    The open intents that it is assigned to. It need not be registered.
    """
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.get_assignments(agent_id))
    if session.as_json:
        show.print_json(told)
        return
    rows = [_assignment(each) for each in told["assignments"]]
    show.print_table(ASSIGNMENT_COLUMNS, rows, empty=f"{printable(agent_id)} is assigned to nothing")


def _assignment(assignment: JSON) -> list[show.Cell | str]:
    return [
        assignment["intent_id"],
        show.status(assignment["intent_status"]),
        assignment["role"],
        show.date(assignment["assigned_at"]),
        assignment.get("assigned_by") or "",
        assignment["intent_title"],
    ]


@agents.command(
    epilog=f"""\b
Example:
  openintent agents drain worker-1

\b
Draining is a mark that others can see. It ends no lease and takes no work away; the agent leaves the
registry by itself, or with: openintent agents rm AGENT
{EXIT_CODES}"""
)
@click.argument("agent_id", metavar="AGENT")
@asks_server()
def drain(session: Session, agent_id: str) -> None:
    """Mark an agent as draining.

    It is to finish what it has and take nothing new.
    """
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.mark_agent(agent_id, "draining"))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(f"{printable(agent_id)} is {told['status']}")


@agents.command(
    epilog=f"""\b
Example:
  openintent agents rm worker-1

\b
Its leases end at their own deadlines, and its assignments stay. An agent that still runs comes back
with its next registration.
{EXIT_CODES}"""
)
@click.argument("agent_id", metavar="AGENT")
@asks_server()
def rm(session: Session, agent_id: str) -> None:
    """Take an agent off the registry."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.deregister_agent(agent_id))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(f"{printable(agent_id)} is {told['status']}")
