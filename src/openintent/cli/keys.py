"""`openintent keys`: make, list and revoke the keys of a server, in the file that it looks at."""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from openintent.cli import show
from openintent.cli.options import ListsByDefault
from openintent.cli.report import Problem, printable, reported
from openintent.cli.show import Column

if TYPE_CHECKING:
    from openintent.server.keys import Key

Command = Callable[..., None]

ACTIVE_PER_NAME_MAX: Final = 2  # the old and the new one, while clients change over
ID_BYTES: Final = 4
UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
LENGTH: Final = re.compile(r"(\d{1,5})([mhdw])")

EXIT_CODES = """
\b
Exit codes:
  0   done
  1   refused or failed; the message says why, and nothing was changed
  2   the command line is wrong
"""


class _Keys(ListsByDefault):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, "ls" if cmd_name == "list" else cmd_name)


@click.group(cls=_Keys)
def keys() -> None:
    """Make, list, rotate and revoke the keys of a server.

    As long as there is no key, a server serves this machine only, without asking for one. From the first key on, every
    request needs a key. A server that runs follows each change within a second.

    Keys are kept in a file beside the database, without their secrets, for its owner alone to read.
    """


def _changes_file(function: Command) -> Command:
    """The options that say where the keys are, and whether to speak JSON."""

    @wraps(function)
    def command(file: str | None, engine: str | None, config: str | None, as_json: bool, **options: Any) -> None:
        with reported(as_json=as_json), _explained():
            function(_file(file, engine, config), as_json=as_json, **options)

    decorated: Command = command
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print what was done, as JSON."),
        click.option("--config", metavar="FILE", help="The server's TOML file, if that names engine or keys."),
        click.option("--engine", metavar="URL", help="The server's engine, if its database is not ./openintent.db."),
        click.option("--file", metavar="FILE", help="The key file itself.  [default: that beside the database]"),
    ):
        decorated = option(decorated)
    return decorated


def _file(file: str | None, engine: str | None, config: str | None) -> Path:
    from openintent.engines import without_secret  # noqa: PLC0415  # `--help` need not wait for it
    from openintent.server.settings import BadSettings, load  # noqa: PLC0415

    try:
        settings = load({"engine": engine, "keys": file}, config=config, to_serve=False)
    except BadSettings as faults:
        raise click.UsageError(str(faults)) from None
    if settings.key_file is None:
        raise Problem(
            f"the engine {without_secret(settings.engine)} has no file to keep keys beside",
            "name a key file with --file, and give the same to the server: openintent serve --keys FILE",
        )
    return settings.key_file


@contextmanager
def _explained() -> Iterator[None]:
    from openintent.server.keys import BadKeyFile  # noqa: PLC0415

    try:
        yield
    except BadKeyFile as wrong:
        raise Problem(str(wrong), "nothing was changed") from None


# Add


def _expiry(_ctx: click.Context, _param: click.Parameter, text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = LENGTH.fullmatch(text)
    if found is None or not int(found[1]):
        raise click.BadParameter("write a number and m, h, d or w, as in 12h or 30d")
    return int(found[1]) * UNITS[found[2]]


def _shown_once(function: Command) -> Command:
    quiet = click.option("--quiet", "-q", is_flag=True, help="Print the key and nothing else.")
    expires = click.option(
        "--expires", metavar="TIME", callback=_expiry, help="How long it is good: 12h, 30d, 8w.  [default: for ever]"
    )
    return expires(quiet(function))


@keys.command(
    epilog=f"""\b
Examples:
  openintent keys add ana --operator
  openintent keys add ci --agent "ci-*" --expires 90d
  openintent keys add worker --agent worker-1 --agent worker-2
  OPENINTENT_API_KEY=$(openintent keys add me --quiet) openintent leases
{EXIT_CODES}"""
)
@click.argument("name")
@click.option("--operator", is_flag=True, help="It may do everything: revoke leases, act as any agent.")
@click.option("--agent", "agents", multiple=True, metavar="ID", help="Act as this agent only, or as ID*; repeatable.")
@_shown_once
@_changes_file
def add(
    path: Path,
    name: str,
    operator: bool,
    agents: tuple[str, ...],
    expires: timedelta | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Make a key called NAME, and show it once.

    Without --agent it may act as any agent. Every key may read everything. NAME says whose it is; it is no secret.
    """
    from openintent.server.keys import changing  # noqa: PLC0415

    now, first = _now(), not path.exists()
    with changing(path) as known:
        _require_room(known, name, now)
        rights = {"operator": operator, "agents": agents, "expires": _at(now, expires)}
        text, key = _issue(known, name, now, rights)
    _print_new(path, text, key, as_json=as_json, quiet=quiet)
    if first and not (quiet or as_json):
        click.echo("  it is the first one: from now on every request to that server needs a key", err=True)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _at(now: datetime, length: timedelta | None) -> datetime | None:
    return None if length is None else now + length


def _require_room(known: "list[Key]", name: str, now: datetime) -> None:
    from openintent.server.keys import KEYS_MAX  # noqa: PLC0415

    active = [key.id for key in known if key.name == name and key.state(now) == "active"]
    if len(active) >= ACTIVE_PER_NAME_MAX:
        raise Problem(
            f"{name} has {len(active)} active keys already: {', '.join(active)}",
            f"two are for changing over; revoke the one that is not used any more: openintent keys revoke {active[0]}",
        )
    while len(known) >= KEYS_MAX:
        ended = [(end, index) for index, key in enumerate(known) if (end := key.ended(now)) is not None]
        if not ended:
            raise Problem(f"there are {len(known)} keys, the most that there may be", "revoke those that nobody uses")
        del known[min(ended)[1]]  # nobody misses what ended longest ago


def _issue(known: "list[Key]", name: str, now: datetime, rights: dict[str, Any]) -> "tuple[str, Key]":
    from openintent.server.keys import SECRET_BYTES, issued  # noqa: PLC0415

    taken = {key.id for key in known}
    key_id = next(fresh for fresh in iter(lambda: secrets.token_hex(ID_BYTES), "") if fresh not in taken)
    try:
        text, key = issued(name, key_id=key_id, secret=secrets.token_urlsafe(SECRET_BYTES), now=now, **rights)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from None
    known.append(key)
    return text, key


def _print_new(path: Path, text: str, key: "Key", *, as_json: bool, quiet: bool) -> None:
    if as_json:
        show.print_json({"key": text, **_told(key, _now()), "file": str(path)})
        return
    click.echo(text)  # what else there is to say must not get into a variable or a file with it
    if not quiet:
        until = f"until {_date(key.expires)}" if key.expires is not None else "until it is revoked"
        click.echo(f"  {printable(key.name)} ({_rights(key)}), good {until}; kept in {printable(str(path))}", err=True)
        click.echo("  this is the only time it is shown: give it to clients as OPENINTENT_API_KEY", err=True)


# Rotate


@keys.command(
    epilog=f"""\b
Examples:
  openintent keys rotate ci                   then revoke the old one, when no client uses it any more
  openintent keys rotate ci --old-for 24h     the old one ends by itself
{EXIT_CODES}"""
)
@click.argument("name")
@click.option("--old-for", metavar="TIME", callback=_expiry, help="How long the old key stays good: 12h, 30d.")
@_shown_once
@_changes_file
def rotate(
    path: Path, name: str, old_for: timedelta | None, expires: timedelta | None, quiet: bool, as_json: bool
) -> None:
    """Make a second key with the rights of the one called NAME, and show it once."""
    import msgspec  # noqa: PLC0415

    from openintent.server.keys import changing  # noqa: PLC0415

    now = _now()
    with changing(path) as known:
        old = next((key for key in known if key.name == name and key.state(now) == "active"), None)
        if old is None:
            raise _unknown(known, name, "make one with: openintent keys add")
        _require_room(known, name, now)
        rights = {"operator": old.operator, "agents": old.agents, "expires": _at(now, expires)}
        text, key = _issue(known, name, now, rights)
        end = _at(now, old_for)
        if end is not None and (old.expires is None or end < old.expires):
            known[known.index(old)] = old = msgspec.structs.replace(old, expires=end)
    _print_new(path, text, key, as_json=as_json, quiet=quiet)
    if not (quiet or as_json):
        ends = f"is good until {_date(old.expires)}" if old.expires else f"ends with: openintent keys revoke {old.id}"
        click.echo(f"  the old key {old.id} {ends}", err=True)


# List


@keys.command(
    epilog=f"""\b
Examples:
  openintent keys ls
  openintent keys ls --json | jq -r '.keys[] | select(.state == "active") | .name'
{EXIT_CODES}"""
)
@_changes_file
def ls(path: Path, as_json: bool) -> None:
    """List the keys, the ended ones too. Nobody can list their secrets."""
    from openintent.server.keys import load  # noqa: PLC0415

    known, now = load(path) or [], _now()
    if as_json:
        show.print_json({"file": str(path), "keys": [_told(key, now) for key in known]})
        return
    empty = f"no keys in {printable(str(path))}; make one with: openintent keys add NAME"
    show.print_table(COLUMNS, [_row(key, now) for key in known], empty=empty)


COLUMNS: Final = [
    Column("ID", whole=True),
    Column("NAME", style="bold"),
    Column("RIGHTS"),
    Column("AGENTS"),
    Column("CREATED", whole=True),
    Column("EXPIRES", whole=True),
    Column("STATE"),
]


def _row(key: "Key", now: datetime) -> show.Row:
    rights = "operator" if key.operator else "agent"
    dates = [_date(key.created), _date(key.expires)]
    return [key.id, key.name, rights, ", ".join(key.agents) or "any", *dates, show.status(key.state(now))]


def _rights(key: "Key") -> str:
    if key.operator:
        return "operator"
    return f"acts as {', '.join(key.agents)}" if key.agents else "acts as any agent"


def _date(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _told(key: "Key", now: datetime) -> dict[str, Any]:
    """A key for programs: all but its digest."""
    dates = {"created": key.created, "expires": key.expires, "revoked": key.revoked}
    told = {"id": key.id, "name": key.name, "operator": key.operator, "agents": list(key.agents)}
    return told | {word: date and date.isoformat() for word, date in dates.items()} | {"state": key.state(now)}


# Revoke


@keys.command(
    epilog=f"""\b
Examples:
  openintent keys revoke 3f9a1c2b
  openintent keys revoke ci
  openintent keys revoke ci --all
{EXIT_CODES}"""
)
@click.argument("key", metavar="ID_OR_NAME")
@click.option("--all", "every", is_flag=True, help="All keys of that name.")
@_changes_file
def revoke(path: Path, key: str, every: bool, as_json: bool) -> None:
    """End a key, by its id or its name. It never becomes good again.

    Leases that were acquired with it end at their own deadlines, unless their agents renew them with another key.
    """
    import msgspec  # noqa: PLC0415

    from openintent.server.keys import changing  # noqa: PLC0415

    now = _now()
    with changing(path) as known:
        chosen = _chosen(known, key, now, every=every)
        for each in chosen:
            if each.revoked is None:
                known[known.index(each)] = msgspec.structs.replace(each, revoked=now)
        ended = [each for each in known if each.id in {one.id for one in chosen}]
    if as_json:
        show.print_json({"keys": [_told(each, now) for each in ended]})
        return
    for each in ended:
        click.echo(f"{each.id} ({printable(each.name)}) is revoked since {_date(each.revoked)}")


def _chosen(known: "Sequence[Key]", wanted: str, now: datetime, *, every: bool) -> "list[Key]":
    by_id = [key for key in known if key.id == wanted]
    if by_id:
        return by_id
    named = [key for key in known if key.name == wanted]
    active = [key for key in named if key.state(now) == "active"]
    if not named:
        raise _unknown(known, wanted, "see them with: openintent keys")
    if len(active) > 1 and not every:
        ids = ", ".join(key.id for key in active)
        raise Problem(f"{wanted} has {len(active)} active keys: {ids}", "name one by its id, or all of them with --all")
    return active or named[-1:]  # the newest of those that have ended: there is nothing left to do


def _unknown(known: "Sequence[Key]", wanted: str, hint: str) -> Problem:
    return Problem(f"there is no key {wanted!r}" if known else "there are no keys", hint)
