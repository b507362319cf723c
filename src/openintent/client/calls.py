"""Every request, as a value: what is sent, and how the answer is read. Nothing here sends."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from openintent.client import replies
from openintent.client.replies import Beat, Reply, Seen
from openintent.client.values import Event, Intent, Released, TokenCheck, Waiter

T = TypeVar("T")
JSON = Mapping[str, Any]

# A tilde that begins no escape of JSON pointer stands for itself.
_LONE_TILDE: Final = re.compile(r"~(?![01])")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    method: str
    path: str  # below the API's base path, quoted, with its query
    parse: Callable[[Reply], T]
    body: JSON | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # Whether sending it twice is the same as sending it once: by its nature, or because it carries its attempt.
    repeatable: bool = True
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an acquire asks for. It is the same in every slice of a wait; only `wait_s` is used up."""

    space: str
    scope: str = "*"
    ttl_s: float = 60.0
    wait_s: float = 0.0
    priority: int = 0
    reentrant: bool = False
    purpose: str | None = None
    metadata: JSON | None = None
    max_hold_s: float | None = None
    progress_s: float | None = None
    cooldown_s: float | None = None


# Paths and headers


def space_path(space: str) -> str:
    """`intent:<id>` has its leases below the intent, `space:<name>` below the plain space."""
    kind, _, name = space.partition(":")
    assert kind in {"intent", "space"}, space
    return f"/{kind}s/{quote(name, safe='')}"


def lease_path(lease_id: str, intent_id: str | None = None) -> str:
    below = "" if intent_id is None else space_path(f"intent:{intent_id}")
    return f"{below}/leases/{quote(lease_id, safe='')}"


def _intent_path(intent_id: str) -> str:
    return space_path(f"intent:{intent_id}")


def _query(**fields: object) -> str:
    given = {name: value for name, value in fields.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _given(**fields: Any) -> dict[str, Any]:
    """What the caller left out is left out: the server knows its own defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def _headers(*, attempt: str | None = None, version: int | None = None, match: bool = False) -> dict[str, str]:
    headers = {} if attempt is None else {"Idempotency-Key": attempt}
    if match:
        headers["If-Match"] = "*" if version is None else str(version)
    return headers


# Intents


def create_intent(body: JSON, *, attempt: str) -> Call[Intent]:
    return Call("POST", "/intents", replies.intent, body, _headers(attempt=attempt))


def assign_agent(intent_id: str, agent_id: str, *, role: str = "worker") -> Call[None]:
    body = {"agent_id": agent_id, "role": role}
    return Call("POST", f"{_intent_path(intent_id)}/agents", replies.nothing, body)


def get_intent(intent_id: str) -> Call[Intent]:
    return Call("GET", _intent_path(intent_id), replies.intent)


def list_intents(*, status: str | None, limit: int | None, offset: int | None) -> Call[list[Intent]]:
    return Call("GET", "/intents" + _query(status=status, limit=limit, offset=offset), replies.intents)


def patch_state(
    intent_id: str, patches: Sequence[JSON], *, version: int | None, token: int | None, attempt: str
) -> Call[Intent]:
    body = {"patches": patches, **_given(token=token)}
    headers = _headers(attempt=attempt, version=version, match=True)
    return Call("PATCH", f"{_intent_path(intent_id)}/state", replies.intent, body, headers)


def set_status(intent_id: str, status: str, *, version: int | None, reason: str | None, attempt: str) -> Call[Intent]:
    headers = _headers(attempt=attempt, version=version, match=True)
    body = {"status": status, **_given(reason=reason)}
    return Call("POST", f"{_intent_path(intent_id)}/status", replies.intent, body, headers)


def patches_of(changes: JSON | Sequence[JSON]) -> list[JSON]:
    """Each key of a mapping becomes one `set`; a list of patches goes as it is."""
    patches: list[JSON] = (
        [{"op": "set", "path": _LONE_TILDE.sub("~0", key), "value": value} for key, value in changes.items()]
        if isinstance(changes, Mapping)
        else list(changes)
    )
    # The encoder would silently write null for them.
    if any(_has_no_json(patch.get("value")) for patch in patches):
        raise ValueError("NaN and Infinity are no JSON: the state would change on its way")
    return patches


def _has_no_json(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_has_no_json, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_no_json, value))


# Leases


def acquire(wish: Wish, *, attempt: str, wait_s: float, timeout_s: float | None = None) -> Call[Seen]:
    body = {"scope": wish.scope, "ttl_seconds": wish.ttl_s, "wait_seconds": wait_s, **_options(wish)}
    path = f"{space_path(wish.space)}/leases"
    return Call("POST", path, replies.granted, body, _headers(attempt=attempt), timeout_s=timeout_s)


def _options(wish: Wish) -> dict[str, Any]:
    return _given(
        priority=wish.priority or None,
        reentrant=wish.reentrant or None,
        purpose=wish.purpose,
        metadata=wish.metadata,
        max_hold_seconds=wish.max_hold_s,
        progress_seconds=wish.progress_s,
        cooldown_seconds=wish.cooldown_s,
    )


def give_up(space: str, *, attempt: str, timeout_s: float) -> Call[None]:
    """Leave the queue, or release what the attempt was granted."""
    path = f"{space_path(space)}/leases{_query(attempt=attempt)}"
    return Call("DELETE", path, replies.nothing, timeout_s=timeout_s)


def renew(path: str, *, ttl_s: float | None) -> Call[Seen]:
    return Call("PATCH", path, replies.lease, _given(ttl_seconds=ttl_s))


def release(path: str) -> Call[Released]:
    return Call("DELETE", path, replies.released)


def revoke(lease_id: str, *, reason: str) -> Call[Seen]:
    # Revoking what has ended is refused, so a repeat could not tell our own success from somebody else's.
    return Call("POST", f"{lease_path(lease_id)}/revoke", replies.lease, {"reason": reason}, repeatable=False)


def progress(lease_id: str, body: JSON) -> Call[Seen]:
    return Call("POST", f"{lease_path(lease_id)}/progress", replies.lease, body)


def get_lease(lease_id: str) -> Call[Seen]:
    return Call("GET", lease_path(lease_id), replies.lease_story)


def get_leases(space: str, *, status: str, scope: str | None, agent_id: str | None) -> Call[list[Seen]]:
    query = _query(status=status, scope=scope, agent_id=agent_id)
    return Call("GET", f"{space_path(space)}/leases{query}", replies.leases)


def list_leases(
    *, agent_id: str | None, space: str | None, status: str, after: str | None
) -> Call[tuple[list[Seen], str | None]]:
    query = _query(agent_id=agent_id, space=space, status=status, after=after)
    return Call("GET", f"/leases{query}", replies.lease_page)


def get_queue(space: str, *, scope: str | None) -> Call[list[Waiter]]:
    return Call("GET", f"{space_path(space)}/queue{_query(scope=scope)}", replies.waiters)


def check_token(space: str, scope: str, *, token: int) -> Call[TokenCheck]:
    return Call("POST", "/guard/check", replies.token_check, {"space": space, "scope": scope, "token": token})


def heartbeat(agent_id: str, body: JSON, *, timeout_s: float | None = None) -> Call[Beat]:
    path = f"/agents/{quote(agent_id, safe='')}/heartbeat"
    return Call("POST", path, replies.beat, body, timeout_s=timeout_s)


# Events


def log_event(intent_id: str, body: JSON, *, attempt: str) -> Call[Event]:
    return Call("POST", f"{_intent_path(intent_id)}/events", replies.event, body, _headers(attempt=attempt))


def get_events(
    intent_id: str, *, limit: int | None, after: int | None, types: Sequence[str] | None, order: str | None
) -> Call[list[Event]]:
    named = ",".join(types) if types else None
    query = _query(limit=limit, after=after, types=named, order=order)
    return Call("GET", f"{_intent_path(intent_id)}/events{query}", replies.events)
