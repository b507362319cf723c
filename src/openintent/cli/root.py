"""The command group that all others hang on."""

import click

from openintent.cli.agents import agents
from openintent.cli.backup import backup, restore
from openintent.cli.completion import completion
from openintent.cli.demo.command import demo
from openintent.cli.doctor import doctor
from openintent.cli.events import events
from openintent.cli.hold import hold
from openintent.cli.intents import intents
from openintent.cli.keys import keys
from openintent.cli.leases import leases
from openintent.cli.portfolios import portfolios
from openintent.cli.schema import schema
from openintent.cli.serve import serve
from openintent.version import __version__

# \b keeps click from filling the lines of a paragraph anew.
EPILOG = """\b
Examples:
  openintent demo                               see it work, for 20 seconds
  openintent serve                              a server on this machine
  openintent hold build -- make                 run a command under a lease
  openintent leases                             who holds what
  openintent leases watch                       the same, live
  openintent events --follow                    what happens, as it happens
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


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(__version__, prog_name="openintent")
def main() -> None:
    """Leases and coordination for fleets of agents."""


main.add_command(serve)
main.add_command(hold)
main.add_command(leases)
main.add_command(intents)
main.add_command(portfolios)
main.add_command(agents)
main.add_command(events)
main.add_command(keys)
main.add_command(backup)
main.add_command(restore)
main.add_command(demo)
main.add_command(doctor)
main.add_command(schema)
main.add_command(completion)
