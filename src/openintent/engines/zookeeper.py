"""ZooKeeper: a few nodes below a path, as durable as a majority of its members.

A commit is one transaction: it sets `head` if that has the version that belongs to the head which was seen, and creates
the row, or does neither. A version is never the same twice, so that a commit that arrives late finds another one.

Folds leave the head alone. They write new pages beside the old ones, and then switch `root` to them and delete the
rows, in one transaction. That checks `term`, which only a takeover sets, and the version of `root`: of a fold that was
given up, and arrives when a later one was done, nothing is seen. What no page lists any more goes with the next fold.

Sessions, ephemeral nodes and watches are not used: nothing here depends on what ZooKeeper thinks of who is alive.
"""

import logging
import secrets
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import islice
from typing import Final

from openintent.engines import zookeeper_pages as pages
from openintent.engines.base import DeleteRange, Deposed, Guarantees, Head, Record
from openintent.engines.journaled import decode_head, encode_head, same_place
from openintent.engines.zookeeper_line import Call, Line, Node, Operation, Refused
from openintent.engines.zookeeper_pages import Change, Entry, Records, Root, Span, Writing
from openintent.engines.zookeeper_place import Place, place_of
from openintent.errors import EngineCorrupt, EngineUnavailable

log = logging.getLogger("openintent.engines")

# What says that the nodes are ours, and how they are to be read.
OURS: Final = b"openintent "
FORMAT: Final = OURS + b"1"
CONFIG: Final = "/zookeeper/config"  # there from 3.5 on; in a standalone server it is empty
# Scans, folds and what the journal holds are larger than anything that somebody waits for.
BULK_TIMES: Final = 6
# In one transaction.
PORTION_BYTES: Final = pages.NODE_BYTES
OPERATIONS_MAX: Final = 2_000
OPERATION_BYTES: Final = 200  # besides what it holds
# Another fold can come between only because a request, long given up, has arrived.
FOLD_TRIES: Final = 3
# A page can go while we read only because a fold has switched to others, twice.
SCAN_TRIES: Final = 5
PAGES_PER_READ: Final = 64
ROWS_PER_READ: Final = 16
ROWS_BYTES: Final = 4 * 1_024 * 1_024
CREATE_TRIES: Final = 3
# The version after this one would be taken for "any version".
LAST_VERSION: Final = -2


def open_store(url: str) -> "ZookeeperStore":
    """Connects when it is first asked."""
    return ZookeeperStore(place_of(url))


class Gone(Exception):
    """A page is not there any more: another fold has switched to others."""


class ZookeeperStore:
    row_bytes_max = pages.NODE_BYTES
    software = "ZooKeeper"

    def __init__(self, place: Place) -> None:
        self._place = place
        self._seen = Head()  # the newest that this process knows of
        self._version: int | None = None  # that its node has
        self._numbers: list[int] = []  # of the journal, while it is read
        self._members = 0
        self._cache = pages.Cache(pages.CACHE_BYTES)
        self._swept = -1  # the term in which we looked for what no page lists
        self._dead: list[str] = []
        self._front = Line(place, self._admit, timeout_s=place.timeout_s)
        # So that no append waits for what a fold has to send.
        self._back = Line(place, self._admit, timeout_s=BULK_TIMES * place.timeout_s)
        self.notice: str | None = None

    @property
    def guarantees(self) -> Guarantees:
        # How many members there are is known when one of them has been asked.
        return Guarantees(durable=True, survives_node_loss=self._members > 2, exclusive_open=False)

    # The head

    async def head(self) -> Head:
        before = self._seen
        call = await self._front.call()
        (node,) = await call.get(self._place.head)
        return self._checked(node, before)

    async def append(self, *, expect: Head, head: Head, row: tuple[int, bytes] | None) -> None:
        if self._version is None or not same_place(self._seen, expect):
            found = await self.head()
            if not same_place(found, expect):
                raise Deposed(found)
        assert self._version is not None
        changes = list(self._moves(head, self._version, begins_term=head.term != expect.term))
        moves = len(changes)
        if row is not None:
            changes.append(("create", self._place.row(row[0]), row[1]))
        call = await self._front.call()
        try:
            answers = await call.commit(changes)
        except Refused as refused:
            actual = await self.head()
            if same_place(actual, expect):
                raise EngineCorrupt(f"{self._place.name} was changed by somebody else: {refused}") from refused
            raise Deposed(actual) from refused
        if _order(head) > _order(self._seen):
            self._seen, self._version = head, answers[moves - 1].version

    def _moves(self, head: Head, version: int, *, begins_term: bool) -> Iterator[Operation]:
        if begins_term:
            yield "set_data", self._place.term, b"%d" % head.term
        yield "set_data", self._place.head, encode_head(head), version
        if version == LAST_VERSION:
            yield "set_data", self._place.head, encode_head(head)

    def _checked(self, node: Node | None, before: Head) -> Head:
        """Whoever asks is told of all that was committed before: `before` is what we knew then."""
        head = decode_head(node.value) if node else Head()
        if node is None or _order(head) < _order(before):
            raise EngineCorrupt(f"{self._place.name} has lost commits that were durable: {head} after {before}")
        if self._version is None or _order(head) >= _order(self._seen):
            self._seen, self._version = head, node.version
        return head

    # The journal

    async def stage(self, name: str, part: bytes) -> None:
        """If nobody can tell, neither can it of the commit: the part could arrive when another has its name."""
        path, call = f"{self._place.staged}/{name}", await self._front.call()
        try:
            await call.commit([("create", path, part)])
        except Refused:
            await call.commit([("set_data", path, part)])

    async def staged(self, name: str) -> bytes:
        call = await self._back.call()
        (node,) = await call.get(f"{self._place.staged}/{name}")
        if node is None:
            raise EngineCorrupt(f"{self._place.name}: a part of the journal is gone: {name}")
        return node.value

    async def rows(self, *, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Those that a writer before us folds meanwhile are left out."""
        if after == 0:
            self._numbers = await self._journal()
        wanted = self._numbers[bisect_right(self._numbers, after) :]
        found: list[tuple[int, bytes]] = []
        for start in range(0, len(wanted), ROWS_PER_READ):
            some, call = wanted[start : start + ROWS_PER_READ], await self._back.call()
            nodes = await call.get(*map(self._place.row, some))
            found += [(number, node.value) for number, node in zip(some, nodes, strict=True) if node]
            if len(found) + ROWS_PER_READ > limit or sum(len(row) for _, row in found) > ROWS_BYTES:
                break
        return found

    async def _journal(self) -> list[int]:
        call = await self._back.call()
        return sorted(map(int, await call.children(self._place.journal)))

    async def reconnect(self) -> None:
        await self._front.drop()
        await self._back.drop()
        await self.head()
        # Goes the way of everything that is written, and changes nothing.
        await (await self._front.call()).commit([("check", self._place.head, -1)])

    async def close(self) -> None:
        await self._front.close()
        await self._back.close()

    # Folds

    async def fold(
        self, *, term: int, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None], upto: int
    ) -> None:
        for _ in range(FOLD_TRIES):
            root, version = await self._root()
            try:
                return await self._fold(term, Change(ranges, values), upto, root, version)
            except Refused as refused:
                if refused.path == self._place.term:
                    raise Deposed(await self.head()) from refused
                self._swept = -1
            except Gone as gone:
                await self._require_replaced(version, gone)
        raise EngineUnavailable(f"{self._place.name}: other folds came between, {FOLD_TRIES} times")

    async def _fold(self, term: int, change: Change, upto: int, root: Root, version: int) -> None:
        (reign,) = await (await self._back.call()).get(self._place.term)
        if reign is None or int(reign.value) != term:
            raise Deposed(await self.head())
        old = [number for number in await self._journal() if number <= upto]
        if upto not in old:
            return  # it was done before, by a request whose answer did not arrive
        guard: Operation = ("check", self._place.term, reign.version)
        await self._sweep(term, guard, root)
        writing = Writing(secrets.token_hex(6))
        fresh = writing.root_of(root, await self._rewritten(writing, root.entries, root.height, change))
        await self._in_portions(guard, (("create", self._page(name), data) for name, data in writing.made.items()))
        switch: Operation = ("set_data", self._place.root, pages.encode_root(fresh), version)
        gone = [self._place.row(number) for number in old] + await self._staged_upto(upto)
        await (await self._back.call()).commit([guard, switch, *(("delete", path) for path in gone)])
        self._dead += writing.dead
        for entry, records in writing.pages:
            self._cache.put(entry, records)

    async def _rewritten(
        self, writing: Writing, entries: Sequence[Entry], height: int, change: Change
    ) -> dict[str, bytes | None]:
        """Put the change into what these list. What has to change where they are listed."""
        entries = entries or [Entry()]
        changes = pages.touched(entries, change)
        old = dict(zip(changes, await self._load([entries[place] for place in changes]), strict=True))
        if height:
            for place, each in changes.items():
                below = await self._rewritten(writing, pages.listed(old[place]), height - 1, each)
                changes[place] = Change((), below)
        return writing.rewritten(entries, old, changes)

    async def _staged_upto(self, number: int) -> list[str]:
        names = await (await self._back.call()).children(self._place.staged)
        return [f"{self._place.staged}/{name}" for name in names if int(name.partition("-")[0]) <= number]

    async def _sweep(self, term: int, guard: Operation, root: Root) -> None:
        """Delete what no page lists: what the last fold has replaced, and once in a term what any has left behind."""
        if self._swept != term:
            used = {name async for entry in self._walk(root) for name in entry.names}
            names = await (await self._back.call()).children(self._place.pages)
            self._dead = [name for name in names if name not in used]
        await self._in_portions(guard, (("delete", self._page(name)) for name in self._dead))
        self._dead, self._swept = [], term

    async def _walk(self, root: Root) -> AsyncIterator[Entry]:
        """All pages and lists."""
        level = list(root.entries)
        for height in range(root.height, -1, -1):
            for entry in level:
                yield entry
            if height:
                level = [entry for records in await self._load(level) for entry in pages.listed(records)]

    async def _in_portions(self, guard: Operation, operations: Iterable[Operation]) -> None:
        portion: list[Operation] = []
        size = 0
        for operation in operations:
            more = OPERATION_BYTES + sum(len(part) for part in operation[2:])
            if portion and (size + more > PORTION_BYTES or len(portion) >= OPERATIONS_MAX):
                await (await self._back.call()).commit([guard, *portion])
                portion, size = [], 0
            portion.append(operation)
            size += more
        if portion:
            await (await self._back.call()).commit([guard, *portion])

    # Pages

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool) -> list[Record]:
        for _ in range(SCAN_TRIES):
            root, version = await self._root()
            try:
                return await self._scan(root, Span(first, last, reverse), limit)
            except Gone as gone:
                await self._require_replaced(version, gone)
        raise EngineUnavailable(f"{self._place.name}: pages were replaced while we read, {SCAN_TRIES} times")

    async def _scan(self, root: Root, span: Span, limit: int) -> list[Record]:
        found: list[Record] = []
        async with aclosing(self._leaves(root.entries, root.height, span)) as lists:
            async for leaves in lists:
                ahead, start = 1, 0
                while start < len(leaves) and len(found) < limit:
                    for records in await self._load(leaves[start : start + ahead]):
                        found += span.of(records)
                    start, ahead = start + ahead, min(2 * ahead, PAGES_PER_READ)
                if len(found) >= limit:
                    break
        return found[:limit]

    async def _root(self) -> tuple[Root, int]:
        (top,) = await (await self._back.call()).get(self._place.root)
        if top is None:
            raise EngineCorrupt(f"{self._place.name}: the list of all pages is gone")
        return pages.decode_root(top.value), top.version

    async def _require_replaced(self, version: int, gone: Gone) -> None:
        if (await self._root())[1] == version:
            raise EngineCorrupt(f"{self._place.name}: a page is gone that is listed: {gone}") from gone

    async def _leaves(self, entries: Sequence[Entry], height: int, span: Span) -> AsyncGenerator[list[Entry], None]:
        """The pages that may have something of it, as many at a time as are listed together."""
        chosen = span.chosen(entries)
        if height == 0:
            yield chosen
            return
        for entry in chosen:
            (records,) = await self._load([entry])
            async for leaves in self._leaves(pages.listed(records), height - 1, span):
                yield leaves

    async def _load(self, entries: Sequence[Entry]) -> list[Records]:
        # Held here: whatever is put into the cache may push something out that is asked for, too.
        kept = ((entry.name, self._cache.get(entry)) for entry in entries)
        found = {name: records for name, records in kept if records is not None}
        wanted = [entry for entry in entries if entry.name not in found]
        for start in range(0, len(wanted), PAGES_PER_READ):
            some = wanted[start : start + PAGES_PER_READ]
            for entry, data in zip(some, await self._read(some), strict=True):
                found[entry.name] = pages.decode_page(entry, data)
                self._cache.put(entry, found[entry.name])
        return [found[entry.name] for entry in entries]

    async def _read(self, entries: Sequence[Entry]) -> list[bytes]:
        paths = [self._page(name) for entry in entries for name in entry.names]
        nodes = iter(await (await self._back.call()).get(*paths, sync=False))
        found = []
        for entry in entries:
            parts = [node.value for node in islice(nodes, entry.nodes) if node]
            if len(parts) < entry.nodes:
                raise Gone(entry.name)
            found.append(b"".join(parts))
        return found

    def _page(self, name: str) -> str:
        return f"{self._place.pages}/{name}"

    # Before a connection is used

    async def _admit(self, call: Call) -> None:
        place = self._place
        for _ in range(CREATE_TRIES):
            config, top = await call.get(CONFIG, place.path)
            if config is None:
                raise self._refused("is older than 3.5, which is the oldest that serves")
            if top is None or (not top.value and not top.children):
                # Whoever comes second is refused, and then finds that it is all there.
                with suppress(Refused):
                    await self._create(call, top)
            elif not top.value.startswith(OURS):
                raise self._refused("has nodes of another program there; name another path")
            elif top.value != FORMAT:
                told = f"({top.value.decode(errors='replace')}, this one knows {FORMAT.decode()})"
                raise self._refused(f"has nodes that were written by a newer openintent {told}")
            else:
                return self._tell(config)
        raise self._refused("could not be given our nodes")

    async def _create(self, call: Call, top: Node | None) -> None:
        """All of it, or nothing. An operator may have made the node that it is below."""
        place = self._place
        for path in place.above() if top is None else []:
            with suppress(Refused):
                await call.commit([("create", path, b"")])
        own: Operation = ("create", place.path, FORMAT)
        if top is not None:
            own = ("set_data", place.path, FORMAT, top.version)
        nodes = {place.head: encode_head(Head()), place.term: b"0", place.root: pages.encode_root(Root())}
        nodes |= dict.fromkeys((place.journal, place.staged, place.pages), b"")
        await call.commit([own, *(("create", path, value) for path, value in nodes.items())])

    def _tell(self, config: Node) -> None:
        lines = config.value.decode(errors="replace").splitlines()
        voters = [line for line in lines if line.startswith("server.") and ":observer" not in line]
        self._members = len(voters) or 1
        notice = f"{self._place.name} has one member: when that is lost, all is lost" if self._members == 1 else None
        if notice is not None and notice != self.notice:
            log.warning("engine warned notice=%s", notice)
        self.notice = notice

    def _refused(self, why: str) -> EngineUnavailable:
        return EngineUnavailable(f"{self._place.name} {why}")


def _order(head: Head) -> tuple[int, int]:
    return (head.term, head.beat)
