"""Writes a database of the present format as SQL: `python tests/golden/make.py > tests/golden/v1.sql`.

Only for a new format, under a new name. The files of old formats stay as they are: that is what they are for.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec

from openintent.engines.base import Change, Delete, DeleteRange, Head, Put
from openintent.engines.sqlite_database import Store

FOLDED: list[tuple[Head, list[Change]]] = [
    (
        Head(term=1, beat=1, rev=1, clock_ms=10, member="a"),
        [Put("a/1", b"one"), Put("a/2", b"two"), Put("b", b"\x00\xff")],
    ),
    (Head(term=1, beat=2, rev=4, clock_ms=20, member="a", token=3, seq=7), [Delete("a/1"), Put("ключ/中", b"")]),
]
PENDING: list[tuple[Head, list[Change]]] = [
    (Head(term=2, beat=1, rev=0, clock_ms=30, member="b", token=3, seq=7), []),
    (
        Head(term=2, beat=2, rev=5, clock_ms=40, member="b", token=4, seq=9),
        [DeleteRange("a/", "a0"), Put("a/3", b"three")],
    ),
    (Head(2, 3, 6, 50, "b", 2**40, 10, farewell=True), [Delete("b"), Put("c", b"last")]),
]


def dump() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "golden.db")
        _fill(path)
        return "".join(f"{line}\n" for line in _statements(apsw.Connection(str(path))))


def _fill(path: Path) -> None:
    store = Store(path)
    _append(store, FOLDED)
    store.fold_all()
    _append(store, PENDING)
    store.close()


def _append(store: Store, commits: list[tuple[Head, list[Change]]]) -> None:
    for head, changes in commits:
        store.append(msgspec.msgpack.encode(head), tuple(changes), msgspec.msgpack.encode(changes))


def _statements(db: apsw.Connection) -> Iterator[str]:
    yield from (f"PRAGMA {name} = {db.pragma(name)};" for name in ("application_id", "user_version"))
    for table, sql in db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall():
        yield f"{sql};"
        for row in db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall():  # noqa: S608  # our own tables
            values = ", ".join(map(apsw.format_sql_value, row))
            yield f"INSERT INTO {table} VALUES ({values});"  # noqa: S608
    db.close()


if __name__ == "__main__":
    sys.stdout.write(dump())
