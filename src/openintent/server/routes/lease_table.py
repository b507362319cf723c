"""The routes of leases: the same ones for leases in intents, in plain spaces, and by their id alone."""

from typing import Final

from openintent.server.routes.lease_lists import get_lease, list_leases, list_queue
from openintent.server.routes.leases import acquire, give_up, guard, heartbeat, progress, release, renew, revoke
from openintent.server.routing import Route
from openintent.spaces import INTENT_SPACE, PLAIN_SPACE
from openintent.wire import (
    AcquireBody,
    AllLeasesQuery,
    AttemptQuery,
    DoneView,
    GuardBody,
    GuardView,
    HeartbeatBody,
    HeartbeatView,
    LeaseList,
    LeasesQuery,
    LeaseStory,
    LeaseView,
    ProgressBody,
    QueueQuery,
    QueueView,
    ReleasedView,
    RenewBody,
    RevokeBody,
)


def _family(base: str, space: str, where: str) -> list[Route]:
    """The routes for one way of naming where a lease is."""
    one, name = f"{base}leases/{{}}", f"{where}lease"
    return [
        Route("GET", one, get_lease, "Read a lease with its story", space=space, view=LeaseStory, name=f"get_{name}"),
        *_keeping(one, space, where),
        Route(
            "DELETE",
            one,
            release,
            "Release a lease",
            hot=True,
            space=space,
            view=ReleasedView,
            needs=_AGENT,
            name=f"release_{name}",
        ),
        Route(
            "POST",
            f"{one}/revoke",
            revoke,
            "Revoke a lease",
            space=space,
            operator=True,
            body=RevokeBody,
            view=LeaseView,
            reads=_AGENT,
            codes=_LOST,
            name=f"revoke_{name}",
        ),
    ]


def _keeping(one: str, space: str, where: str) -> list[Route]:
    return [
        Route(
            "PATCH",
            one,
            renew,
            "Renew a lease",
            hot=True,
            space=space,
            body=RenewBody,
            view=LeaseView,
            needs=_AGENT,
            codes=_LOST,
            name=f"renew_{where}lease",
        ),
        Route(
            "POST",
            f"{one}/progress",
            progress,
            "Report progress",
            hot=True,
            space=space,
            body=ProgressBody,
            view=LeaseView,
            needs=_AGENT,
            codes=(*_LOST, "limit_reached"),
            name=f"report_{where}progress",
        ),
    ]


def _in(base: str, space: str, where: str) -> list[Route]:
    """The routes for the leases of one kind of space."""
    every, queue = f"{base}leases", f"{base}queue"
    listing, waiting = f"list_{where}leases", f"list_{where}queue"
    return [
        _acquiring(every, space, where),
        Route("GET", every, list_leases, "List leases", space=space, query=LeasesQuery, view=LeaseList, name=listing),
        Route(
            "DELETE",
            every,
            give_up,
            "Give up an attempt",
            space=space,
            query=AttemptQuery,
            view=DoneView,
            needs=_AGENT,
            name=f"give_up_{where}attempt",
        ),
        Route("GET", queue, list_queue, "List who waits", space=space, query=QueueQuery, view=QueueView, name=waiting),
        *_family(base, space, where),
    ]


def _acquiring(every: str, space: str, where: str) -> Route:
    governed = ("governance_violation",) if space == INTENT_SPACE else ()
    return Route(
        "POST",
        every,
        acquire,
        "Acquire a lease",
        hot=True,
        space=space,
        body=AcquireBody,
        view=LeaseView,
        reads=ACQUIRE_READS,
        codes=(*ACQUIRE_CODES, "not_offered", *governed),
        name=f"acquire_{where}lease",
    )


_AGENT: Final = ("X-Agent-ID",)
_LOST: Final = ("lease_lost",)
ACQUIRE_READS: Final = ("X-Agent-ID", "Idempotency-Key")
ACQUIRE_CODES: Final = (
    "agent_required",
    "lease_held",
    "lease_held_by_you",
    "lease_cooldown",
    "wait_timeout",
    "lease_lost",
    "attempt_reused",
    "limit_reached",
)

ROUTES: Final = [
    *_in("intents/{}/", INTENT_SPACE, "intent_"),
    *_in("spaces/{}/", PLAIN_SPACE, "space_"),
    *_family("", "", ""),
    Route(
        "GET",
        "leases",
        list_leases,
        "List all leases",
        space="",
        query=AllLeasesQuery,
        view=LeaseList,
        codes=("not_offered",),
        name="list_leases",
    ),
    Route(
        "POST",
        "agents/{}/heartbeat",
        heartbeat,
        "Renew the listed leases",
        hot=True,
        body=HeartbeatBody,
        view=HeartbeatView,
        name="heartbeat",
    ),
    Route(
        "POST",
        "guard/check",
        guard,
        "Check a token",
        hot=True,
        body=GuardBody,
        view=GuardView,
        name="check_token",
    ),
]
