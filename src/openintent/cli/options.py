"""The options that all commands share which talk to a server."""

import functools
import getpass
import json
import math
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from openintent.cli.report import reported
from openintent.cli.unnamed import place_of_hold

if TYPE_CHECKING:
    from openintent.cli.api import Api

Command = Callable[..., None]

SPACE_DEFAULT = "default"
AGENT_VARIABLE = "OPENINTENT_AGENT_ID"


@dataclass(frozen=True, slots=True)
class Session:
    """Whom a command talks to, as whom, and how it shows what it is told."""

    api: "Api"
    as_json: bool
    agent_named: bool  # by option or environment; else it is made of user and host


def asks_server(*, agent: bool = True, unique: bool = False) -> Callable[[Command], Command]:
    """Give a command its `Session` and the options that make one.

    `agent=False` leaves `--agent` to the command. `unique` makes each run an agent of its own: leases exclude only
    other agents, so two runs under one name would not keep each other out of overlapping scopes.
    """

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(url: str | None, api_key: str | None, as_json: bool, **options: Any) -> None:
            named = options.pop("own_agent", None)
            name = named or (unique_agent() if unique else os.environ.get(AGENT_VARIABLE) or user_at_host())
            with reported(as_json=as_json):
                place = url or (place_of_hold(quiet=as_json) if unique else None)
                function(_session(place, api_key, name, as_json=as_json, named=bool(named)), **options)

        decorated: Command = command
        for option in _options(agent=agent, unique=unique):
            decorated = option(decorated)
        return decorated

    return decorate


def _options(*, agent: bool, unique: bool) -> list[Callable[[Command], Command]]:
    # What `hold` prints is what its command prints.
    told = "what goes wrong" if unique else "what the server answered"
    default = "user@host:pid-random" if unique else "user@host"
    named = click.option(
        "--agent",
        "own_agent",
        metavar="ID",
        # In what `hold` runs, the variable names the agent of that run: a part of the name, never all of it.
        envvar=None if unique else AGENT_VARIABLE,
        help=f"Who you are to the server.  [default: {default}]",
    )
    return [
        click.option("--json", "as_json", is_flag=True, help=f"Print {told}, as JSON."),
        *([named] if agent else []),
        click.option("--api-key", metavar="KEY", envvar="OPENINTENT_API_KEY", help="The key to show the server."),
        click.option(
            "--url",
            metavar="URL",
            envvar="OPENINTENT_URL",
            help="The server, or sqlite:///FILE to do without one.  [default: http://localhost:8000]",
        ),
    ]


def _session(url: str | None, api_key: str | None, agent: str, *, as_json: bool, named: bool) -> Session:
    # The client is loaded only when something is asked: `--help` must not wait for it.
    from openintent.cli.api import Api  # noqa: PLC0415

    try:
        return Session(Api(url, api_key, agent), as_json=as_json, agent_named=named)
    except ValueError as wrong:  # an address or a name that cannot be one
        raise click.UsageError(str(wrong)) from None


def user_at_host() -> str:
    """The same in every command that is typed here, so that what one acquired another can release."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = str(os.getuid())
    return _ascii(f"{user}@{socket.gethostname()}")


def unique_agent() -> str:
    """The run's own. A pid alone would not do: containers on one host have their own, and may share its name."""
    return f"{os.environ.get(AGENT_VARIABLE) or user_at_host()}:{os.getpid()}-{os.urandom(2).hex()}"


def _ascii(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isprintable() else "-" for letter in name).strip()


class ListsByDefault(click.Group):
    """Without the name of a command it lists: `openintent leases --json` is `openintent leases ls --json`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_option = bool(args) and args[0].startswith("-") and args[0] not in ctx.help_option_names
        if ctx.resilient_parsing:  # a shell asks what may come next: any of the commands
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, ["ls", *args] if is_option or not args else args)


class Seconds(click.FloatRange):
    """A length of time. Every range has room for `nan`, and one without an end for `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


# Where a lease is


def place_options(function: Command) -> Command:
    intent = click.option("--intent", metavar="ID", help="Leases of this intent.")
    space = click.option("--space", metavar="NAME", help="Leases of this plain space, which needs no intent.")
    return intent(space(function))


def place_of(intent: str | None, space: str | None) -> str | None:
    """The space's full name, or None if no place was named."""
    if intent is not None and space is not None:
        raise click.UsageError("--intent and --space exclude each other")
    if intent is not None:
        return f"intent:{intent}"
    if space is None or space.startswith(("intent:", "space:", "coordinator:")):
        return space
    return f"space:{space}"


def place_or_default(intent: str | None, space: str | None) -> str:
    return place_of(intent, space) or f"space:{SPACE_DEFAULT}"


def pairs(given: tuple[str, ...], option: str) -> dict[str, Any]:
    """`key=value` for each; a value is JSON, and a plain word may do without its quotes."""
    found: dict[str, Any] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"{option} {pair}: write key=value")
        found[key] = _value(value, option, key)
    return found


def _value(text: str, option: str, key: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except OverflowError as wrong:
        raise click.UsageError(f"{option} {key}: {wrong}") from None
    except ValueError as wrong:
        # What begins like JSON was meant to be JSON: it must not silently become a string.
        if text.startswith(("{", "[", '"')) or text in {"NaN", "Infinity", "-Infinity"}:
            raise click.UsageError(f"{option} {key}: not JSON: {wrong}") from None
        return text


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise OverflowError(f"{text} is too large a number")
    return number
