"""`openintent serve`."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from openintent.cli.report import Problem
from openintent.errors import EngineError, EngineInUse

EPILOG = """\b
Examples:
  openintent serve                                    sqlite:///openintent.db on port 8000
  openintent serve --port 0 --engine memory:          any free port, nothing is kept
  openintent serve --engine sqlite:////var/lib/openintent/leases.db

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
@click.option("--config", metavar="FILE", help="A TOML file with settings.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
def serve(host: str | None, port: int | None, engine: str | None, config: str | None, log_level: str | None) -> None:
    """Run the server until it is told to stop (Ctrl-C or SIGTERM).

    Every option can also be given as an environment variable (OPENINTENT_PORT=9000) or in a TOML file (port = 9000).
    """
    # Imported here so that the other commands start without loading a server.
    from openintent.server import app  # noqa: PLC0415
    from openintent.server.settings import BadSettings, load  # noqa: PLC0415

    flags = {"host": host, "port": port, "engine": engine, "log_level": log_level}
    try:
        settings = load(flags, config=config)
    except BadSettings as faults:
        raise click.UsageError(str(faults)) from None
    ready: list[str] = []
    with _explained(settings.host, settings.port, ready):
        app.run(settings, lambda url: _announce(url, settings.engine, ready))
    click.echo("Stopped; all is stored." if settings.engine != "memory:" else "Stopped.")


@contextmanager
def _explained(host: str, port: int, ready: list[str]) -> Iterator[None]:
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
        raise Problem(str(failure), "name another place with --engine, such as sqlite:////var/lib/leases.db") from None
    except ValueError as failure:  # the engine's URL
        if ready:
            raise
        raise click.UsageError(str(failure)) from None
    except OSError as failure:
        if ready:
            raise
        raise _cannot_listen(host, port, failure) from None


def _cannot_listen(host: str, port: int, failure: OSError) -> Problem:
    if failure.errno == errno.EADDRINUSE:
        return Problem(
            f"port {port} on {host} is in use by another program",
            f"stop that program, or choose another port: openintent serve --port {port + 1} (0 takes any free one)",
        )
    if failure.errno == errno.EACCES:
        return Problem(f"port {port} is reserved for the administrator", "choose one above 1023 with --port")
    return Problem(f"cannot listen on {host} port {port}: {failure.strerror or failure}", "see --host and --port")


def _announce(url: str, engine: str, ready: list[str]) -> None:
    ready.append(url)
    click.echo(f"openintent is ready at {url}")
    click.echo(f"  page    {url}/")
    click.echo(f"  API     {url}/api/v1        described in docs/http.md")
    click.echo(f"  engine  {engine}{_forgetful(engine)}")
    click.echo("  mode    dev: this machine only, any key or none is accepted, every caller has operator rights")
    click.echo("Stop with Ctrl-C.")


def _forgetful(engine: str) -> str:
    return "   when the server ends, all is gone" if engine == "memory:" else ""
