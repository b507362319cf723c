"""What went wrong, in a line or two on stderr, and the exit code that says the same to a script.

Nobody who types a command should meet a traceback: what a server, a network or an engine can do to us has its line
here. A traceback that gets through is a bug of ours.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final

import click

from openintent.errors import (
    LeaseConflictError,
    LeaseLost,
    OpenIntentError,
    OutcomeUnknown,
    Unavailable,
    ValidationError,
    WaitTimeout,
)

# From sysexits.h, so that they mean to others what they mean to us; 76 has no better owner there.
FAILED: Final = 1
MISUSED: Final = 2
UNREACHABLE: Final = 69
BUSY: Final = 75
LOST: Final = 76
# What shells use.
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
SIGNALLED: Final = 128
INTERRUPTED: Final = 130

# What most commands say of them in their help.
EXIT_CODES: Final = """
\b
Exit codes:
  0   done
  1   refused or failed; the message says why
  2   the command line is wrong
  69  no server can be reached, or it did not answer
"""

_CODES: Final[Mapping[type[OpenIntentError], int]] = {
    LeaseConflictError: BUSY,
    WaitTimeout: BUSY,
    LeaseLost: LOST,
    Unavailable: UNREACHABLE,
    OutcomeUnknown: UNREACHABLE,
    ValidationError: MISUSED,
}

# The server's hints are for programs. These are for whoever sits at a command line.
_HINTS: Final[Mapping[str, str]] = {
    "lease_held": "wait for it with --wait SECONDS, or look at it: openintent leases",
    "lease_held_by_you": "--reentrant gives you the lease that you hold; see: openintent leases",
    "lease_cooldown": "wait for it with --wait SECONDS",
    "wait_timeout": "wait longer with --wait SECONDS, or look at it: openintent leases",
    "unreachable": "start a server with: openintent serve; or name one with --url or OPENINTENT_URL",
    "no_answer": "it may have happened all the same; look with: openintent leases",
    "events_gone": "--after 0 begins with the oldest event that there is; without --after it begins now",
    "unauthenticated": "give a key with --api-key or OPENINTENT_API_KEY",
}


class Problem(click.ClickException):
    """Ends the command with a message, a hint and an exit code."""

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        exit_code: int = FAILED,
        code: str = "failed",
        response: Mapping[str, Any] | None = None,
        as_json: bool = False,
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance
        self.as_json = as_json
        self._body = response or {"error": {"code": code, "message": message, "hint": hint}}

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002  # as click calls it
        if self.as_json:
            tell(json.dumps(self._body))
            return
        say(self.message)
        if self.hint:
            tell(f"  {printable(self.hint)}")


def say(message: str) -> None:
    """A line about what goes on, where it does not get into what a command prints."""
    tell(f"openintent: {printable(message)}")


def tell(line: str) -> None:
    """A line on stderr. That it cannot be written is no reason to end: a command may be under way."""
    try:
        click.echo(line, err=True)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # the other has an unwritten rest


def printable(text: str) -> str:
    """Others chose these words, and a terminal obeys what it is sent."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def problem_of(exc: OpenIntentError, *, as_json: bool) -> Problem:
    return Problem(
        exc.message,
        _HINTS.get(exc.code or "") or _told_hint(exc),
        exit_code=next((code for kind, code in _CODES.items() if isinstance(exc, kind)), FAILED),
        code=exc.code or "failed",
        # A reply that is no problem of ours (a proxy's, say) would tell a script nothing.
        response=exc.response if "error" in exc.response else None,
        as_json=as_json,
    )


def _told_hint(exc: OpenIntentError) -> str | None:
    error = exc.response.get("error")
    hint = error.get("hint") if isinstance(error, Mapping) else None
    return hint if isinstance(hint, str) else None


@contextmanager
def reported(*, as_json: bool) -> Iterator[None]:
    """Turns every failure that may be expected into a `Problem`."""
    try:
        yield
    except OpenIntentError as exc:
        raise problem_of(exc, as_json=as_json) from None
    except Problem as problem:
        problem.as_json = as_json
        raise
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
