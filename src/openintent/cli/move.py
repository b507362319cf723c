"""`openintent export`, `openintent import` and `openintent move`: a ledger, from one engine to another."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from openintent.cli import show
from openintent.cli.backup import size
from openintent.cli.report import Problem, printable, reported, say
from openintent.cli.signals import Leaving
from openintent.clock import wall_ms
from openintent.engines import open_engine, without_secret
from openintent.errors import EngineCorrupt, EngineError, EngineInUse
from openintent.version import __version__

if TYPE_CHECKING:
    from openintent.engines.base import Engine
    from openintent.engines.movefile import Summary
    from openintent.grantor.moving import Imported, Progress
    from openintent.server.settings import Settings

ENGINE_HELP: Final = "The engine, as the server is told it.  [default: sqlite:///openintent.db]"
ONE_SERVER: Final = "serve one of the two from now on, never both; keys are in a file of their own, and are not moved"
EMPTY_PLACE: Final = "name an empty one: another file, database, schema, prefix or path"
BROKEN_OFF: Final = "no server starts on half of it: run it again when that is mended"
STOP_FIRST: Final = "stop that server first, and all that stand by for it"


def _place_options(function: Callable[..., None]) -> Callable[..., None]:
    as_json = click.option("--json", "as_json", is_flag=True, help="Print what was done, as JSON.")
    config = click.option("--config", metavar="FILE", help="The server's TOML file.")
    return config(as_json(function))


@click.command(
    epilog="""\b
Examples:
  openintent export ledger.jsonl                       of sqlite:///openintent.db, here
  openintent export ledger.jsonl --engine postgresql://openintent@db.example/openintent

\b
Exit codes:
  0   the file is there, whole and on the disk
  1   refused or failed; the message says why, and there is no new file
  2   the command line is wrong
  130 interrupted with Ctrl-C; there is no new file
"""
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--engine", metavar="URL", help=ENGINE_HELP)
@_place_options
def export(file: Path, engine: str | None, config: str | None, as_json: bool) -> None:
    """Write all that an engine remembers to a file, for `openintent import`.

    All servers on the engine must be stopped. If the last of them was killed, it takes some seconds to be sure of
    that. The engine stays as it is. FILE appears only when it is complete and was read through.
    """
    with reported(as_json=as_json), _explained(file, "there is no new file"), Leaving():
        settings = _settings(engine, config)
        _require_source(settings.engine)
        _require_new(file)
        summary = _with_progress(lambda progress: _export(settings, file, progress))
        _print_exported(file, summary, as_json=as_json)


@click.command(
    "import",
    epilog="""\b
Examples:
  openintent import ledger.jsonl --engine etcd://etcd1:2379,etcd2:2379,etcd3:2379/openintent
  openintent import ledger.jsonl --engine sqlite:////var/lib/openintent/leases.db

\b
What to know:
  Tokens jump: the next one is larger than every token that was ever granted, also after the file was
  made. Every live lease gets its full ttl once more when a server starts.
  If it fails halfway, no server starts on what is there. Run it again.

\b
Exit codes:
  0   the engine has all of it, and was read back
  1   refused or failed; the message says why
  2   the command line is wrong
  130 interrupted with Ctrl-C; run it again
""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--engine", metavar="URL", help=ENGINE_HELP)
@_place_options
def import_(file: Path, engine: str | None, config: str | None, as_json: bool) -> None:
    """Bring what `openintent export` has written into an empty engine, of the same kind or another."""
    with reported(as_json=as_json), _explained(file, BROKEN_OFF), Leaving():
        settings = _settings(engine, config)
        _require_kept(settings.engine)
        if not file.is_file():
            raise Problem(f"there is no file {file}", "name one that `openintent export` has made")
        imported = _with_progress(lambda progress: _import(settings, file, progress))
        _print_imported(settings.engine, imported, as_json=as_json)


@click.command(
    epilog="""\b
Examples:
  openintent move --from sqlite:///openintent.db --to etcd://etcd1:2379/openintent

\b
Exit codes:
  0   the new engine has all of it, and was read back
  1   refused or failed; the message says why
  2   the command line is wrong
  130 interrupted with Ctrl-C; run it again
"""
)
@click.option("--from", "source", metavar="URL", required=True, help="The engine that the servers were on.")
@click.option("--to", "target", metavar="URL", required=True, help="An empty one.")
@_place_options
def move(source: str, target: str, config: str | None, as_json: bool) -> None:
    """Export from one engine and import into another, at once.

    All servers must be stopped. The old engine stays as it is.
    """
    with reported(as_json=as_json), _explained(Path(), BROKEN_OFF), Leaving():
        origin, goal = _settings(source, config), _settings(target, config)
        _require_source(origin.engine)
        _require_kept(goal.engine)
        with tempfile.TemporaryDirectory(prefix="openintent-move-") as folder:
            file = Path(folder) / "ledger.jsonl"
            _with_progress(lambda progress: _export(origin, file, progress))
            imported = _with_progress(lambda progress: _import(goal, file, progress))
        _print_imported(goal.engine, imported, as_json=as_json)


async def _export(settings: "Settings", file: Path, progress: "Progress") -> "Summary":
    from openintent.grantor import moving  # noqa: PLC0415  # which `--help` need not load

    ttl_s, source = settings.leader_ttl_seconds, settings.engine.partition(":")[0]
    async with _opened(settings.engine) as engine:
        return await moving.export(
            engine, file, source=source, version=__version__, now_ms=wall_ms(), leader_ttl_s=ttl_s, progress=progress
        )


async def _import(settings: "Settings", file: Path, progress: "Progress") -> "Imported":
    from openintent.grantor import moving  # noqa: PLC0415  # as above

    ttl_s = settings.leader_ttl_seconds
    async with _opened(settings.engine) as engine:
        return await moving.import_(engine, file, now_ms=wall_ms(), leader_ttl_s=ttl_s, progress=progress)


@asynccontextmanager
async def _opened(url: str) -> "AsyncIterator[Engine]":
    engine = open_engine(url)
    try:
        yield engine
    finally:
        await engine.close()


# Where


def _settings(engine: str | None, config: str | None) -> "Settings":
    from openintent.server.settings import BadSettings, load  # noqa: PLC0415  # as above

    try:
        return load({"engine": engine}, config=config, to_serve=False)
    except BadSettings as faults:
        raise click.UsageError(str(faults)) from None


def _require_kept(url: str) -> None:
    if url.partition(":")[0] == "memory":
        raise Problem("what is in memory lives as long as its server", "name an engine that keeps it")


def _require_source(url: str) -> None:
    _require_kept(url)
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).is_file():
        raise Problem(f"there is no database {url.removeprefix('sqlite:///')}", "name it with --engine")


def _require_new(file: Path) -> None:
    if not file.resolve().parent.is_dir():
        raise Problem(f"the folder {file.resolve().parent} does not exist", "make it first")
    if file.exists():
        raise FileExistsError(file)


@contextmanager
def _explained(file: Path, afterwards: str) -> Iterator[None]:
    """What keeps a ledger from being moved, as one line; `afterwards`: how things stand then."""
    from openintent.grantor.moving import NotEmpty, Nothing  # noqa: PLC0415  # as above

    hints = {FileExistsError: "name another file", EngineInUse: STOP_FIRST, NotEmpty: EMPTY_PLACE}
    hints |= {Nothing: "name the engine that the servers were on", EngineCorrupt: afterwards}
    try:
        yield
    except FileExistsError as there:
        raise Problem(f"{there.filename or there} exists", hints[FileExistsError]) from None
    except EngineError as failure:
        raise Problem(str(failure), hints.get(type(failure), afterwards)) from None
    except ValueError as wrong:  # the engine's URL
        raise click.UsageError(str(wrong)) from None
    except OSError as failure:
        raise Problem(f"{failure.filename or file}: {failure.strerror}", afterwards) from None


# What is shown


def _with_progress(work: "Callable[[Progress], Any]") -> Any:
    """Do it, with a bar where somebody looks, on stderr: what is printed is the outcome."""
    if not sys.stderr.isatty():
        return asyncio.run(work(lambda _what, _done, _all: None))
    from rich.console import Console  # noqa: PLC0415  # only who looks pays for it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("records"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking whether a server lives", total=None)
        return asyncio.run(
            work(lambda what, done, all_: bar.update(task, description=what, completed=done, total=all_))
        )


def _told(summary: "Summary") -> dict[str, Any]:
    head, counts = summary.head, summary.counts
    told = {"records": counts.records, "leases": counts.leases, "intents": counts.intents, "events": counts.events}
    return {"bytes": summary.size_bytes, "term": head.term, "token": head.token, "seq": head.seq, **told}


def _fields(summary: "Summary") -> Iterator[tuple[str, str]]:
    counts = summary.counts
    yield "size", size(summary.size_bytes)
    yield "records", f"{counts.records:,}"
    yield "leases", f"{counts.leases:,} live"
    yield "intents", f"{counts.intents:,}"
    yield "events", f"{counts.events:,}"
    yield "term", str(summary.head.term)
    yield "token", f"{summary.head.token}, the newest"


def _print_exported(file: Path, summary: "Summary", *, as_json: bool) -> None:
    if as_json:
        show.print_json({"file": str(file), "engine": summary.engine, **_told(summary), "sha256": summary.digest})
        return
    click.echo(f"{printable(str(file))} has all of it, checked and on the disk")
    show.print_fields(_fields(summary))
    click.echo(f"  Bring it into another engine with: openintent import {file} --engine URL", err=True)
    say(ONE_SERVER)


def _print_imported(url: str, imported: "Imported", *, as_json: bool) -> None:
    summary, head, place = imported.summary, imported.head, without_secret(url)
    if as_json:
        went_on = {"next_token_above": head.token, "next_term": head.term + 1}
        show.print_json({"engine": place, **_told(summary), **went_on, "sha256": summary.digest})
        return
    click.echo(f"{printable(place)} has all of it, read back and compared")
    show.print_fields(_fields(summary))
    click.echo(f"Tokens go on above {head.token}; the next term is {head.term + 1}.")
    click.echo("  When a server starts, every live lease gets its full ttl once more.", err=True)
    say(ONE_SERVER)
