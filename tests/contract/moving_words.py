"""A ledger of a few records, and short words for moving it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from proving import size

from openintent import records
from openintent.engines import movefile
from openintent.engines.base import Change, Engine, Head, Put
from openintent.grantor import moving
from openintent.model import Event, Intent

NOW_MS = 1_800_000_000_000
HEAD = Head(term=7, beat=3, rev=12, clock_ms=90_000, member="http://h:1#ab", token=41, seq=90, farewell=True)
RECORDS = size("moved_records", 300)


def intent(number: int, *, chars: int = 30) -> Put:
    name = f"n{number:07d}é☂"
    return Put(f"i/{name}", records.encode(Intent(id=name, title="t", description="x" * chars)))


def event(number: int) -> Put:
    space = f"intent:n{number:07d}é☂"
    return Put(f"v/{space}\t{number}", records.encode([Event(seq=number, type="x", space=space, at_ms=1, actor="a")]))


def ledger(count: int) -> list[Put]:
    large = [intent(count + 1, chars=700_000)]
    return [made(number) for number in range(count // 2) for made in (intent, event)] + large


async def fill(engine: Engine, changes: Sequence[Change], head: Head = HEAD) -> None:
    expect = await engine.head()
    for place in range(0, len(changes), 500):
        begun = msgspec.structs.replace(head, beat=place, farewell=False)
        await engine.commit(expect=expect, head=begun, changes=changes[place : place + 500])
        expect = begun
    await engine.commit(expect=expect, head=msgspec.structs.replace(head, beat=len(changes)), changes=[])


def quiet(_what: str, _done: int, _all: int | None) -> None:
    pass


async def exported(engine: Engine, file: Path, *, leader_ttl_s: float = 0.5) -> movefile.Summary:
    return await moving.export(
        engine, file, source="test", version="1", now_ms=NOW_MS, leader_ttl_s=leader_ttl_s, progress=quiet
    )


async def imported(engine: Engine, file: Path, progress: moving.Progress = quiet) -> moving.Imported:
    return await moving.import_(engine, file, now_ms=NOW_MS, leader_ttl_s=0.5, progress=progress)
