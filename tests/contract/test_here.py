"""Commits by a server itself, beside the process that has its SQLite file."""

# ruff: noqa: ASYNC240  # nothing else runs in these loops

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from engine_words import commit, crash_image, everything, following, keys, puts, until

from openintent.engines import sqlite_here
from openintent.engines.apart import CHANGES_HERE_MAX, ApartEngine
from openintent.engines.base import Change, Head, OutcomeUncertain, Put, Record
from openintent.engines.lockfile import TOKEN_BLOCK, look
from openintent.engines.sqlite import SqliteEngine
from openintent.engines.sqlite_database import IDLE_WEIGHT, Store
from openintent.engines.sqlite_file import WAL_BYTES_KEPT
from openintent.errors import EngineCorrupt, EngineUnavailable

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


@pytest.fixture
async def engine(database: Path) -> AsyncIterator[ApartEngine]:
    """In a term whose beginning is durable, and known to the lock file: from here on it can commit on the spot."""
    engine = ApartEngine(database)
    for _ in range(2):
        await commit(engine, term=1, token=1)
    engine._here._clock = lambda: 0.0  # by which no disk is slow; a real one is, now and then
    yield engine
    await engine.close()


@pytest.fixture
def other(database: Path) -> Iterator[apsw.Connection]:
    """Another program that has the file open."""
    connection = apsw.Connection(str(database))
    yield connection
    connection.close()


async def attempt(engine: ApartEngine, *changes: Change, **changed: object) -> bool:
    """One more commit on top of whatever is there, on the spot; or nothing."""
    seen = await engine.head()
    done = engine.commit_here(expect=seen, head=following(seen, **changed), changes=changes)
    assert await engine.head() == (following(seen, **changed) if done else seen)
    return done


async def spot(engine: ApartEngine, *changes: Change, **changed: object) -> Head:
    assert await attempt(engine, *changes, **changed)
    return await engine.head()


async def kill(engine: ApartEngine) -> None:
    os.kill(engine._child._process.pid, signal.SIGKILL)
    await engine._child.end()


def unfolded(database: Path) -> int:
    db = apsw.Connection(str(database))
    try:
        count: int = db.execute("SELECT count(*) FROM journal").get
        return count
    finally:
        db.close()


@contextmanager
def without_room() -> Iterator[None]:
    """No file of this process may grow beyond one page."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


# What it does


async def test_a_commit_on_the_spot_is_seen_by_whoever_looks_next(engine: ApartEngine):
    await spot(engine, Put("k", b"1"))
    assert await everything(engine) == [Record("k", b"1")]


async def test_commits_by_both_processes_stand_in_their_order(engine: ApartEngine, database: Path):
    for number in range(40):
        change = Put("k", b"%d" % number), Put(f"{number:02}", b"")
        await (commit if number % 7 in (0, 1, 4) else spot)(engine, *change)
    head = await engine.head()
    assert (await everything(engine))[-1] == Record("k", b"39")
    assert len(await keys(engine)) == 41
    await spot(engine, Put("l", b""))
    await engine.close()
    again = SqliteEngine(database)
    assert (await again.head()).beat == head.beat + 1
    assert "l" in await keys(again)
    await again.close()


async def test_it_does_not_need_the_process_of_the_file(engine: ApartEngine):
    os.kill(engine._child._process.pid, signal.SIGSTOP)
    for number in range(20):
        await spot(engine, Put(str(number), b""))
    os.kill(engine._child._process.pid, signal.SIGCONT)
    assert len(await keys(engine)) == 20


async def test_the_process_of_the_file_folds_what_was_committed_on_the_spot(engine: ApartEngine, database: Path):
    count = 0
    while engine._here.unread or not count:  # until that is worth it, and it is told
        count += await attempt(engine, *puts([f"{count:04}/{n}" for n in range(CHANGES_HERE_MAX)]))
        assert count <= IDLE_WEIGHT
    await until(lambda: unfolded(database) <= 2)
    assert len(await keys(engine)) == count * CHANGES_HERE_MAX


async def test_the_wal_does_not_grow_while_a_server_commits_by_itself_all_the_time(engine: ApartEngine, database: Path):
    """It can be written again from its start only if nobody has written meanwhile what is not in the database yet."""
    for number in range(8_000):
        while not await attempt(engine, *puts([f"{number:04}/{n}" for n in range(4)])):  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert Path(f"{database}-wal").stat().st_size <= WAL_BYTES_KEPT


async def test_a_fold_does_not_wait_while_another_writes(tmp_path: Path):
    """Who asks for something meanwhile would wait along with it."""
    store, other = Store(tmp_path / "x.db"), apsw.Connection(str(tmp_path / "x.db"))
    store.append(b"\x90", (Put("k", b""),), b"\x91\x93\x01\xa1k\xc4\x00")
    other.execute("BEGIN IMMEDIATE")
    store.fold_if_free()
    assert store.weight > 0
    other.execute("ROLLBACK")
    store.fold_if_free()
    assert store.weight == 0
    assert [record.key for record in store.scan("", "z", limit=9, reverse=False)] == ["k"]
    other.close()
    store.close()


# When it does not


async def test_the_first_commits_of_a_term_are_for_the_process_which_has_the_lock_file(database: Path):
    engine = ApartEngine(database)
    assert not await attempt(engine, term=1)
    await commit(engine, term=1)
    assert not await attempt(engine)
    await commit(engine, token=1)
    assert await attempt(engine)
    await engine.close()


async def test_tokens_are_reserved_before_they_are_used_on_the_spot(engine: ApartEngine, database: Path):
    reserved = 1 + TOKEN_BLOCK
    assert await attempt(engine, token=reserved)
    assert not await attempt(engine, token=reserved + 1)
    await commit(engine, token=reserved + 1)
    assert await attempt(engine, token=reserved + 2)
    seen = look(database)
    assert seen is not None
    assert seen.entry.token_reserved == reserved + 1 + TOKEN_BLOCK


async def test_many_changes_are_for_the_process_and_so_are_those_behind_them(engine: ApartEngine):
    many = puts(["k"] * (CHANGES_HERE_MAX + 1))
    assert await attempt(engine, *many[1:])
    assert not await attempt(engine, *many)
    await commit(engine, *many)
    assert not await attempt(engine, Put("l", b""))
    await commit(engine, Put("l", b""))
    assert await attempt(engine, Put("m", b""))


async def test_nothing_is_committed_on_the_spot_while_the_process_has_something_to_do(engine: ApartEngine):
    seen = await engine.head()
    under_way = engine.commit(expect=seen, head=following(seen), changes=[Put("k", b"")])
    assert not await attempt(engine, Put("l", b""))
    await under_way
    assert await keys(engine) == ["k"]


async def test_a_deposed_writer_commits_nothing_on_the_spot(engine: ApartEngine):
    assert not engine.commit_here(expect=Head(), head=Head(1, 1), changes=[Put("k", b"")])
    assert await keys(engine) == []


async def test_a_busy_file_is_for_the_process_which_can_wait(engine: ApartEngine, other: apsw.Connection):
    other.execute("BEGIN IMMEDIATE")
    assert not await attempt(engine, Put("k", b""))
    other.execute("ROLLBACK")
    assert await attempt(engine, Put("l", b""))
    assert await keys(engine) == ["l"]


async def test_a_disk_that_was_slow_is_left_alone_for_a_while(engine: ApartEngine):
    now = [100.0]

    def slow() -> float:
        now[0] += 1.1 * sqlite_here.SLOW_S  # since it was last asked
        return now[0]

    engine._here._clock = slow
    await spot(engine, Put("k", b""))
    engine._here._clock = lambda: now[0] + sqlite_here.PAUSE_S - 0.001
    assert not await attempt(engine, Put("l", b""))
    engine._here._clock = lambda: now[0] + sqlite_here.PAUSE_S
    assert await attempt(engine, Put("m", b""))


async def test_without_its_lock_file_a_server_commits_nothing(engine: ApartEngine, database: Path):
    database.with_name("leases.db.lock").unlink()
    assert not await attempt(engine, Put("k", b""))
    with pytest.raises(EngineUnavailable, match="its lock file was deleted"):
        await commit(engine, Put("k", b""))


# Failures


async def test_after_a_failure_the_file_is_not_used_until_it_is_reopened(engine: ApartEngine):
    head = await spot(engine, Put("k", b""))
    with pytest.raises(OutcomeUncertain, match=r"full|disk"), without_room():
        engine.commit_here(expect=head, head=following(head), changes=[Put("l", bytes(100_000))])
    for call in (engine.head(), everything(engine), commit(engine), attempt(engine)):
        with pytest.raises(EngineUnavailable, match="must be reopened"):
            await call
    await engine.reopen()
    assert await keys(engine) in (["k"], ["k", "l"])
    await spot(engine, Put("m", b""))
    assert "m" in await keys(engine)


async def test_another_process_goes_on_after_what_was_committed_on_the_spot(engine: ApartEngine):
    head = await spot(engine, Put("k", b""), token=5)
    await kill(engine)
    with pytest.raises(EngineUnavailable, match="its process was ended by SIGKILL"):
        await attempt(engine)
    await engine.reopen()
    found = await engine.head()
    assert (found.term, found.beat, found.rev) == (head.term, head.beat, head.rev)
    assert found.token > head.token
    await commit(engine, Put("l", b""))
    assert await keys(engine) == ["k", "l"]


async def test_a_file_that_lost_what_was_committed_on_the_spot_is_not_used(
    engine: ApartEngine, database: Path, tmp_path: Path
):
    older = crash_image(database, tmp_path / "older")
    await spot(engine, Put("l", b""))
    await kill(engine)
    engine._here.close()
    for file in database.parent.glob("leases.db-*"):
        file.unlink()
    for file in older.parent.glob("*[!k]"):  # not the lock file
        file.rename(database.with_name(file.name))
    with pytest.raises(EngineCorrupt, match="has lost commits"):
        await engine.reopen()


async def test_a_clean_end_knows_of_what_was_committed_on_the_spot(engine: ApartEngine, database: Path):
    head = await spot(engine, Put("k", b""))
    await engine.close()
    seen = look(database)
    assert seen is not None
    assert seen.entry.clean is not None
    assert seen.entry.clean.beat == head.beat
    assert not Path(f"{database}-wal").exists()


async def test_a_killed_server_has_lost_nothing_that_it_committed_on_the_spot(database: Path):
    acknowledged = 0
    for _ in range(5):
        program = [sys.executable, HERE / "committer.py", database, "apart", "here"]
        with subprocess.Popen(program, stdout=subprocess.PIPE) as server:  # noqa: ASYNC220
            assert server.stdout is not None
            lines = [server.stdout.readline() for _ in range(600)]
            server.kill()
            lines += [line for line in server.stdout.readlines() if line.endswith(b"\n")]
        assert int(lines[0]) > acknowledged
        acknowledged = int(lines[-1])
    engine = SqliteEngine(database)
    head = await engine.head()
    beats = [int(key.removeprefix("a/")) for key in await keys(engine) if key.startswith("a/")]
    await engine.close()
    assert head.beat >= acknowledged
    assert beats == list(range(1, head.beat + 1))
