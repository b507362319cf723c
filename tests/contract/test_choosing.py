"""The page about choosing an engine says just what the engines declare."""

from pathlib import Path
from typing import Any

import pytest

from openintent.engines.base import Guarantees
from openintent.engines.etcd import open_store as open_etcd
from openintent.engines.memory import MemoryEngine
from openintent.engines.postgres import open_store as open_postgres
from openintent.engines.redis import open_store as open_redis
from openintent.engines.sqlite import SqliteEngine
from openintent.engines.zookeeper import open_store as open_zookeeper

PAGE = Path(__file__).parents[2] / "docs" / "engines" / "README.md"


def on_etcd(members: int) -> Guarantees:
    store: Any = open_etcd("etcd://h/place")
    store._gateway.members = members
    return store.guarantees


def on_zookeeper(members: int) -> Guarantees:
    store: Any = open_zookeeper("zookeeper://h/place")
    store._members = members
    return store.guarantees


DECLARED = {
    "SQLite": SqliteEngine.guarantees,
    "etcd, 3 members or more": on_etcd(3),
    "etcd, one member": on_etcd(1),
    "ZooKeeper, 3 members or more": on_zookeeper(3),
    "ZooKeeper, one member": on_zookeeper(1),
    "PostgreSQL": open_postgres("postgresql://h/d").guarantees,
    "Redis": open_redis("redis://h:6379/0").guarantees,
    "memory": MemoryEngine.guarantees,
}


def rows() -> dict[str, tuple[bool, ...]]:
    """Of the first table: a link is read as its words."""
    lines = PAGE.read_text(encoding="utf-8").partition("## What each promises")[2].partition("##")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
    return {name.replace("[", "").partition("](")[0] + name.partition(")")[2]: _meant(said) for name, *said in cells}


def _meant(said: list[str]) -> tuple[bool, ...]:
    assert set(said) <= {"yes", "no"}
    return tuple(word == "yes" for word in said)


def test_the_table_is_what_the_engines_declare():
    declared = {
        name: (found.durable, found.survives_node_loss, not found.exclusive_open) for name, found in DECLARED.items()
    }
    assert rows() == declared


@pytest.mark.parametrize("url", ["postgresql://h/d?durability=weak", "redis://h:6379/0?durability=weak"])
def test_what_is_allowed_to_be_weak_says_so(url):
    opened: Any = open_redis(url) if url.startswith("redis") else open_postgres(url)
    assert not opened.guarantees.durable


def test_no_engine_bounds_a_batch():
    """If one does, the page has to say so."""
    assert {found.batch_bytes_max for found in DECLARED.values()} == {None}
