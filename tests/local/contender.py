"""Contends for a few scopes, counts in the state of an intent under each lease, and says what it believed and when.

A second thread does one small thing after another, so that one can see how long this program was kept waiting.
"""

import logging
import random
import sys
import threading

from programs import say

import openintent
from openintent.client.lease import hold_of
from openintent.clock import boot_s
from openintent.exceptions import (
    ConflictError,
    LeaseConflictError,
    LeaseLost,
    OutcomeUnknown,
    StaleTokenError,
    Unavailable,
    WaitTimeout,
)

SCOPES = ("red", "green", "blue")
INTENT = "count"
TTL_S = 0.6  # what a killed holder held is free again this long after the next grantor is there
WAIT_S = 4.0
PULSE_S = 0.02
ACT_S = 0.005


def main(database: str, name: str) -> None:
    # With a ttl this short heartbeats fail while the grantor changes. That is said here by `refused`, if it matters.
    logging.getLogger("openintent").addHandler(logging.NullHandler())
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    with openintent.local(database, name) as client:
        client.create_intent("Counting", id=INTENT, initial_state=dict.fromkeys(SCOPES, 0))
        say("ready")
        pulse = threading.Thread(target=beat, args=(client, name, over))
        pulse.start()
        chance = random.Random(name)
        while not over.is_set():
            contend(client, chance)
        pulse.join()


def beat(client: openintent.OpenIntentClient, name: str, over: threading.Event) -> None:
    while not over.wait(PULSE_S):
        lease = client.acquire_lease(space="own", scope=name, ttl_seconds=30)
        client.release_lease(lease)
        say("pulse", token=lease.token)


def contend(client: openintent.OpenIntentClient, chance: random.Random) -> None:
    scope = chance.choice(SCOPES)
    try:
        with client.lease(INTENT, scope, ttl=TTL_S, wait_seconds=WAIT_S, on_lost=no_longer_believe) as lease:
            say("holds", scope=scope, token=lease.token)
            try:
                count(client, scope, lease)
                act(lease, until=boot_s() + chance.uniform(0, 0.03))
            finally:
                no_longer_believe(lease)
    except (WaitTimeout, LeaseConflictError, LeaseLost, StaleTokenError) as refused:
        say("refused", why=type(refused).__name__)
    except (OutcomeUnknown, Unavailable) as refused:
        # Its patience ended just when the grantor did. In the block there is patience enough: see `count`.
        say("refused", why=type(refused).__name__)


def no_longer_believe(lease: openintent.Lease) -> None:
    # What it is told counts as soon as it is true, not when this thread comes to say so.
    say("ends", scope=lease.scope, token=lease.token, until=hold_of(lease).trusted_until)


def act(lease: openintent.Lease, *, until: float) -> None:
    """Do something again and again, each time only if the lease is good."""
    while (now := boot_s()) < until:
        lease.check()
        say("acts", scope=lease.scope, token=lease.token, looked_at=now)
        threading.Event().wait(ACT_S)


def count(client: openintent.OpenIntentClient, scope: str, lease: openintent.Lease) -> None:
    """One more, by compare and set: the holders of the other scopes write to the same intent."""
    while True:
        seen = client.get_intent(INTENT)
        value = seen.state[scope] + 1
        say("tries", scope=scope, value=value)
        try:
            client.update_state(INTENT, seen.version, {scope: value}, lease=lease)
        except (OutcomeUnknown, Unavailable) as failure:
            raise AssertionError("an answer that did not come within 30 s") from failure
        except ConflictError as conflict:
            say("fails", scope=scope, value=value)
            if isinstance(conflict, LeaseConflictError | StaleTokenError):
                raise
        else:
            say("counted", scope=scope, value=value)
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
