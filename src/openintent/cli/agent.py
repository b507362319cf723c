"""`openintent agent run`: agents by the names of their classes, in this process or in several."""

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from openintent.cli.options import Seconds
from openintent.cli.report import printable, reported

if TYPE_CHECKING:
    from openintent.agents import AgentBase

REPLICAS_MAX: Final = 1_000

EPILOG: Final = """\b
Examples:
  openintent agent run fetchers:Fetcher                 fetchers.py, here or among what is installed
  openintent agent run fetchers.py:Fetcher              the same by its file
  openintent agent run team:Lead team:Worker            several agents in one process
  openintent agent run team:Worker --replicas 4         four processes, each an instance of its own

\b
Told to stop, it takes nothing new, lets what runs come to its end, puts back what does not, and leaves.
A second signal ends it at once. With --replicas, a process that dies is started again.

\b
Exit codes:
  0   told to stop (Ctrl-C or SIGTERM), or drained: all have left
  1   failed; the message says why
  2   the command line is wrong: no such module, class, or agent
"""


@click.group()
def agent() -> None:
    """Run agents.

    `openintent agents` shows which there are.
    """


@agent.command(epilog=EPILOG)
@click.argument("names", metavar="MODULE:CLASS...", nargs=-1, required=True)
@click.option("--replicas", type=click.IntRange(1, REPLICAS_MAX), metavar="N", help="As so many processes.")
@click.option("--ttl", type=Seconds(min=0, min_open=True), metavar="S", help="Of their leases, in seconds.")
@click.option("--drain", type=Seconds(min=0, min_open=True), metavar="S", help="What runs has so long at the end.")
@click.option("--api-key", metavar="KEY", help="The key to show the server.  [default: OPENINTENT_API_KEY]")
@click.option(
    "--url",
    metavar="URL",
    help="The server, or sqlite:///FILE to do without one.  [default: OPENINTENT_URL, or http://localhost:8000]",
)
@click.option("--replica", is_flag=True, hidden=True, help="One of several: it ends when its standard input does.")
def run(
    names: Sequence[str],
    replicas: int | None,
    replica: bool,
    **told: Any,
) -> None:
    """Run agents until told to stop (Ctrl-C or SIGTERM)."""
    # Imported here so that the other commands start without loading a client.
    from openintent.cli import replicating  # noqa: PLC0415
    from openintent.cli.agent_loading import loaded, made, refuse_one_instance_many_times  # noqa: PLC0415

    with reported(as_json=False):
        kinds = [loaded(name, **told) for name in names]
        _log()
        if replicas is None:
            if replica:
                replicating.end_with_standard_input()
            _run([made(kind) for kind in kinds])
            return
        words = [*names, *(word for name, value in told.items() if value is not None for word in _option(name, value))]
        refuse_one_instance_many_times(kinds)
        drain_s = max(kind.settings.drain_seconds for kind in kinds)
        sys.exit(replicating.run(words, replicas, drain_s=drain_s))


def _option(name: str, value: object) -> tuple[str, str]:
    return f"--{name.replace('_', '-')}", str(value)


def _run(agents: Sequence["AgentBase"]) -> None:
    from openintent.agents import run_agents  # noqa: PLC0415

    run_agents(*agents, on_start=_announce)


def _announce(agents: Sequence["AgentBase"]) -> None:
    for each in agents:
        click.echo(f"{printable(each.agent_id)} runs")


def _log() -> None:
    """On a terminal a person looks on: only what is wrong. Elsewhere a file wants to know what happened."""
    level = logging.WARNING if sys.stderr.isatty() else logging.INFO
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
