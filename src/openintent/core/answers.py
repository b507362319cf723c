"""What the ledger answers. A refusal is a value like any other; only failures are exceptions, and the core has none.

Leases and intents in an answer are the ledger's own and go on changing: whoever needs them later must write them
down at once.
"""

from typing import Any

import msgspec

from openintent.model import Agent, Assignment, Decision, Event, Intent, Lease, Member, Portfolio, Waiter


class Granted(msgspec.Struct, gc=False):
    lease: Lease
    waited_ms: int = 0
    remaining_ms: int = 0  # at the instant of the grant, from which `waited_ms` counts back


class Seen(msgspec.Struct, gc=False):
    """A lease as it is now: renewed, read, or changed by an operator."""

    lease: Lease
    remaining_ms: int


class Queued(msgspec.Struct):
    """No answer yet: it will come for this request, through the outbox."""

    ticket: str


class Held(msgspec.Struct):
    lease: Lease
    remaining_ms: int
    queue_length: int
    yours: bool = False


class Cooling(msgspec.Struct):
    """Nobody holds the scope, but it stays closed for a while after its last holder."""

    scope: str
    holder: str
    remaining_ms: int
    queue_length: int


class Overtaking(msgspec.Struct):
    """The scope is free, but others are already waiting for it."""

    scope: str
    first: str  # the agent that is first in line
    queue_length: int


class WaitOver(msgspec.Struct):
    ticket: str
    place: int
    waited_ms: int
    why: "Held | Cooling | Overtaking | None"


class Lost(msgspec.Struct):
    """The lease has ended."""

    lease: Lease


class Ended(msgspec.Struct):
    """The lease has ended so long ago that only the log still knows how; or there never was such a lease."""

    lease_id: str
    holder: str | None  # whose it must be, to be told of; None: anybody's
    space: str | None  # and where

    def fits(self, lease: Lease) -> bool:
        """Whether one from the log is the one that was meant."""
        return self.holder in (None, lease.holder) and self.space in (None, lease.space)


class Released(msgspec.Struct, gc=False):
    lease: Lease


class Missing(msgspec.Struct):
    """There is no such thing, or none that the caller may see."""

    what: str  # intent, lease, attempt, portfolio, member, agent or assignment


class Verdicts(msgspec.Struct, gc=False):
    """For each lease that a heartbeat listed: its remaining time, or why it is lost."""

    held: tuple[tuple[str, int], ...]  # as they were listed
    left_ms: list[int]  # of each of them
    lost: dict[int, str]  # the reason, by its place in the list
    next_ms: int  # when the next heartbeat should come
    status: str | None = None  # the agent's, if it is registered
    asked: dict[int, str] = {}  # who asked for those that are preempted, by place: they live, but not for long


class TokenChecked(msgspec.Struct):
    valid: bool
    live_token: int | None


class Leases(msgspec.Struct):
    leases: list[Lease]
    now_ms: int
    more: bool


class Queue(msgspec.Struct):
    places: list[tuple[int, Waiter]]
    now_ms: int


class IntentSeen(msgspec.Struct):
    intent: Intent


class Intents(msgspec.Struct):
    intents: list[Intent]
    more: bool


class Conflict(msgspec.Struct):
    """The version is not the expected one."""

    current_version: int


class InUse(msgspec.Struct):
    """It cannot be deleted while others rely on it."""

    why: str


class Unknown(msgspec.Struct):
    """The request refers to an intent that does not exist."""

    field: str
    intent_id: str


class Circular(msgspec.Struct):
    """The intents would wait for each other."""

    intent_id: str
    dependency_id: str


class Violation(msgspec.Struct):
    """The intent's governance policy forbids it."""

    rule: str
    message: str


class DecisionSeen(msgspec.Struct):
    decision: Decision


class Decisions(msgspec.Struct):
    decisions: list[Decision]


class ArbitrationAsked(msgspec.Struct):
    id: str
    at_ms: int


class PortfolioSeen(msgspec.Struct):
    portfolio: Portfolio


class Portfolios(msgspec.Struct):
    portfolios: list[Portfolio]
    more: bool


class MemberSeen(msgspec.Struct):
    member: Member


class Members(msgspec.Struct):
    portfolio: Portfolio
    rows: list[tuple[Member, Intent]]


class AgentSeen(msgspec.Struct):
    agent: Agent


class Agents(msgspec.Struct):
    agents: list[Agent]
    more: bool


class Assigned(msgspec.Struct):
    assignment: Assignment


class Assignments(msgspec.Struct):
    rows: list[tuple[Assignment, Intent]]


class Exists(msgspec.Struct):
    """The chosen id belongs to an intent that was created differently."""

    intent_id: str


class Stale(msgspec.Struct):
    token: int
    live_token: int | None


class Logged(msgspec.Struct):
    event: Event


class AttemptReused(msgspec.Struct):
    attempt: str


class LimitReached(msgspec.Struct):
    what: str
    limit: int


class BadPatch(msgspec.Struct):
    index: int
    message: str


class TooLarge(msgspec.Struct):
    what: str
    limit: int


class Done(msgspec.Struct):
    """It is as was asked; there is nothing to show."""


Answer = Any  # one of the above; each command's function says which


class Reply(msgspec.Struct, gc=False):
    answer: Answer
    after: int  # the batch that must be durable before anybody may learn of this
    rev: int  # place among the commands of this term
    term: int
