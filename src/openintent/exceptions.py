"""What the clients raise, under the name that OpenIntent's documents use: `from openintent.exceptions import ...`."""

from openintent.errors import (
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

__all__ = [
    "AuthenticationError",
    "ConflictError",
    "EventsGone",
    "LeaseConflictError",
    "LeaseLost",
    "NotFoundError",
    "OpenIntentError",
    "OutcomeUnknown",
    "PermissionError_",
    "StaleTokenError",
    "Unavailable",
    "ValidationError",
    "WaitTimeout",
]
