"""What the server tells about its things, as plain values. They are true of the moment of the reply, no longer.

Dates are aware. On the wire they are naive UTC, because that is what OpenIntent's public client can read.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec


def aware(date: datetime) -> datetime:
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


def parse_date(text: str) -> datetime:
    return aware(datetime.fromisoformat(text))


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
        msgspec.structs.force_setattr(self, "created_at", aware(self.created_at))
        msgspec.structs.force_setattr(self, "updated_at", aware(self.updated_at))


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that happened; `seq` is its place in the log."""

    id: str
    seq: int
    event_type: str
    actor: str
    created_at: datetime
    space: str = ""
    intent_id: str | None = None
    payload: dict[str, Any] = {}

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "created_at", aware(self.created_at))


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
