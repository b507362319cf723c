"""What the server answers.

Dates are naive UTC with microseconds, as OpenIntent's public client expects; whatever matters is also given as a
number of seconds that needs no clock.
"""

from typing import Any

import msgspec


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
    preempt_asked: bool = False


class EventView(msgspec.Struct):
    id: str
    seq: int
    intent_id: str | None
    space: str
    event_type: str
    actor: str
    payload: dict[str, Any]
    created_at: str


class ReplayedView(msgspec.Struct, kw_only=True):
    """An event that is told again because what it began still lasts. Its number is forgotten."""

    intent_id: str | None
    space: str
    event_type: str
    actor: str | None
    payload: dict[str, Any]
    created_at: str
    replayed: bool = True


class QueueLengthView(msgspec.Struct):
    space: str
    scope: str
    queue_length: int


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
    verdict: str  # renewed, preempt_asked or lost
    remaining_seconds: float = 0.0
    reason: str | None = None


class HeartbeatView(msgspec.Struct):
    status: str
    server_timestamp: str
    next_heartbeat_at: str
    next_heartbeat_seconds: float
    leases: list[Verdict]
    agent_status: str | None = None  # as the registry has it


class GuardView(msgspec.Struct):
    valid: bool
    live_token: int | None


class PartView(msgspec.Struct):
    status: int
    body: msgspec.Raw  # as it would be by itself


class BatchView(msgspec.Struct):
    answers: list[PartView]


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


class PolicyView(msgspec.Struct):
    intent_id: str
    governance_policy: dict[str, Any]
    effective_policy: dict[str, Any]


class DecisionView(msgspec.Struct):
    id: str
    decision_id: str
    intent_id: str
    decision_maker_id: str
    decision_type: str
    outcome: str
    reasoning: str
    created_at: str
    message: str = "Decision recorded"


class DecisionList(msgspec.Struct):
    decisions: list[DecisionView]


class ArbitrationView(msgspec.Struct):
    id: str
    intent_id: str
    requester_id: str
    reason: str
    context: dict[str, Any]
    status: str
    created_at: str
    message: str = "Arbitration requested"


class PortfolioView(msgspec.Struct):
    id: str
    name: str
    description: str
    created_by: str | None
    status: str
    governance_policy: dict[str, Any]
    metadata: dict[str, Any]
    created_at: str
    updated_at: str
    createdAt: str  # noqa: N815  # OpenIntent's client reads either
    updatedAt: str  # noqa: N815


class MemberView(msgspec.Struct):
    id: str
    membership_id: str
    portfolio_id: str
    intent_id: str
    role: str
    priority: int
    added_at: str
    message: str = "Intent added to portfolio"


class AggregateView(msgspec.Struct):
    """How far the intents of a portfolio are."""

    total: int
    by_status: dict[str, int]
    completion_percentage: int


class MemberList(msgspec.Struct):
    intents: list[IntentView]
    memberships: list[MemberView]
    aggregate_status: AggregateView


class CoordinatorView(msgspec.Struct):
    id: str
    intent_id: str | None
    portfolio_id: str | None
    agent_id: str
    role: str
    supervisor_id: str | None
    coordinator_type: str
    scope: str  # intent or portfolio
    status: str  # active, completed or failed_over
    guardrails: dict[str, Any] | None
    heartbeat_interval_seconds: float
    last_heartbeat: str | None
    granted_at: str
    expires_at: str
    version: int
    token: int
    ttl_seconds: float
    remaining_seconds: float
    waited_seconds: float
    space: str
    ended_reason: str | None
    lease_metadata: dict[str, Any]
    metadata: dict[str, Any]


class CapacityView(msgspec.Struct):
    max_concurrent_tasks: int
    current_load: int


class HeartbeatConfigView(msgspec.Struct):
    interval_seconds: float
    unhealthy_after_seconds: float
    dead_after_seconds: float


class AgentView(msgspec.Struct):
    id: str
    agent_id: str
    status: str
    role_id: str | None
    name: str | None
    capabilities: list[str]
    capacity: CapacityView
    endpoint: str | None
    heartbeat_config: HeartbeatConfigView
    drain_timeout_seconds: float | None
    metadata: dict[str, Any]
    registered_at: str
    last_heartbeat_at: str | None
    version: int


class AssignmentView(msgspec.Struct):
    id: str
    intent_id: str
    agent_id: str
    role: str
    assigned_by: str | None
    assigned_at: str
    intent_title: str
    intent_status: str
    message: str = "Agent assigned"


class AssignedList(msgspec.Struct):
    agents: list[AssignmentView]


class AssignmentList(msgspec.Struct):
    assignments: list[AssignmentView]


class DoneView(msgspec.Struct):
    message: str


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
    oldest: int | None = None


class AliveView(msgspec.Struct):
    status: str


class ReadyView(msgspec.Struct):
    status: str
    role: str
    term: int


class EngineView(msgspec.Struct):
    scheme: str
    durable: bool
    survives_node_loss: bool
    shared: bool


class ClusterMemberView(msgspec.Struct):
    url: str
    role: str
    heard_seconds_ago: float | None


class ClusterView(msgspec.Struct):
    url: str
    role: str
    leader: str | None
    term: int
    leader_ttl_seconds: float
    engine: EngineView
    members: list[ClusterMemberView]


class VersionView(msgspec.Struct):
    name: str
    version: str
    term: int


class DiscoveryView(msgspec.Struct):
    """What OpenIntent's clients look for."""

    name: str
    version: str
    protocolVersion: str  # noqa: N815  # OpenIntent's names
    apiBaseUrl: str  # noqa: N815
    openApiUrl: str  # noqa: N815
    rfcUrls: dict[str, str]  # noqa: N815
    endpoints: dict[str, str]
    capabilities: list[str]


class ConfigView(msgspec.Struct):
    protocol_version: str
    suspension: dict[str, Any]
    limits: dict[str, int]
