"""What the etcd engine keeps below its prefix, and the operations on it.

at, head      of the newest commit: "term/beat/rev", and all of it
term, fold    "term"; the number of the row up to which was folded last
j/<number>    rows of the journal
s/<name>      parts of rows
r/<key>       records, "=" before the value; "@" and a number if that is in so many parts
p/<key>       parts of records
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from openintent.engines.base import DeleteRange

# etcd refuses requests of more than 1.5 MiB, and transactions of more than 128 operations, unless told otherwise.
REQUEST_BYTES: Final = 700 * 1_024
REQUEST_OPERATIONS: Final = 120  # and three that go with them
# Larger values are stored in parts. So a page of records has a bound, too: it is 64 MiB at the very worst.
RECORD_BYTES: Final = 128 * 1_024
RECORDS_PER_PAGE: Final = 500
ROWS_PER_PAGE: Final = 50

Operation = dict[str, Any]


def put(key: bytes, value: bytes) -> Operation:
    return {"request_put": {"key": key, "value": value}}


def get(key: bytes, **more: Any) -> Operation:
    return {"request_range": {"key": key, **more}}


def wipe(first: bytes, last: bytes = b"") -> Operation:
    """One key, or all from the first up to but not including the last."""
    return {"request_delete_range": {"key": first, "range_end": last}}


def _size(operation: Operation) -> int:
    return sum(len(part) for request in operation.values() for part in request.values())


class Keys:
    """The names of all that is stored."""

    def __init__(self, prefix: bytes) -> None:
        self.at, self.head, self.term, self.fold = (prefix + name for name in (b"at", b"head", b"term", b"fold"))
        self.records = prefix + b"r/"
        self.parts, self.parts_end = prefix + b"p/", prefix + b"p0"
        self.journal_end = prefix + b"j0"
        self._prefix = prefix

    def row(self, number: int) -> bytes:
        return b"%sj/%020d" % (self._prefix, number)

    def staged(self, name: str) -> bytes:
        """Begins with the number of the row, as that does: they go together."""
        number, _, rest = name.partition("-")
        return b"%ss/%020d-%s" % (self._prefix, int(number), rest.encode())

    def record(self, key: str) -> bytes:
        return self.records + key.encode()

    def parts_from(self, key: str) -> bytes:
        """Where the parts of a record begin.

        They are in the order of the records, so that a range of these is a range of those: NUL and 1 end a key,
        and are below whatever may follow in a longer one, where a NUL has an FF behind it.
        """
        return self.parts + key.encode().replace(b"\0", b"\0\xff") + b"\0\1"

    def part(self, key: str, place: int) -> bytes:
        return b"%s%06d" % (self.parts_from(key), place)


class Folding:
    """The operations of a fold. Those that delete come first, and never with a put: etcd refuses both for one key."""

    def __init__(self, keys: Keys, *, has_parts: bool) -> None:
        self._keys = keys
        self._has_parts = has_parts  # there are some somewhere, so that each record may have had them

    def requests(
        self, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None], upto: int
    ) -> Iterator[list[Operation]]:
        yield from _portions(self._wipes(ranges, values))
        done = [wipe(self._keys.row(0), self._keys.row(upto + 1))]
        done += [wipe(self._keys.staged("0-"), self._keys.staged(f"{upto + 1}-"))]
        held: list[Operation] = []
        for some in _portions(self._puts(values)):
            if held:
                yield held
            held = some
        yield [*held, *done]

    def _wipes(self, ranges: Sequence[DeleteRange], values: Mapping[str, bytes | None]) -> Iterator[Operation]:
        for span in ranges:
            first, last = self._keys.record(span.first), self._keys.record(span.last)
            if first < last:
                yield wipe(first, last)
                if self._has_parts:
                    yield wipe(self._keys.parts_from(span.first), self._keys.parts_from(span.last))
        for key, value in values.items():
            if value is None:
                yield wipe(self._keys.record(key))
            if self._has_parts:
                yield wipe(self._keys.parts_from(key), self._keys.parts_from(key)[:-1] + b"\2")

    def _puts(self, values: Mapping[str, bytes | None]) -> Iterator[Operation]:
        for key, value in values.items():
            if value is not None and len(value) <= RECORD_BYTES:
                yield put(self._keys.record(key), b"=" + value)
            elif value is not None:
                starts = range(0, len(value), REQUEST_BYTES)
                for place, start in enumerate(starts):
                    yield put(self._keys.part(key, place), value[start : start + REQUEST_BYTES])
                yield put(self._keys.record(key), b"@%d" % len(starts))


def _portions(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """As many at once as etcd takes, and one at least."""
    some: list[Operation] = []
    size = 0
    for operation in operations:
        if some and (len(some) == REQUEST_OPERATIONS or size + _size(operation) > REQUEST_BYTES):
            yield some
            some, size = [], 0
        some.append(operation)
        size += _size(operation)
    if some:
        yield some
