"""A ledger with everything around it that a test needs: time, open requests, a store, crashes and clean stops.

Batches are taken and committed by hand. What was taken but not committed is lost in a crash, as it is with a real
engine; so is the batch that was still open.
"""

from typing import Any

import msgspec

from openintent import records
from openintent.core import commands
from openintent.core.answers import Answer, Queued, Reply, Verdicts, Violation
from openintent.core.books import Batch
from openintent.core.ledger import LOADED_KINDS, Ledger
from openintent.model import (
    Agent,
    Ask,
    Assignment,
    Decision,
    Event,
    Intent,
    Limits,
    Member,
    Patch,
    Portfolio,
)
from openintent.spaces import coordinator_space

SPACE = "space:s"


def rule(answer: Answer) -> str | None:
    """By which rule of a policy this was refused, if it was."""
    return answer.rule if isinstance(answer, Violation) else None


def rows(verdicts: Verdicts) -> list[tuple[str, int, str | None]]:
    """Of each lease that was listed: id, remaining_ms, and the reason if it is lost."""
    listed = enumerate(zip(verdicts.held, verdicts.left_ms, strict=True))
    return [(lease_id, left_ms, verdicts.lost.get(place)) for place, ((lease_id, _), left_ms) in listed]


class Taken(msgspec.Struct):
    """A batch on its way to the engine: bytes already, so that later changes cannot touch it."""

    batch: Batch
    changes: dict[str, bytes | None]
    farewell: bool = False


class Head(msgspec.Struct):
    token: int = 0
    seq: int = 0
    now_ms: int = 0
    farewell: bool = False


class World:
    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.ledger = Ledger(self.limits)
        self.now_ms = 0
        self.store: dict[str, bytes] = {}
        self.head = Head()
        self.in_flight: list[Taken] = []
        self.durable = 0
        self.log: list[Event] = []  # the durable events
        self.last: Reply | None = None
        self.answers: list[tuple[int, Reply]] = []  # to requests that waited
        self._answered: set[int] = set()
        self._requests = 0
        self._ids = 0
        self._lists: dict[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]] = {}

    @property
    def books(self):
        return self.ledger.books

    # Commands

    def do(self, command: commands.Command) -> Answer:
        self.last = self.ledger.apply(command, self.now_ms)
        self._collect()
        return self.last.answer

    def _collect(self) -> None:
        for request, reply in self.ledger.take_outbox():
            assert request not in self._answered, f"request {request} was answered twice"
            self._answered.add(request)
            self.answers.append((request, reply))

    def new_answers(self) -> list[tuple[int, Answer]]:
        """The answers to waiting requests since the last call."""
        taken, self.answers = self.answers, []
        return [(request, reply.answer) for request, reply in taken]

    def advance(self, ms: int) -> list[tuple[int, Answer]]:
        self.now_ms += ms
        self.do(commands.Tick())
        return self.new_answers()

    def acquire(
        self,
        holder: str,
        scope: str = "x",
        *,
        space: str = SPACE,
        ttl_ms: int = 1_000,
        wait_ms: int = 0,
        attempt: str | None = None,
        lease: str | None = None,
        preempt: bool = False,
        **more: Any,
    ) -> Answer:
        """An acquire; every open request has a number of its own, `request`, counted from 1."""
        self._ids += 1
        ask = Ask(space=space, scope=scope, holder=holder, ttl_ms=ttl_ms, **more)
        command = commands.Acquire(
            ask=ask,
            lease_id=lease or f"lease-{self._ids}",
            wait_ms=wait_ms,
            attempt=attempt,
            request=self._requests + 1,
            preempt=preempt,
        )
        answer = self.do(command)
        self._requests += isinstance(answer, Queued)
        return answer

    @property
    def request(self) -> int:
        """The newest request that had to wait."""
        return self._requests

    def renew(self, lease: str, holder: str, **more: Any) -> Answer:
        return self.do(commands.Renew(lease_id=lease, holder=holder, **more))

    def release(self, lease: str, holder: str, **more: Any) -> Answer:
        return self.do(commands.Release(lease_id=lease, holder=holder, **more))

    def revoke(self, lease: str, **more: Any) -> Answer:
        return self.do(commands.Revoke(lease_id=lease, actor="operator", reason="asked", **more))

    def progress(self, lease: str, holder: str, **more: Any) -> Answer:
        keep = "checkpoint" not in more
        return self.do(commands.Progress(lease_id=lease, holder=holder, keep_checkpoint=keep, **more))

    def heartbeat(self, holder: str, held: list[tuple[str, int]] | None = None, load: int | None = None) -> Answer:
        listed = tuple(held or ())
        listed = self._lists.setdefault(listed, listed)  # whoever says the same again is known by that
        return self.do(commands.Heartbeat(holder=holder, held=listed, load=load))

    def coordinate(self, holder: str, *, intent=None, portfolio=None, **more: Any) -> Answer:
        """Ask for the lease of whoever coordinates an intent or a portfolio."""
        return self.acquire(holder, "*", space=coordinator_space(intent_id=intent, portfolio_id=portfolio), **more)

    def give_up(self, holder: str, attempt: str, space: str = SPACE) -> Answer:
        return self.do(commands.GiveUp(space=space, holder=holder, attempt=attempt))

    def gone(self, request: int) -> Answer:
        return self.do(commands.Gone(request))

    def create(self, intent: str, *, actor: str = "a", chosen_id: bool = True, attempt=None, **more: Any) -> Answer:
        made = Intent(id=intent, title=more.pop("title", intent), **more)
        return self.do(commands.CreateIntent(intent=made, chosen_id=chosen_id, actor=actor, attempt=attempt))

    def patch(self, intent: str, *steps: tuple[Any, ...], actor: str = "a", **more: Any) -> Answer:
        """Steps are ("set", "a/b", value), ("append", "a", value) or ("remove", "a")."""
        made = [Patch(op, tuple(path.split("/")), *value) for op, path, *value in steps]
        return self.do(commands.PatchState(intent_id=intent, actor=actor, steps=made, **more))

    def status(self, intent: str, status: str, actor: str = "a", **more: Any) -> Answer:
        return self.do(commands.SetStatus(intent_id=intent, actor=actor, status=status, **more))

    def delete(self, intent: str, actor: str = "a") -> Answer:
        return self.do(commands.DeleteIntent(intent, actor))

    def relatives(self, intent: str, kind: str) -> list[str]:
        return [each.id for each in self.do(commands.GetRelatives(intent, kind)).intents]

    def depend(self, intent: str, other: str, actor: str = "a", **more: Any) -> Answer:
        return self.do(commands.AddDependency(intent_id=intent, dependency_id=other, actor=actor, **more))

    def depend_no_more(self, intent: str, other: str, actor: str = "a", **more: Any) -> Answer:
        return self.do(commands.RemoveDependency(intent_id=intent, dependency_id=other, actor=actor, **more))

    def govern(self, intent: str, actor: str = "a", *, operator=False, expect=None, **policy: Any) -> Answer:
        """Give the intent a policy; with none at all, take it away."""
        words = {"intent_id": intent, "actor": actor, "operator": operator, "expect": expect}
        return self.do(commands.SetPolicy(policy=policy or None, **words))

    def decide(self, intent: str, actor: str, *, outcome="approved", attempt=None, **more: Any) -> Answer:
        self._ids += 1
        fields = {"id": f"decision-{self._ids}", "type": "completion", "outcome": outcome, **more}
        decision = Decision(intent_id=intent, actor=actor, **fields)
        return self.do(commands.RecordDecision(decision=decision, attempt=attempt))

    def arbitrate(self, intent: str, actor: str = "a", *, reason="why not", attempt=None) -> Answer:
        self._ids += 1
        words = {"intent_id": intent, "actor": actor, "reason": reason, "context": {}, "attempt": attempt}
        return self.do(commands.Arbitrate(id=f"arbitration-{self._ids}", **words))

    def portfolio(self, portfolio: str, *, actor: str = "a", chosen_id=True, attempt=None, **more: Any) -> Answer:
        made = Portfolio(id=portfolio, name=more.pop("name", portfolio), **more)
        return self.do(commands.CreatePortfolio(portfolio=made, chosen_id=chosen_id, actor=actor, attempt=attempt))

    def add(self, portfolio: str, intent: str, actor: str = "a", **more: Any) -> Answer:
        self._ids += 1
        member = Member(id=f"member-{self._ids}", portfolio_id=portfolio, intent_id=intent, **more)
        return self.do(commands.AddMember(member=member, actor=actor))

    def remove(self, portfolio: str, intent: str, actor: str = "a") -> Answer:
        return self.do(commands.RemoveMember(portfolio_id=portfolio, intent_id=intent, actor=actor))

    def register(self, agent: str, beat_ms: int = 1_000, **more: Any) -> Answer:
        marks = {"heartbeat_ms": beat_ms, "unhealthy_ms": 2 * beat_ms, "dead_ms": 5 * beat_ms}
        return self.do(commands.RegisterAgent(Agent(id=agent, **marks, **more)))

    def mark(self, agent: str, status: str, actor: str = "a") -> Answer:
        return self.do(commands.MarkAgent(agent_id=agent, actor=actor, status=status))

    def assign(self, intent: str, agent: str, *, role: str = "worker", actor: str = "a") -> Answer:
        return self.do(commands.Assign(assignment=Assignment(intent_id=intent, agent_id=agent, role=role), actor=actor))

    def unassign(self, intent: str, agent: str, actor: str = "a") -> Answer:
        return self.do(commands.Unassign(intent_id=intent, agent_id=agent, actor=actor))

    # Storing

    def stored_log(self, space: str) -> list[Event]:
        """The durable log of a space, as a reader finds it."""
        keys = sorted(key for key in self.store if key.startswith(f"v/{space}\t"))
        return [event for key in keys for event in records.decode(key, self.store[key])]

    def take(self, *, farewell: bool = False) -> None:
        """Close the open batch; it is now on its way."""
        batch = self.ledger.take_batch()
        if farewell:
            batch.changes["f/"] = self.ledger.farewell()
        changes = {key: None if thing is None else records.encode(thing) for key, thing in batch.changes.items()}
        self.in_flight.append(Taken(batch, changes, farewell))

    def commit(self) -> None:
        """Close the open batch, and make all that is on its way durable."""
        self.take()
        self.arrive()

    def arrive(self) -> None:
        """Make durable what is on its way."""
        while self.in_flight:
            self._store(self.in_flight.pop(0))

    def _store(self, taken: Taken) -> None:
        batch = taken.batch
        for first, last in batch.wiped:
            for key in [key for key in self.store if first <= key < last]:
                del self.store[key]
        for key, data in taken.changes.items():
            if data is None:
                self.store.pop(key, None)
            else:
                self.store[key] = data
        assert batch.token >= self.head.token
        self.head = Head(batch.token, batch.seq, batch.now_ms, taken.farewell)
        self.durable = batch.number
        self.log += batch.events

    def crash(self) -> None:
        """Lose all that is not durable, and begin a new term from what is."""
        self.in_flight.clear()
        self.ledger = self.rebuilt()
        self.now_ms = self.head.now_ms
        self.head.farewell = False  # the commit that begins a term says that it has not ended
        self.durable = 0

    def stop(self) -> None:
        """End the term cleanly, and begin a new one."""
        self.take(farewell=True)
        self.arrive()
        self.crash()

    def rebuilt(self) -> Ledger:
        """What a new term makes of the store."""
        head = self.head
        ledger = Ledger(self.limits, term=self.books.term + 1, token=head.token, seq=head.seq, now_ms=head.now_ms)
        farewell = records.decode("f/", self.store["f/"]) if head.farewell else None
        assert farewell is None or farewell.term == self.books.term
        for kind in LOADED_KINDS:
            keys = sorted(key for key in self.store if key[0] == kind)
            ledger.load([(key, records.decode(key, self.store[key])) for key in keys], farewell)
        ledger.loaded()
        return ledger
