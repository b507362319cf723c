"""The ledger: commands in, replies and changes out, in an order that is the order of everything.

`apply` first lets everything lapse that is due by `now_ms`, then carries out the command. Whoever calls it must make
the batch it belongs to durable before the reply leaves (`Reply.after` says which), and deliver the outbox.
"""

from collections.abc import Callable, Iterable
from typing import Any

from openintent.core import attempts, commands, intents, leases, waiting
from openintent.core.answers import Done, Reply
from openintent.core.books import Batch, Books
from openintent.core.grants import promised_end_ms
from openintent.core.timers import Timed
from openintent.core.values import Draft, weigh
from openintent.model import DEAD, Attempt, Cooldown, Farewell, Intent, Lease, Limits, PatchRecord, Waiter

HANDLERS: dict[type, Callable[[Books, Any], Reply]] = {
    commands.Acquire: leases.acquire,
    commands.GiveUp: leases.give_up,
    commands.Gone: leases.gone,
    commands.Renew: leases.renew,
    commands.Release: leases.release,
    commands.Revoke: leases.revoke,
    commands.Progress: leases.progress,
    commands.Heartbeat: leases.heartbeat,
    commands.CheckToken: leases.check_token,
    commands.GetLease: leases.get_lease,
    commands.ListLeases: leases.list_leases,
    commands.ListQueue: leases.list_queue,
    commands.CreateIntent: intents.create,
    commands.GetIntent: intents.get,
    commands.ListIntents: intents.list_all,
    commands.PatchState: intents.patch_state,
    commands.SetStatus: intents.set_status,
    commands.LogEvent: intents.log_event,
    commands.Tick: lambda books, _: books.reply(Done(), after=0),
}

LOADED_KINDS = ("i", "p", "l", "w", "a", "d", "c")  # in this order: a patch needs its intent


class Ledger:
    """All rules behind one method. Not thread-safe; one writer owns it."""

    def __init__(self, limits: Limits, *, term: int = 1, token: int = 0, seq: int = 0, now_ms: int = 0) -> None:
        self.books = Books(limits, term=term, token=token, seq=seq, now_ms=now_ms)

    def apply(self, command: commands.Command, now_ms: int) -> Reply:
        books = self.books
        assert now_ms >= books.now_ms, (now_ms, books.now_ms)
        books.now_ms = now_ms
        books.date_ms = now_ms + books.date_offset_ms
        if books.timers.next_ms <= now_ms:
            self._let_lapse(now_ms)
        books.rev += 1
        return HANDLERS[type(command)](books, command)

    def due_ms(self) -> int:
        """Before this instant nothing lapses by itself."""
        return self.books.timers.next_ms

    def take_outbox(self) -> list[tuple[int, Reply]]:
        """The answers to requests that waited, since the last call."""
        taken, self.books.outbox = self.books.outbox, []
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
            case Attempt():
                attempts.forget(self.books, thing.holder, thing.key)
            case _:
                raise AssertionError(thing)

    # Loading

    def load(self, records: Iterable[tuple[str, Any]], farewell: Farewell | None = None) -> None:
        """Take in what a former term left, in the order of `LOADED_KINDS`; `farewell` only if it ended cleanly.

        Every live lease gets the largest ttl ever promised for it, from now on: renewals are not written down, so
        nobody knows how much of the last one is left, and too long is safe where too short is not.
        """
        deadlines = {} if farewell is None else farewell.deadlines_ms
        for key, thing in records:
            self._load_one(key, thing, deadlines)

    def loaded(self) -> None:
        """All is in; from here on the order of intents is that of their creation again."""
        known = sorted(self.books.intents.values(), key=lambda intent: (intent.created_at_ms, intent.id))
        self.books.intents = {intent.id: intent for intent in known}

    def _load_one(self, key: str, thing: Any, deadlines: dict[str, int]) -> None:
        match thing:
            case Lease():
                self._load_lease(thing, deadlines.get(thing.id))
            case Waiter():
                self._load_waiter(thing)
            case Attempt():
                thing.batch, thing.timer_ms = 0, DEAD
                self.books.attempts[thing.holder, thing.key] = thing
                if thing.until_ms:
                    self.books.timers.add(thing)
            case Cooldown():
                thing.batch, thing.timer_ms = 0, DEAD
                self.books.space(thing.space).cooldowns.add(thing.scope, "", thing)
                self.books.timers.add(thing)
            case Intent():
                thing.batch, thing.patches, thing.state_bytes = 0, 0, weigh(thing.state)
                self.books.intents[thing.id] = thing
            case PatchRecord():
                self._load_patch(key, thing)
            case _:
                space, _, scope = key[2:].partition("\t")
                self.books.space(space).checkpoints[scope] = thing.value

    def _load_lease(self, lease: Lease, deadline_ms: int | None) -> None:
        books = self.books
        lease.batch, lease.timer_ms, lease.deadline_ms = 0, DEAD, books.now_ms
        if lease.progress_ms is not None:
            lease.progress_end_ms = books.now_ms + lease.progress_ms
        if deadline_ms is None:
            deadline_ms = promised_end_ms(lease, books.now_ms + lease.ttl_ms_max)
        lease.deadline_ms = deadline_ms
        books.space(lease.space).leases.add(lease.scope, lease.holder, lease)
        books.leases[lease.id] = lease
        books.held[lease.holder] = books.held.get(lease.holder, 0) + 1
        books.timers.add(lease)

    def _load_waiter(self, waiter: Waiter) -> None:
        books, limits = self.books, self.books.limits
        waiter.request, waiter.batch, waiter.timer_ms, waiter.left = 0, 0, DEAD, False
        waiter.passed_ms = books.now_ms + limits.return_ms
        waiter.gone_ms = books.now_ms + limits.absence_ms
        books.order = max(books.order, waiter.order)
        waiting.place(books, waiter)
        books.timers.add(waiter)

    def _load_patch(self, key: str, record: PatchRecord) -> None:
        intent = self.books.intents[key[2:].partition("\t")[0]]
        intent.patches += 1  # also one that the whole record overtook: the next whole one wipes it
        if record.version <= intent.version:
            return
        draft = Draft(intent.state, intent.state_bytes)
        for step in record.steps:
            draft.apply(step)
        intent.state, intent.state_bytes = draft.root, draft.size
        intent.version, intent.updated_at_ms = record.version, record.updated_at_ms
