"""PostgreSQL: tables in a schema of their own, as durable as the server that they are on.

A commit is one statement and one round trip. The conditional UPDATE of the head comes first in it, and the row of the
journal is made from what that returns: of two writers the second waits for the first, looks again, and does nothing.

Folds have a connection of their own and leave the head alone. A fold holds the row of `reign` for sharing until it
ends; only a commit that begins a term changes that row. So appends pass a fold by; a takeover waits for the fold that
is under way; and a fold that comes after a takeover finds another term, and stores nothing. A fold also takes its rows
out of the journal before it stores what they say, all in one transaction: if it was given up, and arrives when later
rows have been folded, it finds its own gone and stores nothing either.

Nothing relies on what a session remembers, so that a pooler may stand between.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.errors import DuplicateSchema, DuplicateTable, UniqueViolation

from openintent.engines import postgres_tables as tables
from openintent.engines.base import DeleteRange, Deposed, Guarantees, Head, OutcomeUncertain, Record
from openintent.engines.journaled import decode_head, encode_head, same_place
from openintent.engines.patience import TIMEOUT_S
from openintent.engines.postgres_place import Place, place_of
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Work = Callable[[Connection], Awaitable[T]]

log = logging.getLogger("openintent.engines")

SERVER_VERSION_MIN: Final = 13
SERVER_VERSION_PART: Final = 10_000  # 150018 is 15.18

# Folds, scans and what the journal holds are larger than anything that somebody waits for.
BULK_TIMES: Final = 6
CREATE_TRIES: Final = 3


def open_store(url: str) -> "PostgresStore":
    """Connects when it is first asked."""
    return PostgresStore(place_of(url))


class PostgresStore:
    row_bytes_max = None
    software = "PostgreSQL"

    def __init__(self, place: Place) -> None:
        self._place = place
        self._seen = Head()  # the newest that this process knows of
        self._folded = (0, 0)  # the newest fold of ours: its term, and the last of its rows
        self._front = Line(place, self._admit, timeout_s=place.timeout_s)
        self._back = Line(place, self._admit, timeout_s=BULK_TIMES * place.timeout_s)
        self.notice: str | None = None

    @property
    def guarantees(self) -> Guarantees:
        # With synchronous standbys it would survive the loss of a machine. But that is not ours to see or to promise.
        return Guarantees(durable=not self._place.weak, survives_node_loss=False, exclusive_open=False)

    async def head(self) -> Head:
        return await self._front.ask(self._read_head)

    async def append(self, *, expect: Head, head: Head, row: tuple[int, bytes] | None) -> None:
        begins_term, weak = head.term != expect.term, self._place.weak
        text = tables.append_statement(with_row=row is not None, begins_term=begins_term, weak=weak)
        number, body = row or (0, b"")
        params = {"term": head.term, "beat": head.beat, "rev": head.rev, "body": encode_head(head)}
        params |= {"old_term": expect.term, "old_beat": expect.beat, "old_rev": expect.rev}
        params |= {"number": number, "row": body}

        async def move(connection: Connection) -> None:
            moved = await connection.execute(self._place.sql(text), params)
            if moved.rowcount == 1:
                self._seen = head
                return
            actual = await self._read_head(connection)
            if same_place(actual, expect):
                await self._require_sound(connection)
                raise EngineUnavailable(f"{self._place.name}: the head did not move, and nobody else has moved it")
            raise Deposed(actual)

        await self._front.ask(move, writes=True)

    async def stage(self, name: str, part: bytes) -> None:  # noqa: ARG002  # as the others have it
        raise AssertionError("a row of any size is stored whole")

    async def staged(self, name: str) -> bytes:  # noqa: ARG002  # as the others have it
        raise AssertionError("a row of any size is stored whole")

    async def rows(self, *, after: int, limit: int) -> list[tuple[int, bytes]]:
        query = "SELECT number, body FROM @.journal WHERE number > %s ORDER BY number LIMIT %s"
        return [(number, body) for number, body in await self._back.fetch(query, (after, limit))]

    async def fold(
        self, *, term: int, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None], upto: int
    ) -> None:
        # What a frozen process began is ended by the server after this time at most: sooner than anybody would take
        # over from that process, and find the reign held.
        idle_s = min(TIMEOUT_S, self._place.timeout_s)
        steps = list(tables.fold_steps(ranges, values))

        async def store(connection: Connection) -> bool:
            async with connection.transaction():
                held = await connection.execute(self._place.sql(tables.HOLD), (f"{idle_s:.3f}s", term))
                if held.rowcount == 0:
                    return False
                gone = await connection.execute(self._place.sql(tables.TAKE_OUT), (upto,))
                first, last = await gone.fetchone() or (None, None)
                self._refuse_rows_that_came_back(term, first)
                # If they are gone, it was done before, by a request whose answer did not arrive.
                for text, params in steps if last == upto else ():
                    await connection.execute(self._place.sql(text), params)
                return True

        if not await self._back.ask(store, writes=True):
            raise Deposed(await self.head())
        self._folded = (term, upto)

    def _refuse_rows_that_came_back(self, term: int, first: int | None) -> None:
        """A standby that was promoted may have all commits and lack the newest fold: its rows are not stored there."""
        if first is not None and self._folded[0] == term and first <= self._folded[1]:
            raise EngineCorrupt(f"{self._place.name} has lost what was folded: was a standby promoted?")

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool) -> list[Record]:
        start, end = tables.parts_of(first), tables.parts_of(last)
        params = {"first": start.key, "first_rest": start.rest, "last": end.key, "last_rest": end.rest, "limit": limit}
        found = await self._back.fetch(tables.SCAN.format(way="DESC" if reverse else "ASC"), params)
        return [Record(key.decode(), value) for key, value in found]

    async def reconnect(self) -> None:
        await self._front.drop()
        await self._back.drop()
        await self.head()

    async def close(self) -> None:
        await self._front.close()
        await self._back.close()

    async def _read_head(self, connection: Connection) -> Head:
        cursor = await connection.execute(self._place.sql("SELECT body FROM @.head"), binary=True)
        row = await cursor.fetchone()
        if row is None:
            raise EngineCorrupt(f"{self._place.name}: the table {self._place.schema}.head is empty")
        found = decode_head(row[0])
        if (found.term, found.beat) < (self._seen.term, self._seen.beat):
            raise EngineCorrupt(f"{self._place.name} has lost commits that were durable: {found} after {self._seen}")
        self._seen = found
        return found

    # Before a connection is used

    async def _admit(self, connection: Connection) -> None:
        version, schema = connection.info.server_version // SERVER_VERSION_PART, self._place.schema
        if version < SERVER_VERSION_MIN:
            raise self._refused(f"is PostgreSQL {version}, and {SERVER_VERSION_MIN} is the oldest that serves")
        self.software = f"PostgreSQL {version}.{connection.info.server_version % SERVER_VERSION_PART}"
        await self._require_sound(connection)
        for _ in range(CREATE_TRIES):
            ours, exists, others = await _one(connection, self._place.sql(tables.FOUND))
            if ours:
                return await self._require_version(connection)
            if others:
                raise self._refused(f"has a schema {schema} of another program; name another with ?schema=")
            wanted = tables.TABLES if exists else tables.CREATE_SCHEMA + tables.TABLES
            # Whoever comes second waits for the first, and then finds that it is all there.
            with suppress(UniqueViolation, DuplicateSchema, DuplicateTable):
                await connection.execute(self._place.sql(wanted))
        raise self._refused(f"could not be given a schema {schema}")

    async def _require_version(self, connection: Connection) -> None:
        query = self._place.sql("SELECT max(value::integer) FROM @.meta WHERE name = 'version'")
        (version,) = await _one(connection, query)
        if version != tables.SCHEMA_VERSION:
            told = f"(format {version}, this one knows {tables.SCHEMA_VERSION})"
            raise self._refused(f"has a schema {self._place.schema} that was written by a newer openintent {told}")

    async def _require_sound(self, connection: Connection) -> None:
        """Refuse a server that cannot be written, or does not keep what it was given."""
        read_only, synced, fsync, pages = await _one(connection, self._place.sql(tables.SETTINGS))
        if read_only:
            raise self._refused("is read-only: a standby? The engine must be the primary")
        unsafe = {"synchronous_commit": synced, "fsync": fsync, "full_page_writes": pages}
        off = " and ".join(f"{name}=off" for name, value in unsafe.items() if value == "off")
        if off and not self._place.weak:
            raise self._refused(f"is set to {off}, which loses commits; set it to on, or allow that: ?durability=weak")
        self._tell(off, synced)

    def _tell(self, off: str, synced: str) -> None:
        told, self.notice = self.notice, None
        if off:
            self.notice = f"{self._place.name} is set to {off}: commits that were acknowledged may be lost"
        elif synced in ("local", "remote_write"):
            self.notice = f"{self._place.name} has synchronous_commit={synced}: a standby may lack commits"
        if self.notice not in (None, told):  # only now is it known: whoever opened the engine has looked before
            log.warning("engine warned notice=%s", self.notice)

    def _refused(self, why: str) -> EngineUnavailable:
        return EngineUnavailable(f"{self._place.name} {why}")


class Line:
    """A connection: opened when it is needed, and given up as soon as there is a doubt about it."""

    def __init__(self, place: Place, admit: Work[None], *, timeout_s: float) -> None:
        self._place = place
        self._admit = admit
        self._timeout_s = timeout_s
        self._with_settings = True
        self._connection: Connection | None = None
        self._warned: str | None = None
        self._closed = False
        self._turn = asyncio.Lock()

    async def ask(self, work: Work[T], *, writes: bool = False) -> T:
        # Whoever asked may lose patience, but not in the middle: what was sent is answered, and nobody else gets it.
        asking = asyncio.ensure_future(self._ask(work, writes=writes))
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(asking)

    async def fetch(self, text: str, params: Any) -> list[tuple[Any, ...]]:
        async def fetched(connection: Connection) -> list[tuple[Any, ...]]:
            return await (await connection.execute(self._place.sql(text), params, binary=True)).fetchall()

        return await self.ask(fetched)

    async def drop(self) -> None:
        """Whatever is on its way ends at once."""
        if self._connection is not None:
            _hang_up(self._connection)
        async with self._turn:
            await self._drop()

    async def close(self) -> None:
        self._closed = True
        await self.drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ask(self, work: Work[T], *, writes: bool) -> T:
        async with self._turn:
            if self._closed:
                raise EngineUnavailable(f"{self._place.name} is closed")
            if self._connection is None or not _is_open(self._connection):
                await self._open()
            return await self._do(work, writes=writes)

    async def _open(self) -> None:
        await self._drop()
        try:
            self._connection = await self._connect()
        except psycopg.Error as error:
            raise EngineUnavailable(_one_line(error)) from error
        try:
            await self._do(self._admit, writes=False)
        except BaseException:
            await self._drop()
            raise

    async def _do(self, work: Work[T], *, writes: bool) -> T:
        connection = self._connection
        assert connection is not None
        timer = asyncio.get_running_loop().call_later(self._timeout_s, _hang_up, connection)
        self._warned = None
        try:
            answer = await work(connection)
        except psycopg.Error as error:
            if connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
                # The server has refused it, undone what there was, and is ready for more.
                raise EngineUnavailable(f"{self._place.name}: {_one_line(error)}") from error
            await self._drop()
            raise self._doubt(timer, error, writes=writes) from error
        finally:
            timer.cancel()
        if writes and self._warned is not None:
            # Such as: done here, but the wait for the standby was cancelled.
            raise OutcomeUncertain(f"{self._place.name}: {self._warned}")
        return answer

    def _doubt(self, timer: asyncio.TimerHandle, error: psycopg.Error, *, writes: bool) -> EngineError:
        late = timer.when() <= asyncio.get_running_loop().time()
        told = f"no answer within {self._timeout_s:g} s" if late else _one_line(error)
        return (OutcomeUncertain if writes else EngineUnavailable)(f"{self._place.name}: {told}")

    async def _connect(self) -> Connection:
        conninfo = self._place.conninfo(timeout_s=self._timeout_s, with_settings=self._with_settings)
        try:
            # Statements are not prepared: behind a pooler the next one may go to another session.
            connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            if not (self._with_settings and "startup parameter" in str(error)):
                raise
            self._with_settings = False  # a pooler that takes none
            return await self._connect()
        connection.add_notice_handler(self._heed)
        return connection

    def _heed(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            self._warned = diagnostic.message_primary


def _hang_up(connection: Connection) -> None:
    """End the connection under whoever waits for it. To close it would take the socket away from the event loop."""
    with (
        suppress(OSError, psycopg.Error),
        socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as end,
    ):
        end.shutdown(socket.SHUT_RDWR)


def _is_open(connection: Connection) -> bool:
    """Whether the server has said nothing that we did not ask for, such as that it shuts down."""
    with suppress(psycopg.Error):
        for _ in range(2):  # its last words, then the end
            connection.pgconn.consume_input()
        return not connection.closed
    return False


async def _one(connection: Connection, query: bytes) -> tuple[Any, ...]:
    return (await (await connection.execute(query)).fetchall())[0]


def _one_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
