"""`openintent demo`."""

from typing import TYPE_CHECKING, Final

import click

from openintent.cli import show
from openintent.cli.options import Seconds
from openintent.cli.report import Problem, reported, say
from openintent.cli.signals import Leaving

if TYPE_CHECKING:
    from openintent.cli.demo.scene import Scene

SECONDS: Final = 20.0
SECONDS_MIN: Final = 5.0
SECONDS_MAX: Final = 600.0


@click.command(
    epilog="""\b
Examples:
  openintent demo
  openintent demo --seconds 60
  openintent demo --json | jq .killed.after_ttl_ms

\b
Exit codes:
  0   all was shown, and every promise was kept
  1   it could not start, or a promise was broken; the message says which
  2   the command line is wrong
  130 interrupted with Ctrl-C; nothing is left running
"""
)
@click.option(
    "--seconds",
    type=Seconds(SECONDS_MIN, SECONDS_MAX),
    default=SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long it takes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the sum at the end, as JSON.")
def demo(seconds: float, as_json: bool) -> None:
    """See it work: six agents, three scopes, a crash and a hang.

    Starts a server in memory on a free port, and six agents that contend for three scopes. One agent is killed in the
    middle of its work, and one hangs and wakes up too late. It ends by itself and leaves nothing behind; a server that
    you run is not touched.
    """
    with reported(as_json=as_json), Leaving():
        from openintent.cli.demo import screen  # noqa: PLC0415  # the client, which `--help` need not load

        scene = _played(seconds, as_json=as_json)
        if as_json:
            show.print_json(screen.told(scene, seconds=seconds))
        else:
            screen.print_sum(scene, seconds=seconds)
        if scene.broken:
            raise Problem("; ".join(scene.broken), "please report this, with all of the output")


def _played(seconds: float, *, as_json: bool) -> "Scene":
    from openintent import OpenIntentClient  # noqa: PLC0415  # as above
    from openintent.cli.demo import play, screen  # noqa: PLC0415
    from openintent.cli.demo.cast import Cast  # noqa: PLC0415

    with Cast() as cast:
        if not as_json:
            say("starting a server in memory, and six agents")
        with OpenIntentClient(cast.start_server(), agent_id="audience") as client:
            intent = client.create_intent("Release 2.0", "What six agents work on in the demo")
            cast.start_agents(intent.id, ttl_s=play.ttl_s(seconds))
            with screen.showing(as_json=as_json) as shows:
                return play.play(client, cast, intent.id, shows, seconds=seconds)
