"""What can be asked of the ledger. A command that exists is well formed: the edge has checked it."""

from typing import Any

import msgspec

from openintent.model import Agent, Ask, Assignment, Decision, Intent, Member, Patch, Portfolio


class Acquire(msgspec.Struct, gc=False):
    ask: Ask
    lease_id: str  # for the lease, if it is granted; also the ticket, if it must wait
    wait_ms: int = 0
    attempt: str | None = None
    preempt: bool = False  # of no account for a repeated attempt, like the wait: one who waits may begin to press
    request: int = 0  # names the open request while it waits


class GiveUp(msgspec.Struct, kw_only=True):
    """Leave the queue, or release what the attempt was granted."""

    space: str
    holder: str
    attempt: str


class Gone(msgspec.Struct):
    """The connection of a waiting request closed."""

    request: int


class Renew(msgspec.Struct, gc=False):
    lease_id: str
    holder: str
    space: str | None = None  # as far as the caller says which
    ttl_ms: int | None = None


class Release(msgspec.Struct, gc=False):
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


class Heartbeat(msgspec.Struct, kw_only=True, gc=False):
    holder: str
    held: tuple[tuple[str, int], ...]  # lease id and token
    load: int | None = None  # tasks in progress, if the agent says how many


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
    token: int | None = None
    attempt: str | None = None


class LogEvent(msgspec.Struct, kw_only=True):
    space: str
    actor: str
    type: str
    payload: dict[str, Any]
    attempt: str | None = None


class DeleteIntent(msgspec.Struct):
    intent_id: str
    actor: str
    expect: int | None = None  # the version that is to be deleted


class GetRelatives(msgspec.Struct):
    intent_id: str
    kind: str  # one of lineage.KINDS


class AddDependency(msgspec.Struct, kw_only=True):
    intent_id: str
    dependency_id: str
    actor: str
    expect: int | None = None


class RemoveDependency(msgspec.Struct, kw_only=True):
    intent_id: str
    dependency_id: str
    actor: str
    expect: int | None = None


class SetPolicy(msgspec.Struct, kw_only=True):
    intent_id: str
    actor: str
    policy: dict[str, Any] | None  # None takes it away
    operator: bool = False
    expect: int | None = None


class RecordDecision(msgspec.Struct, kw_only=True):
    decision: Decision
    attempt: str | None = None


class ListDecisions(msgspec.Struct):
    intent_id: str


class Arbitrate(msgspec.Struct, kw_only=True):
    """Ask a person to decide."""

    id: str
    intent_id: str
    actor: str
    reason: str
    context: dict[str, Any]
    attempt: str | None = None


class CreatePortfolio(msgspec.Struct, kw_only=True):
    portfolio: Portfolio
    chosen_id: bool  # as with an intent
    actor: str
    attempt: str | None = None


class GetPortfolio(msgspec.Struct):
    portfolio_id: str


class ListPortfolios(msgspec.Struct, kw_only=True):
    created_by: str | None = None
    intent_id: str | None = None  # only those that it belongs to
    offset: int = 0
    limit: int = 100


class SetPortfolioStatus(msgspec.Struct, kw_only=True):
    portfolio_id: str
    actor: str
    status: str


class AddMember(msgspec.Struct, kw_only=True):
    member: Member
    actor: str


class RemoveMember(msgspec.Struct, kw_only=True):
    portfolio_id: str
    intent_id: str
    actor: str


class ListMembers(msgspec.Struct):
    portfolio_id: str


class RegisterAgent(msgspec.Struct):
    agent: Agent


class GetAgent(msgspec.Struct):
    agent_id: str


class ListAgents(msgspec.Struct, kw_only=True):
    status: str | None = None
    role_id: str | None = None
    offset: int = 0
    limit: int = 1_000


class MarkAgent(msgspec.Struct, kw_only=True):
    agent_id: str
    actor: str
    status: str


class Assign(msgspec.Struct, kw_only=True):
    assignment: Assignment
    actor: str


class Unassign(msgspec.Struct, kw_only=True):
    intent_id: str
    agent_id: str
    actor: str


class ListAssigned(msgspec.Struct):
    """Who works on an intent."""

    intent_id: str


class ListAssignments(msgspec.Struct):
    """What an agent has to work on: only intents that are not done."""

    agent_id: str


class Forget(msgspec.Struct):
    """Let old chunks of the log go: everything up to the horizon may be missing from now on."""

    horizon: int
    keys: list[str]


class Tick(msgspec.Struct):
    """Nothing but the passing of time."""


Command = Any  # one of the above; `ledger.HANDLERS` has them all
