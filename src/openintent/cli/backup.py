"""`openintent backup` and `openintent restore`."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from openintent.cli import show
from openintent.cli.report import Problem, printable, reported, say
from openintent.cli.signals import Leaving
from openintent.clock import boot_s, wall_ms
from openintent.errors import EngineCorrupt, EngineError, EngineInUse

if TYPE_CHECKING:
    from openintent.engines.backup import Contents, Progress, Restored

# A server on the same machine goes first.
NICENESS: Final = 10

ENGINE_HELP: Final = "The database, as the server is told it.  [default: sqlite:///openintent.db]"
DAMAGED: Final = (
    "there is no new copy; if the database is damaged, an older copy can be brought back: openintent restore"
)
NO_COPY: Final = "nothing was changed; name a file that `openintent backup` has made"
NO_FILE: Final[Mapping[str, str]] = {
    "memory": "what is in memory lives as long as its server, and nobody else can read it",
    "": "use the backup of the engine itself",
}


def _place_options(function: Callable[..., None]) -> Callable[..., None]:
    as_json = click.option("--json", "as_json", is_flag=True, help="Print what was done, as JSON.")
    config = click.option("--config", metavar="FILE", help="The server's TOML file, if that names the engine.")
    engine = click.option("--engine", metavar="URL", help=ENGINE_HELP)
    return engine(config(as_json(function)))


@click.command(
    epilog="""\b
Examples:
  openintent backup leases.backup                 of sqlite:///openintent.db, here
  openintent backup /mnt/safe/leases.backup --engine sqlite:////var/lib/openintent/leases.db
  openintent backup "leases-$(date +%F).backup" --json | jq .leases

\b
Exit codes:
  0   the copy is there, whole and on the disk
  1   refused or failed; the message says why, and there is no new file
  2   the command line is wrong
  130 interrupted with Ctrl-C; there is no new file
"""
)
@click.argument("file", type=click.Path(path_type=Path))
@_place_options
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def backup(file: Path, engine: str | None, config: str | None, as_json: bool, force: bool) -> None:
    """Copy the database, beside a running server or not.

    The copy is the state between two commits. The server goes on meanwhile, and does not wait. The copy is one plain
    file, and it has been read from end to end; FILE appears only when it is complete. Keys are not in it: they are in
    a file of their own, NAME.keys beside the database.
    """
    with reported(as_json=as_json), _explained(file, DAMAGED), Leaving():
        from openintent.engines.backup import back_up  # noqa: PLC0415  # SQLite, which `--help` need not load

        database = _database(engine, config)
        _require_database(database)
        _require_folder(file)
        with suppress(OSError):  # not everywhere, and not needed
            os.nice(NICENESS)
        began_at, now_ms = boot_s(), wall_ms()
        with _progress("copying") as progress:
            contents = back_up(database, file, now_ms=now_ms, replace=force, progress=progress)
        _print_backup(file, database, contents, took_s=boot_s() - began_at, as_json=as_json)


@click.command(
    epilog="""\b
Examples:
  openintent restore leases.backup --force        to sqlite:///openintent.db, here
  openintent restore leases.backup --engine sqlite:////var/lib/openintent/leases.db

\b
What to know:
  Tokens jump: the next one is larger than every token that was ever granted, also after the copy
  was made, also if nothing else is left of the old database. Terms jump too, and events are
  numbered on above those that were there.
  Leases granted after the copy was made are forgotten. Wait for the longest ttl in use before you
  start the server, where what they protect checks no tokens.
  Start ONE server from one copy: two would grant the same tokens.

\b
Exit codes:
  0   the database is that of FILE
  1   refused or failed; the message says why, and the database is as it was
  2   the command line is wrong
  130 interrupted with Ctrl-C; the database is as it was
"""
)
@click.argument("file", type=click.Path(path_type=Path))
@_place_options
@click.option("--force", is_flag=True, help="Also if there is a database already; it is kept under another name.")
def restore(file: Path, engine: str | None, config: str | None, as_json: bool, force: bool) -> None:
    """Bring back a database from a copy.

    FILE is what `openintent backup` has made. The server must be stopped. A database that is there already is kept
    as NAME.before-restore-1, -2 and so on.
    """
    with reported(as_json=as_json), _explained(file, NO_COPY), Leaving():
        from openintent.engines import backup as engines  # noqa: PLC0415  # as above

        database = _database(engine, config)
        _require_backup(file)
        _require_folder(database)
        if database.exists() and not force:
            raise _there_already(database)
        with _progress("restoring") as progress:
            restored = engines.restore(file, database, now_ms=wall_ms(), progress=progress)
        _print_restored(file, database, restored, as_json=as_json)


# Where


def _database(engine: str | None, config: str | None) -> Path:
    from openintent.engines import without_secret  # noqa: PLC0415
    from openintent.engines.backup import database_of  # noqa: PLC0415
    from openintent.server.settings import BadSettings, load  # noqa: PLC0415

    try:
        # What else is wrong with the settings is no reason to make no copy of a database that is named.
        url = engine or load({}, config=config, to_serve=False).engine
    except BadSettings as faults:
        raise click.UsageError(str(faults)) from None
    scheme = url.partition(":")[0]
    if scheme != "sqlite":
        raise Problem(f"the engine {without_secret(url)} has no file to copy", NO_FILE.get(scheme, NO_FILE[""]))
    try:
        return database_of(url)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None


def _require_database(database: Path) -> None:
    if not database.exists():
        raise Problem(f"there is no database {database}", "name it with --engine, as in: --engine sqlite:///leases.db")
    if not database.is_file():
        raise Problem(f"{database} is not a file", "name the database with --engine")


def _require_backup(file: Path) -> None:
    if not file.exists():
        raise Problem(f"there is no file {file}", NO_COPY)
    if not file.is_file():
        raise Problem(f"{file} is not a file", NO_COPY)


def _require_folder(file: Path) -> None:
    if file.is_dir():
        raise Problem(f"{file} is a folder", "name a file in it")
    if not file.resolve().parent.is_dir():
        raise Problem(f"the folder {file.resolve().parent} does not exist", "make it first")


def _there_already(database: Path) -> Problem:
    hint = "with --force it is replaced, and kept beside it as .before-restore-1 (or the next free number)"
    return Problem(f"there is a database {database}", hint)


@contextmanager
def _explained(file: Path, unreadable: str) -> Iterator[None]:
    """What keeps a copy from being made or brought back, as one line, and what to do if it cannot be read."""
    try:
        yield
    except FileExistsError as there:
        raise Problem(f"{there} exists", "name another file, or replace it with --force") from None
    except EngineInUse as failure:
        raise Problem(str(failure), "stop that server first, then restore") from None
    except EngineCorrupt as failure:
        raise Problem(str(failure), unreadable) from None
    except EngineError as failure:
        raise Problem(str(failure), "nothing was changed") from None
    except OSError as failure:
        raise Problem(f"{failure.filename or file}: {failure.strerror}", "nothing was changed") from None


# What is shown


@contextmanager
def _progress(label: str) -> "Iterator[Progress]":
    """A bar where somebody looks, on stderr: what is printed is the outcome."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, width=30, show_pos=False) as bar:

        def show_it(done: int, pages: int) -> None:
            bar.length = pages
            bar.update(done - bar.pos)

        yield show_it


def _print_backup(file: Path, database: Path, contents: "Contents", *, took_s: float, as_json: bool) -> None:
    if as_json:
        show.print_json({"file": str(file), "database": str(database), **_told(contents), "seconds": round(took_s, 3)})
        return
    click.echo(f"{printable(str(file))} is a copy of {printable(str(database))}, checked and on the disk")
    show.print_fields(_fields(contents))
    took = f"copied and read through in {took_s:.1f} s"
    click.echo(f"  {took}; {_meanwhile(database)}. Bring it back with: openintent restore {file}", err=True)


def _meanwhile(database: Path) -> str:
    from openintent.engines.lockfile import look  # noqa: PLC0415

    try:
        seen = look(database)
    except OSError:
        seen = None
    if seen is None or not seen.in_use:
        return "no server was running on it"
    return f"the server with pid {seen.entry.pid} went on meanwhile"


def _told(contents: "Contents") -> dict[str, Any]:
    head = contents.head
    counts = {"leases": contents.leases, "intents": contents.intents, "events": contents.events}
    return {"bytes": contents.bytes, "term": head.term, "token": head.token, "seq": head.seq, **counts}


def _fields(contents: "Contents") -> Iterator[tuple[str, str]]:
    yield "size", size(contents.bytes)
    yield "leases", f"{contents.leases:,} live"
    yield "intents", f"{contents.intents:,}"
    yield "events", f"{contents.events:,}"
    yield "term", str(contents.head.term)
    yield "token", f"{contents.head.token}, the newest"
    if contents.taken_ms:
        yield "taken", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(contents.taken_ms / 1_000))


def size(count: int) -> str:
    """Bytes for people."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1_024:
            break
        value, unit = value / 1_024, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"


def _print_restored(file: Path, database: Path, restored: "Restored", *, as_json: bool) -> None:
    contents, head, kept = restored.contents, restored.head, restored.kept
    if as_json:
        went_on = {"next_token_above": head.token, "next_term": head.term + 1, "kept": kept and str(kept)}
        show.print_json({"file": str(file), "database": str(database), **_told(contents), **went_on})
        return
    click.echo(f"{printable(str(database))} is that of {printable(str(file))} again")
    show.print_fields(_fields(contents))
    click.echo(
        f"Tokens go on above {head.token}: after the copy was made, tokens above {contents.head.token} may have been"
    )
    click.echo("granted, and none may come twice. Resources that remember the largest token refuse the older ones.")
    click.echo(f"The next term is {head.term + 1}; the next event has a number above {head.seq}.")
    if kept is not None:
        click.echo(f"The database that was there is kept as {printable(str(kept))}")
    say("leases granted after the copy was made are forgotten; their holders may act until their ttl is over")
