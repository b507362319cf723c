"""How many commits our own server has made, and of how much: by the head of its engine, which counts both."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import load
import msgspec
from results import Figures

from openintent.engines import open_engine
from openintent.engines.base import Head

NEWEST = "SELECT head FROM journal ORDER BY id DESC LIMIT 1"
FOLDED = "SELECT value FROM meta WHERE name = 'head'"

logging.getLogger("openintent").addHandler(logging.NullHandler())  # what an engine warns of, the server has logged


def head(url: str) -> Head:
    """The newest commit, seen from outside, while a server has the engine open."""
    return _of_sqlite(url.removeprefix("sqlite:///")) if url.startswith("sqlite:") else asyncio.run(_of_shared(url))


def _of_sqlite(path: str) -> Head:
    """By a reader of our own: the engine itself lets nobody else in."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        found = file.execute(NEWEST).fetchone() or file.execute(FOLDED).fetchone()
    return msgspec.msgpack.decode(found[0], type=Head)


async def _of_shared(url: str) -> Head:
    engine = open_engine(url)
    try:
        return await engine.head()
    finally:
        await engine.close()


@dataclass(frozen=True)
class Counted:
    """A measurement, and how many commands each commit had meanwhile."""

    url: str
    measure: Callable[[], Figures]

    def __call__(self) -> Figures:
        before = head(self.url)
        found = self.measure()
        after = head(self.url)
        if after.term != before.term:
            raise load.LoadFailed("the server began a new term meanwhile")
        batch = (after.rev - before.rev) / max(1, after.beat - before.beat)
        return found | {"batch": batch, "commits_per_s": found["requests_per_s"] / batch if batch else 0.0}
