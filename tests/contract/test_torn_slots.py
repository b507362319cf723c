"""A slot of the lock file that can be read and yet is not what was written."""

# ruff: noqa: ASYNC240  # nothing else runs in these loops

from pathlib import Path

import msgspec
import pytest
from engine_words import commit, crash_image

from openintent.engines import lockfile
from openintent.engines.lockfile import SLOT_BYTES
from openintent.engines.sqlite import SqliteEngine

pytestmark = pytest.mark.anyio


async def crashed(folder: Path) -> Path:
    engine = SqliteEngine(folder / "leases.db")
    await commit(engine, token=3, term=1)
    image = crash_image(folder / "leases.db", folder / "crash")
    await engine.close()
    return image


def put(path: Path, content: bytes, slot: bytes, number: int) -> None:
    slots = [content[:SLOT_BYTES], content[SLOT_BYTES:]]
    slots[number % 2] = slot
    path.write_bytes(b"".join(slots))


async def test_a_slot_whose_sum_is_wrong_is_not_believed(tmp_path):
    image = await crashed(tmp_path)
    path = Path(f"{image}.lock")
    content = path.read_bytes().ljust(2 * SLOT_BYTES)
    newest = lockfile._newest(content)
    assert newest is not None
    torn = msgspec.structs.replace(newest, count=newest.count + 1, token_reserved=900_000)
    # Good JSON all the same: of one number only the last digit arrived.
    slot = lockfile._slot(torn).replace(b"900000", b"     9")
    assert msgspec.json.decode(slot)["entry"]["token_reserved"] == 9
    put(path, content, slot, torn.count)
    engine = SqliteEngine(image)
    try:
        assert (await engine.head()).token == newest.token_reserved > 9
    finally:
        await engine.close()
