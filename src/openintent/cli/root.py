"""The command group that all others hang on."""

import sys
from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Any, Final

import click

from openintent.cli.standard import failed_to_print, open_closed
from openintent.version import __version__

# Where each command is. It is loaded when it is called: nobody waits for all the others.
COMMANDS: Final[Mapping[str, str]] = {
    "agent": "openintent.cli.agent",
    "agents": "openintent.cli.agents",
    "backup": "openintent.cli.backup",
    "cluster": "openintent.cli.cluster",
    "completion": "openintent.cli.completion",
    "demo": "openintent.cli.demo.command",
    "doctor": "openintent.cli.doctor",
    "events": "openintent.cli.events",
    "export": "openintent.cli.move",
    "hold": "openintent.cli.hold",
    "import": "openintent.cli.move",
    "intents": "openintent.cli.intents",
    "keys": "openintent.cli.keys",
    "leases": "openintent.cli.leases",
    "move": "openintent.cli.move",
    "portfolios": "openintent.cli.portfolios",
    "restore": "openintent.cli.backup",
    "run": "openintent.cli.workflow_runs",
    "schema": "openintent.cli.schema",
    "serve": "openintent.cli.serve",
    "workflow": "openintent.cli.workflows",
}

# \b keeps click from filling the lines of a paragraph anew.
EPILOG = """\b
Examples:
  openintent demo                               see it work, for 20 seconds
  openintent serve                              a server on this machine
  openintent hold build -- make                 run a command under a lease
  openintent leases                             who holds what
  openintent leases watch                       the same, live
  openintent events --follow                    what happens, as it happens
  openintent run pipeline.yaml                  a workflow, to its end
  openintent agent run team:Worker --replicas 4 agents, as four processes
  openintent doctor                             what is the matter, and what to do

\b
Environment:
  OPENINTENT_URL        the server's address  [http://localhost:8000], or sqlite:///FILE to do without one
  OPENINTENT_API_KEY    the key to show it
  OPENINTENT_AGENT_ID   who you are to it     [user@host]
  NO_COLOR              set to anything: no colours

\b
Exit codes, of all commands:
  0   done
  1   refused or failed; the message says why
  2   the command line is wrong
  69  no server can be reached, or it did not answer
  75  the scope is held by another; try again later
  76  the lease has ended
  130 interrupted with Ctrl-C
"""


class Commands(click.Group):
    """The commands of the table, each under the name that its function has."""

    def main(self, *args: Any, **options: Any) -> Any:
        open_closed()
        try:
            return super().main(*args, **options)
        except OSError as failure:
            sys.exit(failed_to_print(failure))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # as click calls it
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # as above
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(import_module(COMMANDS[cmd_name]), name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(__version__, prog_name="openintent")
def main() -> None:
    """Leases and coordination for fleets of agents."""
