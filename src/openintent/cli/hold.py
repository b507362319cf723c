"""`openintent hold SCOPE -- CMD`: run a command while holding a scope."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openintent.cli.options import Session, asks_server, place_options, place_or_default
from openintent.cli.report import NOT_EXECUTABLE, NOT_FOUND, Problem

if TYPE_CHECKING:
    from openintent.client.calls import Wish

TTL_S_DEFAULT = 30.0
WAIT_S_DEFAULT = 30.0
# More, and the command would be told to stop while all is well: a lease is renewed at two thirds of its ttl.
GRACE_SHARE_MAX = 0.5

EPILOG = """\b
Examples:
  openintent hold build -- make
  openintent hold deploy --intent report-7 --wait 300 -- ./deploy.sh
  openintent hold nightly --wait 0 -- ./backup.sh || [ $? -eq 75 ]      if it runs already, fine

\b
The command's environment also has:
  OPENINTENT_TOKEN      the rising integer that fences writes: give it to what can check it
  OPENINTENT_LEASE_ID   OPENINTENT_SCOPE   OPENINTENT_SPACE   OPENINTENT_URL   OPENINTENT_AGENT_ID

\b
If the lease is lost (revoked, or the server cannot be reached in time), the command's whole process
group gets SIGTERM, and SIGKILL before the scope can be granted to another; also if this program is
itself killed. Processes that left the group (setsid) are not reached. What a command that ended by
itself has left in the background runs on, without the lease. Signals are passed on to the group.

\b
Exit codes:
  that of the command; 128+n if signal n ended it; or
  1    refused or failed; the message says why
  2    the command line is wrong
  69   no server can be reached, or it did not answer
  75   held by another, also after --wait; the message names the holder
  76   the lease was lost; the command was stopped
  126  the command cannot be executed
  127  the command was not found
"""


@click.command(epilog=EPILOG)
@click.argument("scope")
@place_options
@click.option(
    "--wait", type=float, default=WAIT_S_DEFAULT, show_default=True, metavar="SECONDS",
    help="Wait in the queue as long as this; 0 does not wait.",
)  # fmt: skip
@click.option(
    "--ttl", type=float, default=TTL_S_DEFAULT, show_default=True, metavar="SECONDS",
    help="How soon others get the scope if this machine dies.",
)  # fmt: skip
@click.option(
    "--grace", type=float, metavar="SECONDS",
    help="From SIGTERM to SIGKILL if the lease is lost; at most half the ttl.  [default: a sixth of it, at most 5]",
)  # fmt: skip
@click.option("--purpose", metavar="TEXT", help="What it is for, for others to read.  [default: the command]")
@click.option("--priority", type=int, default=0, help="Among those who wait: higher comes first.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@asks_server(unique=True)
def hold(
    session: Session,
    scope: str,
    intent: str | None,
    space: str | None,
    grace: float | None,
    command: tuple[str, ...],
    **options: Any,
) -> None:
    """Run a command while holding a scope.

    It waits in the queue if somebody else holds SCOPE, keeps the lease alive as long as the command runs, and gives
    it back then. Without --intent or --space the scope is in the plain space `default`.

    If no server is named and none runs on this machine, it does without: the leases are in a file of yours, and all
    who hold in this way exclude each other.
    """
    _require_grace(grace, options["ttl"])
    _require_command(command[0])
    # The client is loaded only when it is needed: `--help` must not wait for it.
    from openintent.cli.holding import run_under_lease  # noqa: PLC0415

    wish = _wish(place_or_default(intent, space), scope, command, **options)
    sys.exit(run_under_lease(session.api, wish, command, grace_s=grace))


def _require_grace(grace_s: float | None, ttl_s: float) -> None:
    if grace_s is not None and not grace_s >= 0:
        raise click.UsageError("--grace cannot be less than 0")
    if grace_s is not None and grace_s > ttl_s * GRACE_SHARE_MAX:
        raise click.UsageError(f"--grace {grace_s:g} is more than half the ttl: give --ttl {grace_s * 2:g} or more")


def _require_command(name: str) -> None:
    """Before the lease is taken: nobody should wait in a queue to hear of a misspelt word."""
    if shutil.which(name) is not None:
        return
    if Path(name).exists() and "/" in name:
        raise Problem(f"{name} cannot be executed", "a script needs: chmod +x", exit_code=NOT_EXECUTABLE)
    raise Problem(f"no command {name}", "is it in PATH? else write where it is: ./name", exit_code=NOT_FOUND)


def _wish(
    space: str, scope: str, command: tuple[str, ...], *, ttl: float, wait: float, purpose: str | None, priority: int
) -> "Wish":
    from openintent.client import spelling  # noqa: PLC0415  # see above

    # Only its first word: the others may be secrets, and everybody can read a purpose.
    purpose = command[0] if purpose is None else purpose
    try:
        return spelling.make_wish(
            space=space,
            scope=scope,
            ttl_s=spelling.ttl_of(ttl=ttl),
            wait_seconds=wait,
            purpose=purpose,
            priority=priority,
        )
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None
