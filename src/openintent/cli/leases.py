"""`openintent leases`: look at leases, and take, renew, give back and revoke them by hand."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from openintent.cli import show
from openintent.cli.options import (
    ListsByDefault,
    Session,
    asks_server,
    pairs,
    place_of,
    place_options,
    place_or_default,
)
from openintent.cli.report import EXIT_CODES, printable
from openintent.cli.show import Cell, Column
from openintent.cli.watch import watch
from openintent.errors import NotFoundError

JSON = Mapping[str, Any]

TTL_S_DEFAULT = 60.0


@click.group(cls=ListsByDefault)
def leases() -> None:
    """See who holds what; take, renew, give back and revoke by hand.

    Without a command it lists the live leases, as `openintent leases ls` does.
    """


leases.add_command(watch)


@leases.command(
    epilog=f"""\b
Examples:
  openintent leases ls
  openintent leases ls --intent report-7 --all
  openintent leases ls --agent ana@box --json
{EXIT_CODES}"""
)
@place_options
@click.option("--agent", metavar="ID", help="Only what this agent holds.")
@click.option("--all", "ended", is_flag=True, help="Ended ones too (of one intent or space).")
@asks_server(agent=False)
def ls(session: Session, intent: str | None, space: str | None, agent: str | None, ended: bool) -> None:
    """List leases: the live ones, of all places or of one."""
    place = place_of(intent, space)
    if ended and place is None:
        raise click.UsageError("--all needs --intent or --space: ended leases are kept with the place they were in")
    told = session.api.leases(place, agent=agent, status="all" if ended else "active")
    if session.as_json:
        show.print_json(told)
        return
    # The oldest first, as it was asked: what is new is at the end, beside the prompt.
    show.print_table(
        _columns(ended=ended), [_row(lease, ended=ended) for lease in told["leases"]], empty="no leases are held"
    )


def _columns(*, ended: bool) -> list[Column]:
    status = [Column("STATUS")] if ended else []
    return [
        Column("SCOPE", style="bold"),
        Column("HOLDER"),
        Column("TOKEN", justify="right"),
        *status,
        Column("LEFT", whole=True),
        Column("SPACE"),
        Column("LEASE", style="dim", whole=True),
        Column("PURPOSE"),
    ]


def _row(lease: JSON, *, ended: bool) -> list[Cell | str]:
    status = [show.status(lease["status"])] if ended else []
    where = [lease["space"], lease["id"], lease.get("purpose") or ""]
    return [lease["scope"], lease["agent_id"], str(lease["token"]), *status, show.left(lease), *where]


@leases.command(
    name="show",
    epilog=f"""\b
Example:
  openintent leases show 5c1f0a9be2d3447786aa01f2
{EXIT_CODES}""",
)
@click.argument("lease")
@asks_server()
def show_lease(session: Session, lease: str) -> None:
    """Show one lease, live or ended, and what happened to it."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.get_lease(lease))
    if session.as_json:
        show.print_json(told)
        return
    show.print_fields(_fields(told))
    click.echo()
    for event in told["timeline"]:
        click.echo(f"  {show.date(event['created_at'])}  {printable(_happening(event))}")


def _fields(lease: JSON) -> Iterator[tuple[str, str]]:
    live = lease["status"] == "active"
    yield "scope", lease["scope"]
    yield "space", lease["space"]
    yield "holder", lease["agent_id"]
    yield "status", lease["status"]
    yield "token", str(lease["token"])
    yield "left", f"{show.seconds(lease['remaining_seconds'])} of {show.seconds(lease['ttl_seconds'])}" if live else ""
    yield "acquired", show.date(lease["acquired_at"])
    yield ("expires" if live else "ended"), show.date(lease["expires_at"])
    yield "purpose", lease.get("purpose") or ""
    yield "max hold", show.seconds(lease["max_hold_seconds"]) if lease.get("max_hold_seconds") else ""
    yield "progress", show.seconds(lease["progress_seconds"]) if lease.get("progress_seconds") else ""
    yield "cooldown", show.seconds(lease["cooldown_seconds"]) if lease.get("cooldown_seconds") else ""
    yield "metadata", show.compact(lease.get("metadata"))
    yield "checkpoint", show.compact(lease.get("checkpoint"))
    yield "lease", lease["id"]


def _happening(event: JSON) -> str:
    payload = event["payload"]
    if event["event_type"] == "lease_acquired":
        return f"acquired by {payload.get('holder')} with token {payload.get('token')}"
    note = f": {payload['note']}" if payload.get("note") else ""
    by = f" by {event['actor']}" if event["actor"] != "system" else ""
    return f"{payload.get('reason') or event['event_type']}{by}{note}"


@leases.command(
    epilog="""\b
Examples:
  openintent leases acquire deploy --ttl 600 --purpose "looking at a bug"
  openintent leases acquire "repo/src/**" --intent report-7 --wait 30
  LEASE=$(openintent leases acquire deploy --json | jq -r .id)

\b
Nothing renews it: it lapses after its ttl. To run a command under a lease that is kept alive,
use `openintent hold`.

\b
Exit codes:
  0   you have it
  1   refused or failed; the message says why
  2   the command line is wrong
  69  no server can be reached, or it did not answer
  75  held by another, also after --wait; the message names the holder
"""
)
@click.argument("scope")
@place_options
@click.option("--ttl", type=float, default=TTL_S_DEFAULT, show_default=True, metavar="SECONDS", help="Its length.")
@click.option("--wait", type=float, default=0.0, metavar="SECONDS", help="Wait in the queue as long as this.")
@click.option("--purpose", metavar="TEXT", help="What it is for, for others to read.")
@click.option("--priority", type=int, default=0, help="Among those who wait: higher comes first.")
@click.option("--metadata", multiple=True, metavar="K=JSON", help="More for others to read; may be repeated.")
@click.option("--max-hold", type=float, metavar="SECONDS", help="An end that no renewal moves.")
@click.option("--cooldown", type=float, metavar="SECONDS", help="Keep the scope closed after a lapse or revocation.")
@click.option("--reentrant", is_flag=True, help="If you hold it already, answer with that lease.")
@asks_server()
def acquire(
    session: Session,
    scope: str,
    intent: str | None,
    space: str | None,
    ttl: float,
    wait: float,
    metadata: tuple[str, ...],
    max_hold: float | None,
    cooldown: float | None,
    **options: Any,
) -> None:
    """Take a lease by hand.

    SCOPE is the name of a part of the space: `deploy`, `repo/src/**` for all below it, `*` for everything. Without
    --intent or --space it is in the plain space `default`.
    """
    from openintent.client import spelling  # noqa: PLC0415  # see options._session

    try:
        wish = spelling.make_wish(
            space=place_or_default(intent, space),
            scope=scope,
            ttl_s=spelling.ttl_of(ttl=ttl),
            wait_seconds=wait,
            metadata=pairs(metadata, "--metadata") or None,
            max_hold_seconds=max_hold,
            cooldown_seconds=cooldown,
            **options,
        )
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None
    _print_taken(session, session.api.acquire(wish))


def _print_taken(session: Session, lease: JSON) -> None:
    if session.as_json:
        show.print_json(lease)
        return
    scope, remaining = lease["scope"], show.seconds(lease["remaining_seconds"])
    click.echo(f"{printable(scope)} is yours for {remaining}: token {lease['token']}, lease {lease['id']}")
    click.echo(f"  give it back with: openintent leases release {lease['id']}{_as_agent(session)}", err=True)


def _as_agent(session: Session) -> str:
    return f" --agent {session.api.agent}" if session.agent_named else ""


@leases.command(
    epilog=f"""\b
Example:
  openintent leases renew 5c1f0a9be2d3447786aa01f2 --ttl 600
{EXIT_CODES.rstrip()}
  76  the lease has ended; it never lives again
"""
)
@click.argument("lease")
@click.option("--ttl", type=float, metavar="SECONDS", help="A new length.  [default: as before]")
@asks_server()
def renew(session: Session, lease: str, ttl: float | None) -> None:
    """Renew a lease of yours. A renewal never shortens it."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = _of_yours(session, calls.renew(calls.lease_path(lease), ttl_s=ttl))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(f"{printable(told['scope'])} is yours for {show.seconds(told['remaining_seconds'])} more")


@leases.command(
    epilog=f"""\b
Example:
  openintent leases release 5c1f0a9be2d3447786aa01f2
{EXIT_CODES}"""
)
@click.argument("lease")
@asks_server()
def release(session: Session, lease: str) -> None:
    """Give a lease of yours back. One that has ended already is none the worse for it."""
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = _of_yours(session, calls.release(calls.lease_path(lease)))
    if session.as_json:
        show.print_json(told)
        return
    click.echo("released" if told["status"] == "released" else f"it had ended before: {told['ended_reason']}")


def _of_yours(session: Session, call: Any) -> Any:
    try:
        return session.api.ask(call)
    except NotFoundError as missing:
        # Who you are is easily overlooked, because mostly nobody says it.
        missing.message = f"no such lease of {session.api.agent}"
        error = {"code": missing.code, "message": missing.message, "hint": "if it is another agent's: --agent ID"}
        missing.response = {**missing.response, "error": error}
        raise


@leases.command(
    epilog=f"""\b
Example:
  openintent leases revoke 5c1f0a9be2d3447786aa01f2 --reason "stuck since noon"
{EXIT_CODES.rstrip()}
  76  the lease has ended already
"""
)
@click.argument("lease")
@click.option("--reason", required=True, metavar="TEXT", help="Why; the holder and the log are told.")
@asks_server()
def revoke(session: Session, lease: str, reason: str) -> None:
    """End anybody's lease at once, as an operator.

    The scope is free from then on. The holder learns of it with its next heartbeat, and may write until then where
    no token is checked.
    """
    from openintent.client import calls  # noqa: PLC0415  # see options._session

    told = session.api.ask(calls.revoke(lease, reason=reason))
    if session.as_json:
        show.print_json(told)
        return
    click.echo(f"revoked: {printable(told['agent_id'])} no longer holds {printable(told['scope'])}")
