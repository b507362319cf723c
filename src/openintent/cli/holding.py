"""What `openintent hold` does: reach the server, wait for the lease, run the command under it, give it back."""

import errno
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

from openintent.cli.api import Api
from openintent.cli.guardian import Guardian
from openintent.cli.report import LOST, NOT_EXECUTABLE, NOT_FOUND, Problem, say
from openintent.cli.running import Command, Outcome, Times
from openintent.cli.show import seconds
from openintent.cli.signals import PASSED_ON, Leaving, Signals
from openintent.cli.waiting import Waiting
from openintent.client import OpenIntentClient, calls
from openintent.client.blocks import LeaseBlock
from openintent.client.calls import Wish
from openintent.client.hold import PREEMPTED, TRUST_ENDED
from openintent.client.lease import Lease, hold_of
from openintent.errors import LeaseLost, OpenIntentError

# The command has been stopped; why is worth no more than this.
WHY_S_MAX: Final = 1.0


def run_under_lease(api: Api, wish: Wish, words: Sequence[str], *, grace_s: float | None) -> int:
    """The command's exit code. Raises `Problem` if the lease was not to be had, or was lost."""
    # What the client logs is for programs; what concerns a person is said here.
    logging.getLogger("openintent").addHandler(logging.NullHandler())
    guardian = Guardian()
    try:
        with Leaving():
            return _run(api, wish, words, grace_s, guardian)
    finally:
        guardian.dismiss()


def _run(api: Api, wish: Wish, words: Sequence[str], grace_s: float | None, guardian: Guardian) -> int:
    # A wait outlasts a server that is away for a moment. That none is there at all should be said soon.
    api.ask_patiently(calls.get_queue(wish.space, scope=wish.scope), patience_s=wish.wait_s)
    signals = Signals([*PASSED_ON, signal.SIGCHLD, signal.SIGTSTP])
    with OpenIntentClient(api.url, api_key=api.api_key, agent_id=api.agent) as client, ExitStack() as leaving:
        block = _block(client, wish, signals)
        with Waiting(api, space=wish.space, scope=wish.scope, agent=api.agent, wait_s=wish.wait_s):
            lease = leaving.enter_context(block)
        times = Times.of(lease.ttl_seconds, grace_s)
        env = {**os.environ, **_told(api, lease)}
        command = Command(words, env, trust=hold_of(lease), times=times, guardian=guardian, signals=signals)
        outcome = _started(command, words[0])
        # Perhaps it was the guardian who ended it, while we were stopped.
        if outcome.lost or lease.lost.is_set():
            raise _lost(api, lease, outcome)
    return outcome.exit_code


def _block(client: OpenIntentClient, wish: Wish, signals: Signals) -> LeaseBlock:
    return client.lease(
        space=wish.space,
        scope=wish.scope,
        ttl=wish.ttl_s,
        wait_seconds=wish.wait_s,
        purpose=wish.purpose,
        priority=wish.priority,
        on_lost=lambda _: signals.wake(),
        on_at_risk=_warn,
        on_preempt=lambda lease: say(f"a higher priority asks for {lease.scope}: {seconds(lease.remaining)} are left"),
    )


def _warn(lease: Lease) -> None:
    left = seconds(lease.remaining)
    say(f"the lease on {lease.scope} could not be renewed; if the server does not answer, it is lost in {left}")


def _told(api: Api, lease: Lease) -> dict[str, str]:
    """What the command may want to know."""
    return {
        "OPENINTENT_TOKEN": str(lease.token),
        "OPENINTENT_LEASE_ID": lease.id,
        "OPENINTENT_SCOPE": lease.scope,
        "OPENINTENT_SPACE": lease.space,
        "OPENINTENT_URL": api.url,
        "OPENINTENT_AGENT_ID": api.agent,
    }


def _started(command: Command, name: str) -> Outcome:
    try:
        return command.run()
    except OSError as failure:
        # A script that exists, but whose interpreter does not, is also "not found" to the system.
        missing = failure.errno == errno.ENOENT
        hint = "a script names its interpreter in its first line, such as #!/bin/sh"
        code = NOT_FOUND if missing else NOT_EXECUTABLE
        raise Problem(f"cannot start {name}: {failure.strerror}", hint, exit_code=code) from None


# Losing it


def _lost(api: Api, lease: Lease, outcome: Outcome) -> Problem:
    failure = hold_of(lease).failure()
    return Problem(
        f"the lease on {lease.scope} was lost: {_why(api, lease, failure)}",
        f"the command has ended with exit code {outcome.exit_code}; its token was {lease.token}",
        exit_code=LOST,
        code="lease_lost",
    )


def _why(api: Api, lease: Lease, failure: LeaseLost) -> str:
    if failure.reason not in (TRUST_ENDED, PREEMPTED):
        with suppress(OpenIntentError, LookupError):
            return _ending(api.ask(calls.get_lease(lease.id), timeout_s=WHY_S_MAX))
    return failure.message


def _ending(story: dict[str, Any]) -> str:
    """The server's log knows who ended it, and what for."""
    last = story["timeline"][-1]
    note = f": {last['payload']['note']}" if last["payload"].get("note") else ""
    return f"{story['status']} by {last['actor']}{note}"
