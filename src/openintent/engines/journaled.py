"""An engine on a server that several of us share: a journal of whole batches, folded into records behind it.

A commit is one request, however much it changes: it moves the head and adds a row to the journal, or does neither.
What the rows amount to is stored record by record later, in slices, and only then are they taken out of the journal.
That a slice may be stored twice, or half and then wholly, does no harm: a row says what is, not what changes. But a
writer that was deposed must not store any more, so whatever is stored names the term, and the server compares it.

What differs between the servers is in a `Store`, one for each. Nothing here or there knows a lease, a clock or an
election.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from openintent.engines.base import (
    Change,
    DeleteRange,
    Deposed,
    Guarantees,
    Head,
    New,
    OutcomeUncertain,
    Put,
    Record,
)
from openintent.engines.folding import coalesce
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

log = logging.getLogger("openintent.engines")

# The weight of a row is its changes, one for itself, and one for each KiB.
SLICE_WEIGHT: Final = 2_000
# From here on slices are folded in the background.
IDLE_WEIGHT: Final = 2_000
# A journal that cannot be folded for so long would take minutes to read: rather refuse than let it grow.
WEIGHT_MAX: Final = 2_000_000
# The head is looked at this often by those who wait for it to move. Who leads is told by it, and takes as long to see.
LOOK_S: Final = 0.1
FOLD_AGAIN_S: Final = 1.0
ROWS_PER_READ: Final = 200

_encode = msgspec.msgpack.Encoder().encode
_decode_changes = msgspec.msgpack.Decoder(tuple[Change, ...]).decode
encode_head = _encode
decode_head = msgspec.msgpack.Decoder(Head).decode


class Row(NamedTuple):
    number: int
    changes: tuple[Change, ...]
    weight: int


class Store(Protocol):
    """What a server must be able to do. All of it raises `EngineUnavailable` if surely nothing happened.

    `append` and `fold` raise `OutcomeUncertain` if nobody can tell, and `Deposed` if somebody else writes now. Bytes
    larger than `row_bytes_max` are handed over in parts: `stage` keeps them for the row that names them.
    """

    @property
    def guarantees(self) -> Guarantees: ...

    @property
    def notice(self) -> str | None: ...

    @property
    def software(self) -> str:
        """What the server says that it is, once it was asked."""
        ...

    @property
    def row_bytes_max(self) -> int | None: ...

    async def head(self) -> Head:
        """Linearizable; `Head()` if there is none."""
        ...

    async def append(self, *, expect: Head, head: Head, row: tuple[int, bytes] | None) -> None:
        """If the head is `expect` by term, beat and rev: move it and add the row, in one step. Durable on return."""
        ...

    async def stage(self, name: str, part: bytes) -> None: ...

    async def staged(self, name: str) -> bytes: ...

    async def rows(self, *, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Rows of the journal in their order, from the first whose number is larger."""
        ...

    async def fold(
        self, *, term: int, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None], upto: int
    ) -> None:
        """While the head is of this term: delete the ranges, then set or delete the values.

        When all of that is stored, take the rows up to this number and what was staged for them out of the journal.
        One that was given up and arrives after another one changes nothing: it would bring back what is no more.
        """
        ...

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool) -> list[Record]:
        """Of what is folded, in the order of the keys' UTF-8 bytes."""
        ...

    async def reconnect(self) -> None: ...

    async def close(self) -> None: ...


class JournaledEngine:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: deque[Row] = deque()
        self._weight = 0
        self._term = -1  # that the rows were read in; whoever begins another reads them anew
        self._mine = 0  # the term of the last commit of our own
        self._number = 0
        self._folding = asyncio.Lock()
        self._folder: asyncio.Task[None] | None = None

    @property
    def guarantees(self) -> Guarantees:
        return self._store.guarantees

    @property
    def notice(self) -> str | None:
        return self._store.notice

    @property
    def software(self) -> str:
        return self._store.software

    async def announce(self, address: str) -> None:
        """Members find each other by the head: it names whoever wrote it."""

    async def head(self) -> Head:
        return await self._store.head()

    async def changed(self, seen: Head) -> None:
        while await self._store.head() == seen:  # noqa: ASYNC110  # it moves on another machine
            await asyncio.sleep(LOOK_S)

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        """Only for whoever wrote last: to fold what another writes would bring back what that has replaced."""
        head = await self._store.head()
        if head.term != self._mine and head != Head():
            raise EngineUnavailable(f"{head.member or 'another member'} writes: only the writer may read all of it")
        await self._read_rows(head)
        try:
            await self._fold_all()
        except (Deposed, OutcomeUncertain) as failure:  # whoever reads has asked for nothing that may have happened
            raise EngineUnavailable(str(failure)) from failure
        return await self._store.scan(first, last, limit=limit, reverse=reverse) if limit > 0 else []

    async def reopen(self) -> None:
        self._term = -1
        await self._store.reconnect()

    async def close(self) -> None:
        if self._folder is not None:
            self._folder.cancel()
            await asyncio.wait({self._folder})
        await self._store.close()

    # Commits

    async def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        assert head.token >= expect.token, (head, expect)  # a token that falls is a bug of the writer
        if changes and self._weight > WEIGHT_MAX:
            raise EngineUnavailable("the journal is full: its rows could not be folded for too long")
        if head.term != expect.term:
            self._term = -1  # what was sent last in the term before may have arrived since its rows were read
        try:
            await self._append(expect, head, changes)
        except BaseException:
            # Perhaps it has arrived, or somebody else writes: what was read need not be all of the journal any more.
            self._term = -1
            raise
        self._perhaps_fold()

    async def _append(self, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        row = None
        if changes:
            await self._read_rows(expect)
            blob = _encode(tuple(changes))
            row = (self._number + 1, await self._in_parts(head.term, self._number + 1, blob))
        await self._store.append(expect=expect, head=head, row=row)
        self._mine = head.term
        if row is not None:
            self._number = row[0]
            if self._term == expect.term:
                self._term = head.term
            self._keep(Row(row[0], tuple(changes), _weight(changes, len(blob))))

    async def _in_parts(self, term: int, number: int, blob: bytes) -> bytes:
        """The row as it is stored: all of it, or where it lies.

        Parts are named by the term: whoever was deposed cannot write over those of its successor.
        """
        size = self._store.row_bytes_max
        if size is None or len(blob) < size:
            return b"=" + blob
        names = []
        for place, start in enumerate(range(0, len(blob), size)):
            names.append(f"{number}-{term}-{place}")
            await self._store.stage(names[-1], blob[start : start + size])
        return b"@" + _encode(names)

    async def _whole(self, stored: bytes) -> bytes:
        if stored[:1] == b"=":
            return stored[1:]
        names = msgspec.msgpack.decode(stored[1:], type=list[str])
        return b"".join([await self._store.staged(name) for name in names])

    # The journal

    async def _read_rows(self, head: Head) -> None:
        """Nobody but the writer of a term adds rows, so that they are read once in each."""
        if self._term == head.term:
            return
        async with self._folding:
            if self._term == head.term:
                return  # it was read meanwhile, and there may be more by now
            pending: deque[Row] = deque()
            number, rows = 0, [(0, b"")]
            while rows:
                rows = await self._store.rows(after=number, limit=ROWS_PER_READ)
                for number, stored in rows:
                    pending.append(await self._read(number, stored))
            self._pending, self._number = pending, max(number, self._number)
            self._weight = sum(row.weight for row in pending)
            self._term = head.term

    async def _read(self, number: int, stored: bytes) -> Row:
        try:
            blob = await self._whole(stored)
            changes = _decode_changes(blob)
        except msgspec.MsgspecError as error:
            raise EngineCorrupt(f"row {number} of the journal cannot be read: {error}") from error
        return Row(number, tuple(map(_plain, changes)), _weight(changes, len(blob)))

    def _keep(self, row: Row) -> None:
        self._pending.append(row)
        self._weight += row.weight

    # Folding

    def _perhaps_fold(self) -> None:
        if self._weight > IDLE_WEIGHT and (self._folder is None or self._folder.done()):
            self._folder = asyncio.create_task(self._fold_behind(), name="openintent-fold")

    async def _fold_behind(self) -> None:
        """Nobody waits for this. What fails here the next commit will meet, too."""
        while self._weight > IDLE_WEIGHT:
            try:
                await self._fold_one()
            except Deposed:
                return
            except EngineError as error:
                log.warning("fold failed error=%s", error)
                await asyncio.sleep(FOLD_AGAIN_S)

    async def _fold_all(self) -> None:
        """What there is now: under load more is added all the time, and this would never end."""
        upto = self._number
        while self._pending and self._pending[0].number <= upto:
            await self._fold_one()

    async def _fold_one(self) -> None:
        async with self._folding:
            rows = list(self._slice())
            if not rows:
                return
            ranges, values = coalesce(change for row in rows for change in row.changes)
            try:
                await self._store.fold(term=self._term, ranges=ranges, values=values, upto=rows[-1].number)
            except BaseException:
                # Some of it may be stored. That something was not there before can no longer be relied on.
                self._pending = deque(row._replace(changes=tuple(map(_plain, row.changes))) for row in self._pending)
                raise
            for row in rows:
                self._pending.popleft()
                self._weight -= row.weight

    def _slice(self) -> Iterator[Row]:
        weight = 0
        for row in self._pending:
            yield row
            weight += row.weight
            if weight >= SLICE_WEIGHT:
                return


def _weight(changes: Sequence[Change], size: int) -> int:
    return 1 + len(changes) + size // 1_024


def _plain(change: Change) -> Change:
    """A put whose key may have been stored before, by a fold that did not come to its end."""
    return Put(change.key, change.value) if isinstance(change, New) else change


def same_place(one: Head, other: Head) -> bool:
    return (one.term, one.beat, one.rev) == (other.term, other.beat, other.rev)


__all__ = ["JournaledEngine", "Store", "decode_head", "encode_head", "same_place"]
