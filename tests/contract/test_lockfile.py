"""One process has the database, and no token is granted twice: not after a crash, nor with an older file put back."""

# ruff: noqa: ASYNC240  # nothing else runs in these loops

import errno
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from engine_words import commit, crash_image, keys

from openintent.engines import lockfile
from openintent.engines.base import Put
from openintent.engines.lockfile import SLOT_BYTES, TOKEN_BLOCK, LockFile
from openintent.engines.sqlite import SqliteEngine
from openintent.errors import EngineInUse, EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


@asynccontextmanager
async def opened(path: Path, address: str = "") -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(path, address=address)
    try:
        yield engine
    finally:
        await engine.close()


async def token_and_notice(path: Path) -> tuple[int, str | None]:
    async with opened(path) as engine:
        return (await engine.head()).token, engine.notice


async def crashed(database: Path, to: Path, *, tokens: int) -> Path:
    """A database whose server died after it had granted so many tokens."""
    async with opened(database) as engine:
        for token in range(1, tokens + 1):
            await commit(engine, token=token, term=1)
        return crash_image(database, to)


async def test_a_second_open_is_told_who_has_the_database(database: Path):
    async with opened(database, "http://127.0.0.1:8000"):
        with pytest.raises(EngineInUse) as refused:
            SqliteEngine(database)
    expected = f"{database} is in use by the server with pid {os.getpid()} at http://127.0.0.1:8000"
    assert str(refused.value) == expected


async def test_all_its_files_are_for_this_user_alone(database: Path):
    async with opened(database) as engine:
        await commit(engine, token=1, term=1)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in database.parent.iterdir()}
    assert {"leases.db", "leases.db-wal", "leases.db.lock"} <= modes.keys()
    assert set(modes.values()) == {0o600}


async def test_the_permissions_that_somebody_gave_a_file_stay(database: Path):
    async with opened(database):
        pass
    database.chmod(0o640)
    async with opened(database):
        assert stat.S_IMODE(database.stat().st_mode) == 0o640


async def test_the_address_can_be_told_later(database: Path):
    async with opened(database) as engine:
        with pytest.raises(EngineInUse, match=rf"with pid {os.getpid()}$"):
            SqliteEngine(database)
        await engine.announce("http://127.0.0.1:9999")
        with pytest.raises(EngineInUse, match=r"at http://127\.0\.0\.1:9999$"):
            SqliteEngine(database)


async def test_another_name_for_the_same_file_is_refused_as_well(database: Path, tmp_path: Path):
    async with opened(database):
        (tmp_path / "alias.db").symlink_to(database)
        with pytest.raises(EngineInUse):
            SqliteEngine(tmp_path / "alias.db")


async def test_a_refused_open_does_not_disturb_the_one_that_has_it(database: Path):
    async with opened(database) as engine:
        with pytest.raises(EngineInUse):
            SqliteEngine(database)
        await commit(engine, Put("k", b""), token=1)
        assert await keys(engine) == ["k"]


async def test_the_lock_is_free_after_close_and_not_inherited_by_children(database: Path):
    async with opened(database) as engine:
        assert not os.get_inheritable(engine._database._lock._fd)
    async with opened(database):
        pass


async def test_a_server_whose_lock_file_was_deleted_leaves_the_database_to_the_next(database: Path):
    async with opened(database) as engine:
        await commit(engine, Put("k", b""))
        Path(f"{database}.lock").unlink()
        async with opened(database) as successor:
            await commit(successor, Put("l", b""))
            for call in (commit(engine, Put("m", b"")), keys(engine), engine.reopen(), engine.head()):
                with pytest.raises(EngineUnavailable, match="lock file was deleted"):
                    await call
            await engine.close()
            assert await keys(successor) == ["k", "l"]


async def test_tokens_go_on_without_a_gap_after_a_clean_stop(database: Path):
    async with opened(database) as engine:
        await commit(engine, token=5)
    assert await token_and_notice(database) == (5, None)


async def test_tokens_skip_the_reserved_block_after_a_crash(database: Path, tmp_path: Path):
    image = await crashed(database, tmp_path / "crash", tokens=3)
    assert await token_and_notice(image) == (1 + TOKEN_BLOCK, None)


async def test_a_crash_is_not_forgotten_by_a_clean_stop_without_a_commit(database: Path, tmp_path: Path):
    image = await crashed(database, tmp_path / "crash", tokens=3)
    await token_and_notice(image)
    assert await token_and_notice(image) == (1 + TOKEN_BLOCK, None)


async def test_after_a_crash_and_a_commit_a_clean_stop_is_clean_again(database: Path, tmp_path: Path):
    image = await crashed(database, tmp_path / "crash", tokens=3)
    async with opened(image) as engine:
        head = await commit(engine, token=TOKEN_BLOCK + 2)
    assert await token_and_notice(image) == (head.token, None)


async def test_a_block_is_reserved_before_the_commit_that_uses_it(database: Path, tmp_path: Path):
    async with opened(database) as engine:
        await commit(engine, token=1)
        await commit(engine, token=1 + TOKEN_BLOCK)
        before = crash_image(database, tmp_path / "before")
        await commit(engine, token=2 + TOKEN_BLOCK)
        after = crash_image(database, tmp_path / "after")
    assert await token_and_notice(before) == (1 + TOKEN_BLOCK, None)
    assert await token_and_notice(after) == (2 + 2 * TOKEN_BLOCK, None)


async def test_an_older_file_put_back_after_a_clean_stop_is_noticed_and_repeats_no_token(
    database: Path, tmp_path: Path
):
    async with opened(database) as engine:
        await commit(engine, token=5)
    backup = shutil.copy(database, tmp_path / "backup")
    async with opened(database) as engine:
        await commit(engine, token=50)
    shutil.copy(backup, database)
    token, notice = await token_and_notice(database)
    assert token >= 50
    assert notice == f"{database} is older than it was: a copy put back? Tokens go on after {token}"


async def test_an_older_file_put_back_after_a_crash_is_noticed_by_its_term(database: Path, tmp_path: Path):
    async with opened(database) as engine:
        await commit(engine, token=5, term=1)
    backup = shutil.copy(database, tmp_path / "backup")
    async with opened(database) as engine:
        for token in (6, 7):
            await commit(engine, token=token, term=2)
        image = crash_image(database, tmp_path / "crash")
    Path(f"{image}-wal").unlink()
    shutil.copy(backup, image)
    token, notice = await token_and_notice(image)
    assert token >= 7
    assert notice is not None


async def test_a_database_that_was_deleted_starts_anew_after_the_old_tokens(database: Path):
    async with opened(database) as engine:
        await commit(engine, token=5)
    database.unlink()
    token, notice = await token_and_notice(database)
    assert token == 5 + TOKEN_BLOCK
    assert notice is not None


async def test_without_a_lock_file_the_database_is_trusted(database: Path, tmp_path: Path):
    image = await crashed(database, tmp_path / "crash", tokens=3)
    Path(f"{image}.lock").unlink()
    assert await token_and_notice(image) == (3, None)


@pytest.mark.parametrize("written", [0, 1, 60, 200, SLOT_BYTES - 1])
@pytest.mark.parametrize("garbage", [b"\0", b"x"])
async def test_a_torn_write_loses_no_reservation(database: Path, tmp_path: Path, written: int, garbage: bytes):
    image = await crashed(database, tmp_path / "crash", tokens=3)
    path = Path(f"{image}.lock")
    content = path.read_bytes().ljust(2 * SLOT_BYTES)
    newest = lockfile._newest(content)
    assert newest is not None
    torn = msgspec.structs.replace(newest, count=newest.count + 1, token_reserved=9 * TOKEN_BLOCK)
    slot = lockfile._slot(torn)[:written].rstrip().ljust(SLOT_BYTES, garbage)
    slots = [content[:SLOT_BYTES], content[SLOT_BYTES:]]
    slots[torn.count % 2] = slot
    path.write_bytes(b"".join(slots))
    assert await token_and_notice(image) == (newest.token_reserved, None)


async def test_a_lock_file_without_one_whole_slot_costs_a_block_of_tokens(database: Path, tmp_path: Path):
    image = await crashed(database, tmp_path / "crash", tokens=3)
    Path(f"{image}.lock").write_bytes(b"{" * 5_000)
    token, notice = await token_and_notice(image)
    assert token == 3 + TOKEN_BLOCK
    assert notice is not None
    assert "damaged" in notice


def full(*_args: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_reservation_that_cannot_be_written_refuses_the_commit_and_can_be_tried_again(
    database: Path, monkeypatch: pytest.MonkeyPatch
):
    async with opened(database) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(EngineUnavailable, match="No space left"):
                await commit(engine, Put("k", b""), token=1)
        assert await keys(engine) == []
        await commit(engine, Put("k", b""), token=1)
        assert await keys(engine) == ["k"]


async def test_a_refused_database_keeps_the_stamp_of_the_clean_stop(database: Path):
    async with opened(database) as engine:
        await commit(engine, token=5)
    whole = database.read_bytes()
    database.write_bytes(b"something else, for a while" * 100)
    with pytest.raises(EngineUnavailable):
        SqliteEngine(database)
    database.write_bytes(whole)
    assert await token_and_notice(database) == (5, None)


def test_an_open_that_fails_at_the_last_step_lets_go_of_everything(database: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(EngineUnavailable, match="No space left"):
            SqliteEngine(database)
    LockFile(database).release()


def test_the_file_is_for_people_too(database: Path):
    lock = LockFile(database)
    try:
        lock.announce("http://127.0.0.1:8000" + "/long" * 1_000)
    finally:
        lock.release()
    line = lock.path.read_text().splitlines()[0]
    assert line.startswith('{"crc":')
    assert '"address":"http://127.0.0.1:8000/long' in line
