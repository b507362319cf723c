"""The work that the power is cut under: the real grantor on the real engine, by a seeded script."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw
from powerdisk import Image, Journal, Names, Sync, Truncate
from powerspot import SpotEngine
from powervfs import recorded
from stage import BootClock, Caller, soon

from openintent.core import timers
from openintent.core.answers import Granted, Queued, Reply
from openintent.core.commands import (
    Acquire,
    CreateIntent,
    Heartbeat,
    LogEvent,
    PatchState,
    Release,
    Renew,
    Revoke,
    Tick,
)
from openintent.engines import sqlite_database, sqlite_file
from openintent.engines.base import Change, Delete, Head, Put
from openintent.grantor import retention
from openintent.grantor.grantor import Grantor
from openintent.model import Ask, Intent, Limits, Patch

DATABASE = "leases.db"
LIMITS = Limits(events_kept_max=60, ended_kept_max=10)
# A script of some hundred commits is to fold, to fill the WAL, and to cut it back, many times; and when it does so is
# to depend on the commits alone, never on how idle the machine is.
SMALL_SLICES = {"SLICE_WEIGHT": 30, "FORCED_WEIGHT": 60, "IDLE_WEIGHT": 1_000_000}
SMALL_WAL = {"CHECKPOINT_PAGES": 25, "WAL_BYTES_KEPT": 60_000}

Records = Mapping[str, bytes]


class Returned(NamedTuple):
    """So many commits of this life have returned."""

    commits: int


class Told(NamedTuple):
    """A reply has left: it gave out this token, if any, and hung on everything up to this event."""

    token: int
    seq: int


class Stopped(NamedTuple):
    """The engine was closed in order."""


class Folded(NamedTuple):
    """Some commits have gone from the journal of the engine into its records."""


class Spot(NamedTuple):
    """The commit that has just returned was made on the spot."""


class Chain:
    """The commits of a life, and the records after each; number 0 is what the life began with."""

    def __init__(self, head: Head, records: Records) -> None:
        self.heads = [head]
        self.records: list[Records] = [records]

    def add(self, head: Head, changes: Sequence[Change]) -> None:
        after = dict(self.records[-1])
        for change in changes:
            if isinstance(change, Put):
                after[change.key] = change.value
            elif isinstance(change, Delete):
                after.pop(change.key, None)
            else:
                after = {key: value for key, value in after.items() if not change.first <= key < change.last}
        self.heads.append(head)
        self.records.append(after)

    def drop(self) -> None:
        """The last one was not even tried."""
        self.heads.pop()
        self.records.pop()


class Client(Caller):
    """Somebody whose replies are noted at the instant they leave."""

    def __init__(self, grantor: Grantor, journal: Journal) -> None:
        super().__init__(grantor)
        self._journal = journal
        self._told = Told(0, 0)

    def answer(self, reply: Reply) -> None:
        books = self.grantor.books
        token = reply.answer.lease.token if isinstance(reply.answer, Granted) else 0
        self._told = Told(token, books.seq if reply.after == books.batch else 0)
        super().answer(reply)

    def send(self) -> None:
        self._journal.mark(self._told)
        super().send()


class Life:
    """From power on to power off, in a folder that has what it starts from. What was told before stays told."""

    def __init__(self, folder: Path, rng: Random, *, start: Image, chain: Chain, token_told: int = 0) -> None:
        self.journal = Journal(start)
        self.chain = chain
        self.token_told = token_told
        self._rng = rng
        self._clock = BootClock()
        self._database = folder / DATABASE
        self._ids = 0

    async def run(self, steps: int, **disk: bool) -> None:
        with recorded(self.journal, self._database.parent, **disk):
            await self._open()
            for _ in range(steps):
                await self._step()
            self.journal.close()
            await self._shut()

    def situations(self) -> Counter[str]:
        """What happened, by name: a cut proves nothing about what never happened."""
        named = {number: name for name, number in Journal(self.journal.start).names.items()}
        seen: Counter[str] = Counter()
        for step in self.journal.steps:
            if isinstance(step, Names):
                named.update({number: name for name, number in step.changed.items() if number is not None})
            seen["checkpoint"] += isinstance(step, Sync) and named[step.file] == DATABASE
            seen["WAL cut back"] += isinstance(step, Truncate) and named[step.file] == f"{DATABASE}-wal"
            seen["name gone"] += isinstance(step, Names) and None in step.changed.values()
        for kind in (Folded, Spot, Stopped, Told):
            seen[kind.__name__.lower()] = len(self.journal.notes(kind))
        seen["events forgotten"] += "h/" in self.chain.records[-1]
        return seen

    async def _open(self) -> None:
        self._engine = SpotEngine(self._database, self._rng)
        watch(self._engine, self.chain, self.journal)
        self.grantor = Grantor(
            self._engine, LIMITS, member="m", boot_clock_ms=self._clock, wall_clock_ms=lambda: 1_000_000
        )
        await self.grantor.start()

    async def _shut(self) -> None:
        await self.grantor.stop()
        await self._engine.close()

    async def _step(self) -> None:
        roll = self._rng.random()
        if roll < 0.03:
            await self._shut()
            self.journal.mark(Stopped())
            await self._open()
        elif roll < 0.10:
            await soon(self.grantor._retention.look())
        elif roll < 0.20:
            self._clock.ms += self._rng.choice((500, 5_000, 20_000))
            await self._do(Tick()).heard()
        else:
            callers = [self._do(self._command()) for _ in range(self._rng.choice((1, 1, 2, 6)))]
            for caller in callers:
                await caller.heard()
        if self._rng.random() < 0.1:
            self._wait()

    def _do(self, command: Any) -> Client:
        client = Client(self.grantor, self.journal)
        client.answer(self.grantor.apply(command))
        return client

    def _wait(self) -> None:
        """Somebody asks and waits; whoever releases the scope next answers him."""
        client, command = Client(self.grantor, self.journal), self._acquire()
        command.wait_ms = 30_000
        self.grantor.look()
        reply = self.grantor.decide_or_wait(command, client)
        self.grantor.see_to_it()
        if not isinstance(reply.answer, Queued):
            client.answer(reply)

    def _command(self) -> Any:
        leases = list(self.grantor.books.leases.values())
        kinds: list[Callable[[], Any]] = [self._acquire, self._acquire, self._create, self._patch, self._note]
        if not leases:
            return self._rng.choice(kinds)()
        lease, rng = self._rng.choice(leases), self._rng
        held = tuple((other.id, other.token) for other in leases if other.holder == lease.holder)
        changes = [
            Renew(lease_id=lease.id, holder=lease.holder, ttl_ms=rng.choice((10_000, 90_000))),
            Release(lease_id=lease.id, holder=lease.holder),
            Release(lease_id=lease.id, holder=lease.holder),
            Revoke(lease_id=lease.id, actor="boss", reason="r"),
            Heartbeat(holder=lease.holder, held=held),
        ]
        return rng.choice(changes) if rng.random() < 0.5 else rng.choice(kinds)()

    def _acquire(self) -> Acquire:
        ask = Ask(
            space=f"space:{self._rng.randrange(3)}",
            scope=f"x{self._rng.randrange(12)}",
            holder=f"agent-{self._rng.randrange(5)}",
            ttl_ms=self._rng.choice((1_000, 10_000, 60_000)),
            cooldown_ms=self._rng.choice((0, 0, 2_000)),
        )
        attempt = self._rng.choice((None, f"t{self._next_id()}"))
        return Acquire(ask=ask, lease_id=self._next_id(), attempt=attempt)

    def _create(self) -> CreateIntent:
        number = self._rng.randrange(6)
        return CreateIntent(intent=Intent(id=f"i{number}", title="t"), chosen_id=True, actor="boss")

    def _patch(self) -> PatchState:
        step = Patch("set", (f"k{self._rng.randrange(4)}",), self._text())
        return PatchState(intent_id=f"i{self._rng.randrange(6)}", actor="boss", steps=[step])

    def _note(self) -> LogEvent:
        space = f"space:{self._rng.randrange(3)}"
        return LogEvent(space=space, actor="boss", type="note", payload={"text": self._text()})

    def _text(self) -> str:
        """Some of it is larger than a page of the database."""
        return self._rng.randbytes(self._rng.choice((5, 50, 400, 3_000))).hex()

    def _next_id(self) -> str:
        self._ids += 1
        return f"{self._rng.randrange(1 << 32):08x}-{self._ids}"


def watch(engine: SpotEngine, chain: Chain, journal: Journal) -> None:
    """Note each commit before it is tried, and again at the instant at which the engine says that it is durable."""
    database = engine._database
    commit, append, fold = database.commit, engine._here.append, database._store.fold

    def noted_commit(expect: Head, head: Head, changes: tuple[Change, ...]) -> None:
        chain.add(head, changes)
        commit(expect, head, changes)
        journal.mark(Returned(len(chain.heads) - 1))

    def noted_append(head: Head, changes: tuple[Change, ...]) -> bool:
        chain.add(head, changes)
        if not append(head, changes):
            chain.drop()
            return False
        journal.mark(Returned(len(chain.heads) - 1))
        journal.mark(Spot())
        return True

    def noted_fold() -> None:
        fold()
        journal.mark(Folded())

    database.commit, engine._here.append, database._store.fold = noted_commit, noted_append, noted_fold


@contextmanager
def small_bounds(synchronous: str = "full") -> Iterator[None]:
    """The engine with small bounds; and how careful SQLite is, which is for tests alone to lower."""
    configure = sqlite_file.configure

    def configured(db: apsw.Connection, path: Path) -> None:
        configure(db, path)
        if synchronous != "full":
            db.pragma("synchronous", synchronous)

    with (
        patch.multiple(sqlite_file, configure=configured, **SMALL_WAL),
        patch.multiple(sqlite_database, **SMALL_SLICES),
        patch.object(retention, "LOOK_S", 3_600.0),
        patch.object(timers, "HURRY_MS", 0),  # so that commits are made on the spot
    ):
        yield
