"""Apply, commit, reply.

Every request that has arrived is applied at once; all that changed is committed as one batch, and while that batch is
on its way newcomers gather in the next one. A parcel (a reply that is ready) leaves when the batch it depends on is
durable; one that depends on nothing new, such as the renewal of a lease that is already durable, leaves at once, so
that a slow disk kills no holder.

A commit can be made on the spot, too, while the loop waits: that is sooner for one who is alone. It is done only while
no holder is in a hurry (`core/timers.py`), so that a disk which hangs for some seconds kills none either.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from openintent.clock import LedgerClock, boot_ms, wall_ms
from openintent.core.answers import Queued, Reply
from openintent.core.commands import Acquire, Command, Gone, Tick
from openintent.core.ledger import Ledger
from openintent.engines.base import Deposed, Engine, Guarantees, Head
from openintent.errors import EngineUnavailable
from openintent.grantor.commit import Commit, head_after, say_farewell
from openintent.grantor.feed import Feed
from openintent.grantor.history import History
from openintent.grantor.leadership import LEADER_TTL_S, Leadership, TrustEnded
from openintent.grantor.parcels import (
    NotServing,
    OpenRequests,
    Parcel,
    Refusal,
    Waiting,
    give_up,
    refuse_all,
    send_all,
    settle,
)
from openintent.grantor.recovery import begin_again
from openintent.grantor.retention import Retention
from openintent.grantor.storing import encoded, load
from openintent.model import DEAD, Limits

__all__ = ["Grantor", "NotServing", "Parcel", "Refusal", "Waiting"]

log = logging.getLogger("openintent.grantor")

TURN_MS_MAX: Final = 250  # the loop turns at least this often, so that ledger time keeps up
BEAT_MS: Final = 5_000  # ledger time is written down at least this often
UNTRUSTED_MS: Final = 50  # a leader that may not speak looks this often whether it may again
REST_MS: Final = 20  # and one whose ledger must rest whether it still must


class Grantor:
    """One process's part: a candidate at first, then the one writer until it stops or a commit fails."""

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        member: str,
        leader_ttl_s: float = LEADER_TTL_S,
        boot_clock_ms: Callable[[], int] = boot_ms,
        wall_clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._boot_ms = boot_clock_ms
        self._wall_ms = wall_clock_ms
        self._leadership = Leadership(
            engine, member=member, leader_ttl_s=leader_ttl_s, clock=lambda: boot_clock_ms() / 1_000
        )
        self.commits = self._leadership.commits
        self._beat_ms = BEAT_MS if self._leadership.alone else min(BEAT_MS, self._leadership.beat_ms)
        self.feed = Feed()
        self.history = History(engine)
        self._retention = Retention(self, engine, kept_max=limits.events_kept_max)
        self.serving, self.term = False, 0
        # An empty one, until the first term begins: nothing is applied to it.
        self._ledger = Ledger(limits, term=0, token=0, seq=0, now_ms=0)
        self.books = self._ledger.books  # what it knows; for others to look at, and not all of it durable yet
        self.date_offset_ms = 0  # from ledger time to the date
        self._stopping = False
        self._waiting = OpenRequests()
        self._parcels: dict[int, list[Parcel]] = {}
        self._leaving: list[Parcel] | None = None  # between `look` and `see_to_it`: what may leave after that
        self._under_way: Commit | None = None
        self._durable = 0
        self._work = asyncio.Event()
        self._committer: asyncio.Task[None] | None = None
        self._alarm_ms = DEAD

    # Life

    async def start(self) -> None:
        """Become the writer and begin to serve; raises what the engine raises if it cannot.

        Where several members share the engine, this returns at once, and whose turn it is will show.
        """
        if self._leadership.alone:
            await self._begin_term(await self._leadership.take_over())
            self._committer = asyncio.create_task(self._commit_forever())
        else:
            await self._engine.head()
            self._committer = asyncio.create_task(self._stand_by())
        self._retention.start()

    async def _stand_by(self) -> None:
        await self._begin_again(Head(), [])
        await self._commit_forever()

    async def stop(self) -> None:
        """End the term cleanly: what was acknowledged stays so, and the next term knows the exact deadlines."""
        self.hang_up()
        await self._retention.stop()
        self._stopping = True
        self._work.set()
        if self._committer is not None:
            if not self.serving:
                self._committer.cancel()  # it waits for its turn, which need not come
            await asyncio.wait({self._committer})
        if self.serving:
            self._alarm.cancel()
            self.books.now_ms = self._clock.read(self._boot_ms())
            await say_farewell(self._ledger, self._leadership)
        self.serving = False
        self.feed.close()

    def hang_up(self) -> None:
        """Answer everybody who waits: not here, not now. They keep their places and ask again."""
        with suppress(NotServing):
            self._empty_the_lines()
        self._waiting.refuse()

    def _empty_the_lines(self) -> None:
        """No request is open any more. The last one leaves first: nobody moves up to a grant it would not hear of."""
        self.apply(Tick())
        for waiter in sorted(self.books.requests.values(), key=lambda waiter: waiter.rank, reverse=True):
            self._ledger.apply(Gone(waiter.request), self.books.now_ms)
        self._work.set()

    async def _begin_term(self, seen: Head) -> None:
        head = self._leadership.head
        ledger = Ledger(self._limits, term=head.term, token=head.token, seq=head.seq, now_ms=head.clock_ms)
        log.info("term taken term=%d", head.term)
        await self._leadership.while_beating(load(self._engine, ledger, seen=seen))
        # The clock starts only now: loading must not eat into what the holders were promised.
        self._clock = LedgerClock(start_ms=head.clock_ms, boot_now_ms=self._boot_ms())
        self._ledger, self.books = ledger, ledger.books
        self._note_date(head.clock_ms)
        self.term, self._durable, self._committed_ms = head.term, 0, head.clock_ms
        self.feed.begin(head.seq)
        self._alarm = asyncio.get_running_loop().call_soon(self._turn)
        self.serving = True
        log.info("term began term=%d leases=%d token=%d", self.term, len(self.books.leases), self.books.token)

    # Requests

    def apply(self, command: Command) -> Reply:
        """Carry out a command now. The reply may be shown to nobody before `park` lets it go."""
        self.look()
        try:
            return self.decide(command)
        finally:
            self.see_to_it()

    def look(self) -> None:
        """See what time it is, for the commands that are decided next; `NotServing` if none may be.

        What is parked from here on leaves with `see_to_it`.
        """
        if not self.serving or self._stopping:
            raise NotServing
        boot_now_ms = self._boot_ms()
        # The same reading as the time of the commands: between two of them the process may be asleep for long.
        if boot_now_ms >= self._leadership.until_ms:
            raise NotServing
        self._clock.read(boot_now_ms)
        if self._leaving is None:
            self._leaving = []

    def decide(self, command: Command) -> Reply:
        """Carry out a command at the time of the last look, at which whoever asks had asked already.

        So it may be some time ago, never too late: what is promised then ends after the holder believes it does.
        """
        books, now_ms = self.books, self._clock.now_ms
        reply = self._ledger.apply(command, now_ms)
        if books.now_ms < now_ms:
            self._clock.stand(books.now_ms)
        if books.outbox:
            self._waiting.deliver(self._ledger.take_outbox())
        return reply

    def see_to_it(self) -> None:
        """After what was decided: that it is committed, that what falls due is not forgotten, and that answers leave.

        These come last, and together: the engine works meanwhile (docs/decisions/0013).
        """
        books = self.books
        if books.written == books.batch and self._under_way is None:
            self._begin_commit(here=books.timers.hurry_ms <= books.now_ms)
        if books.timers.next_ms < self._alarm_ms:
            self._set_alarm()
        leaving, self._leaving = self._leaving, None
        if leaving:
            self._let_leave(leaving)

    def decide_or_wait(self, command: Acquire, waiting: Waiting) -> Reply:
        """The same for an acquire that may have to wait: after a `Queued`, `waiting` is answered later."""
        command.request = self._waiting.add(waiting)
        try:
            reply = self.decide(command)
        except BaseException:
            del self._waiting[command.request]
            raise
        if not isinstance(reply.answer, Queued):
            del self._waiting[command.request]
        return reply

    def abandon(self, request: int) -> None:
        """Whoever waited under this number is gone."""
        if self._waiting.pop(request, None) is not None:
            with suppress(NotServing):
                self.apply(Gone(request))

    def park(self, reply: Reply, parcel: Parcel) -> None:
        """Send what was made of the reply as soon as all that it depends on is durable: perhaps now."""
        if reply.term != self.term or not self.serving:
            # Its maker had to wait, and the term has ended: nobody can tell any more whether it saw what is true.
            parcel.refuse(Refusal.UNAVAILABLE)
        elif reply.after > self._durable:
            self._parcels.setdefault(reply.after, []).append(parcel)
        elif self._leaving is None:
            self._let_leave([parcel])
        else:
            self._leaving.append(parcel)

    def _let_leave(self, parcels: list[Parcel]) -> None:
        if self.leads:
            send_all(parcels)
        else:
            refuse_all(parcels, Refusal.UNAVAILABLE)

    @property
    def leads(self) -> bool:
        """Whether it serves, and may still say so."""
        return self.serving and (self._leadership.alone or self._leadership.trusted())

    @property
    def leader(self) -> str:
        """The member whose turn it is, as far as this one knows; empty if it is nobody's."""
        newest = self._leadership.newest
        return "" if newest.farewell else newest.member

    @property
    def newest_term(self) -> int:
        """The term of the leader, or of the last one that there was."""
        return self._leadership.newest.term

    @property
    def guarantees(self) -> Guarantees:
        return self._engine.guarantees

    @property
    def now_ms(self) -> int:
        """Ledger time at the last command."""
        return self.books.now_ms

    @property
    def commit_age_ms(self) -> int:
        """How long the commit that is on its way has taken by now; one that failed is not on its way."""
        commit = self._under_way
        return 0 if commit is None or not self.serving else self._boot_ms() - commit.began_ms

    def _note_date(self, now_ms: int) -> None:
        """Dates follow the wall clock, which may step."""
        self.date_offset_ms = self._wall_ms() - now_ms
        self.books.date_from(self.date_offset_ms)

    # Commits

    async def _commit_forever(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            if self._under_way is None and self.serving and self.books.written >= self.books.batch:
                self._begin_commit()
            if self._under_way is not None:
                await self._see_through(self._under_way)
            elif self._stopping:
                return

    def _begin_commit(self, *, here: bool = False) -> None:
        """Send what has gathered on its way; nothing else may be. The committer sees to what becomes of it.

        `here`: the loop can wait for the disk. If the engine can make use of that, it is all over when this returns.
        """
        rested = self._ledger.must_rest
        batch = self._ledger.take_batch()
        if rested:
            self._set_alarm()
        commit = self._under_way = Commit(batch.number, head_after(self._leadership.head, batch), self._boot_ms())
        try:
            commit.bulletin, changes = self.feed.gather(batch.events, self.books.state_of), encoded(batch)
            here = here and self._leadership.commit_here(commit.head, changes)
            if not here:
                commit.outcome = self._leadership.commit(commit.head, changes)
        except Exception as failure:  # noqa: BLE001  # it is for whoever sees it through
            commit.failure, here = failure, False
        if here:
            self._note_durable(commit)
            self._tell_of(commit)
        else:
            self._work.set()

    async def _see_through(self, commit: Commit) -> None:
        try:
            await commit.settled()
            if not self._leadership.trusted():
                raise TrustEnded("another may have begun a term")  # noqa: TRY301  # it took too long
        except Exception as failure:  # noqa: BLE001  # a bug of ours ends the term too: writes must not hang
            self._under_way = None
            await self._recover(failure, commit)
            return
        self._note_durable(commit)
        # First of all: the engine works on the next one while we tell of this one.
        if self.serving and self.books.written >= self.books.batch:
            self._begin_commit()
        if self._stopping:
            self._work.set()
        self._tell_of(commit)

    def _note_durable(self, commit: Commit) -> None:
        self._under_way = None
        self._durable, self._committed_ms = commit.number, commit.head.clock_ms

    def _tell_of(self, commit: Commit) -> None:
        send_all(self._parcels.pop(commit.number, []))
        self.feed.publish(commit.bulletin, commit.head.seq)
        self.feed.tell_lengths(self._ledger.take_lengths())

    # Failure

    async def _recover(self, failure: Exception, commit: Commit) -> None:
        """A commit failed: this term is over. Find out what is durable, and begin a new term from that."""
        log.error("commit failed term=%d rev=%d error=%s", self.term, commit.head.rev, failure)
        self.serving = False
        uncertain = self._parcels.pop(commit.number, [])
        later, self._parcels = self._parcels, {}
        for parcels in later.values():
            refuse_all(parcels, Refusal.UNAVAILABLE)
        self.hang_up()
        self.feed.close()
        if isinstance(failure, Deposed | EngineUnavailable):  # these say that nothing of the commit happened
            settle(uncertain, happened=False)
        try:
            await self._begin_again(commit.head, uncertain)
        finally:
            settle(uncertain, happened=None)

    async def _begin_again(self, head: Head, uncertain: list[Parcel]) -> None:
        await begin_again(
            self._engine, self._leadership, self._begin_term, lambda: self._stopping, head=head, uncertain=uncertain
        )
        self._work.set()

    # Time

    def _set_alarm(self, least_ms: int = 0) -> None:
        """Wake up when the next thing falls due, and in any case soon enough for ledger time to keep up."""
        self._alarm.cancel()
        now_ms = self.books.now_ms
        self._alarm_ms = min(self._ledger.due_ms(), now_ms + TURN_MS_MAX)
        if self._ledger.must_rest:
            least_ms = max(least_ms, REST_MS)
        delay_s = max(least_ms, self._alarm_ms - now_ms) / 1_000
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._turn)

    def _turn(self) -> None:
        if not self.serving or self._stopping:
            return
        now_ms, least_ms = self._clock.read(self._boot_ms()), 0
        self._note_date(now_ms)
        self._alarm_ms = DEAD  # it has rung; `apply` need not set it
        try:
            self.apply(Tick())
        except NotServing:  # trust has ended; the next commit brings it back, or ends the term
            give_up(self._parcels)
            least_ms = UNTRUSTED_MS  # what is due stays so until then
        self.feed.tell_lengths(self._ledger.take_lengths())
        if now_ms - self._committed_ms >= self._beat_ms and self.books.written < self.books.batch:
            self.books.written = self.books.batch  # an empty batch: the beat
            self._work.set()
        self._set_alarm(least_ms)
