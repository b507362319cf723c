"""The shapes that travel over HTTP, for the server and the client alike.

Field names are OpenIntent's. Dates are naive UTC with microseconds, as its public client expects; whatever matters
is also given as a number of seconds that needs no clock. Request shapes refuse fields they do not know, so that a
misspelt `ttl_second` is an answer and not a surprise.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

API = "/api/v1"


class AcquireBody(msgspec.Struct, forbid_unknown_fields=True):
    scope: str = "*"
    ttl_seconds: float | UnsetType = UNSET
    duration_seconds: float | UnsetType = UNSET
    agent_id: str | None = None
    wait_seconds: float = 0.0
    mode: str = "exclusive"
    priority: int = 0
    reentrant: bool = False
    purpose: str | None = None
    metadata: dict[str, Any] | None = None
    max_hold_seconds: float | None = None
    progress_seconds: float | None = None
    cooldown_seconds: float | None = None


class RenewBody(msgspec.Struct, forbid_unknown_fields=True):
    ttl_seconds: float | UnsetType = UNSET
    duration_seconds: float | UnsetType = UNSET


class RevokeBody(msgspec.Struct, forbid_unknown_fields=True):
    reason: str


class ProgressBody(msgspec.Struct, forbid_unknown_fields=True):
    checkpoint: Any = UNSET


class HeldLease(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    token: int


class HeartbeatBody(msgspec.Struct, forbid_unknown_fields=True):
    leases: list[HeldLease] | None = None
    status: str | None = None
    current_load: int | None = None
    tasks_in_progress: list[str] | int | None = None


class GuardBody(msgspec.Struct, forbid_unknown_fields=True):
    space: str
    scope: str
    token: int


class PatchBody(msgspec.Struct, forbid_unknown_fields=True):
    op: str
    path: str
    value: Any = UNSET


class StateBody(msgspec.Struct, forbid_unknown_fields=True):
    patches: list[PatchBody] | UnsetType = UNSET
    state: dict[str, Any] | UnsetType = UNSET
    token: int | None = None


class StatusBody(msgspec.Struct, forbid_unknown_fields=True):
    status: str
    reason: str | None = None


class IntentBody(msgspec.Struct):
    title: str
    description: str = ""
    created_by: str | None = None
    parent_intent_id: str | None = None
    parent_id: str | None = None
    depends_on: list[str] = []
    constraints: dict[str, Any] | list[Any] = {}
    state: dict[str, Any] | UnsetType = UNSET
    initial_state: dict[str, Any] | UnsetType = UNSET
    status: str = "draft"
    confidence: int | None = None
    governance_policy: dict[str, Any] | None = None
    id: str | None = None


class EventBody(msgspec.Struct):
    event_type: str
    payload: dict[str, Any] = {}
    actor: str | None = None
    trace_id: str | None = None
    parent_event_id: str | None = None


class LeaseView(msgspec.Struct):
    id: str
    intent_id: str | None
    space: str
    agent_id: str
    scope: str
    mode: str
    status: str
    token: int
    ttl_seconds: float
    remaining_seconds: float
    expires_at: str
    acquired_at: str
    created_at: str
    released_at: str | None = None
    ended_reason: str | None = None
    waited_seconds: float = 0.0
    max_hold_seconds: float | None = None
    progress_seconds: float | None = None
    cooldown_seconds: float = 0.0
    checkpoint: Any = None
    metadata: dict[str, Any] = {}
    purpose: str | None = None


class EventView(msgspec.Struct):
    id: str
    seq: int
    intent_id: str | None
    space: str
    event_type: str
    actor: str
    payload: dict[str, Any]
    created_at: str


class LeaseStory(LeaseView):
    """One lease, live or ended, with the events that made it so."""

    timeline: list[EventView] = []


class LeaseList(msgspec.Struct):
    leases: list[LeaseView]
    next: str | None = None


class ReleasedView(msgspec.Struct):
    message: str
    id: str
    status: str
    ended_reason: str | None


class WaiterView(msgspec.Struct):
    ticket: str
    agent_id: str
    scope: str
    place: int
    priority: int
    waited_seconds: float
    present: bool


class QueueView(msgspec.Struct):
    waiters: list[WaiterView]


class Verdict(msgspec.Struct):
    id: str
    verdict: str  # renewed or lost
    remaining_seconds: float = 0.0
    reason: str | None = None


class HeartbeatView(msgspec.Struct):
    status: str
    server_timestamp: str
    next_heartbeat_at: str
    next_heartbeat_seconds: float
    leases: list[Verdict]


class GuardView(msgspec.Struct):
    valid: bool
    live_token: int | None


class IntentView(msgspec.Struct):
    id: str
    title: str
    description: str
    created_by: str | None
    parent_id: str | None
    parent_intent_id: str | None
    depends_on: list[str]
    constraints: dict[str, Any] | list[Any]
    state: dict[str, Any]
    status: str
    confidence: int | None
    version: int
    governance_policy: dict[str, Any] | None
    created_at: str
    updated_at: str


class IntentList(msgspec.Struct):
    intents: list[IntentView]
    next: str | None = None


class ErrorCore(msgspec.Struct):
    code: str
    message: str
    hint: str | None = None


class Problem(msgspec.Struct, omit_defaults=True):
    """Every answer that is not a success. `detail` and `message` are what OpenIntent's public client shows."""

    error: ErrorCore
    detail: Any
    message: str
    current_version: int | None = None
    current_holder: str | None = None
    existing_lease: LeaseView | None = None
    retry_after_seconds: float | None = None
    queue_length: int | None = None
    ticket: str | None = None
    place: int | None = None
    waited_seconds: float | None = None
    reason: str | None = None
    ended_at: str | None = None
    token: int | None = None
    live_token: int | None = None
    limit: int | None = None
