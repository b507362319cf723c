"""The file that a ledger is moved by: what is wrong with it is found before anything is changed."""

# nothing else runs in these loops

from collections.abc import Callable
from pathlib import Path

import pytest
from moving_words import exported, fill, imported, ledger

from openintent.engines.base import Head, Put, Record
from openintent.engines.memory import MemoryEngine
from openintent.errors import EngineCorrupt, EngineUnavailable
from openintent.grantor import moving

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
async def source() -> MemoryEngine:
    engine = MemoryEngine()
    await fill(engine, ledger(20))
    return engine


async def test_a_file_is_never_replaced_and_is_its_owners_alone(source, file):
    await exported(source, file)
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        await exported(source, file)


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def without_last_line(content: bytes) -> bytes:
    return b"".join(content.splitlines(keepends=True)[:-1])


def without_a_record(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:3], *lines[4:]])


def other_token(content: bytes) -> bytes:
    return content.replace(b'"token":41', b'"token":40')


def swapped(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([lines[0], lines[2], lines[1], *lines[3:]])


def more(content: bytes) -> bytes:
    return content + b"more\n"


DAMAGE: list[tuple[Callable[[bytes], bytes], str]] = [
    (cut, "middle of a line"),
    (without_last_line, "last line is missing"),
    (without_a_record, "does not fit"),
    (other_token, "does not fit"),
    (swapped, "out of order"),
    (more, "cannot be read"),
    (lambda _: b"", "not a file that"),
    (lambda _: b"\xff\xfe\n", "not a file that"),
    (lambda _: b'{"kind":"x","format":1}\n', "not a file that"),
    (lambda _: b'{"kind":"openintent ledger","format":1}\n', "first line that cannot be read"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGE, ids=[f"{n}-{row[1]}" for n, row in enumerate(DAMAGE)])
async def test_a_damaged_file_is_refused_before_anything_is_changed(source, file, damage, said):
    await exported(source, file)
    file.write_bytes(damage(file.read_bytes()))
    target = MemoryEngine()
    with pytest.raises(EngineCorrupt, match=said):
        await imported(target, file)
    assert await target.head() == Head()


async def test_a_file_of_a_newer_version_is_told_from_a_damaged_one(file):
    file.write_bytes(b'{"kind":"openintent ledger","format":2,"head":"another"}\n')
    with pytest.raises(EngineUnavailable, match="newer openintent"):
        await imported(MemoryEngine(), file)


async def test_a_record_that_no_server_could_read_is_not_exported(file):
    engine = MemoryEngine()
    await fill(engine, [Put("i/x", b"\x01broken")])
    with pytest.raises(EngineCorrupt, match="'i/x' cannot be read"):
        await exported(engine, file)
    assert not file.exists()
    assert (await engine.head()).farewell


async def test_batches_are_bounded_by_number_and_by_size():
    weights = [10] * 2_000 + [200_000] * 10
    found = [Record(f"i/{place:05d}", b"x" * weight) for place, weight in enumerate(weights)]
    sizes = [len(batch) for batch in moving._batches(found, moving.BATCH_BYTES)]
    assert sizes == [1_000, 1_000, 2, 2, 2, 2, 2]
