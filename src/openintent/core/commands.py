"""What can be asked of the ledger. A command that exists is well formed: the edge has checked it."""

from typing import Any

import msgspec

from openintent.model import Ask, Intent, Patch


class Acquire(msgspec.Struct, kw_only=True):
    ask: Ask
    lease_id: str  # for the lease, if it is granted; also the ticket, if it must wait
    wait_ms: int = 0
    attempt: str | None = None
    request: int = 0  # names the open request while it waits


class GiveUp(msgspec.Struct, kw_only=True):
    """Leave the queue, or release what the attempt was granted."""

    space: str
    holder: str
    attempt: str


class Gone(msgspec.Struct):
    """The connection of a waiting request closed."""

    request: int


class Renew(msgspec.Struct, kw_only=True):
    lease_id: str
    holder: str
    space: str | None = None  # as far as the caller says which
    ttl_ms: int | None = None


class Release(msgspec.Struct, kw_only=True):
    lease_id: str
    holder: str
    space: str | None = None


class Revoke(msgspec.Struct, kw_only=True):
    lease_id: str
    actor: str
    reason: str
    space: str | None = None


class Progress(msgspec.Struct, kw_only=True):
    lease_id: str
    holder: str
    space: str | None = None
    checkpoint: Any = None
    keep_checkpoint: bool = True


class Heartbeat(msgspec.Struct, kw_only=True):
    holder: str
    held: list[tuple[str, int]]  # lease id and token


class CheckToken(msgspec.Struct, kw_only=True):
    space: str
    scope: str
    token: int


class GetLease(msgspec.Struct, kw_only=True):
    lease_id: str
    space: str | None = None


class ListLeases(msgspec.Struct, kw_only=True):
    space: str | None = None
    scope: str | None = None
    holder: str | None = None
    after_token: int = 0  # leases are listed by token, which is the order of their grants
    limit: int = 1_000


class ListQueue(msgspec.Struct, kw_only=True):
    space: str
    scope: str | None = None


class CreateIntent(msgspec.Struct, kw_only=True):
    intent: Intent
    chosen_id: bool  # the client named it, so creating it again returns it
    actor: str
    attempt: str | None = None


class GetIntent(msgspec.Struct):
    intent_id: str


class ListIntents(msgspec.Struct, kw_only=True):
    status: str | None = None
    offset: int = 0
    limit: int = 100


class PatchState(msgspec.Struct, kw_only=True):
    intent_id: str
    actor: str
    steps: list[Patch]
    expect: int | None = None  # the version to compare with; None: any
    token: int | None = None
    attempt: str | None = None


class SetStatus(msgspec.Struct, kw_only=True):
    intent_id: str
    actor: str
    status: str
    reason: str | None = None
    expect: int | None = None
    attempt: str | None = None


class LogEvent(msgspec.Struct, kw_only=True):
    space: str
    actor: str
    type: str
    payload: dict[str, Any]
    attempt: str | None = None


class Tick(msgspec.Struct):
    """Nothing but the passing of time."""


Command = (
    Acquire
    | GiveUp
    | Gone
    | Renew
    | Release
    | Revoke
    | Progress
    | Heartbeat
    | CheckToken
    | GetLease
    | ListLeases
    | ListQueue
    | CreateIntent
    | GetIntent
    | ListIntents
    | PatchState
    | SetStatus
    | LogEvent
    | Tick
)
