"""A ledger as it is read back: page by page, and no page is waited for that could have been asked for."""

import asyncio

import pytest
from stage import settled

from openintent import records
from openintent.core.ledger import Ledger
from openintent.engines.base import Head, Put
from openintent.engines.memory import MemoryEngine
from openintent.errors import EngineCorrupt
from openintent.grantor.storing import _load_kind, load
from openintent.model import Lease, Limits

pytestmark = pytest.mark.anyio


async def test_the_next_page_is_asked_for_before_one_is_taken_in(monkeypatch, anyio_backend):
    monkeypatch.setattr("openintent.grantor.storing.SCAN_LIMIT", 2)
    engine, story = MemoryEngine(), []
    leases = [Lease(f"L{n}", "space:s", f"s{n}", "ann", n, 9, 9, 9, 9) for n in range(3)]
    stored = [Put(f"l/{lease.id}", records.encode(lease)) for lease in leases]
    await engine.commit(expect=Head(), head=Head(term=1), changes=stored)

    async def scan(first, last, **more):
        if first.startswith("l/"):
            story.append("asked for")
        return await MemoryEngine.scan(engine, first, last, **more)

    class Noting(Ledger):
        def load(self, things, farewell=None):
            found = [key for key, _ in things if key.startswith("l/")]
            story.extend(found)

    monkeypatch.setattr(engine, "scan", scan)
    await load(engine, Noting(Limits()), seen=Head())
    assert story == ["asked for", "asked for", "l/L0", "l/L1", "l/L2"]


async def test_a_record_that_cannot_be_read_ends_the_search_for_more(monkeypatch, anyio_backend):
    monkeypatch.setattr("openintent.grantor.storing.SCAN_LIMIT", 1)
    engine, before = MemoryEngine(), asyncio.all_tasks()
    await engine.commit(expect=Head(), head=Head(term=1), changes=[Put("i/a", b"?")])

    async def scan(first, last, **more):
        if first > "i/a":
            await asyncio.Event().wait()
        return await MemoryEngine.scan(engine, first, last, **more)

    ledger = Ledger(Limits())
    monkeypatch.setattr(engine, "scan", scan)
    with pytest.raises(EngineCorrupt):
        await _load_kind(engine, ledger, "i", await engine.scan("i/", "i0", limit=1), None)
    await settled()
    assert asyncio.all_tasks() == before
