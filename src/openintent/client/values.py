"""What the server tells about its things, as plain values. They are true of the moment of the reply, no longer.

Dates are aware. On the wire they are naive UTC, because that is what OpenIntent's public client can read.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec


def aware(date: datetime) -> datetime:
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


def parse_date(text: str) -> datetime:
    return aware(datetime.fromisoformat(text))


def _make_aware(value: msgspec.Struct, *names: str) -> None:
    for name in names:
        date = getattr(value, name)
        msgspec.structs.force_setattr(value, name, None if date is None else aware(date))


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """The unit of work that agents share. `state` is an ordinary dict, a copy: changing it changes nothing there."""

    id: str
    title: str
    version: int
    status: str
    created_at: datetime
    updated_at: datetime
    description: str = ""
    state: dict[str, Any] = {}
    constraints: dict[str, Any] | list[Any] = {}
    depends_on: list[str] = []
    created_by: str | None = None
    parent_id: str | None = None
    parent_intent_id: str | None = None
    confidence: int | None = None
    governance_policy: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _make_aware(self, "created_at", "updated_at")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that happened; `seq` is its place in the log.

    A stream also tells what has no such place (`seq` 0): the length of a queue, and with `replayed` an open assignment
    of long ago.
    """

    event_type: str
    created_at: datetime
    id: str = ""
    seq: int = 0
    actor: str | None = None
    space: str = ""
    intent_id: str | None = None
    payload: dict[str, Any] = {}
    replayed: bool = False

    def __post_init__(self) -> None:
        _make_aware(self, "created_at")


class Waiter(msgspec.Struct, frozen=True, kw_only=True):
    """One place in a scope's queue; place 1 is next."""

    ticket: str
    agent_id: str
    scope: str
    place: int
    priority: int
    waited_seconds: float
    present: bool


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """How the lease ended: `status` tells whether this release did it, or it had lapsed or been revoked before."""

    id: str
    status: str
    message: str = ""
    ended_reason: str | None = None


class TokenCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a token was the live one. True in a condition only if it was."""

    valid: bool
    live_token: int | None = None

    def __bool__(self) -> bool:
        return self.valid


class LeaseVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a heartbeat did for one lease."""

    id: str
    verdict: str
    remaining_seconds: float = 0.0
    reason: str | None = None


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a heartbeat, with a verdict for each lease that it listed."""

    status: str
    next_heartbeat_seconds: float
    leases: list[LeaseVerdict] = []
    agent_status: str | None = None  # as the registry has it, if the agent is registered


# Portfolios


class Portfolio(msgspec.Struct, frozen=True, kw_only=True):
    """Intents that belong together."""

    id: str
    name: str
    status: str
    created_at: datetime
    updated_at: datetime
    description: str = ""
    created_by: str | None = None
    governance_policy: dict[str, Any] = {}
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _make_aware(self, "created_at", "updated_at")


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """An intent's place in a portfolio."""

    id: str
    portfolio_id: str
    intent_id: str
    role: str
    priority: int
    added_at: datetime

    def __post_init__(self) -> None:
        _make_aware(self, "added_at")


class AggregateStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far the intents of a portfolio are."""

    total: int
    by_status: dict[str, int]
    completion_percentage: int


class PortfolioIntents(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a portfolio, the most important first. It can be gone through like a list of the intents."""

    intents: list[Intent]
    memberships: list[Membership]
    aggregate_status: AggregateStatus

    def __iter__(self) -> Iterator[Intent]:
        return iter(self.intents)

    def __len__(self) -> int:
        return len(self.intents)


# Agents


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    max_concurrent_tasks: int
    current_load: int = 0


class HeartbeatConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How often an agent will be heard of, and after which silence it is marked."""

    interval_seconds: float
    unhealthy_after_seconds: float
    dead_after_seconds: float


class AgentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in the registry. `status` is a mark for people and schedulers: it ends no lease."""

    agent_id: str
    status: str
    capacity: Capacity
    heartbeat_config: HeartbeatConfig
    registered_at: datetime
    version: int
    capabilities: list[str] = []
    role_id: str | None = None
    name: str | None = None
    endpoint: str | None = None
    drain_timeout_seconds: float | None = None
    metadata: dict[str, Any] = {}
    last_heartbeat_at: datetime | None = None

    def __post_init__(self) -> None:
        _make_aware(self, "registered_at", "last_heartbeat_at")

    @property
    def last_heartbeat(self) -> datetime | None:
        return self.last_heartbeat_at

    @property
    def current_load(self) -> int:
        return self.capacity.current_load


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's part in an intent."""

    intent_id: str
    agent_id: str
    role: str
    assigned_at: datetime
    assigned_by: str | None = None
    intent_title: str = ""
    intent_status: str = ""

    def __post_init__(self) -> None:
        _make_aware(self, "assigned_at")


# Governance


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What was set for an intent, and with the defaults for the rest what is in force."""

    intent_id: str
    governance_policy: dict[str, Any]
    effective_policy: dict[str, Any]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    intent_id: str
    decision_maker_id: str
    decision_type: str
    outcome: str
    created_at: datetime
    reasoning: str = ""

    def __post_init__(self) -> None:
        _make_aware(self, "created_at")

    @property
    def rationale(self) -> str:
        return self.reasoning

    @property
    def decided_by(self) -> str:
        return self.decision_maker_id


class Arbitration(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a person is to decide."""

    id: str
    intent_id: str
    requester_id: str
    reason: str
    status: str
    created_at: datetime
    context: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _make_aware(self, "created_at")


class Discovery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a server is and offers."""

    name: str
    version: str
    protocol_version: str
    capabilities: list[str] = []
    endpoints: dict[str, str] = {}
    api_base_url: str = ""
