"""Short words for what the tests do with engines."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from openintent.engines import open_engine
from openintent.engines.base import Change, Engine, Head, Put, Record
from openintent.engines.journaled import Store

Opener = Callable[[], AbstractAsyncContextManager[Engine]]

LAST = "\U0010ffff"  # above every key
LOOK_S = 0.01
PATIENCE_S = 30.0


@asynccontextmanager
async def opened(url: str, *, apart: bool = False) -> AsyncIterator[Engine]:
    engine = open_engine(url, apart=apart)
    try:
        yield engine
    finally:
        await engine.close()


def following(head: Head, **changed: object) -> Head:
    """The head that the same writer would commit next."""
    moved = msgspec.structs.replace(head, beat=head.beat + 1, rev=head.rev + 1)
    return msgspec.structs.replace(moved, **changed)


async def commit(engine: Engine, *changes: Change, **changed: object) -> Head:
    """One more commit on top of whatever is there."""
    seen = await engine.head()
    head = following(seen, **changed)
    await engine.commit(expect=seen, head=head, changes=changes)
    return head


async def add(store: Store, number: int, **changed: object) -> Head:
    """One more row, whatever it says: the tests say what it amounts to."""
    seen = await store.head()
    head = following(seen, **changed)
    await store.append(expect=seen, head=head, row=(number, b"=\x90"))
    return head


async def everything(engine: Engine) -> list[Record]:
    return await engine.scan("", LAST, limit=1_000_000)


async def keys(engine: Engine) -> list[str]:
    return [record.key for record in await everything(engine)]


def puts(names: Sequence[str]) -> list[Put]:
    return [Put(name, name.encode()) for name in names]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # it becomes true in another process, or in a thread
            await asyncio.sleep(LOOK_S)


def crash_image(database: Path, to: Path) -> Path:
    """The files as they are now: what a crash at this instant would leave."""
    to.mkdir()
    for file in database.parent.glob(f"{database.name}*"):
        shutil.copy(file, to)
    return to / database.name
