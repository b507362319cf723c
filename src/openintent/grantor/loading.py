"""A ledger, as the engine remembers it."""

from typing import Final

from openintent import records
from openintent.core.ledger import LOADED_KINDS, Ledger
from openintent.engines.base import Engine, Head
from openintent.model import Farewell

SCAN_LIMIT: Final = 10_000


async def load(engine: Engine, ledger: Ledger, *, seen: Head) -> None:
    """Fill it; `seen` is the head that the former term left, perhaps with a farewell."""
    farewell = await _farewell_of(engine, seen)
    for kind in LOADED_KINDS:
        await _load_kind(engine, ledger, kind, farewell)
    ledger.loaded()


async def _farewell_of(engine: Engine, seen: Head) -> Farewell | None:
    found = await engine.scan("f/", "f0", limit=1) if seen.farewell else []
    farewell: Farewell | None = records.decode(found[0].key, found[0].value) if found else None
    return farewell if farewell is not None and farewell.term == seen.term else None


async def _load_kind(engine: Engine, ledger: Ledger, kind: str, farewell: Farewell | None) -> None:
    first, last = f"{kind}/", f"{kind}0"
    while True:
        page = await engine.scan(first, last, limit=SCAN_LIMIT)
        ledger.load(((record.key, records.decode(record.key, record.value)) for record in page), farewell)
        if len(page) < SCAN_LIMIT:
            return
        first = page[-1].key + "\x00"
