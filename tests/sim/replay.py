"""The fast path of the judge: every term once more, command by command, through a ledger that starts from nothing.

The tape has what each ledger was asked, when, and what it answered. Played again in the order of terms and revisions,
every answer must be the same, every term must have begun with just what the commits before it stored, and a reply that
somebody heard must rest on a commit that happened.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from history import Heard, overlap
from simdisk import Disk

from openintent import records
from openintent.core.answers import Reply
from openintent.core.books import Batch
from openintent.core.commands import Command, Tick
from openintent.core.ledger import LOADED_KINDS, Ledger
from openintent.model import Ask, Farewell, Lease, Limits

_encode = msgspec.msgpack.encode

APPLY, TICK, OUTBOX, BATCH, FAREWELL = range(5)  # what a step on the tape is
NOTHING = b""  # what there is to say about the passing of time
LATE_MS_MAX = 60
AWAKE_S = 0.5


@dataclass
class Played:
    """One term on the tape."""

    term: int
    token: int
    seq: int
    start_ms: int
    found: dict[str, bytes]  # what was on the disk
    whole: bool = False  # all of that was read before another term began
    farewell: Farewell | None = None
    beaten: int | None = None  # the last beat before its first batch; None if it had none, or was over by then
    steps: list[tuple[int, Any]] = field(default_factory=list)


class Tape:
    def __init__(self, disk: Disk, now: Callable[[], float]) -> None:
        self.disk = disk
        self.now = now
        self.terms: list[Played] = []
        self.late: list[tuple[float, int]] = []  # when something lapsed too late, and by how many milliseconds
        self.frozen_until = 0.0  # the server, by the true time

    def ledger(self, limits: Limits, *, term: int = 1, token: int = 0, seq: int = 0, now_ms: int = 0) -> Ledger:
        if term == 0:  # of a grantor that has not begun a term: nothing is asked of it
            return Ledger(limits, term=term, token=token, seq=seq, now_ms=now_ms)
        self.terms.append(Played(term, token, seq, now_ms, self.disk.found(term)))
        return TapedLedger(self, self.terms[-1], limits, term=term, token=token, seq=seq, now_ms=now_ms)

    def due(self, late_ms: int) -> None:
        """A server that was just frozen is late by its nature."""
        if late_ms > LATE_MS_MAX and self.now() > self.frozen_until + AWAKE_S:
            self.late.append((self.now(), late_ms))


class TapedLedger(Ledger):
    """The real one, and a note of all that passes."""

    def __init__(self, tape: Tape, played: Played, limits: Limits, **start: int) -> None:
        super().__init__(limits, **start)
        self._tape = tape
        self._played = played
        self._steps = played.steps

    def load(self, records: Any, farewell: Farewell | None = None) -> None:
        self._played.farewell = farewell
        super().load(records, farewell)

    def loaded(self) -> None:
        self._played.whole = self._tape.disk.head.term == self._played.term
        super().loaded()

    def apply(self, command: Command, now_ms: int) -> Reply:
        books = self.books
        kind = type(command)
        written = NOTHING if kind is Tick else _encode(command)
        if books.rev:  # at its start a term deals with what fell due while the one before it was stopping
            self._tape.due(now_ms - self.due_ms())
        begun = books.written  # the grantor may have begun a batch that has nothing in it but the time
        reply = super().apply(command, now_ms)
        asked = (now_ms, books.date_offset_ms, begun, kind, written)
        if kind is Tick:
            self._steps.append((TICK, (asked, reply.rev, reply.after)))
        else:
            answer = reply.answer
            self._steps.append((APPLY, (asked, reply.rev, reply.after, type(answer), _encode(answer))))
        return reply

    def take_outbox(self) -> list[tuple[int, Reply]]:
        taken = super().take_outbox()
        self._steps.append((OUTBOX, _outbox(taken)))
        return taken

    def take_batch(self) -> Batch:
        now_ms, played, head = self.books.now_ms, self._played, self._tape.disk.head
        if played.beaten is None and head.term == played.term:
            played.beaten = head.beat
        batch = super().take_batch()
        self._steps.append((BATCH, (now_ms, batch.number, batch.token, batch.seq)))
        return batch

    def farewell(self) -> Farewell:
        self._steps.append((FAREWELL, None))
        return super().farewell()


def _outbox(taken: list[tuple[int, Reply]]) -> list[tuple[int, int, int, type, bytes]]:
    return [(request, each.rev, each.after, type(each.answer), _encode(each.answer)) for request, each in taken]


@cache
def _decoder(kind: type) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


class Replay:
    """Plays the tape; `violations` is what did not come out the same."""

    def __init__(self, tape: Tape) -> None:
        self.violations: list[str] = []
        self.rests_on: dict[tuple[int, int], int] = {}  # by term and revision: the batch it rests on
        self.shown: dict[tuple[int, int], tuple[type, bytes]] = {}  # and the answer
        self.durable: dict[int, int] = {}  # by term: how many of its batches became durable
        self._tape = tape
        self._table: dict[str, bytes] = {}
        self._closed: list[tuple[int, str, int]] = []  # the event of a lapse, its scope, and until when it is closed
        beaten = {played.term: played.beaten for played in tape.terms if played.beaten is not None}
        for head in tape.disk.took:
            if head.beat > beaten.get(head.term, head.beat):  # else it only begins the term, or says that it goes on
                self.durable[head.term] = self.durable.get(head.term, 0) + 1
        for played in sorted(tape.terms, key=lambda played: played.term):
            if played.whole:  # else it was over before it began, and whoever heard of it heard what was not to be said
                self._play(played)
        self._compare(tape.disk.records, "at the end")

    def _compare(self, found: dict[str, bytes], when: str) -> None:
        if self._table != found:
            wrong = sorted(key for key in {*self._table, *found} if self._table.get(key) != found.get(key))
            self.violations.append(f"{when} the disk differs from the commits before in {wrong[:3]}")
            self._table = dict(found)

    def _play(self, played: Played) -> None:
        self._compare(played.found, f"when term {played.term} began")
        start = {"term": played.term, "token": played.token, "seq": played.seq, "now_ms": played.start_ms}
        self._ledger, self._played = Ledger(Limits(), **start), played
        self._load(played.farewell)
        self._read = 0  # of the events that are not in a batch yet
        self._closed = [each for each in self._closed if each[0] <= played.seq]
        play = (self._apply, self._tick, self._outbox, self._batch, self._farewell)
        for what, noted in played.steps:
            play[what](noted)

    def _load(self, farewell: Farewell | None) -> None:
        by_kind: dict[str, list[str]] = {}
        for key in sorted(self._table):
            by_kind.setdefault(key[: key.index("/")], []).append(key)
        for kind in LOADED_KINDS:
            keys = by_kind.get(kind, ())
            self._ledger.load([(key, records.decode(key, self._table[key])) for key in keys], farewell)
        self._ledger.loaded()

    def _apply(self, noted: Any) -> None:
        asked, rev, after, answer, shown = noted
        reply = self._again(*asked)
        self._note(rev, after, answer, shown)
        if (reply.rev, reply.after, _encode(reply.answer)) != (rev, after, shown):
            self._differs(rev, asked)

    def _tick(self, noted: Any) -> None:
        asked, rev, after = noted
        reply = self._again(*asked)
        if (reply.rev, reply.after) != (rev, after):
            self._differs(rev, asked)

    def _differs(self, rev: int, asked: tuple[Any, ...]) -> None:
        self.violations.append(f"term {self._played.term} rev {rev}: {asked[3].__name__} came out differently")

    def _again(self, now_ms: int, date_offset_ms: int, begun: int, kind: type, written: bytes) -> Reply:
        ledger, books = self._ledger, self._ledger.books
        books.date_from(date_offset_ms)
        books.written = begun
        idle = not written and now_ms < ledger.due_ms()  # time passes, and nothing falls due: all is as it was
        reply = ledger.apply(_decoder(kind).decode(written) if written else kind(), now_ms)
        if books.requests and not idle:
            self._look_at_the_lines(books.rev)
        if len(books.events) > self._read:
            self._look_at_the_news(now_ms)
        return reply

    def _look_at_the_lines(self, rev: int) -> None:
        """I9: nobody waits for what is free, unless another is to go first."""
        books = self._ledger.books
        for waiter in books.requests.values():
            ask = waiter.ask
            space = books.spaces[ask.space]
            held = any(_in_the_way(lease, ask) for lease in books.leases.values())
            closed = any(True for _ in space.cooldowns.overlapping(ask.scope))
            lines = (each for each in books.waiters.values() if each.in_line and each.rank < waiter.rank)
            if not (held or closed or any(_in_the_way(each.ask, ask) for each in lines)):
                said = f"{ask.holder} waits for {ask.scope}, which is free"
                self.violations.append(f"term {self._played.term} rev {rev}: {said}")

    def _look_at_the_news(self, now_ms: int) -> None:
        """After a lapse, a scope with a cooldown stays closed for as long as its holder asked."""
        for event in self._ledger.books.events[self._read :]:
            lease = event.lease
            if lease is not None and lease.ended_reason == "expired" and lease.cooldown_ms:
                self._closed.append((event.seq, lease.scope, now_ms + lease.cooldown_ms))
            elif event.grant is not None:
                wanted = event.grant.scope
                if any(now_ms < until_ms and overlap(scope, wanted) for _, scope, until_ms in self._closed):
                    self.violations.append(f"event {event.seq}: {wanted} was granted during a cooldown")
        self._read = len(self._ledger.books.events)

    def _outbox(self, noted: Any) -> None:
        for _, rev, after, answer, shown in noted:
            self._note(rev, after, answer, shown)
        if _outbox(self._ledger.take_outbox()) != noted:
            self.violations.append(f"term {self._played.term}: those who waited were answered differently")

    def _note(self, rev: int, after: int, answer: type, shown: bytes) -> None:
        self.rests_on[self._played.term, rev] = after
        self.shown[self._played.term, rev] = (answer, shown)

    def _batch(self, noted: Any) -> None:
        now_ms, number, _, _ = noted
        self._ledger.books.now_ms = now_ms
        batch, self._read = self._ledger.take_batch(), 0
        if (now_ms, batch.number, batch.token, batch.seq) != noted:
            self.violations.append(f"term {self._played.term}: batch {number} came out differently")
        if number <= self.durable.get(self._played.term, 0):
            self._store(batch.changes, batch.wiped)

    def _store(self, changes: dict[str, Any], wiped: list[tuple[str, str]]) -> None:
        for first, last in wiped:
            for key in [key for key in self._table if first <= key < last]:
                del self._table[key]
        for key, thing in changes.items():
            if thing is None:
                self._table.pop(key, None)
            else:
                self._table[key] = records.encode(thing)

    def _farewell(self, _: None) -> None:
        """The last words of a term belong to the batch that was taken just before."""
        if self._ledger.books.batch - 1 <= self.durable.get(self._played.term, 0):
            self._store({"f/": self._ledger.farewell()}, [])


def _in_the_way(thing: Lease | Ask, ask: Ask) -> bool:
    """Nobody is in its own way, except by asking twice for one and the same scope."""
    return thing.scope == ask.scope or (thing.holder != ask.holder and overlap(thing.scope, ask.scope))


def heard_is_durable(replay: Replay, heard: list[Heard]) -> Iterator[str]:
    """I5 and I8: whoever was told something was told it by a revision that rests on durable batches only."""
    for each in heard:
        if not each.rev or each.status >= 500:  # the latter says that nobody knows, or that nothing happened
            continue
        rests_on = replay.rests_on.get((each.term, each.rev))
        if rests_on is None:
            yield f"{each.client} heard of revision {(each.term, each.rev)}, which there never was"
        elif rests_on > replay.durable.get(each.term, 0):
            yield f"{each.client} was told {each.method} {each.path} = {each.status} before it was durable"
