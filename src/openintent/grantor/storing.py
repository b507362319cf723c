"""A ledger, as the engine remembers it: a batch as it is written down, and all of it as it is read back."""

import asyncio
from typing import Final

from openintent import records
from openintent.core.books import Batch
from openintent.core.ledger import LOADED_KINDS, Ledger
from openintent.engines.base import Change, Delete, DeleteRange, Engine, Head, New, Put, Record
from openintent.model import Farewell

SCAN_LIMIT: Final = 10_000


def encoded(batch: Batch) -> list[Change]:
    changes: list[Change] = [DeleteRange(first, last) for first, last in batch.wiped]
    encode, born, add = records.encode, batch.born, changes.append
    for key, thing in batch.changes.items():
        if thing is None:
            add(Delete(key))
        else:
            add((New if key in born else Put)(key, encode(thing)))
    return changes


async def load(engine: Engine, ledger: Ledger, *, seen: Head) -> None:
    """Fill it; `seen` is the head that the former term left, perhaps with a farewell."""
    farewell = await _farewell_of(engine, seen)
    first, *others = LOADED_KINDS
    # The first alone: an engine may have its journal to put in order. The others together: each is a journey there and
    # back, and nobody is granted anything meanwhile.
    pages = [await _page(engine, first)]
    pages += await asyncio.gather(*(_page(engine, kind) for kind in others))
    for kind, page in zip(LOADED_KINDS, pages, strict=True):
        await _load_kind(engine, ledger, kind, page, farewell)
    ledger.loaded()


async def _page(engine: Engine, kind: str, after: str = "") -> list[Record]:
    return await engine.scan(after + "\x00" if after else f"{kind}/", f"{kind}0", limit=SCAN_LIMIT)


async def _farewell_of(engine: Engine, seen: Head) -> Farewell | None:
    found = await engine.scan("f/", "f0", limit=1) if seen.farewell else []
    farewell: Farewell | None = records.decode(found[0].key, found[0].value) if found else None
    return farewell if farewell is not None and farewell.term == seen.term else None


async def _load_kind(engine: Engine, ledger: Ledger, kind: str, page: list[Record], farewell: Farewell | None) -> None:
    """From its first page on. While one is taken in, the engine looks for the next."""
    while page:
        following = asyncio.ensure_future(_page_after(engine, kind, page))
        await asyncio.sleep(0)  # now it is asked for
        try:
            ledger.load(((record.key, records.decode(record.key, record.value)) for record in page), farewell)
        except BaseException:
            following.cancel()
            raise
        page = await following


async def _page_after(engine: Engine, kind: str, page: list[Record]) -> list[Record]:
    return await _page(engine, kind, page[-1].key) if len(page) == SCAN_LIMIT else []
