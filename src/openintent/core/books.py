"""What the ledger knows at this instant, and what has changed since the last batch.

No rule lives here: only the shelves, and the two ways of writing on them (`keep`, `log`) that also note what the
engine must store. Keys: a kind, a slash, names, and before a last part a tab, which no name can contain.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec

from openintent.core.answers import Answer, Reply
from openintent.core.scopes import ScopeIndex
from openintent.core.shelves import Index
from openintent.core.timers import Timers
from openintent.model import (
    DEAD,
    Agent,
    Assignment,
    Attempt,
    Cooldown,
    Decision,
    Event,
    Grant,
    Intent,
    Lease,
    LeaseEnd,
    Limits,
    Member,
    Portfolio,
    Waiter,
)
from openintent.spaces import home_of, intent_of

T = TypeVar("T")
Listed = tuple[tuple[str, int], ...]  # lease ids and tokens

# Leases that were given back, in memory. Few will be asked for, and thousands of them would crowd out of the caches of
# the processor what it needs for every request (docs/decisions/0017).
RELEASED_KEPT_MAX: Final = 100
BUCKET_CHARS: Final = 8  # of the ten that are milliseconds: a bucket holds the leases of a quarter of a second


class Line(msgspec.Struct):
    """The waiters for one scope, in order of rank."""

    scope: str
    waiters: list[Waiter]


class Space:
    """All that is held, waited for or closed in one space."""

    __slots__ = ("checkpoints", "cooldowns", "home", "leases", "lines", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.home = home_of(name)
        self.leases: ScopeIndex[Lease] = ScopeIndex()
        self.lines: ScopeIndex[Line] = ScopeIndex()
        self.cooldowns: ScopeIndex[Cooldown] = ScopeIndex()
        self.checkpoints: dict[str, Any] = {}

    def is_empty(self) -> bool:
        return not (self.leases.items or self.lines.items or self.cooldowns.items or self.checkpoints)


class Spent:
    """The attempts whose work has ended, in that order, and when the first of them is to be forgotten."""

    __slots__ = ("line", "rests_until_ms", "timer_ms")

    def __init__(self) -> None:
        self.line: deque[Attempt] = deque()
        self.rests_until_ms = 0
        self.timer_ms = DEAD

    @property
    def due_ms(self) -> int:
        return max(self.line[0].until_ms, self.rests_until_ms) if self.line else DEAD


class Batch(msgspec.Struct):
    """What one commit must store. A value of None deletes its key; `wiped` ranges go first."""

    number: int
    rev: int
    token: int
    seq: int
    now_ms: int
    changes: dict[str, Any]
    born: set[str]  # keys of things that were not there before
    wiped: list[tuple[str, str]]
    events: list[Event]


class Books:
    # Looked at with every command: slots are quicker than a dictionary of so many names.
    __slots__ = (
        "agents",
        "assigned",
        "assignments",
        "attempts",
        "batch",
        "beats",
        "born",
        "changes",
        "children",
        "copied",
        "date_ms",
        "date_offset_ms",
        "decisions",
        "dependents",
        "ended",
        "ends",
        "events",
        "governed",
        "held",
        "horizon",
        "intents",
        "lapsed",
        "leases",
        "limits",
        "members",
        "now_ms",
        "order",
        "outbox",
        "portfolios",
        "portfolios_of",
        "queues",
        "released",
        "requests",
        "rev",
        "seq",
        "spaces",
        "spent",
        "term",
        "timers",
        "token",
        "waiters",
        "waiting",
        "wiped",
        "written",
    )

    def __init__(self, limits: Limits, *, term: int, token: int, seq: int, now_ms: int) -> None:
        self.limits, self.term, self.token, self.seq = limits, term, token, seq
        self.rev, self.order, self.now_ms = 0, 0, now_ms
        self.date_from(0)

        self.spaces: dict[str, Space] = {}
        self.leases: dict[str, Lease] = {}
        self.released: dict[str, Lease] = {}  # leases that were given back, and
        self.ended: OrderedDict[str, Lease] = OrderedDict()  # those that ended otherwise
        self.waiters: dict[str, Waiter] = {}
        self.requests: dict[int, Waiter] = {}
        self.attempts: dict[tuple[str, str], Attempt] = {}
        self.spent = Spent()
        self.intents: dict[str, Intent] = {}
        self.children: Index[None] = {}  # by the intent that they are part of
        self.dependents: Index[None] = {}  # by the intent that they wait for
        self.governed: dict[str, Intent] = {}  # intents with a policy, by their space
        self.decisions: dict[str, list[Decision]] = {}  # by intent
        self.portfolios: dict[str, Portfolio] = {}
        self.members: Index[Member] = {}  # by portfolio, then by intent
        self.portfolios_of: Index[None] = {}  # by intent
        self.agents: dict[str, Agent] = {}
        self.assigned: Index[Assignment] = {}  # by intent, then by agent
        self.assignments: Index[Assignment] = {}  # by agent, then by intent
        self.horizon = 0  # events up to this one may have been forgotten
        self.held: dict[str, int] = {}  # leases by holder
        self.beats: dict[str, tuple[Listed, list[Lease]]] = {}  # by holder: the leases that it listed last
        self.waiting: dict[str, int] = {}  # waiters by holder
        self.timers = Timers(now_ms)

        self.outbox: list[tuple[int, Reply]] = []  # answers to requests that waited
        self.queues: dict[tuple[str, str], int] = {}  # new lengths, by space and scope, for whoever watches
        self.batch, self.written = 1, 0  # the open one, and the newest that stores anything
        self.lapsed = 0  # leases that time took since the open one was opened
        self.changes: dict[str, Any] = {}
        self.born: set[str] = set()
        self.wiped: list[tuple[str, str]] = []
        self.events: list[Event] = []
        self.copied = False  # whether any of them stands in two logs
        self.ends: list[LeaseEnd] = []

    # Looking

    def space(self, name: str) -> Space:
        found = self.spaces.get(name)
        if found is None:
            found = self.spaces[name] = Space(name)
        return found

    def ended_lease(self, lease_id: str) -> Lease | None:
        """As long as memory has it. Until its end is durable it does: then the log has it."""
        return self.ended.get(lease_id) or self.released.get(lease_id)

    def state_of(self, space: str) -> dict[str, Any] | None:
        """The state of the intent whose space this is, if it is one's."""
        intent = self.intents.get(intent_of(space) or "")
        return None if intent is None else intent.state

    def date_from(self, offset_ms: int) -> None:
        """From now on the wall clock is so far from ledger time: for dates, and for nothing else."""
        self.date_offset_ms = offset_ms
        self.date_ms = self.now_ms + offset_ms  # the present

    def remaining_ms(self, lease: Lease) -> int:
        return max(0, lease.deadline_ms - self.now_ms)

    def reply(self, answer: Answer, after: int | None = None) -> Reply:
        """An answer that may leave after the given batch; by default after all that was written so far."""
        return Reply(answer, self.written if after is None else after, self.rev, self.term)

    # Writing

    def keep(self, key: str, thing: Any) -> None:
        """Have the engine store a thing, as it is when the batch is taken."""
        self.changes[key] = thing
        self.written = self.batch

    def bear(self, key: str, thing: Any) -> None:
        """The same for a thing whose key was never used before."""
        self.changes[key] = thing
        self.born.add(key)
        self.written = self.batch

    def drop(self, key: str) -> None:
        if key in self.born:
            self.born.remove(key)
            del self.changes[key]
        else:
            self.changes[key] = None
        self.written = self.batch

    def wipe(self, first: str, last: str) -> None:
        """Delete a range. Nothing in it may be kept in the same batch before."""
        self.wiped.append((first, last))
        self.written = self.batch

    def log(
        self,
        kind: str,
        space: str,
        actor: str,
        payload: dict[str, Any] | None = None,
        lease: Lease | None = None,
        also: str | None = None,
        grant: Grant | None = None,
    ) -> Event:
        self.seq += 1
        event = Event(self.seq, kind, space, actor, self.date_ms, payload, lease, also, grant)
        self.events.append(event)
        if also is not None:
            self.copied = True
        self.written = self.batch
        return event

    def tidy(self, space: Space) -> None:
        """Forget a space in which nothing is left: an idle one costs nothing."""
        if space.is_empty():
            self.spaces.pop(space.name, None)

    def take_batch(self) -> Batch:
        """Close the open batch and hand it over."""
        changes = self.changes
        chunks = _by_log(self.events) if self.copied else _grouped(self.events, attrgetter("space"))
        for space, events in chunks.items():
            changes[event_key(space, events[-1].seq)] = events
        for bucket, ends in _grouped(self.ends, bucket_of).items():
            changes[end_key(bucket, ends[-1].seq)] = ends
        taken = Batch(
            self.batch, self.rev, self.token, self.seq, self.now_ms, changes, self.born, self.wiped, self.events
        )
        self.batch += 1
        self.lapsed = 0
        self.changes, self.born, self.wiped, self.events, self.ends, self.copied = {}, set(), [], [], [], False
        kept_max = self.limits.ended_kept_max
        _forget(self.released, kept_max=min(RELEASED_KEPT_MAX, kept_max), taken=taken.number)
        _forget(self.ended, kept_max=kept_max, taken=taken.number)
        return taken


def _forget(leases: dict[str, Lease], *, kept_max: int, taken: int) -> None:
    """The first to end. A batch is taken when the one before it is durable: the log has what ended before this one."""
    for lease in tuple(islice(leases.values(), max(0, len(leases) - kept_max))):
        if lease.batch >= taken:
            break
        del leases[lease.id]


def _by_log(events: list[Event]) -> dict[str, list[Event]]:
    chunks: dict[str, list[Event]] = {}
    for event in events:
        chunks.setdefault(event.space, []).append(event)
        if event.also is not None:
            chunks.setdefault(event.also, []).append(event)
    return chunks


def _grouped(things: list[T], group_of: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for thing in things:
        groups.setdefault(group_of(thing), []).append(thing)
    return groups


def bucket_of(end: LeaseEnd) -> str:
    """Ends are stored in chunks too. Ids begin with the time of their grant, so those of one chunk share a bucket."""
    return end.id[:BUCKET_CHARS]


def end_key(bucket: str, seq: int) -> str:
    return f"e/{bucket}\t{seq:016x}"


def event_key(space: str, seq: int) -> str:
    """Events are stored in chunks, each under the number of its last one."""
    return f"v/{space}\t{seq:016x}"


def patch_key(intent_id: str, version: int) -> str:
    return f"p/{intent_id}\t{version:016x}"


def attempt_key(holder: str, key: str) -> str:
    return f"a/{holder}\t{key}"


def cooldown_key(space: str, scope: str) -> str:
    return f"d/{space}\t{scope}"


def checkpoint_key(space: str, scope: str) -> str:
    return f"c/{space}\t{scope}"


def member_key(portfolio_id: str, intent_id: str) -> str:
    return f"m/{portfolio_id}\t{intent_id}"


def assignment_key(intent_id: str, agent_id: str) -> str:
    return f"g/{intent_id}\t{agent_id}"


def decision_key(intent_id: str, index: int) -> str:
    return f"o/{intent_id}\t{index:04x}"
