"""etcd: keys below a prefix, as durable as a majority of its members.

A commit is one transaction: it compares `at`, which is the term, beat and rev of the head and nothing else, and moves
the head and adds the row, or does neither. `at` never has the same value twice, so that a commit that arrives late
finds another one.

Folds leave the head alone. They compare `term`, which only a takeover changes, and the revision of `fold`, which each
of their transactions changes: of one that was given up, and arrives when a later one has begun, nothing is stored.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from openintent.engines.base import DeleteRange, Deposed, Guarantees, Head, Record
from openintent.engines.etcd_gateway import Answer, Found, Gateway, KeyValue, Place, is_address
from openintent.engines.etcd_keys import (
    RECORDS_PER_PAGE,
    REQUEST_BYTES,
    ROWS_PER_PAGE,
    Folding,
    Keys,
    Operation,
    get,
    put,
)
from openintent.engines.journaled import decode_head, encode_head
from openintent.engines.patience import timeout_s_of
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

log = logging.getLogger("openintent.engines")

# Others may be reading what was here a while ago.
COMPACT_EVERY_S: Final = 300.0

URL_FORM: Final = "etcd://user:password@host1:2379,host2:2379/prefix, or etcds:// with TLS; special characters as %XX"
OPTIONS: Final = ("timeout", "durability", "compact", "ca", "cert", "key")
NOWHERE: Final = b"0/0/0"  # where the head is before the first commit


# The URL


def open_store(url: str) -> "EtcdStore":
    """Connects when it is first asked. A `ValueError` does not repeat the URL: there may be a password in it."""
    base, _, query = url.partition("?")
    scheme, _, rest = base.partition("://")
    hosts, _, path = rest.rpartition("@")[2].partition("/")
    asked = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(asked) - set(OPTIONS)):
        raise ValueError(f"{unknown[0]} is no option of the etcd engine; there are {', '.join(OPTIONS)}")
    web = "https" if scheme == "etcds" else "http"
    endpoints = tuple(f"{web}://{_with_port(host)}" for host in hosts.split(",") if host)
    if not endpoints or not all(map(is_address, endpoints)):
        raise ValueError(f"the URL of the engine names no host, or one that cannot be; write {URL_FORM}")
    user, _, password = rest.rpartition("@")[0].partition(":")
    return EtcdStore(
        Place(
            endpoints=endpoints,
            prefix=_prefix(path),
            user=unquote(user),
            password=unquote(password),
            timeout_s=timeout_s_of(asked.get("timeout")),
            weak=_choice(asked, "durability", no="full", yes="weak"),
            compact=_choice(asked, "compact", no="no", yes="yes"),
            tls=_tls(asked, secure=scheme == "etcds"),
        )
    )


def _with_port(host: str) -> str:
    return host if host.rpartition("]")[2].count(":") else f"{host}:2379"


def _prefix(path: str) -> bytes:
    names = [unquote(name) for name in path.split("/") if name] or ["openintent"]
    if any(len(name) == 1 for name in names):
        # Else it could lie among the records of somebody whose prefix is the beginning of this one.
        raise ValueError(f"the prefix {'/'.join(names)} has a part of one letter only")
    return "/".join(names).encode() + b"/"


def _choice(asked: Mapping[str, str], name: str, *, no: str, yes: str) -> bool:
    chosen = asked.get(name, no)
    if chosen not in (no, yes):
        raise ValueError(f"{name}={chosen!r} is neither {no!r} nor {yes!r}")
    return chosen == yes


def _tls(asked: Mapping[str, str], *, secure: bool) -> ssl.SSLContext:
    files = [name for name in ("ca", "cert", "key") if name in asked]
    if not secure:
        if files:
            raise ValueError(f"{files[0]} is for TLS: write etcds://")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used, and it trusts nobody
    if files[-1:] == ["key"] and "cert" not in files:
        raise ValueError("key is that of a certificate: name it as well, with cert=")
    try:
        context = ssl.create_default_context(cafile=asked.get("ca"))
        if "cert" in asked:
            context.load_cert_chain(asked["cert"], asked.get("key"))
    except OSError as error:
        raise EngineUnavailable(f"etcd: the files for TLS ({', '.join(files)}) cannot be read: {error}") from error
    return context


class EtcdStore:
    row_bytes_max = REQUEST_BYTES

    def __init__(self, place: Place) -> None:
        self._place = place
        self._keys = Keys(place.prefix)
        self._gateway = Gateway(place)
        self._seen = Head()  # the newest that this process knows of
        self._compacted: tuple[float, int] | None = None  # when we last did, and the revision then
        self._compacting: asyncio.Task[None] | None = None

    @property
    def guarantees(self) -> Guarantees:
        # How many members there are is known when they have been asked.
        survives = self._gateway.members > 2
        return Guarantees(durable=not self._place.weak, survives_node_loss=survives, exclusive_open=False)

    @property
    def software(self) -> str:
        return f"etcd {self._gateway.version}"

    @property
    def notice(self) -> str | None:
        return self._gateway.notice

    async def head(self) -> Head:
        before = self._seen
        answer = await self._gateway.ask("/v3/kv/range", {"key": self._keys.head})
        return self._head_in(answer, before)

    async def append(self, *, expect: Head, head: Head, row: tuple[int, bytes] | None) -> None:
        before, keys = self._seen, self._keys
        known: dict[str, Any] = {"key": keys.at, "result": "EQUAL", "target": "VALUE", "value": _at(expect)}
        if _at(expect) == NOWHERE:
            known = {"key": keys.at, "result": "EQUAL", "target": "CREATE", "create_revision": 0}
        changes = [put(keys.at, _at(head)), put(keys.head, encode_head(head))]
        if head.term != expect.term or _at(expect) == NOWHERE:
            changes.append(put(keys.term, b"%d" % head.term))
        if row is not None:
            changes.append(put(keys.row(row[0]), row[1]))
        answer = await self._write([known], changes, [get(keys.head)])
        if not answer.succeeded:
            raise Deposed(self._head_in(answer.responses[0].response_range, before))
        self._seen = max(self._seen, head, key=_order)
        self._perhaps_compact(answer.header.revision)

    async def stage(self, name: str, part: bytes) -> None:
        """If nobody can tell, neither can it of the commit: the part could arrive when another has its name."""
        await self._write([], [put(self._keys.staged(name), part)], [])

    async def staged(self, name: str) -> bytes:
        found = await self._gateway.ask("/v3/kv/range", {"key": self._keys.staged(name)}, bulk=True)
        if not found.kvs:
            raise EngineCorrupt(f"{self._gateway.endpoint}: a part of the journal is gone: {name}")
        return found.kvs[0].value

    async def rows(self, *, after: int, limit: int) -> list[tuple[int, bytes]]:
        first, last = self._keys.row(after + 1), self._keys.journal_end
        asked = {"key": first, "range_end": last, "limit": min(limit, ROWS_PER_PAGE)}
        found = await self._gateway.ask("/v3/kv/range", asked, bulk=True)
        return [(int(each.key.rpartition(b"/")[2]), each.value) for each in found.kvs]

    async def reconnect(self) -> None:
        await self._gateway.reopen()
        await self._gateway.require_no_alarm()
        await self.head()

    async def close(self) -> None:
        if self._compacting is not None:
            self._compacting.cancel()
            await asyncio.wait({self._compacting})
        await self._gateway.close()

    async def _write(
        self, compare: list[dict[str, Any]], changes: list[Operation], otherwise: list[Operation]
    ) -> Answer:
        body = {"compare": compare, "success": changes, "failure": otherwise}
        return await self._gateway.ask("/v3/kv/txn", body, writes=True)

    def _head_in(self, found: Found, before: Head) -> Head:
        """Whoever asks is told of all that was committed before: `before` is what we knew then."""
        try:
            head = decode_head(found.kvs[0].value) if found.kvs else Head()
        except msgspec.MsgspecError as error:
            raise EngineCorrupt(f"{self._gateway.endpoint}: {self._keys.head.decode()} is no head: {error}") from error
        if _order(head) < _order(before):
            raise EngineCorrupt(f"{self._gateway.endpoint} has lost commits that were durable: {head} after {before}")
        self._seen = max(self._seen, head, key=_order)
        return head

    # Records

    async def fold(
        self, *, term: int, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None], upto: int
    ) -> None:
        keys = self._keys
        looked = [get(keys.fold), get(keys.parts, range_end=keys.parts_end, count_only=True), get(keys.row(upto))]
        found = await self._gateway.ask("/v3/kv/txn", {"success": looked})
        last, parts, row = (each.response_range for each in found.responses)
        if not row.kvs:
            # It was done before, by a request whose answer did not arrive; or by another, whose term it is.
            head = await self.head()
            if head.term != term:
                raise Deposed(head)
            return
        revision = last.kvs[0].mod_revision if last.kvs else 0
        for operations in Folding(keys, has_parts=parts.count > 0).requests(ranges, values, upto):
            revision = await self._fold_some(term, revision, [put(keys.fold, b"%d" % upto), *operations])

    async def _fold_some(self, term: int, revision: int, operations: list[Operation]) -> int:
        before, keys = self._seen, self._keys
        known: list[dict[str, Any]] = [
            {"key": keys.term, "result": "EQUAL", "target": "VALUE", "value": b"%d" % term},
            {"key": keys.fold, "result": "EQUAL", "target": "MOD", "mod_revision": revision},
        ]
        answer = await self._write(known, operations, [get(keys.head)])
        if answer.succeeded:
            return answer.header.revision
        head = self._head_in(answer.responses[0].response_range, before)
        if head.term != term:
            raise Deposed(head)
        raise EngineUnavailable("etcd: a fold that had been given up came in between; it is done anew")

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool) -> list[Record]:
        start, end = self._keys.record(first), self._keys.record(last)
        if start >= end:
            return []
        if reverse and limit <= RECORDS_PER_PAGE:
            # etcd reads all of the range to find its end. So this is done once, and not for page after page.
            asked = {"limit": limit, "sort_order": "DESCEND", "sort_target": "KEY"}
            found = await self._page(start, end, **asked)
            return [await self._record(each, found.header.revision) for each in found.kvs]
        records: list[Record] = []
        revision, more = 0, True
        while more and (reverse or len(records) < limit):
            size = RECORDS_PER_PAGE if reverse else min(RECORDS_PER_PAGE, limit - len(records))
            found = await self._page(start, end, limit=size, revision=revision)
            # All pages are of the same moment.
            revision, more = revision or found.header.revision, found.more
            records += [await self._record(each, revision) for each in found.kvs]
            start = found.kvs[-1].key + b"\0" if found.kvs else end
        return records[: -limit - 1 : -1] if reverse else records

    async def _page(self, start: bytes, end: bytes, **more: Any) -> Answer:
        return await self._gateway.ask("/v3/kv/range", {"key": start, "range_end": end, **more}, bulk=True)

    async def _record(self, found: KeyValue, revision: int) -> Record:
        key = found.key.removeprefix(self._keys.records).decode()
        if found.value[:1] == b"=":
            return Record(key, found.value[1:])
        first = self._keys.parts_from(key)
        parts = await self._page(first, first[:-1] + b"\2", revision=revision)
        if found.value != b"@%d" % len(parts.kvs):
            raise EngineCorrupt(f"{self._gateway.endpoint}: parts of a record are gone: {key!r}")
        return Record(key, b"".join(each.value for each in parts.kvs))

    # What others have no more use for

    def _perhaps_compact(self, revision: int) -> None:
        now = asyncio.get_running_loop().time()
        if not self._place.compact or (self._compacted and now < self._compacted[0] + COMPACT_EVERY_S):
            return
        if self._compacted is not None:
            self._compacting = asyncio.create_task(self._compact(self._compacted[1]), name="openintent-compact")
        self._compacted = (now, revision)

    async def _compact(self, revision: int) -> None:
        """Nobody waits for this, and it can be done at any other time."""
        try:
            await self._gateway.ask("/v3/kv/compaction", {"revision": revision}, bulk=True)
        except EngineError as error:
            log.warning("compaction failed error=%s", error)


def _at(head: Head) -> bytes:
    return b"%d/%d/%d" % (head.term, head.beat, head.rev)


def _order(head: Head) -> tuple[int, int]:
    return (head.term, head.beat)
