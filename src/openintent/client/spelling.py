"""The ways in which the documents spell their arguments, brought into one. Mistakes are the caller's, and said here."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

from openintent.client.calls import Wish
from openintent.client.lease import Lease

URL_DEFAULT: Final = "http://localhost:8000"
TTL_S_DEFAULT: Final = 60.0


class LeaseOptions(TypedDict, total=False):
    """What may be said about a lease besides where, for how long, and whether to wait."""

    priority: int  # among those who wait: higher comes first
    reentrant: bool  # the agent's own lease on the same scope is given back instead of a refusal
    purpose: str | None
    metadata: Mapping[str, Any] | None
    max_hold_seconds: float | None  # an end that no renewal moves
    progress_seconds: float | None  # it ends unless progress is reported this often
    cooldown_seconds: float | None  # how long the scope stays closed if the lease lapses or is revoked


class IntentOptions(TypedDict, total=False):
    constraints: Mapping[str, Any] | list[Any] | None
    initial_state: Mapping[str, Any] | None
    state: Mapping[str, Any] | None
    parent_intent_id: str | None
    parent_id: str | None
    depends_on: list[str] | None
    status: str | None
    created_by: str | None
    confidence: int | None
    governance_policy: Mapping[str, Any] | None
    id: str | None  # chosen by the caller: creating it again with the same content returns it


def space_of(intent_id: str | None, space: str | None) -> str:
    """`space="build"` is the plain space of that name; a lease's own `space` is taken as it is."""
    if (intent_id is None) == (space is None):
        raise TypeError("name either intent_id or space")
    if intent_id is not None:
        return f"intent:{_text('intent_id', intent_id)}"
    name = _text("space", space)
    return name if name.startswith(("intent:", "space:")) else f"space:{name}"


def ttl_of(**spellings: float | None) -> float | None:
    """The ttl under whichever of its names it was given."""
    given = {name: value for name, value in spellings.items() if value is not None}
    if len(given) > 1:
        raise TypeError(f"{' and '.join(given)} mean the same: name one")
    return next((positive(name, value) for name, value in given.items()), None)


def make_wish(
    *,
    space: str,
    scope: str,
    ttl_s: float | None,
    wait_seconds: float,
    priority: int = 0,
    reentrant: bool = False,
    purpose: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    max_hold_seconds: float | None = None,
    progress_seconds: float | None = None,
    cooldown_seconds: float | None = None,
) -> Wish:
    return Wish(
        space=space,
        scope=_text("scope", scope),
        ttl_s=TTL_S_DEFAULT if ttl_s is None else ttl_s,
        wait_s=_seconds("wait_seconds", wait_seconds),
        priority=priority,
        reentrant=reentrant,
        purpose=purpose,
        metadata=metadata,
        max_hold_s=_perhaps_positive("max_hold_seconds", max_hold_seconds),
        progress_s=_perhaps_positive("progress_seconds", progress_seconds),
        cooldown_s=None if cooldown_seconds is None else _seconds("cooldown_seconds", cooldown_seconds),
    )


def lease_of(intent_id: str | Lease | None, lease_id: str | Lease | None) -> tuple[str, str | None]:
    """The lease's id, and the intent's if it was named: both `(intent_id, lease_id)` and `(lease_id)` are good."""
    named, intent = (intent_id, None) if lease_id is None else (lease_id, intent_id)
    found = named.id if isinstance(named, Lease) else _text("lease_id", named)
    return found, None if intent is None else _text("intent_id", intent)


def urls_of(base_url: str | Sequence[str] | None) -> tuple[str, ...]:
    urls = base_url or os.environ.get("OPENINTENT_URL") or URL_DEFAULT
    return (urls,) if isinstance(urls, str) else tuple(urls)


def key_of(api_key: str | None) -> str | None:
    return os.environ.get("OPENINTENT_API_KEY") or None if api_key is None else api_key


def intent_of(title: str, description: str, options: IntentOptions) -> dict[str, Any]:
    unknown = options.keys() - IntentOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"an intent has no {', '.join(sorted(unknown))}")
    given = {name: value for name, value in options.items() if value is not None}
    return {"title": title, "description": description, **given}


def agents_of(assign: str | Iterable[str] | None) -> list[str]:
    return [assign] if isinstance(assign, str) else list(assign or ())


def heartbeat_of(
    leases: Sequence[Lease], status: str | None, current_load: int | None, tasks: Sequence[str] | int | None
) -> dict[str, Any]:
    fields = {"status": status, "current_load": current_load, "tasks_in_progress": tasks}
    listed = [{"id": lease.id, "token": lease.token} for lease in leases]
    return {**({"leases": listed} if listed else {}), **{k: v for k, v in fields.items() if v is not None}}


def agent_id_of(agent_id: str | None) -> str | None:
    if agent_id is None:
        return None
    # It travels in a header, where nothing else can be written.
    if not (agent_id and agent_id.isascii() and agent_id.isprintable()) or agent_id != agent_id.strip():
        raise ValueError(f"not an agent id: {agent_id!r} (printable ASCII, no spaces around it)")
    return agent_id


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a string, not {type(value).__name__}")
    if not value:
        raise ValueError(f"{name} is empty")
    return value


def _seconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} is a number of seconds, not {type(value).__name__}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} cannot be {value}")
    return float(value)


def positive(name: str, value: float) -> float:
    seconds = _seconds(name, value)
    if seconds == 0:
        raise ValueError(f"{name} cannot be 0")
    return seconds


def _perhaps_positive(name: str, value: float | None) -> float | None:
    return None if value is None else positive(name, value)
