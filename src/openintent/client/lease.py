"""A lease in the hands of a program."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from openintent.client.hold import FOREIGN, RELEASED, Hold, lease_lost
from openintent.client.replies import Seen
from openintent.client.values import Event, parse_date
from openintent.clock import boot_s


class Lost:
    """Set when the lease is lost, like a `threading.Event`. It looks at the clock itself, so it is never late."""

    __slots__ = ("_hold",)

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def is_set(self) -> bool:
        return self._hold.lost

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the loss; false if it has not come within `timeout` seconds, or the lease was released."""
        return self._hold.wait_over(timeout) and self._hold.lost


class Lease:
    """One grant of a scope to an agent.

    What it knows of its end is counted from when the request was sent, on a clock that never steps, and ends a margin
    before the server's promise does. Call `check()` before each act that the lease protects, and give `token` to
    whatever can refuse a stale one. For a lease of another agent this is a view: `check()` always raises.
    """

    def __init__(self, seen: Seen, *, held_by_us: bool = True, clock: Callable[[], float] = boot_s) -> None:
        self._hold = Hold(seen, clock=clock)
        self._seen = seen
        self._held_by_us = held_by_us
        self.lost = Lost(self._hold)

    # What it is

    @property
    def id(self) -> str:
        return self._seen.view.id

    @property
    def intent_id(self) -> str | None:
        return self._seen.view.intent_id

    @property
    def space(self) -> str:
        return self._seen.view.space

    @property
    def scope(self) -> str:
        return self._seen.view.scope

    @property
    def agent_id(self) -> str:
        return self._seen.view.agent_id

    @property
    def token(self) -> int:
        """The rising integer that fences writes; larger than that of every earlier lease in the space."""
        return self._seen.view.token

    @property
    def ttl_seconds(self) -> float:
        return self._seen.view.ttl_seconds

    @property
    def waited_seconds(self) -> float:
        return self._seen.view.waited_seconds

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._seen.view.metadata

    @property
    def purpose(self) -> str | None:
        return self._seen.view.purpose

    @property
    def checkpoint(self) -> Any:
        """The note that the last report of progress left, by this holder or by the one before."""
        return self._seen.view.checkpoint

    @property
    def timeline(self) -> tuple[Event, ...]:
        """What happened to it, if it was asked for with `get_lease`."""
        return self._seen.timeline

    @property
    def acquired_at(self) -> datetime:
        return parse_date(self._seen.view.acquired_at)

    # How it stands

    @property
    def status(self) -> str:
        """`active`, or how it ended: as the server told, or `expired` when its time ran out unconfirmed."""
        told = self._seen.view.status
        if told != "active" or not self._held_by_us or not self._hold.over:
            return told
        return self._hold.reason if self._hold.reason in {RELEASED, "revoked"} else "expired"

    @property
    def is_active(self) -> bool:
        return self.status == "active"

    @property
    def remaining(self) -> float:
        """Seconds for which it may be relied on, now; 0.0 when it is over."""
        return self._hold.remaining_s

    @property
    def remaining_seconds(self) -> float:
        """What the newest full reply said, at its time. For decisions there is `remaining`."""
        return self._seen.view.remaining_seconds

    @property
    def expires_at(self) -> datetime:
        """For people to read: no decision should compare it with a clock."""
        renewed_by = timedelta(seconds=self._hold.trusted_until - self._seen.trust.until)
        return parse_date(self._seen.view.expires_at) + renewed_by

    @property
    def preempt_asked(self) -> bool:
        """Whether a higher priority has asked for it: it ends after a grace, or when what was promised is over."""
        return self._hold.preempt_asked

    def check(self) -> None:
        """Raise `LeaseLost` unless the work may go on, by our own clock. Nothing is sent."""
        if not self._held_by_us:
            raise lease_lost(FOREIGN, self.token)
        if self._hold.over:
            raise self._hold.failure()

    def __repr__(self) -> str:
        return (
            f"<Lease {self.id} {self.scope!r} in {self.space} token={self.token} {self.status}"
            f" remaining={self.remaining:.1f}>"
        )


# For the rest of the client: what users of a lease have no business with.


def hold_of(lease: Lease) -> Hold:
    return lease._hold  # noqa: SLF001


def show(lease: Lease, seen: Seen) -> None:
    """A newer reply about the same lease. One that came too late to matter changes nothing."""
    hold = hold_of(lease)
    if seen.view.status != "active":
        hold.lose(seen.view.ended_reason or seen.view.status)
    elif not hold.confirm(seen.trust, ttl_s=seen.ttl_s):
        return
    elif seen.view.preempt_asked:
        hold.ask_back()
    lease._seen = seen  # noqa: SLF001
