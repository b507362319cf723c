"""The ways in which the documents spell their arguments, brought into one. Mistakes are the caller's, and said here."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

from openintent.client.calls import Wish
from openintent.client.following import RAISE, SKIP, Following
from openintent.client.lease import Lease
from openintent.spaces import (
    AGENT_SPACE,
    COORDINATOR_SPACE,
    INTENT_SPACE,
    PLAIN_SPACE,
    PORTFOLIO_SPACE,
)

URL_DEFAULT: Final = "http://localhost:8000"
TTL_S_DEFAULT: Final = 60.0
# What a name begins with that is a space's own, in full.
SPACES: Final = (INTENT_SPACE, PLAIN_SPACE, COORDINATOR_SPACE)


class LeaseOptions(TypedDict, total=False):
    """What may be said about a lease besides where, for how long, and whether to wait."""

    priority: int  # among those who wait: higher comes first
    preempt: bool  # those who hold it with a lower priority are asked to leave: they keep it for a grace at most
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


class PortfolioOptions(TypedDict, total=False):
    created_by: str | None
    governance_policy: Mapping[str, Any] | None
    governance: Mapping[str, Any] | None  # another name for it
    metadata: Mapping[str, Any] | None
    id: str | None  # chosen by the caller: creating it again with the same content returns it


class CoordinatorOptions(TypedDict, total=False):
    """What a coordinator says of itself."""

    role: str | None
    supervisor_id: str | None  # this agent may take the lease away
    coordinator_type: str | None  # llm, human, composite or system
    guardrails: Mapping[str, Any] | None
    heartbeat_interval_seconds: float | None
    metadata: Mapping[str, Any] | None


class AgentOptions(TypedDict, total=False):
    role_id: str | None
    name: str | None
    capabilities: Sequence[str] | None
    capacity: int | Mapping[str, Any] | None  # how many tasks at a time
    endpoint: str | None
    heartbeat_config: Mapping[str, Any] | None
    drain_timeout_seconds: float | None
    metadata: Mapping[str, Any] | None


class PolicyOptions(TypedDict, total=False):
    """The rules of an intent. What is left out has its default."""

    completion_mode: str  # auto, require_approval or quorum
    quorum_threshold: float
    write_scope: str  # any or assigned_only
    allowed_agents: Sequence[str]
    require_status_reason: bool
    max_cost: float | None


def space_of(intent_id: str | None, space: str | None) -> str:
    """`space="build"` is the plain space of that name; a lease's own `space` is taken as it is."""
    if (intent_id is None) == (space is None):
        raise TypeError("name either intent_id or space")
    if intent_id is not None:
        return f"intent:{_text('intent_id', intent_id)}"
    name = _text("space", space)
    return name if name.startswith(SPACES) else f"{PLAIN_SPACE}{name}"


def log_of(
    intent_id: str | None, space: str | None, portfolio_id: str | None = None, agent_id: str | None = None
) -> str:
    """The space whose log is meant: that of an intent, a plain space, a portfolio or an agent."""
    others = {PORTFOLIO_SPACE: ("portfolio_id", portfolio_id), AGENT_SPACE: ("agent_id", agent_id)}
    if sum(given is not None for given in (intent_id, space, portfolio_id, agent_id)) != 1:
        raise TypeError("name one of intent_id, space, portfolio_id and agent_id")
    named = [f"{kind}{_text(name, value)}" for kind, (name, value) in others.items() if value is not None]
    return named[0] if named else space_of(intent_id, space)


def types_of(types: str | Iterable[str] | None) -> list[str] | None:
    """Types of events; None is all of them."""
    return [types] if isinstance(types, str) else None if types is None else list(types)


def following_of(
    space: str, *, after: int | None, types: str | Iterable[str] | None, on_gap: str, patience_s: float
) -> Following:
    if isinstance(after, bool) or (after is not None and (not isinstance(after, int) or after < 0)):
        raise ValueError(f"after is the seq of an event, or 0 for all that are kept, not {after!r}")
    if on_gap not in (RAISE, SKIP):
        raise ValueError(f"on_gap is {RAISE!r} or {SKIP!r}, not {on_gap!r}")
    return Following(space, after=after, types=types_of(types), on_gap=on_gap, patience_s=patience_s)


def coordinated(portfolio_id: str | None, intent_id: str | None) -> str:
    """The space of whoever coordinates it."""
    if (portfolio_id is None) == (intent_id is None):
        raise TypeError("name either portfolio_id or intent_id")
    return f"{COORDINATOR_SPACE}{log_of(intent_id, None, portfolio_id)}"


def coordinator_wish(
    *, space: str, ttl_s: float | None, wait_seconds: float, options: CoordinatorOptions, agent_id: str | None = None
) -> Wish:
    said = {**_known(options, CoordinatorOptions, "a coordinator"), **({"agent_id": agent_id} if agent_id else {})}
    return Wish(
        space=space,
        ttl_s=TTL_S_DEFAULT if ttl_s is None else ttl_s,
        wait_s=_seconds("wait_seconds", wait_seconds),
        coordinator=said,
    )


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
    preempt: bool = False,
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
        preempt=preempt,
        reentrant=reentrant,
        purpose=purpose,
        metadata=metadata,
        max_hold_s=_perhaps_positive("max_hold_seconds", max_hold_seconds),
        progress_s=_perhaps_positive("progress_seconds", progress_seconds),
        cooldown_s=None if cooldown_seconds is None else _seconds("cooldown_seconds", cooldown_seconds),
    )


def scopes_of(scopes: Iterable[str]) -> list[str]:
    if isinstance(scopes, str):
        raise TypeError("scopes are a list: one scope is for acquire_lease")
    return list(scopes)


def lease_of(intent_id: str | Lease | None, lease_id: str | Lease | None) -> tuple[str, str | None]:
    """The lease's id, and the intent's if it was named: both `(intent_id, lease_id)` and `(lease_id)` are good."""
    named, intent = (intent_id, None) if lease_id is None else (lease_id, intent_id)
    found = named.id if isinstance(named, Lease) else _text("lease_id", named)
    return found, None if intent is None else _text("intent_id", intent)


def urls_of(base_url: str | Sequence[str] | None) -> tuple[str, ...]:
    """Several servers may be named in one text, with commas between them; a file cannot."""
    urls = base_url or os.environ.get("OPENINTENT_URL") or URL_DEFAULT
    if isinstance(urls, str):
        return tuple(url.strip() for url in urls.split(",")) if urls.startswith("http") else (urls,)
    return tuple(urls)


def key_of(api_key: str | None) -> str | None:
    return os.environ.get("OPENINTENT_API_KEY") or None if api_key is None else api_key


def intent_of(title: str, description: str, options: IntentOptions) -> dict[str, Any]:
    return {"title": title, "description": description, **_known(options, IntentOptions, "an intent")}


def portfolio_of(name: str, description: str, options: PortfolioOptions) -> dict[str, Any]:
    given = _known(options, PortfolioOptions, "a portfolio")
    if "governance" in given:
        if "governance_policy" in given:
            raise TypeError("governance and governance_policy mean the same: name one")
        given["governance_policy"] = given.pop("governance")
    return {"name": name, "description": description, **given}


def agent_of(agent_id: str, options: AgentOptions) -> dict[str, Any]:
    given = _known(options, AgentOptions, "an agent")
    if isinstance(given.get("capacity"), int):
        given["capacity"] = {"max_concurrent_tasks": given["capacity"]}
    return {"agent_id": agent_id, **given}


def policy_of(policy: Mapping[str, Any] | None, options: PolicyOptions) -> dict[str, Any]:
    """A policy as a mapping, as single rules, or both."""
    return {**(policy or {}), **_known(options, PolicyOptions, "a policy")}


def _known(options: Mapping[str, Any], kind: type[Any], what: str) -> dict[str, Any]:
    """What was given, under names that there are."""
    unknown = options.keys() - kind.__annotations__.keys()
    if unknown:
        raise TypeError(f"{what} has no {', '.join(sorted(unknown))}")
    return {name: value for name, value in options.items() if value is not None}


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
