"""The things the ledger knows, as plain values.

Instants named `..._ms` are in ledger time, a time of the ledger's own that stands still while no grantor serves.
Fields named `..._at_ms` are dates (milliseconds since 1970): shown to people, never compared.

Fields below the line "while it runs" are bookkeeping of one term: they travel with the record because a struct is
written whole, but whoever loads a record sets them anew.

What is made with every request has `gc=False`, here and in `core/`: it can be part of no circle, so the garbage
collector need not look at it (docs/decisions/0017).
"""

from typing import Any, Final

import msgspec

DEAD: Final = -1  # `due_ms` of a thing that no longer waits for any instant

STATUSES: Final = ("draft", "active", "blocked", "suspended_awaiting_input", "completed", "abandoned")
DONE_STATUSES: Final = ("completed", "abandoned")
PORTFOLIO_STATUSES: Final = ("active", "completed", "abandoned")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Every bound of the ledger, by name. Reaching one is an answer, never a surprise."""

    ttl_ms_min: int = 100  # the shortest ttl that may be asked for
    ttl_ms_max: int = 24 * 3_600_000  # the longest
    ttl_ms_default: int = 60_000  # for whoever does not say
    wait_ms_max: int = 300_000  # the longest wait of one request; the SDK waits in slices
    hold_ms_max: int = 30 * 24 * 3_600_000  # the longest `max_hold_seconds` and `progress_seconds`
    cooldown_ms_max: int = 60_000  # the longest `cooldown_seconds`
    scope_chars_max: int = 512  # in the name of a scope
    scope_segments_max: int = 32  # between the slashes of one
    name_chars_max: int = 256  # in the names of agents, spaces, attempts and others
    text_chars_max: int = 4_096  # in titles, reasons and purposes
    metadata_bytes_max: int = 16_384  # of metadata, constraints, policies and descriptions
    checkpoint_bytes_max: int = 65_536  # of a checkpoint, or the payload of an event
    checkpoints_per_space_max: int = 10_000  # that wait for the next holder
    state_bytes_max: int = 1_048_576  # of an intent's state
    patches_per_call_max: int = 1_000  # steps in one change of state
    leases_per_agent_max: int = 100_000  # alive or waited for at a time
    leases_per_heartbeat_max: int = 10_000  # renewed by one call
    requests_per_batch_max: int = 256  # in one call
    waiters_per_scope_max: int = 10_000  # in the queue of one scope
    waiters_per_agent_max: int = 10_000  # places in queues, all together
    attempts_max: int = 1_000_000  # remembered at a time
    intents_max: int = 1_000_000  # all together
    depends_on_max: int = 1_000  # intents that one waits for
    portfolios_max: int = 100_000  # all together
    intents_per_portfolio_max: int = 10_000  # in one portfolio
    agents_max: int = 100_000  # in the registry
    agents_per_intent_max: int = 1_000  # assigned to one
    assignments_per_agent_max: int = 10_000  # of one agent
    decisions_per_intent_max: int = 1_000  # about one intent
    heartbeat_ms_default: int = 30_000  # how often an agent is expected to be heard of
    missed_until_unhealthy: int = 2  # heartbeats
    missed_until_dead: int = 5  # heartbeats
    events_kept_max: int = 5_000_000  # the newest; older ones are forgotten, and with them the leases that they ended
    ended_kept_max: int = 10_000  # in memory, for quick answers, of those given back 100; the log has them all
    attempt_kept_ms: int = 600_000  # after the life of what it made
    attempt_kept_ms_min: int = 60_000  # the same, while there are as many as may be
    absence_ms: int = 5_000  # how long a waiter without an open request keeps its rank
    blink_ms: int = 50  # the gap between two slices of one wait
    return_ms: int = 1_000  # the same after a restart: the SDK tries again at least once a second
    preempt_grace_ms: int = 10_000  # what is left at least to the holder of a lease that is preempted
    preempted_per_call_max: int = 1_000  # leases in the way of one request that preempts


class Lease(msgspec.Struct, array_like=True, gc=False):
    """One grant of a scope to a holder, from its grant to its end."""

    id: str
    space: str
    scope: str
    holder: str
    token: int
    ttl_ms: int
    ttl_ms_max: int  # the largest ever promised: what a restart gives back
    deadline_ms: int
    granted_at_ms: int
    status: str = "active"
    ended_at_ms: int | None = None
    ended_reason: str | None = None
    ended_note: str | None = None
    attempt: str | None = None
    purpose: str | None = None
    metadata: dict[str, Any] | None = None
    hold_end_ms: int | None = None
    max_hold_ms: int | None = None
    progress_ms: int | None = None
    progress_end_ms: int | None = None
    cooldown_ms: int = 0
    checkpoint: Any = None
    # while it runs
    batch: int = 0
    timer_ms: int = DEAD
    priority: int = 0  # kept, as the next; they stand last, so that records which lack them are still read
    preempt_reason: str | None = None  # who asked for it, once a higher priority has

    @property
    def due_ms(self) -> int:
        return self.deadline_ms if self.status == "active" else DEAD


class Ask(msgspec.Struct, array_like=True, gc=False):
    """What an agent wants to hold, and how. Whatever is not here has no part in a repeated attempt being the same."""

    space: str
    scope: str
    holder: str
    ttl_ms: int
    priority: int = 0
    reentrant: bool = False
    purpose: str | None = None
    metadata: dict[str, Any] | None = None
    max_hold_ms: int | None = None
    progress_ms: int | None = None
    cooldown_ms: int = 0


class Waiter(msgspec.Struct, array_like=True, kw_only=True):
    """One place in a scope's queue. Its ticket becomes the id of the lease."""

    ticket: str
    ask: Ask
    attempt: str | None
    order: int
    queued_ms: int
    # while it runs
    request: int = 0  # the open request that waits here; 0 while there is none
    arrived_ms: int = 0
    until_ms: int = 0  # when the open request is to be answered in any case
    passed_ms: int = 0  # from when others may go first, while absent; 0 once they may
    gone_ms: int = 0  # when the place is given up, while absent
    left: bool = False
    timer_ms: int = DEAD

    @property
    def rank(self) -> tuple[int, int]:
        return (-self.ask.priority, self.order)

    @property
    def in_line(self) -> bool:
        """Whether others must let it go first: it is here, or was here a blink ago."""
        return self.request != 0 or self.passed_ms != 0

    @property
    def due_ms(self) -> int:
        if self.left:
            return DEAD
        return self.until_ms if self.request else self.passed_ms or self.gone_ms


class Cooldown(msgspec.Struct, array_like=True, kw_only=True):
    """A scope that stays closed for a while after a lease on it lapsed or was revoked."""

    space: str
    scope: str
    holder: str  # who had it
    until_ms: int
    # while it runs
    over: bool = False
    timer_ms: int = DEAD

    @property
    def due_ms(self) -> int:
        return DEAD if self.over else self.until_ms


class Attempt(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """The memory that a request was already carried out, and on what."""

    holder: str
    key: str
    kind: str  # lease, intent, portfolio, decision or arbitration
    print: bytes  # of the request's meaning
    target: str  # the id of what it made, and what else tells that, or is kept nowhere else
    until_ms: int = 0  # 0 while what it made is alive
    # while it runs
    batch: int = 0


class Intent(msgspec.Struct, array_like=True, kw_only=True):
    """The unit of work that agents share."""

    id: str
    title: str
    description: str = ""
    created_by: str | None = None
    parent_id: str | None = None
    depends_on: list[str] = []
    constraints: dict[str, Any] | list[Any] = {}
    state: dict[str, Any] = {}
    status: str = "draft"
    confidence: int | None = None
    governance_policy: dict[str, Any] | None = None
    version: int = 1
    created_at_ms: int = 0
    updated_at_ms: int = 0
    print: bytes = b""  # of the request that created it
    # while it runs
    state_bytes: int = 0
    patches: int = 0  # patch records that follow the whole one
    batch: int = 0
    created_seq: int = 0  # kept: the event of its creation; last, so that records which lack it are still read


class Patch(msgspec.Struct, array_like=True, frozen=True):
    """One step of a change to an intent's state."""

    op: str
    path: tuple[str, ...]
    value: Any = None


class PatchRecord(msgspec.Struct, array_like=True):
    """A change of state as it is kept: the steps, not the outcome, so that a large state is not written anew."""

    version: int
    updated_at_ms: int
    steps: list[Patch]


class Grant(msgspec.Struct, array_like=True, gc=False):
    """What its events say of a lease: only what never changes, as the lease itself goes on changing."""

    id: str
    scope: str
    token: int
    holder: str
    purpose: str | None
    metadata: dict[str, Any] | None


class Event(msgspec.Struct, array_like=True, gc=False):
    """A thing that happened, and its place in the log."""

    seq: int
    type: str
    space: str
    actor: str
    at_ms: int
    payload: dict[str, Any] | None = None
    lease: Lease | None = None  # for the end of a lease, instead of a payload: all there is to know of it afterwards
    also: str | None = None  # a second space in whose log it stands
    grant: Grant | None = None  # for the grant of a lease, instead of a payload

    @property
    def lease_id(self) -> str | None:
        """The lease that it is about, if it is about one."""
        told = self.lease or self.grant
        return told.id if told is not None else (self.payload or {}).get("lease_id")


class LeaseEnd(msgspec.Struct, array_like=True, gc=False):
    """Where in the log an ended lease is to be found."""

    id: str
    space: str
    seq: int


class Portfolio(msgspec.Struct, array_like=True, kw_only=True):
    """A set of intents that belong together."""

    id: str
    name: str
    description: str = ""
    created_by: str | None = None
    governance_policy: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    status: str = "active"
    created_at_ms: int = 0
    updated_at_ms: int = 0
    print: bytes = b""  # of the request that created it
    # while it runs
    batch: int = 0


class Member(msgspec.Struct, array_like=True, kw_only=True):
    """An intent's place in a portfolio."""

    id: str
    portfolio_id: str
    intent_id: str
    role: str = "member"
    priority: int = 0
    added_at_ms: int = 0


class Assignment(msgspec.Struct, array_like=True, kw_only=True):
    """An agent's part in an intent."""

    intent_id: str
    agent_id: str
    role: str = "worker"
    assigned_by: str | None = None
    assigned_at_ms: int = 0


class Agent(msgspec.Struct, array_like=True, kw_only=True):
    """What the registry knows of an agent. Its status is a mark: no lease lives or dies by it."""

    id: str
    role_id: str | None = None
    name: str | None = None
    capabilities: list[str] = []
    load_max: int = 5  # tasks at a time
    load: int = 0
    endpoint: str | None = None
    metadata: dict[str, Any] = {}
    status: str = "active"
    heartbeat_ms: int = 30_000
    unhealthy_ms: int = 60_000
    dead_ms: int = 150_000
    drain_ms: int | None = None
    registered_at_ms: int = 0
    version: int = 1
    # while it runs
    seen_ms: int = 0
    seen_at_ms: int = 0
    batch: int = 0
    timer_ms: int = DEAD

    @property
    def due_ms(self) -> int:
        """When the next mark falls due, if it is not heard of before."""
        if self.status == "active":
            return self.seen_ms + self.unhealthy_ms
        # Whoever drains is not marked unhealthy: the next heartbeat would undo that, and the draining with it.
        return self.seen_ms + self.dead_ms if self.status in ("unhealthy", "draining") else DEAD


class Decision(msgspec.Struct, array_like=True, kw_only=True):
    """What somebody decided about an intent, and why."""

    id: str
    intent_id: str
    actor: str
    type: str
    outcome: str
    reasoning: str = ""
    made_at_ms: int = 0


class Horizon(msgspec.Struct, array_like=True):
    """Up to which event the log may have been forgotten."""

    seq: int


class Checkpoint(msgspec.Struct, array_like=True):
    """The note that the last holder of a scope left for the next one."""

    value: Any


class Farewell(msgspec.Struct, array_like=True):
    """The exact deadlines at a clean stop. It counts only for the term right after `term`."""

    term: int
    deadlines_ms: dict[str, int]
