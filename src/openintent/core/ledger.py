"""The ledger: commands in, replies and changes out, in an order that is the order of everything.

`apply` first lets everything lapse that is due by `now_ms`, then carries out the command. If that is too much to be
done at once, time stands still instead: the command is carried out at an earlier instant (`Books.now_ms` tells), and
whoever keeps the clock must go on from there, not make up for it. Leases live a little longer then, and nobody waits
for all of them to end. Whoever calls `apply` must also make the batch it belongs to durable before the reply leaves
(`Reply.after` says which), and deliver the outbox.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from openintent.core import (
    agents,
    attempts,
    commands,
    governance,
    intents,
    leases,
    lineage,
    loading,
    looking,
    portfolios,
    waiting,
)
from openintent.core.answers import Done, Reply
from openintent.core.books import Batch, Books, Spent
from openintent.core.loading import LOADED_KINDS
from openintent.core.timers import Timed
from openintent.model import Agent, Cooldown, Farewell, Lease, Limits, Waiter

__all__ = ["HANDLERS", "LOADED_KINDS", "Ledger"]

HANDLERS: dict[type, Callable[[Books, Any], Reply]] = {
    commands.Acquire: leases.acquire,
    commands.GiveUp: leases.give_up,
    commands.Gone: leases.gone,
    commands.Renew: leases.renew,
    commands.Release: leases.release,
    commands.Revoke: leases.revoke,
    commands.Progress: leases.progress,
    commands.Heartbeat: leases.heartbeat,
    commands.CheckToken: looking.check_token,
    commands.GetLease: leases.get_lease,
    commands.ListLeases: looking.list_leases,
    commands.ListQueue: looking.list_queue,
    commands.CreateIntent: intents.create,
    commands.GetIntent: intents.get,
    commands.ListIntents: intents.list_all,
    commands.PatchState: intents.patch_state,
    commands.SetStatus: intents.set_status,
    commands.LogEvent: intents.log_event,
    commands.DeleteIntent: lineage.delete,
    commands.GetRelatives: lineage.get_relatives,
    commands.AddDependency: lineage.add_dependency,
    commands.RemoveDependency: lineage.remove_dependency,
    commands.SetPolicy: governance.set_policy,
    commands.RecordDecision: governance.record,
    commands.ListDecisions: governance.list_decisions,
    commands.Arbitrate: governance.arbitrate,
    commands.CreatePortfolio: portfolios.create,
    commands.GetPortfolio: portfolios.get,
    commands.ListPortfolios: portfolios.list_all,
    commands.SetPortfolioStatus: portfolios.set_status,
    commands.AddMember: portfolios.add,
    commands.RemoveMember: portfolios.remove,
    commands.ListMembers: portfolios.list_members,
    commands.RegisterAgent: agents.register,
    commands.GetAgent: agents.get,
    commands.ListAgents: agents.list_all,
    commands.MarkAgent: agents.mark,
    commands.Assign: agents.assign,
    commands.Unassign: agents.unassign,
    commands.ListAssigned: agents.list_assigned,
    commands.ListAssignments: agents.list_assignments,
    commands.Forget: intents.forget_events,
    commands.Tick: lambda books, _: books.reply(Done(), after=0),
}


# What falls due at a time: about 2 ms of work when time passes by itself, and 0.2 ms for whoever waits for an answer.
DUE_PER_TICK_MAX: Final = 100
DUE_PER_COMMAND_MAX: Final = 10
# A batch is encoded in one go. While one is on its way the next one gathers, but must not grow as long as that takes.
LAPSES_PER_BATCH_MAX: Final = 1_000


class Ledger:
    """All rules behind one method. Not thread-safe; one writer owns it."""

    def __init__(self, limits: Limits, *, term: int = 1, token: int = 0, seq: int = 0, now_ms: int = 0) -> None:
        self.books = Books(limits, term=term, token=token, seq=seq, now_ms=now_ms)

    def apply(self, command: commands.Command, now_ms: int) -> Reply:
        books = self.books
        if now_ms != books.now_ms or now_ms >= books.timers.next_ms:  # commands that came together share an instant
            self._pass_time(now_ms, by_itself=type(command) is commands.Tick)
        books.rev = rev = books.rev + 1
        reply = HANDLERS[type(command)](books, command)
        reply.rev = rev  # those who were granted something by this command have the places after it
        return reply

    def _pass_time(self, now_ms: int, *, by_itself: bool) -> None:
        books = self.books
        assert now_ms >= books.now_ms, (now_ms, books.now_ms)
        due = books.timers.next_ms <= now_ms
        if due:
            most = DUE_PER_TICK_MAX if by_itself else DUE_PER_COMMAND_MAX
            if self.must_rest:
                most, by_itself = 0, False
            now_ms = max(books.timers.reach(now_ms, most, by_itself=by_itself), books.now_ms)
        books.now_ms = books.timers.now_ms = now_ms
        books.date_ms = now_ms + books.date_offset_ms
        if due:
            self._let_lapse(now_ms)

    @property
    def must_rest(self) -> bool:
        """Whether nothing more lapses until the open batch is taken: it will be, as it has something to store."""
        return self.books.lapsed >= LAPSES_PER_BATCH_MAX

    def due_ms(self) -> int:
        """Before this instant nothing lapses by itself."""
        return self.books.timers.next_ms

    def take_outbox(self) -> list[tuple[int, Reply]]:
        """The answers to requests that waited, since the last call."""
        taken, self.books.outbox = self.books.outbox, []
        return taken

    def take_lengths(self) -> dict[tuple[str, str], int]:
        """The queues that have changed, by space and scope, since the last call."""
        taken, self.books.queues = self.books.queues, {}
        return taken

    def take_batch(self) -> Batch:
        return self.books.take_batch()

    def farewell(self) -> Farewell:
        """The exact deadlines, for the term that follows a clean stop."""
        deadlines = {lease.id: lease.deadline_ms for lease in self.books.leases.values()}
        return Farewell(self.books.term, deadlines)

    def _let_lapse(self, now_ms: int) -> None:
        while (thing := self.books.timers.pop_due(now_ms)) is not None:
            self._fall_due(thing)

    def _fall_due(self, thing: Timed) -> None:
        match thing:
            case Lease():
                leases.lapse(self.books, thing)
            case Waiter():
                waiting.fall_due(self.books, thing)
            case Cooldown():
                leases.reopen(self.books, thing)
            case Agent():
                agents.fall_due(self.books, thing)
            case Spent():
                attempts.fall_due(self.books)
            case _:
                raise AssertionError(thing)

    # Loading

    def load(self, records: Iterable[tuple[str, Any]], farewell: Farewell | None = None) -> None:
        """Take in what a former term left, in the order of `LOADED_KINDS`; `farewell` only if it ended cleanly."""
        deadlines = {} if farewell is None else farewell.deadlines_ms
        for key, thing in records:
            loading.load_one(self.books, key, thing, deadlines)

    def loaded(self) -> None:
        loading.finish(self.books)
