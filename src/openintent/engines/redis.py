"""Redis: six scripts and four keys, as durable as a server that syncs every write before it answers.

A commit is one script, and one round trip. It compares the head, adds the row and moves the head, and the server does
nothing else meanwhile. A fold is a few scripts, each of which compares the term and the number of the fold: if it was
given up, and a part of it arrives when a later one has begun, it stores nothing.

What Redis cannot promise: it answers before its replicas have the write. When one of them takes over, commits that were
acknowledged may be gone. A process that has seen them notices, and stops; one that has not goes on from there. What
may be gone as well are folds, of which no head tells: so a store that has read or written is bound to the server that
it did so on, until it is told to connect anew, and whoever tells it reads the journal again.

Nothing is ever sent twice. The library would do so by itself, so that only its connections are used.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from redis.asyncio import Connection, SSLConnection
from redis.exceptions import MovedError, NoScriptError, RedisError, ResponseError

from openintent.engines import redis_admission as admission
from openintent.engines import redis_scripts as scripts
from openintent.engines.base import DeleteRange, Deposed, Guarantees, Head, OutcomeUncertain, Record
from openintent.engines.journaled import decode_head, encode_head
from openintent.engines.redis_place import Place, place_of
from openintent.engines.redis_scripts import Script
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

Argument = bytes | int | str
Command = Sequence[Argument]

log = logging.getLogger("openintent.engines")

# What a connection that breaks may raise. RuntimeError: what uvloop says of one that was reset while nobody looked.
BROKEN: Final = (RedisError, OSError, TimeoutError, RuntimeError)
# Another fold can begin only because a request to begin one, long given up, has arrived.
FOLD_TRIES: Final = 3


def open_store(url: str) -> "RedisStore":
    """Connects when it is first asked."""
    return RedisStore(place_of(url))


class RedisStore:
    row_bytes_max = None
    software = "Redis"

    def __init__(self, place: Place) -> None:
        self._place = place
        self._seen = Head()  # the newest that this process knows of
        self._front = Line(place, self._admit)
        self._back = Line(place, self._admit)  # so that no append waits for what a fold has to send
        self.notice: str | None = f"{place.name}: {admission.FAILOVER}"
        self._server: tuple[str, str] | None = None
        self._bound = False  # what we have stored or read is of this server, and of no other

    @property
    def guarantees(self) -> Guarantees:
        durable = self._place.durability != "weak"
        return Guarantees(durable=durable, survives_node_loss=False, exclusive_open=False)

    async def head(self) -> Head:
        (body,) = await self._front.ask(("HGET", self._place.keys[0], "body"))
        self._seen = self._checked(body, self._seen)
        return self._seen

    async def append(self, *, expect: Head, head: Head, row: tuple[int, bytes] | None) -> None:
        moves: list[Argument] = [_at(expect), _at(head), head.term, encode_head(head)]
        moves += [row[0], b"%d:%b" % row] if row else [""]
        # A setting may change while we are connected: it is looked at behind every commit, in the same round trip.
        look = admission.GET_SETTINGS if self._place.durability == "full" else ()
        seen, self._bound = self._seen, True
        found, *settings = await self._front.run(scripts.APPEND, moves, also=look, writes=True)
        if found != 1:
            raise Deposed(self._checked(found, seen))
        self._seen = head
        unsafe = admission.unsafe(settings) if look else ""
        if unsafe:
            await self._front.drop()
            raise OutcomeUncertain(f"{self._place.name} is set to {unsafe}: the commit may not be on the disk")

    async def stage(self, name: str, part: bytes) -> None:  # noqa: ARG002  # as the others have it
        raise AssertionError("a row of any size is stored whole")

    async def staged(self, name: str) -> bytes:  # noqa: ARG002  # as the others have it
        raise AssertionError("a row of any size is stored whole")

    async def rows(self, *, after: int, limit: int) -> list[tuple[int, bytes]]:
        self._bound = True
        (found,) = await self._back.run(scripts.ROWS, [after, limit])
        parts = [row.partition(b":") for row in found]
        return [(int(number), body) for number, _, body in parts]

    async def fold(
        self, *, term: int, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None], upto: int
    ) -> None:
        for _ in range(FOLD_TRIES):
            seen = self._seen
            ((number, body),) = await self._back.run(scripts.BEGIN_FOLD, [term, upto], writes=True)
            head = self._checked(body, seen)
            if head.term != term:
                raise Deposed(head)
            # If the rows are gone, it was done before, by a request whose answer did not arrive.
            fold = Fold(term, number, self._back.openings)
            if number == 0 or (await self._wiped(fold, ranges) and await self._stored(fold, values, upto)):
                return
        raise EngineUnavailable(f"{self._place.name}: other folds came between, {FOLD_TRIES} times")

    async def _wiped(self, fold: "Fold", ranges: Sequence[DeleteRange]) -> bool:
        """Whether this fold is still the newest."""
        done = 0
        while done < len(ranges):
            some = ranges[done : done + scripts.RANGES_PER_CALL]
            step = await self._fold_step(scripts.WIPE, fold, *(edge for span in some for edge in scripts.bounds(span)))
            if step < 0:
                return False
            done += step
        return True

    async def _stored(self, fold: "Fold", values: Mapping[str, bytes | None], upto: int) -> bool:
        parts = list(scripts.slices(values))
        for place, part in enumerate(parts, 1):
            last = upto if place == len(parts) else ""
            if await self._fold_step(scripts.STORE, fold, last, *part.arguments) < 0:
                return False
        return True

    async def _fold_step(self, script: Script, fold: "Fold", *rest: Argument) -> int:
        seen, arguments = self._seen, [fold.term, fold.number, *rest]
        (done,) = await self._back.run(script, arguments, writes=True, opening=fold.opening)
        if isinstance(done, int):
            return done
        raise Deposed(self._checked(done, seen))

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool) -> list[Record]:
        low, high = scripts.bounds(DeleteRange(first, last))
        found: list[Record] = []
        while len(found) < limit:
            count = min(limit - len(found), scripts.KEYS_PER_CALL)
            way: list[Argument] = ["ZREVRANGEBYLEX", high, low] if reverse else ["ZRANGEBYLEX", low, high]
            (page,) = await self._back.run(scripts.SCAN, [*way, count])
            if not page:
                break
            found += [Record(key.decode(), value) for key, value in zip(page[::2], page[1::2], strict=True)]
            low, high = (low, b"(" + page[-2]) if reverse else (b"(" + page[-2], high)
        return found

    async def reconnect(self) -> None:
        self._bound = False
        await self._front.drop()
        await self._back.drop()
        await self.head()

    async def close(self) -> None:
        await self._front.close()
        await self._back.close()

    def _checked(self, body: bytes | None, seen: Head) -> Head:
        """The head that was found, if it can have come after the one that was seen."""
        try:
            found = decode_head(body) if body else Head()
        except msgspec.MsgspecError as error:
            raise EngineCorrupt(f"{self._place.name} has a head that cannot be read: {error}") from error
        if (found.term, found.beat) < (seen.term, seen.beat) or found.token < seen.token:
            raise EngineCorrupt(f"{self._place.name} has lost commits that were acknowledged: {found} after {seen}")
        return found

    # Before a connection is used

    async def _admit(self, line: "Line") -> None:
        head, *others = self._place.keys
        told, *settings = await line.exchange(("INFO",), *admission.GET_SETTINGS, errors_allowed=True)
        info = admission.info_of(self._place, told)
        admission.require_sound(self._place, info)
        self.software = f"Redis {info['redis_version']}"
        self._tell(admission.notice_of(self._place, settings))
        seen = self._seen
        (version, body), count = await line.exchange(("HMGET", head, "format", "body"), ("EXISTS", head, *others))
        admission.require_ours(self._place, version, count)
        self._checked(body, seen)
        # What was folded there may be missing here. Only whoever reads the journal anew can tell.
        server = (info.get("run_id", ""), info.get("master_replid", ""))
        if self._bound and self._server not in (None, server):
            raise EngineUnavailable(f"{self._place.name} was started anew, or is another server than before")
        self._server = server

    def _tell(self, notice: str) -> None:
        if notice != self.notice:
            log.warning("engine warned notice=%s", notice)
        self.notice = notice


class Fold(NamedTuple):
    term: int
    number: int
    opening: (
        int  # all of it goes over one connection: else a part of it could be on one server, and the rest on another
    )


class Wire(Protocol):
    """What is used of a connection of the library."""

    @property
    def is_connected(self) -> bool: ...

    async def connect(self) -> None: ...

    def pack_commands(self, commands: Sequence[Command]) -> list[bytes]: ...

    async def send_packed_command(self, command: list[bytes], check_health: bool) -> None: ...  # noqa: FBT001  # theirs

    async def read_response(self) -> Any: ...

    async def can_read_destructive(self) -> bool: ...

    async def disconnect(self, nowait: bool = False) -> None: ...  # noqa: FBT001, FBT002  # theirs


class Line:
    """A connection: opened when it is needed, and given up as soon as there is a doubt about it."""

    def __init__(self, place: Place, admit: Callable[["Line"], Awaitable[None]]) -> None:
        self._place = place
        self._admit = admit
        self._wire: Wire | None = None
        self.openings = 0
        self._closed = False
        self._turn = asyncio.Lock()

    async def run(
        self, script: Script, arguments: Sequence[Argument], *, also: Sequence[Command] = (), **how: Any
    ) -> list[Any]:
        """The answer to the script, then those to the other commands."""
        rest = (len(self._place.keys), *self._place.keys, *arguments)
        try:
            return await self.ask(("EVALSHA", script.digest, *rest), *also, **how)
        except ScriptUnknown:
            return await self.ask(("EVAL", script.text, *rest), *also, **how)

    async def ask(self, *commands: Command, writes: bool = False, opening: int | None = None) -> list[Any]:
        """With an opening: only if the connection is still that one."""
        # Whoever asked may lose patience, but not in the middle: what was sent is answered, and nobody else gets it.
        asking = asyncio.ensure_future(self._ask(commands, writes=writes, opening=opening))
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(asking)

    async def drop(self) -> None:
        """Whatever is on its way ends at once."""
        if self._wire is not None:
            await self._wire.disconnect(nowait=True)
        async with self._turn:
            await self._drop()

    async def close(self) -> None:
        self._closed = True
        await self.drop()

    async def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.disconnect(nowait=True)

    async def _ask(self, commands: Sequence[Command], *, writes: bool, opening: int | None) -> list[Any]:
        async with self._turn:
            if self._closed:
                raise EngineUnavailable(f"{self._place.name} is closed")
            if not await self._is_open():
                await self._open()
            if opening not in (None, self.openings):
                raise EngineUnavailable(f"{self._place.name}: the connection has ended in between")
            return await self.exchange(*commands, writes=writes)

    async def _is_open(self) -> bool:
        """Whether the server has said nothing that we did not ask for, such as that it hangs up."""
        if self._wire is None or not self._wire.is_connected:
            return False
        # It had the other name before version 8 of the library.
        said_something = getattr(self._wire, "can_read", None) or self._wire.can_read_destructive
        with suppress(*BROKEN):
            return not await said_something()
        return False

    async def _open(self) -> None:
        await self._drop()
        kind, timeout_s = SSLConnection if self._place.secure else Connection, self._place.timeout_s
        wire: Wire = kind(**self._place.params, socket_timeout=None, socket_connect_timeout=timeout_s, protocol=2)
        try:
            async with asyncio.timeout(timeout_s):
                await wire.connect()
        except BROKEN as error:
            await wire.disconnect(nowait=True)
            told = _one_line(error) if not isinstance(error, TimeoutError) else f"no answer within {timeout_s:g} s"
            raise EngineUnavailable(f"{self._place.name} cannot be reached: {told}") from error
        self._wire, self.openings = wire, self.openings + 1
        try:
            await self._admit(self)
        except BaseException:
            await self._drop()
            raise

    async def exchange(self, *commands: Command, writes: bool = False, errors_allowed: bool = False) -> list[Any]:
        """For whoever has the turn. An error that is answered says that the command has changed nothing."""
        wire = self._wire
        if (
            wire is None or not wire.is_connected
        ):  # else it would connect by itself, to a server that nobody has admitted
            raise EngineUnavailable(f"{self._place.name}: we have hung up")
        try:
            async with asyncio.timeout(self._place.timeout_s):
                await wire.send_packed_command(wire.pack_commands(commands), check_health=False)
                answers = [await _answer(wire) for _ in commands]
        except BROKEN as error:
            await self._drop()
            raise self._doubt(error, writes=writes) from error
        errors = [answer for answer in answers if isinstance(answer, ResponseError)]
        if errors and not errors_allowed:
            raise await self._refusal(errors[0], in_doubt=writes and errors[0] is not answers[0])
        return answers

    def _doubt(self, error: Exception, *, writes: bool) -> EngineError:
        told = f"no answer within {self._place.timeout_s:g} s" if isinstance(error, TimeoutError) else _one_line(error)
        return (OutcomeUncertain if writes else EngineUnavailable)(f"{self._place.name}: {told}")

    async def _refusal(self, error: ResponseError, *, in_doubt: bool) -> EngineError:
        if isinstance(error, NoScriptError):
            return ScriptUnknown(_one_line(error))
        # Perhaps it is a replica now. Before it is asked again it is looked at anew.
        await self._drop()
        told = _one_line(error)
        if isinstance(error, MovedError) or told.startswith("MOVED "):  # as older versions of the library leave it
            node = told.rpartition(" ")[2]
            return EngineUnavailable(f"{self._place.name} is in a cluster, and the keys are at {node}: name that one")
        if told.startswith(scripts.CORRUPT):
            return EngineCorrupt(f"{self._place.name}: {told.removeprefix(scripts.CORRUPT)}")
        return (OutcomeUncertain if in_doubt else EngineUnavailable)(f"{self._place.name}: {told}")


class ScriptUnknown(EngineUnavailable):
    """The server has forgotten the script, and wants all of it."""


async def _answer(wire: Wire) -> Any:
    try:
        return await wire.read_response()
    except ResponseError as error:
        return error


def _at(head: Head) -> str:
    return f"{head.term}/{head.beat}/{head.rev}"


def _one_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
