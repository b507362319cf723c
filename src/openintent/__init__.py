"""Leases and coordination for fleets of agents.

    from openintent import OpenIntentClient

    with OpenIntentClient() as client, client.lease(intent.id, "build") as lease:
        ...

Without a server, `openintent.local("leases.db")` is such a client too.

The server and the command line are not imported here: `import openintent` is for those who hold leases.
"""

import os
from pathlib import Path

from openintent.client import AsyncOpenIntentClient, OpenIntentClient, localfile
from openintent.exceptions import (
    AuthenticationError,
    ConflictError,
    EventsGone,
    LeaseConflictError,
    LeaseLost,
    NotFoundError,
    OpenIntentError,
    OutcomeUnknown,
    PermissionError_,
    StaleTokenError,
    Unavailable,
    ValidationError,
    WaitTimeout,
)
from openintent.models import (
    AgentRecord,
    Assignment,
    CoordinatorLease,
    Decision,
    Event,
    Heartbeat,
    Intent,
    Lease,
    LeaseVerdict,
    Portfolio,
    Released,
    TokenCheck,
    Waiter,
)
from openintent.version import __version__

__all__ = [
    "AgentRecord",
    "Assignment",
    "AsyncOpenIntentClient",
    "AuthenticationError",
    "ConflictError",
    "CoordinatorLease",
    "Decision",
    "Event",
    "EventsGone",
    "Heartbeat",
    "Intent",
    "Lease",
    "LeaseConflictError",
    "LeaseLost",
    "LeaseVerdict",
    "NotFoundError",
    "OpenIntentClient",
    "OpenIntentError",
    "OutcomeUnknown",
    "PermissionError_",
    "Portfolio",
    "Released",
    "StaleTokenError",
    "TokenCheck",
    "Unavailable",
    "ValidationError",
    "WaitTimeout",
    "Waiter",
    "__version__",
    "local",
]


def local(
    path: str | os.PathLike[str],
    agent_id: str | None = None,
    *,
    api_key: str | None = None,
    timeout: float = 30.0,
) -> OpenIntentClient:
    """A client that needs no server: the programs of this machine that name the same file see to it themselves.

    It is `OpenIntentClient("sqlite:///path")`, and `AsyncOpenIntentClient` takes the same address. If there is an
    `openintent serve` that has the file open, that server is used. Close the client when you are done: one of the
    programs serves the others, and says farewell then.
    """
    name = os.fspath(path)
    url = name if name.startswith(("sqlite:", "memory:")) else f"{localfile.PREFIX}{name}"
    return OpenIntentClient(url, api_key, agent_id, timeout)


def _join(path: Path) -> localfile.Place:
    from openintent.embedded import join  # noqa: PLC0415  # only those who name a file need it

    return join(path)


localfile.offer(_join)
