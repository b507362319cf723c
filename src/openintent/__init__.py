"""Leases and coordination for fleets of agents.

    from openintent import OpenIntentClient

    with OpenIntentClient() as client, client.lease(intent.id, "build") as lease:
        ...

The server and the command line are not imported here: `import openintent` is for those who hold leases.
"""

from openintent.client import AsyncOpenIntentClient, OpenIntentClient
from openintent.exceptions import (
    AuthenticationError,
    ConflictError,
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
from openintent.models import Event, Heartbeat, Intent, Lease, LeaseVerdict, Released, TokenCheck, Waiter
from openintent.version import __version__

__all__ = [
    "AsyncOpenIntentClient",
    "AuthenticationError",
    "ConflictError",
    "Event",
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
    "Released",
    "StaleTokenError",
    "TokenCheck",
    "Unavailable",
    "ValidationError",
    "WaitTimeout",
    "Waiter",
    "__version__",
]
