"""Records in pages: sorted, and small enough for a node. Nothing here speaks to a server.

A node for each record would be too many: to list them is one answer of any size. So records lie in pages, and pages are
never changed. To store something is to write the pages anew that it belongs to, under new names, and those that list
them, up to the root, which is one node: as soon as that is switched, all of it has happened.

A page that lists others has the same form: its keys are the first ones of those, its values say where they lie.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from openintent.engines.base import DeleteRange, Record
from openintent.errors import EngineCorrupt

# The larger a page, the more is written for a record; the smaller, the more there are to be read. One that has a large
# record has that alone, and more than one node.
PAGE_BYTES: Final = 16 * 1_024
# One that has become smaller than this is joined with the next.
PAGE_BYTES_MIN: Final = PAGE_BYTES // 4
# ZooKeeper takes no request beyond 1 MiB.
NODE_BYTES: Final = 700 * 1_024
ROOT_BYTES: Final = 64 * 1_024
# Besides its key and value: what the encoding and the list of pages add.
RECORD_BYTES: Final = 16
CACHE_BYTES: Final = 32 * 1_024 * 1_024

Records = list[tuple[str, bytes]]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A page, as the one above it knows it: there is nothing in it below `first`, or it is the first of all."""

    first: str = ""
    name: str = ""
    nodes: int = 0  # 0: it is empty, and stored nowhere
    size: int = 0

    @property
    def names(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.nodes)]


class Root(msgspec.Struct, frozen=True, array_like=True):
    height: int = 0  # how many lists are above the pages, besides this one
    entries: tuple[Entry, ...] = ()


encode_root = msgspec.msgpack.Encoder().encode
_encode_page = msgspec.msgpack.Encoder().encode
_decode_root = msgspec.msgpack.Decoder(Root).decode
_decode_page = msgspec.msgpack.Decoder(Records).decode
_decode_entry = msgspec.msgpack.Decoder(Entry).decode


def decode_root(data: bytes) -> Root:
    try:
        return _decode_root(data)
    except msgspec.MsgspecError as error:
        raise EngineCorrupt(f"the list of all pages cannot be read: {error}") from error


def decode_page(entry: Entry, data: bytes) -> Records:
    try:
        return _decode_page(data)
    except msgspec.MsgspecError as error:
        raise EngineCorrupt(f"the page {entry.name} cannot be read: {error}") from error


def listed(records: Iterable[tuple[str, bytes]]) -> list[Entry]:
    """What a page lists that is not one of the lowest."""
    try:
        return [_decode_entry(value) for _, value in records]
    except msgspec.MsgspecError as error:
        raise EngineCorrupt(f"a list of pages cannot be read: {error}") from error


def listing(entries: Iterable[Entry]) -> Records:
    return [(entry.first, _encode_page(entry)) for entry in entries]


class Change(NamedTuple):
    """First the ranges go, then each key gets its value, or none."""

    ranges: Sequence[DeleteRange]
    values: Mapping[str, bytes | None]


def place_in(firsts: Sequence[str], key: str) -> int:
    return max(0, bisect_right(firsts, key) - 1)


def places_of(firsts: Sequence[str], first: str, last: str) -> range:
    """Which of the pages may have keys from `first` to before `last`."""
    return range(place_in(firsts, first), bisect_left(firsts, last) or 1) if first < last else range(0)


def touched(entries: Sequence[Entry], change: Change) -> dict[int, Change]:
    """Which of the pages have to be written anew, and for what."""
    firsts = [entry.first for entry in entries]
    ranges: dict[int, list[DeleteRange]] = {}
    values: dict[int, dict[str, bytes | None]] = {}
    for each in change.ranges:
        for place in places_of(firsts, each.first, each.last):
            ranges.setdefault(place, []).append(_clipped(each, firsts, place))
    for key, value in change.values.items():
        values.setdefault(place_in(firsts, key), {})[key] = value
    found = set(ranges) | set(values)
    small = {place + 1 for place in found if entries[place].size < PAGE_BYTES_MIN and place + 1 < len(entries)}
    return {place: Change(ranges.get(place, ()), values.get(place, {})) for place in sorted(found | small)}


def _clipped(each: DeleteRange, firsts: Sequence[str], place: int) -> DeleteRange:
    """What of a range is about one page: those beside it are not to be touched by it."""
    first = max(each.first, firsts[place]) if place else each.first
    return DeleteRange(first, min([each.last, *firsts[place + 1 : place + 2]]))


class Span(NamedTuple):
    """From `first` to before `last`."""

    first: str
    last: str
    reverse: bool

    def chosen(self, entries: Sequence[Entry]) -> list[Entry]:
        """Pages that may have something of it, in the order of the scan."""
        places = places_of([entry.first for entry in entries], self.first, self.last)
        found = list(entries[places.start : places.stop])
        return found[::-1] if self.reverse else found

    def of(self, records: Records) -> list[Record]:
        found = [Record(key, value) for key, value in records if self.first <= key < self.last]
        return found[::-1] if self.reverse else found


class Writing:
    """What one fold makes and what it leaves behind. All that it makes has a name that begins with its own."""

    def __init__(self, stamp: str) -> None:
        self._stamp = stamp
        self.made: dict[str, bytes] = {}  # by the name of the node
        self.pages: list[tuple[Entry, Records]] = []
        self.dead: list[str] = []

    def rewritten(
        self, entries: Sequence[Entry], old: Mapping[int, Records], changes: Mapping[int, Change]
    ) -> dict[str, bytes | None]:
        """Put the changes into these pages, each into its own. What whoever lists them has to change for that."""
        gone: dict[str, bytes | None] = {}
        fresh: list[Entry] = []
        for run in _runs(sorted(old)):
            records: dict[str, bytes] = {}
            for place in run:
                records |= _changed(old[place], changes[place])
                gone[entries[place].first] = None
                self.dead += entries[place].names
            fresh += self.packed(sorted(records.items()))
        return gone | dict(listing(fresh))

    def packed(self, records: Records) -> list[Entry]:
        """New pages, about equally full."""
        sizes = [len(key.encode()) + len(value) + RECORD_BYTES for key, value in records]
        fair = sum(sizes) / max(1, -(-sum(sizes) // PAGE_BYTES))
        entries, start, size = [], 0, 0
        for place, more in enumerate(sizes):
            if place > start and size + more / 2 > fair:
                entries.append(self._page(records[start:place]))
                start, size = place, 0
            size += more
        return [*entries, self._page(records[start:])] if records else []

    def _page(self, records: Records) -> Entry:
        data = _encode_page(records)
        parts = [data[start : start + NODE_BYTES] for start in range(0, len(data), NODE_BYTES)]
        entry = Entry(records[0][0], f"{self._stamp}-{len(self.pages)}", len(parts), len(data))
        self.made |= dict(zip(entry.names, parts, strict=True))
        self.pages.append((entry, records))
        return entry

    def root_of(self, root: Root, above: Mapping[str, bytes | None]) -> Root:
        """The next one: with as many lists below it as it takes for itself to be small."""
        height, kept = root.height, _changed(listing(root.entries), Change((), above))
        entries = listed(sorted(kept.items()))
        while len(encode_root(Root(height, tuple(entries)))) > ROOT_BYTES:
            lists = self.packed(listing(entries))
            assert len(lists) < len(entries)  # a page has room for several keys, however long
            height, entries = height + 1, lists
        return Root(height, tuple(entries)) if entries else Root()


def _runs(places: Sequence[int]) -> Iterator[list[int]]:
    """Neighbours together: they are packed as one."""
    run: list[int] = []
    for place in places:
        if run and place != run[-1] + 1:
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _changed(page: Records, change: Change) -> dict[str, bytes]:
    keys = [key for key, _ in page]
    records = dict(page)
    for each in change.ranges:
        for key in keys[bisect_left(keys, each.first) : bisect_left(keys, each.last)]:
            records.pop(key, None)
    for key, value in change.values.items():
        if value is None:
            records.pop(key, None)
        else:
            records[key] = value
    return records


class Cache:
    """The pages that were used last, up to a size."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pages: OrderedDict[str, tuple[int, Records]] = OrderedDict()
        self._bytes = 0

    def get(self, entry: Entry) -> Records | None:
        if entry.nodes == 0:
            return []
        found = self._pages.get(entry.name)
        if found is None:
            return None
        self._pages.move_to_end(entry.name)
        return found[1]

    def put(self, entry: Entry, records: Records) -> None:
        self._bytes += entry.size - self._pages.pop(entry.name, (0, []))[0]
        self._pages[entry.name] = (entry.size, records)
        while self._bytes > self._bytes_max:
            self._bytes -= self._pages.popitem(last=False)[1][0]
