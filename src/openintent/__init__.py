"""Leases and coordination for fleets of agents.

    from openintent import OpenIntentClient

    with OpenIntentClient() as client, client.lease(intent.id, "build") as lease:
        ...

Without a server, `openintent.local("leases.db")` is such a client too.

Each name is imported when it is first used: `import openintent` itself costs nothing, and whoever has no event loop
does not pay for one.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

from openintent.client import joining
from openintent.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from openintent.client import AsyncOpenIntentClient, OpenIntentClient
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


# Where the names are, in the order in which they are looked for: it tells what is soon imported from what is not.
_HOMES = ("openintent.exceptions", "openintent.client", "openintent.models")


def __getattr__(name: str) -> object:
    if f"openintent.{name}" in _HOMES:
        return import_module(f"openintent.{name}")
    for home in _HOMES if name in __all__ else ():
        module = import_module(home)
        if name in module.__all__:
            found = globals()[name] = getattr(module, name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def local(
    path: str | os.PathLike[str],
    agent_id: str | None = None,
    *,
    api_key: str | None = None,
    timeout: float = 30.0,
) -> "OpenIntentClient":
    """A client that needs no server: the programs of this machine that name the same file see to it themselves.

    It is `OpenIntentClient("sqlite:///path")`, and `AsyncOpenIntentClient` takes the same address. If there is an
    `openintent serve` that has the file open, that server is used. Close the client when you are done: one of the
    programs serves the others, and says farewell then.
    """
    from openintent.client import OpenIntentClient, localfile  # noqa: PLC0415  # as with every name of this module

    name = os.fspath(path)
    url = name if name.startswith(("sqlite:", "memory:")) else f"{localfile.PREFIX}{name}"
    return OpenIntentClient(url, api_key, agent_id, timeout)


def _join(path: "Path") -> joining.Place:
    from openintent.embedded import join  # noqa: PLC0415  # only those who name a file need it

    return join(path)


joining.offer(_join)
