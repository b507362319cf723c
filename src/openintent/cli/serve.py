"""`openintent serve`."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from openintent.cli.report import Problem, printable
from openintent.engines import without_secret
from openintent.errors import EngineError, EngineInUse

if TYPE_CHECKING:
    from openintent.server.settings import Settings

EPILOG = """\b
Examples:
  openintent serve                                    sqlite:///openintent.db on port 8000
  openintent serve --port 0 --engine memory:          any free port, nothing is kept
  openintent serve --engine sqlite:////var/lib/openintent/leases.db
  openintent serve --host 0.0.0.0 --keys /etc/openintent/keys --behind-tls

\b
Exit codes:
  0   told to stop (Ctrl-C or SIGTERM), all is stored
  1   could not start; the message says why
  2   the settings are wrong
"""


@click.command(epilog=EPILOG)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on; 0 takes any free one.  [default: 8000]")
@click.option("--engine", metavar="URL", help="Where to keep the ledger.  [default: sqlite:///openintent.db]")
@click.option("--keys", metavar="FILE", help="The key file.  [default: that beside the database, if there is one]")
@click.option("--behind-tls", is_flag=True, default=None, help="A proxy in front terminates TLS.")
@click.option("--advertise", metavar="URL", help="Where other servers on the same engine reach this one.")
@click.option("--config", metavar="FILE", help="A TOML file with settings.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="One line for each event.  [default: text]")
def serve(config: str | None, **flags: object) -> None:
    """Run the server until it is told to stop (Ctrl-C or SIGTERM).

    Every option can also be given as an environment variable (OPENINTENT_PORT=9000) or in a TOML file (port = 9000).
    """
    # Imported here so that the other commands start without loading a server.
    from openintent.server.settings import BadSettings, load  # noqa: PLC0415

    try:
        settings = load(flags, config=config)
    except BadSettings as faults:
        raise click.UsageError(str(faults)) from None
    ready: list[str] = []
    with _explained(settings, ready):
        _run(settings, ready)
    click.echo("Stopped; all is stored." if settings.engine != "memory:" else "Stopped.")


def _run(settings: "Settings", ready: list[str]) -> None:
    from openintent.server import app  # noqa: PLC0415
    from openintent.server.keys import BadKeyFile  # noqa: PLC0415

    try:
        app.run(settings, lambda url: _announce(url, settings, ready))
    except BadKeyFile as wrong:
        raise Problem(str(wrong), "a server does not start with keys that it cannot rely on") from None


@contextmanager
def _explained(settings: "Settings", ready: list[str]) -> Iterator[None]:
    """What keeps a server from starting, as one line for a person who has never seen it.

    Once it is ready, such a failure is no mistake of theirs any more but a bug of ours, and shown as one.
    """
    try:
        yield
    except KeyboardInterrupt:  # before it was ready; afterwards the server itself takes the signal for what it means
        sys.exit(0)
    except EngineInUse as failure:
        raise Problem(str(failure), "use that server, stop it, or keep another database with --engine") from None
    except EngineError as failure:
        raise Problem(str(failure), _remedy(settings.engine, str(failure))) from None
    except ValueError as failure:  # the engine's URL
        if ready:
            raise
        raise click.UsageError(str(failure)) from None
    except OSError as failure:
        if ready:
            raise
        raise _cannot_listen(settings.host, settings.port, failure) from None


def _remedy(engine: str, trouble: str) -> str:
    from openintent.cli.doctor_engine import ON_THIS_MACHINE, remedy_for  # noqa: PLC0415  # as above

    if engine.partition(":")[0] in ON_THIS_MACHINE:
        return "name another place with --engine, such as sqlite:////var/lib/leases.db"
    return remedy_for(trouble)


def _cannot_listen(host: str, port: int, failure: OSError) -> Problem:
    if failure.errno == errno.EADDRINUSE:
        return Problem(
            f"port {port} on {host} is in use by another program",
            f"stop that program, or choose another port: openintent serve --port {port + 1} (0 takes any free one)",
        )
    if failure.errno == errno.EACCES:
        return Problem(f"port {port} is reserved for the administrator", "choose one above 1023 with --port")
    return Problem(f"cannot listen on {host} port {port}: {failure.strerror or failure}", "see --host and --port")


def _announce(url: str, settings: "Settings", ready: list[str]) -> None:
    ready.append(url)
    click.echo(f"openintent is ready at {url}")
    click.echo(f"  page    {url}/")
    click.echo(f"  docs    {url}/docs")
    click.echo(f"  API     {url}/api/v1")
    click.echo(f"  engine  {without_secret(settings.engine)}{_forgetful(settings.engine)}")
    click.echo(f"  mode    {_mode(settings)}")
    click.echo("Stop with Ctrl-C.")


def _mode(settings: "Settings") -> str:
    path = settings.key_file
    if path is not None and (settings.keys is not None or path.exists()):
        return f"keys: every request needs one of {printable(str(path))}; see `openintent keys`"
    return "dev: this machine only, any key or none is accepted, every caller has operator rights"


def _forgetful(engine: str) -> str:
    return "   when the server ends, all is gone" if engine == "memory:" else ""
