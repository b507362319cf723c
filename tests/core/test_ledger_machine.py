"""Agents, time, crashes and clean stops in any order: whatever happens, the promises hold.

`real_ms` is the time that agents live in. It never goes back; ledger time does when a crash loses what was not yet
durable. A promise is made when a reply may leave, which is when its batch is durable.
"""

import invariants
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from world import SPACE, World, rows

from openintent.core import commands
from openintent.core.answers import DecisionSeen, Granted, IntentSeen, Queued, Reply, Seen
from openintent.core.scopes import overlap
from openintent.core.timers import NEVER

INTENT = "intent:i1"
LONG = "long" * 1_000  # a state of two of them is kept as patches

agents = st.sampled_from(["ann", "ann~1", "bob"])
scopes = st.sampled_from(["x", "x", "x/y", "x/**", "x/y/**", "*", "z"])
spaces = st.sampled_from([SPACE, SPACE, INTENT])
keys = st.sampled_from([None, "t1", "t2", "t3"])
waits_ms = st.sampled_from([0, 0, 200, 2_000, 10_000])
ttls_ms = st.sampled_from([100, 1_000, 3_000])
wishes = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.sampled_from([1, 2]),
        "preempt": st.just(True),
        "reentrant": st.just(True),
        "cooldown_ms": st.sampled_from([500, 4_000]),
        "max_hold_ms": st.sampled_from([300, 2_500]),
        "progress_ms": st.sampled_from([150, 800]),
    },
)
paths = st.sampled_from(["x", "x/y", "z", "big"])
texts = st.sampled_from(["", "short", LONG])


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.real_ms = 0
        self.asked: list[tuple[tuple, dict]] = []  # acquires with an attempt, to be repeated
        self.seen: dict[str, tuple[str, int]] = {}  # every lease that was ever granted: holder and token
        self.pending: list[tuple[int, str, int]] = []  # batch, lease and its end, for replies that may not leave yet
        self.promised: dict[str, int] = {}  # until when, in real time, its holder may believe in a lease
        self.deadlines, self.marks = {}, {}  # of leases, and the ends of those that are preempted
        self.told = 0
        assert isinstance(self.world.create("i1"), IntentSeen)
        self.world.commit()

    # What agents do

    @rule(holder=agents, scope=scopes, space=spaces, ttl=ttls_ms, wait=waits_ms, attempt=keys, wish=wishes)
    def acquire(self, holder, scope, space, ttl, wait, attempt, wish):
        asked = (holder, scope), {"space": space, "ttl_ms": ttl, "attempt": attempt, **wish}
        if attempt is not None:
            self.asked.append(asked)
        self._acquire(asked, wait)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), wait=waits_ms)
    def acquire_again(self, data, wait):
        self._acquire(data.draw(st.sampled_from(self.asked)), wait)

    def _acquire(self, asked, wait):
        (holder, scope), words = asked
        answer = self.world.acquire(holder, scope, wait_ms=wait, **words)
        if isinstance(answer, Granted):
            assert (answer.lease.holder, answer.lease.scope) == (holder, scope)
        assert not isinstance(answer, Queued) or wait or words["attempt"] is not None
        self._listen()

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), holder=agents, ttl=st.sampled_from([None, None, 100, 5_000]))
    def renew(self, data, holder, ttl):
        lease, owner = self._any_lease(data)
        live = lease in self.world.books.leases and holder == owner
        answer = self.world.renew(lease, holder, ttl_ms=ttl)
        assert not isinstance(answer, Seen) or live
        self._listen()

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), holder=agents)
    def release(self, data, holder):
        self.world.release(self._any_lease(data)[0], holder)
        self._listen()

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def release_ones_own(self, data):
        self.world.release(*self._any_lease(data))
        self._listen()

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def revoke(self, data):
        self.world.revoke(self._any_lease(data)[0])
        self._listen()

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), note=st.sampled_from([{}, {"checkpoint": {"done": 1}}, {"checkpoint": None}]))
    def progress(self, data, note):
        self.world.progress(*self._any_lease(data), **note)
        self._listen()

    @rule(holder=agents, strange=st.sampled_from([[], [("nowhere", 1)]]))
    def heartbeat(self, holder, strange):
        held = [(lease, token) for lease, (owner, token) in self.seen.items() if owner == holder]
        answer = self.world.heartbeat(holder, held + strange)
        agent = self.world.books.agents.get(holder)
        assert answer.status == (None if agent is None else agent.status)
        assert answer.status not in ("unhealthy", "dead"), "whoever is heard of is well"
        for lease, remaining_ms, reason in rows(answer):
            assert (reason is None) == (lease in self.world.books.leases)
            if reason is None:
                self._hear(self.world.last, lease, remaining_ms)
        self._listen()

    @rule(holder=agents, attempt=keys.filter(bool), space=spaces)
    def give_up(self, holder, attempt, space):
        self.world.give_up(holder, attempt, space)
        self._listen()

    @precondition(lambda self: self.world.books.requests)
    @rule(data=st.data())
    def disconnect(self, data):
        self.world.gone(data.draw(st.sampled_from(sorted(self.world.books.requests))))
        self._listen()

    @rule(holder=agents, attempt=keys, path=paths, text=texts, op=st.sampled_from(["set", "append", "remove"]))
    def patch(self, holder, attempt, path, text, op):
        before = self._version()
        self.world.patch("i1", (op, path, text), actor=holder, attempt=attempt)
        if self._version() > before:
            for lease in self.world.books.leases.values():
                assert lease.holder == holder or lease.space != INTENT or not overlap(lease.scope, f"{path}/**")
        self._listen()

    def _version(self):
        intent = self.world.books.intents.get("i1")
        return 0 if intent is None else intent.version

    @rule(holder=agents, attempt=keys, status=st.sampled_from(["active", "blocked"]))
    def set_status(self, holder, attempt, status):
        self.world.do(commands.SetStatus(intent_id="i1", actor=holder, status=status, attempt=attempt))
        self._listen()

    @rule(holder=agents, attempt=keys, space=spaces)
    def log_event(self, holder, attempt, space):
        self.world.do(commands.LogEvent(space=space, actor=holder, type="note", payload={}, attempt=attempt))
        self._listen()

    # What happens to them

    @rule(ms=st.sampled_from([0, 1, 49, 50, 100, 500, 1_000, 5_000, 600_000]))
    def advance(self, ms):
        self.real_ms += ms
        self.world.now_ms += ms
        self.world.do(commands.Tick())
        self._listen()

    @precondition(lambda self: self.world.ledger.due_ms() != NEVER)
    @rule(short_ms=st.sampled_from([0, 0, 1]))
    def advance_to_what_is_due(self, short_ms):
        self.advance(max(0, self.world.ledger.due_ms() - self.world.now_ms - short_ms))

    @rule()
    def take(self):
        self.world.take()

    @rule()
    def commit(self):
        self.world.commit()
        self._replies_leave()

    @rule()
    def arrive(self):
        self.world.arrive()
        self._replies_leave()

    @rule(down_ms=st.sampled_from([0, 100, 10_000]))
    def crash(self, down_ms):
        self.world.crash()
        self._new_term(down_ms)
        for lease in self.world.books.leases.values():
            assert lease.deadline_ms <= self.world.now_ms + lease.ttl_ms_max

    @rule(down_ms=st.sampled_from([0, 100, 10_000]))
    def stop(self, down_ms):
        exact = {lease.id: lease.deadline_ms for lease in self.world.books.leases.values()}
        self.world.stop()
        self._new_term(down_ms)
        assert {lease.id: lease.deadline_ms for lease in self.world.books.leases.values()} == exact

    def _new_term(self, down_ms):
        self.real_ms += down_ms
        self.pending.clear()
        self.deadlines, self.marks = {}, {}
        self.told = len(self.world.log)
        for waiter in self.world.books.waiters.values():
            assert waiter.attempt is not None

    @rule()
    def rebuild_from_the_store(self):
        """When all is durable, the store says the same as the books."""
        self.world.take(farewell=True)
        self.world.arrive()
        self._replies_leave()
        assert invariants.durable_part(self.world.rebuilt()) == invariants.durable_part(self.world.ledger)
        invariants.check_store(self.world)
        self.world.head.farewell = False

    # What they learn

    def _any_lease(self, data):
        lease = data.draw(st.sampled_from(sorted(self.seen)))
        return lease, self.seen[lease][0]

    def _listen(self):
        """Note what the replies of this step promise, and hold the ends in it against what was promised before."""
        self._check_ends()
        for reply in [self.world.last, *(reply for _, reply in self.world.answers)]:
            if isinstance(reply.answer, Granted | Seen) and reply.answer.lease.status == "active":
                self._hear(reply, reply.answer.lease.id, reply.answer.remaining_ms)
        self.world.answers.clear()

    def _hear(self, reply: Reply, lease_id: str, remaining_ms: int) -> None:
        lease = self.world.books.leases.get(lease_id)
        if lease is not None:
            assert reply.after >= lease.batch
            self.seen[lease_id] = (lease.holder, lease.token)
        self.pending.append((reply.after, lease_id, self.real_ms + remaining_ms))
        self._replies_leave()

    def _replies_leave(self):
        for _, lease, until_ms in [kept for kept in self.pending if kept[0] <= self.world.durable]:
            self.promised[lease] = max(self.promised.get(lease, 0), until_ms)
        self.pending = [kept for kept in self.pending if kept[0] > self.world.durable]

    def _check_ends(self):
        events = invariants.story(self.world)
        for event in events[self.told :]:
            if event.lease is not None and event.lease.status == "expired":
                assert self.real_ms >= self.promised.get(event.lease.id, 0), "ended before the promised time"
        self.told = len(events)

    @invariant()
    def the_books_are_in_order(self):
        invariants.check_all(self.world, self.marks)

    @invariant()
    def what_was_acknowledged_is_still_known(self):
        ended = {event.lease.id for event in invariants.story(self.world) if event.lease is not None}
        assert set(self.promised) <= ended | set(self.world.books.leases)

    @invariant()
    def no_deadline_moves_earlier(self):
        live = {lease.id: lease.deadline_ms for lease in self.world.books.leases.values()}
        for lease, deadline_ms in live.items():
            assert deadline_ms >= self.deadlines.get(lease, 0)
        self.deadlines = live


TestLedger = LedgerMachine.TestCase


# The same with groups: intents come and go, belong together, depend on each other, and are governed

several = st.sampled_from(["i1", "i1", "i2", "i3"])
homes = st.sampled_from(["intent:i1", "intent:i1", "coordinator:intent:i1", "coordinator:portfolio:p1"])
folders = st.sampled_from(["p1", "p2"])
policies = st.sampled_from(
    [
        {},
        {"write_scope": "assigned_only"},
        {"allowed_agents": ["ann"]},
        {"completion_mode": "quorum"},
        {"require_status_reason": True, "completion_mode": "require_approval"},
    ]
)
relatives = st.fixed_dictionaries({}, optional={"parent_id": several, "depends_on": st.lists(several, max_size=2)})


class GroupsMachine(LedgerMachine):
    acquire = acquire_again = give_up = log_event = set_status = renew = None  # the machine above has them

    def __init__(self) -> None:
        super().__init__()
        self.world.patch("i1", ("set", "big", LONG), ("set", "more", LONG))
        self.world.portfolio("p1")
        self.world.commit()
        self.told = len(self.world.log)

    @rule(holder=agents, intent=several, attempt=keys, related=relatives, policy=policies)
    def create(self, holder, intent, attempt, related, policy):
        self.world.create(intent, actor=holder, attempt=attempt, governance_policy=policy or None, **related)
        self._listen()

    @rule(holder=agents, intent=several)
    def delete(self, holder, intent):
        self.world.delete(intent, holder)
        self._listen()

    @rule(holder=agents, intent=several, other=several)
    def depend(self, holder, intent, other):
        self.world.depend(intent, other, holder)
        self._listen()

    @rule(holder=agents, intent=several, other=several)
    def depend_no_more(self, holder, intent, other):
        self.world.depend_no_more(intent, other, holder)
        self._listen()

    @rule(holder=agents, intent=several, policy=policies, operator=st.booleans())
    def govern(self, holder, intent, policy, operator):
        self.world.govern(intent, holder, operator=operator, **policy)
        self._listen()

    @rule(holder=agents, intent=several, attempt=keys, outcome=st.sampled_from(["approved", "rejected"]))
    def decide(self, holder, intent, attempt, outcome):
        before = self.world.books.attempts.get((holder, attempt)), self.world.books.seq
        answer = self.world.decide(intent, holder, outcome=outcome, attempt=attempt)
        assert before[0] is None or self.world.books.seq == before[1], "an attempt acted twice"
        if isinstance(answer, DecisionSeen):
            assert answer.decision.outcome == outcome
            assert answer.decision in self.world.books.decisions[intent]
        self._listen()

    @rule(holder=agents, intent=several, attempt=keys)
    def arbitrate(self, holder, intent, attempt):
        before = self.world.books.attempts.get((holder, attempt)), self.world.books.seq
        self.world.arbitrate(intent, holder, attempt=attempt)
        assert before[0] is None or self.world.books.seq == before[1], "an attempt acted twice"
        self._listen()

    @rule(holder=agents, intent=several, reason=st.sampled_from([None, "enough"]), data=st.data())
    def complete(self, holder, intent, reason, data):
        token = data.draw(st.sampled_from([None, *sorted(token for _, token in self.seen.values())]))
        answer = self.world.status(intent, "completed", holder, reason=reason, token=token)
        live = [(lease.holder, lease.token) for lease in self.world.books.leases.values()]
        assert not isinstance(answer, IntentSeen) or token is None or (holder, token) in live
        self._listen()

    @rule(holder=agents, folder=folders, attempt=keys)
    def create_portfolio(self, holder, folder, attempt):
        self.world.portfolio(folder, actor=holder, attempt=attempt)
        self._listen()

    @rule(folder=folders, intent=several, priority=st.integers(0, 1))
    def add(self, folder, intent, priority):
        self.world.add(folder, intent, priority=priority)
        self._listen()

    @rule(folder=folders, intent=several)
    def remove(self, folder, intent):
        self.world.remove(folder, intent)
        self._listen()

    @rule(agent=agents, beat_ms=st.sampled_from([25, 500]), role=st.sampled_from([None, "reader"]))
    def register(self, agent, beat_ms, role):
        self.world.register(agent, beat_ms, role_id=role)
        self._listen()

    @rule(agent=agents, status=st.sampled_from(["active", "draining", "unhealthy", "dead", "deregistered"]))
    def mark(self, agent, status):
        self.world.mark(agent, status)
        self._listen()

    @rule(intent=several, agent=agents | st.just("reader"), role=st.sampled_from(["worker", "reviewer"]))
    def assign(self, intent, agent, role):
        self.world.assign(intent, agent, role=role)
        self._listen()

    @rule(intent=several, agent=agents)
    def unassign(self, intent, agent):
        self.world.unassign(intent, agent)
        self._listen()

    @rule(holder=agents, space=homes, wait=st.sampled_from([0, 10_000]), cooldown_ms=st.sampled_from([0, 4_000]))
    def acquire_at_home(self, holder, space, wait, cooldown_ms):
        asked = (holder, "*"), {"space": space, "ttl_ms": 1_000, "attempt": None, "cooldown_ms": cooldown_ms}
        self._acquire(asked, wait)

    @rule(data=st.data())
    @precondition(lambda self: self.world.books.leases)
    def end_one(self, data):
        """Leave a note, and lose the lease."""
        lease = data.draw(st.sampled_from(sorted(self.world.books.leases)))
        self.world.progress(lease, self.world.books.leases[lease].holder, checkpoint={"done": 1})
        self.world.revoke(lease)
        self._listen()


TestGroups = GroupsMachine.TestCase
TestGroups.settings = settings(max_examples=2 * settings.default.max_examples)
