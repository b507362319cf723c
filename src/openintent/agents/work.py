"""The work that the running handler does: what it is about, and the lease that it is done under."""

import asyncio
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from openintent.agents.record import Failure, besides
from openintent.client.coordinator import CoordinatorLease
from openintent.client.lease import Lease
from openintent.client.values import Intent


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt at one assignment, for its handler: `self.work`."""

    intent: Intent
    lease: Lease
    name: str  # that the assignment is addressed to: the agent's own or its role
    attempt: int = 1
    last_failure: Failure | None = None
    from_agent: str = ""
    payload: Any = None
    # Set when the work is no longer wanted, for a plain handler to see.
    unwanted: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    @property
    def checkpoint(self) -> Any:
        """The note that was saved last, by this attempt or by the one before it; None without one."""
        return self.lease.checkpoint

    def check(self) -> None:
        """Raise unless the work may go on. For plain handlers, which nobody can cancel.

        `LeaseLost` if the lease was, `CancelledError` if the work is no longer wanted or the agent is to stop.
        """
        self.lease.check()
        if self.unwanted.is_set():
            raise asyncio.CancelledError("the work is no longer wanted")


current: ContextVar[Work | None] = ContextVar("current", default=None)
# The lease that the running code leads under; it stays when that is lost, so that late writes are refused.
leading: ContextVar[CoordinatorLease | None] = ContextVar("leading", default=None)


def result_of(returned: object, handler: str) -> Mapping[str, Any]:
    """What a handler returned, as keys of the state, without records; nothing is an empty result."""
    if returned is None:
        return {}
    if not isinstance(returned, Mapping) or not all(isinstance(key, str) for key in returned):
        raise TypeError(f"{handler} must return a dict for the intent's state or None, not {type(returned).__name__}")
    return besides(returned)
