"""Leases, and the heartbeats that renew them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from openintent.client import replies
from openintent.client.calls.base import JSON, Call, given, headers, query, quoted, space_path
from openintent.client.replies import Beat, Page, Seen
from openintent.client.values import Released, TokenCheck, Waiter
from openintent.spaces import COORDINATOR_SPACE


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What an acquire asks for. It is the same in every slice of a wait; only `wait_s` is used up."""

    space: str
    scope: str = "*"
    ttl_s: float = 60.0
    wait_s: float = 0.0
    priority: int = 0
    preempt: bool = False
    reentrant: bool = False
    purpose: str | None = None
    metadata: JSON | None = None
    max_hold_s: float | None = None
    progress_s: float | None = None
    cooldown_s: float | None = None
    # What a coordinator says of itself: its space has no scopes to choose from, and its lease these fields instead.
    coordinator: Mapping[str, Any] | None = None


def leases_path(space: str) -> str:
    """Where the leases of a space are: those of coordinators are below what they coordinate, under a name of theirs."""
    home = space.removeprefix(COORDINATOR_SPACE)
    return f"{space_path(home)}/{'leases' if home == space else 'coordinators'}"


def lease_path(lease_id: str, intent_id: str | None = None) -> str:
    below = "" if intent_id is None else space_path(f"intent:{intent_id}")
    return f"{below}/leases/{quoted(lease_id)}"


def acquire(wish: Wish, *, attempt: str, wait_s: float, timeout_s: float | None = None) -> Call[Seen]:
    sent = headers(attempt=attempt)
    if wish.coordinator is not None:
        body = {**_home(wish.space), "ttl_seconds": wish.ttl_s, "wait_seconds": wait_s, **wish.coordinator}
        return Call("POST", "/coordinators", replies.appointed, body, sent, timeout_s=timeout_s)
    body = {"scope": wish.scope, "ttl_seconds": wish.ttl_s, "wait_seconds": wait_s, **_options(wish)}
    return Call("POST", leases_path(wish.space), replies.granted, body, sent, timeout_s=timeout_s)


def _home(space: str) -> dict[str, str]:
    """`coordinator:portfolio:<id>` as the fields by which the server knows it."""
    kind, _, name = space.removeprefix(COORDINATOR_SPACE).partition(":")
    return {f"{kind}_id": name}


def _options(wish: Wish) -> dict[str, Any]:
    return given(
        priority=wish.priority or None,
        preempt=wish.preempt or None,
        reentrant=wish.reentrant or None,
        purpose=wish.purpose,
        metadata=wish.metadata,
        max_hold_seconds=wish.max_hold_s,
        progress_seconds=wish.progress_s,
        cooldown_seconds=wish.cooldown_s,
    )


def give_up(space: str, *, attempt: str, timeout_s: float) -> Call[None]:
    """Leave the queue, or release what the attempt was granted."""
    return Call("DELETE", f"{leases_path(space)}{query(attempt=attempt)}", replies.nothing, timeout_s=timeout_s)


def renew(path: str, *, ttl_s: float | None) -> Call[Seen]:
    return Call("PATCH", path, replies.lease, given(ttl_seconds=ttl_s))


def release(path: str) -> Call[Released]:
    return Call("DELETE", path, replies.released)


def revoke(lease_id: str, *, reason: str) -> Call[Seen]:
    # Revoking what has ended is refused, so a repeat could not tell our own success from somebody else's.
    return Call("POST", f"{lease_path(lease_id)}/revoke", replies.lease, {"reason": reason}, repeatable=False)


def progress(lease_id: str, body: JSON) -> Call[Seen]:
    return Call("POST", f"{lease_path(lease_id)}/progress", replies.lease, body)


def get_lease(lease_id: str) -> Call[Seen]:
    return Call("GET", lease_path(lease_id), replies.lease_story)


def get_leases(
    space: str, *, status: str, scope: str | None, agent_id: str | None, after: str | None
) -> Call[Page[Seen]]:
    asked = {"status": status, "scope": scope, "agent_id": agent_id, "after": after}
    if space.startswith(COORDINATOR_SPACE):  # what is below their path tells of coordinators, not of leases
        return Call("GET", f"/leases{query(space=space, **asked)}", replies.leases)
    return Call("GET", f"{leases_path(space)}{query(**asked)}", replies.leases)


def list_leases(*, agent_id: str | None, space: str | None, status: str, after: str | None) -> Call[Page[Seen]]:
    asked = query(agent_id=agent_id, space=space, status=status, after=after)
    return Call("GET", f"/leases{asked}", replies.leases)


def get_queue(space: str, *, scope: str | None) -> Call[list[Waiter]]:
    home = space.removeprefix(COORDINATOR_SPACE)
    below = space_path(home) if home == space else leases_path(space)
    return Call("GET", f"{below}/queue{query(scope=scope)}", replies.listing(Waiter, "waiters"))


def check_token(space: str, scope: str, *, token: int) -> Call[TokenCheck]:
    body = {"space": space, "scope": scope, "token": token}
    return Call("POST", "/guard/check", replies.reading(TokenCheck), body)


def heartbeat(agent_id: str, body: JSON, *, timeout_s: float | None = None) -> Call[Beat]:
    return Call("POST", f"{space_path(f'agent:{agent_id}')}/heartbeat", replies.beat, body, timeout_s=timeout_s)


# Coordinators, by the paths of their own


def coordinator_path(lease_id: str) -> str:
    return f"/coordinators/{quoted(lease_id)}"


def get_coordinator(lease_id: str) -> Call[Seen]:
    return Call("GET", coordinator_path(lease_id), replies.coordinator)


def list_coordinators(space: str) -> Call[list[Seen]]:
    return Call("GET", leases_path(space), replies.coordinators)


def beat_coordinator(lease_id: str, *, ttl_s: float | None) -> Call[Seen]:
    path = f"{coordinator_path(lease_id)}/heartbeat"
    return Call("POST", path, replies.coordinator, given(ttl_seconds=ttl_s))


def end_coordinator(lease_id: str) -> Call[Seen]:
    return Call("DELETE", coordinator_path(lease_id), replies.coordinator)
