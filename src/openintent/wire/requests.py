"""What clients send.

Shapes of leases, state and heartbeats refuse fields they do not know, so that a misspelt `ttl_second` is an answer and
not a surprise. With the others OpenIntent's client sends free fields; what we do not use is named in the answer.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Load = Annotated[int, Meta(ge=0, le=1_000_000)]  # tasks at a time


class AcquireBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    scope: str = "*"
    ttl_seconds: float | UnsetType = UNSET
    duration_seconds: float | UnsetType = UNSET
    agent_id: str | None = None
    wait_seconds: float = 0.0
    mode: str = "exclusive"
    priority: int = 0
    preempt: bool = False
    reentrant: bool = False
    purpose: str | None = None
    metadata: dict[str, Any] | None = None
    max_hold_seconds: float | None = None
    progress_seconds: float | None = None
    cooldown_seconds: float | None = None


class RenewBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    ttl_seconds: float | UnsetType = UNSET
    duration_seconds: float | UnsetType = UNSET


class RevokeBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    reason: str


class ProgressBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    checkpoint: Any = UNSET


class HeldLease(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    token: int


class HeartbeatBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    leases: list[HeldLease] | None = None
    status: str | None = None
    current_load: Load | None = None
    tasks_in_progress: list[str] | Load | None = None


class GuardBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    space: str
    scope: str
    token: int


class PartBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    method: str
    path: str
    body: msgspec.Raw | UnsetType = UNSET
    attempt: str | None = None
    if_match: str | None = None


class BatchBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    requests: list[PartBody]


class PatchBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    op: str
    path: str
    value: Any = UNSET


class StateBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    patches: list[PatchBody] | UnsetType = UNSET
    state: dict[str, Any] | UnsetType = UNSET
    token: int | None = None


class StatusBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    status: Literal["draft", "active", "blocked", "suspended_awaiting_input", "completed", "abandoned"]
    reason: str | None = None
    token: int | None = None


class PolicyBody(msgspec.Struct):
    """A governance policy: who may act on an intent, and what completing it takes."""

    completion_mode: Literal["auto", "require_approval", "quorum"] = "auto"
    quorum_threshold: Annotated[float, Meta(gt=0, le=1)] = 0.6  # of the assigned agents
    write_scope: Literal["any", "assigned_only"] = "any"
    allowed_agents: list[str] = []  # empty: everybody
    require_status_reason: bool = False
    max_cost: float | None = None


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
    governance_policy: PolicyBody | None = None
    id: str | None = None


class DependencyBody(msgspec.Struct):
    dependency_id: str


class DecisionBody(msgspec.Struct):
    decision_type: str
    outcome: str
    reasoning: str = ""
    rationale: str = ""
    decided_by: str | None = None


class ArbitrationBody(msgspec.Struct):
    reason: str
    context: dict[str, Any] = {}
    requested_by: str | None = None


class PortfolioBody(msgspec.Struct):
    name: str
    created_by: str | None = None
    description: str | None = None
    governance_policy: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    id: str | None = None


class PortfolioStatusBody(msgspec.Struct):
    status: Literal["active", "completed", "abandoned"]


class MemberBody(msgspec.Struct):
    intent_id: str
    role: Literal["primary", "member", "dependency"] = "member"
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0


class CoordinatorBody(msgspec.Struct):
    agent_id: str | None = None
    intent_id: str | None = None
    portfolio_id: str | None = None
    ttl_seconds: float | UnsetType = UNSET
    duration_seconds: float | UnsetType = UNSET
    wait_seconds: float = 0.0
    role: str = "coordinator"
    supervisor_id: str | None = None
    coordinator_type: Literal["llm", "human", "composite", "system"] = "llm"
    guardrails: dict[str, Any] | None = None
    heartbeat_interval_seconds: float | None = None
    metadata: dict[str, Any] = {}


class CapacityBody(msgspec.Struct):
    max_concurrent_tasks: Load = 5
    current_load: Load = 0


class HeartbeatConfigBody(msgspec.Struct):
    interval_seconds: float = 30.0
    unhealthy_after_seconds: float | None = None
    dead_after_seconds: float | None = None


class AgentBody(msgspec.Struct):
    agent_id: str
    capabilities: list[str] = []
    role_id: str | None = None
    name: str | None = None
    capacity: CapacityBody | None = None
    endpoint: str | None = None
    heartbeat_config: HeartbeatConfigBody | None = None
    drain_timeout_seconds: float | None = None
    metadata: dict[str, Any] = {}


class AgentStatusBody(msgspec.Struct):
    status: Literal["active", "draining", "unhealthy", "dead", "deregistered"]


class AssignmentBody(msgspec.Struct):
    agent_id: str | None = None
    role: str = "worker"


class EventBody(msgspec.Struct):
    event_type: str
    payload: dict[str, Any] = {}
    actor: str | None = None
    trace_id: str | None = None
    parent_event_id: str | None = None
