"""A ledger, moved from one engine to another by a file.

Promised of taking it out: no server writes meanwhile. One that lives is not deposed, whoever asks is told to stop it;
then the head is taken to a term of its own, and kept there until all is read, so that the file is what was between two
commits. The engine stays as it is, and can be served again.

Promised of bringing it in: the engine was empty, and at each moment it has nothing, all of it, or something that no
server will start from: until all was read back and compared, there is a record that no server can read. If it was
broken off, it can be done again. Tokens and terms go on far above all that are in the file, because more may have been
granted where it came from; events are numbered on, so that a reader with a cursor misses none.

Not promised: anything that is granted where it came from after it was taken out. Start a server on one of the two.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from openintent.engines import movefile
from openintent.engines.backup import Contents, Known, jumped
from openintent.engines.base import Change, Delete, DeleteRange, Deposed, Engine, Head, Put, Record
from openintent.engines.movefile import Counts, Digest, Summary, Writer
from openintent.errors import EngineCorrupt, EngineError, EngineInUse
from openintent.grantor.leadership import Leadership

EXPORT: Final = "export"
IMPORT: Final = "import"
LAST: Final = "\U0010ffff"  # above every key
RECORDS_PER_PAGE: Final = 1_000
RECORDS_PER_BATCH: Final = 1_000
BATCH_BYTES: Final = 512 * 1_024
# So often all that was committed is folded: a journal that grows without end would be refused one day.
BATCHES_PER_FOLD: Final = 20

# Of a kind that every server loads, and of no format that one knows: the server that finds it shows this key, and does
# not serve. No intent can have that name.
UNFINISHED: Final = Put("i/ an import that has not ended: run it again", b"\x00")

Progress = Callable[[str, int, int | None], None]  # what is done, how many records, of how many


class NotEmpty(EngineError):
    """There is a ledger already."""


class Nothing(EngineError):
    """There is no ledger in it."""


class Imported(msgspec.Struct, frozen=True):
    summary: Summary
    head: Head  # from which the next server goes on


class Mover(Leadership):
    """Takes over only where nobody leads: to move a ledger is no reason to depose anybody."""

    async def begin(self) -> Head:
        """Begin a term; returns the head that the former one left. `EngineInUse` if that goes on."""
        left = await self._left_behind()
        self.head = left
        fresh = Head(term=left.term + 1, clock_ms=left.clock_ms, member=self._member, token=left.token, seq=left.seq)
        try:
            await self.commit(fresh, [])
        except Deposed as deposed:
            raise _in_use(deposed.actual) from deposed
        return left

    async def leave(self, *changes: Change) -> None:
        """The next one need not wait. There are no deadlines in this farewell: each lease gets its full ttl."""
        last = self.head
        await self.commit(msgspec.structs.replace(last, beat=last.beat + 1, farewell=True), changes)

    async def _left_behind(self) -> Head:
        newest = first = await self._engine.head()
        if self.alone or first.farewell or first == Head():
            return first
        ends_at = self._clock() + self._ttl_s
        while newest == first and (left_s := ends_at - self._clock()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._engine.changed(first), left_s)
                newest = await self._engine.head()
        if newest != first and not newest.farewell:
            raise _in_use(newest)
        return newest


def _in_use(head: Head) -> EngineInUse:
    return EngineInUse(f"the engine is in use by {who(head)}, in term {head.term}")


def who(head: Head) -> str:
    return head.member.partition("#")[0] or "another process"


# Out


async def export(
    engine: Engine,
    target: Path,
    *,
    source: str,
    version: str,
    now_ms: int,
    leader_ttl_s: float,
    progress: Progress,
) -> Summary:
    """Write all of it to a new file. `FileExistsError` if there is one, `EngineInUse` while a server lives."""
    if target.exists():  # noqa: ASYNC240  # nothing else runs in this loop
        raise FileExistsError(target)
    if (await engine.head()).term == 0:
        raise Nothing("the engine is empty: there is nothing to export")
    mover = Mover(engine, member=EXPORT, leader_ttl_s=leader_ttl_s)
    left = await mover.begin()
    try:
        with movefile.partial(target) as (path, file):
            writer = Writer(file, left, engine=source, version=version, taken_ms=now_ms)
            await mover.while_beating(_write_all(engine, writer, progress))
            progress("checking", 0, None)
            checking = asyncio.create_task(asyncio.to_thread(movefile.read_through, path))
            await mover.while_beating(_until(checking))
            summary = checking.result()
            # Against the head that was written last: nobody else has written since it was taken over.
            await mover.leave()
            movefile.publish(path, target)
    except BaseException:
        with contextlib.suppress(EngineError):
            await mover.leave()
        raise
    return summary


async def _write_all(engine: Engine, writer: Writer, progress: Progress) -> None:
    counts = Counts()
    async for page in _pages(engine):
        for record in page:
            if record.key == UNFINISHED.key:
                raise EngineCorrupt("the engine holds an import that has not ended: run that again first")
            counts.add(record)
            writer.add(record)
        progress("exporting", counts.records, None)
    writer.end()


async def _until(checking: asyncio.Task[Summary]) -> None:
    await checking


# In


async def import_(engine: Engine, file: Path, *, now_ms: int, leader_ttl_s: float, progress: Progress) -> Imported:
    """Bring all of it into an empty engine. `NotEmpty` if it is not; `EngineCorrupt` if the file is damaged."""
    progress("checking the file", 0, None)
    summary = movefile.read_through(file)
    seen = await _empty(engine, leader_ttl_s=leader_ttl_s)
    mover = Mover(engine, member=IMPORT, leader_ttl_s=leader_ttl_s)
    mover.head = seen
    contents = Contents(bytes=0, head=summary.head, leases=0, intents=0, events=0, taken_ms=summary.taken_ms)
    known = Known(term=seen.term, token=seen.token, seq=summary.head.seq)
    head = msgspec.structs.replace(jumped(contents, known, now_ms=now_ms), member=IMPORT)
    try:
        await mover.commit(head, [DeleteRange("", LAST), UNFINISHED])
        await _store_all(mover, engine, file, summary, progress)
        await mover.while_beating(_compare(engine, summary, progress))
        await mover.leave(Delete(UNFINISHED.key))
    except BaseException:
        with contextlib.suppress(EngineError):
            await mover.leave()
        raise
    return Imported(summary, mover.head)


async def _empty(engine: Engine, *, leader_ttl_s: float) -> Head:
    """The head of an engine that has nothing, or only what an import has left that was broken off."""
    seen = await engine.head()
    if seen.term == 0:
        found = await engine.scan("", LAST, limit=1)
    elif seen.member == IMPORT:
        mover = Mover(engine, member=IMPORT, leader_ttl_s=leader_ttl_s)
        await mover.begin()
        seen = mover.head
        found = await engine.scan("", LAST, limit=1)
        if await engine.scan(UNFINISHED.key, UNFINISHED.key + "\x00", limit=1):
            return seen
        if found:
            await mover.leave()
    else:
        raise NotEmpty(f"the engine is not empty: {who(seen)} has written to it, in term {seen.term}")
    if found:
        raise NotEmpty(f"the engine is not empty: it has records, such as {found[0].key!r}")
    return seen


async def _store_all(mover: Mover, engine: Engine, file: Path, summary: Summary, progress: Progress) -> None:
    done = 0
    for number, batch in enumerate(_batches(movefile.records_of(file, summary), _batch_bytes(engine))):
        await mover.commit(msgspec.structs.replace(mover.head, beat=mover.head.beat + 1), batch)
        done += len(batch)
        progress("importing", done, summary.counts.records)
        if number % BATCHES_PER_FOLD == BATCHES_PER_FOLD - 1:
            await mover.while_beating(_fold(engine))


async def _fold(engine: Engine) -> None:
    await engine.scan("", "", limit=0)


def _batch_bytes(engine: Engine) -> int:
    return min(BATCH_BYTES, engine.guarantees.batch_bytes_max or BATCH_BYTES)


def _batches(records: Iterable[Record], bytes_max: int) -> Iterator[list[Change]]:
    batch: list[Change] = []
    size = 0
    for record in records:
        weight = len(record.key.encode()) + len(record.value)
        if batch and (size + weight > bytes_max or len(batch) == RECORDS_PER_BATCH):
            yield batch
            batch, size = [], 0
        batch.append(Put(record.key, record.value))
        size += weight
    if batch:
        yield batch


async def _compare(engine: Engine, summary: Summary, progress: Progress) -> None:
    """Read all of it back. It must be, byte for byte and in the same order, what is in the file."""
    digest, found = Digest(summary.first_line), 0
    async for page in _pages(engine):
        for record in page:
            if record.key != UNFINISHED.key:
                digest.add(movefile.line_of(record))
                found += 1
        progress("comparing", found, summary.counts.records)
    if found != summary.counts.records:
        raise EngineCorrupt(f"the engine has {found} records after the import, and the file {summary.counts.records}")
    if digest.hex != summary.digest:
        raise EngineCorrupt("the engine has other records after the import than the file")


async def _pages(engine: Engine) -> AsyncIterator[list[Record]]:
    first = ""
    while page := await engine.scan(first, LAST, limit=RECORDS_PER_PAGE):
        yield page
        first = page[-1].key + "\x00"
