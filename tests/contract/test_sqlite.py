"""What only the SQLite engine promises: crashes, full disks, odd files, folding, and old formats."""

# ruff: noqa: ASYNC220, ASYNC240  # nothing else runs in these loops

import asyncio
import importlib.util
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from engine_words import LAST, commit, crash_image, everything, following, keys, puts

from openintent.engines import sqlite_database, sqlite_file, worker
from openintent.engines.base import Delete, Head, OutcomeUncertain, Put, Record
from openintent.engines.sqlite import SqliteEngine
from openintent.engines.sqlite_database import Store
from openintent.errors import EngineCorrupt, EngineInUse, EngineUnavailable

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


@pytest.fixture
async def engine(database: Path) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(database)
    yield engine
    await engine.close()


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold a few commits at a time, all the time."""
    for name, weight in {"SLICE_WEIGHT": 5, "IDLE_WEIGHT": 8, "FORCED_WEIGHT": 12}.items():
        monkeypatch.setattr(sqlite_database, name, weight)


def refusal(path: Path) -> str:
    with pytest.raises(EngineUnavailable) as refused:
        SqliteEngine(path)
    message = str(refused.value)
    assert "\n" not in message
    return message


# Crashes


@pytest.mark.parametrize("acknowledged", [1, 40, 150])
async def test_a_killed_process_loses_nothing_it_had_acknowledged(database: Path, acknowledged: int):
    command = [sys.executable, HERE / "committer.py", database]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(acknowledged)]
        with pytest.raises(EngineInUse, match=rf"with pid {child.pid} at http://127\.0\.0\.1:8123$"):
            SqliteEngine(database)
        child.send_signal(signal.SIGKILL)
        lines += [line for line in child.stdout.readlines() if line.endswith(b"\n")]
    engine = SqliteEngine(database)
    head = await engine.head()
    beats = [int(key.removeprefix("a/")) for key in await keys(engine) if key.startswith("a/")]
    tail = [record.key for record in await engine.scan("b/", "b0", limit=1_000)]
    await engine.close()
    assert head.beat >= int(lines[-1])
    assert beats == list(range(1, head.beat + 1))
    assert tail == [f"b/{beat:06}" for beat in beats[-10:]]
    assert head.token > head.beat


async def test_commits_that_were_not_folded_are_read_back(engine: SqliteEngine, database: Path, tmp_path: Path):
    await commit(engine, *puts(["a", "b"]))
    head = await commit(engine, Delete("a"))
    again = SqliteEngine(crash_image(database, tmp_path / "crash"))
    assert await again.head() == head
    assert await keys(again) == ["b"]
    await again.close()


def test_a_process_that_forgets_to_close_ends_all_the_same(database: Path):
    program = """if True:
        import asyncio, sys
        from openintent.engines import open_engine
        from openintent.engines.base import Head, Put
        engine = open_engine(f"sqlite:///{sys.argv[1]}")
        asyncio.run(engine.commit(expect=Head(), head=Head(1, 1), changes=[Put("k", b"")]))
    """
    subprocess.run([sys.executable, "-c", program, database], check=True, timeout=20)
    assert Store(database).head == Head(1, 1)


# Errors of the disk


async def test_a_full_database_is_uncertain_and_refuses_until_it_is_reopened(engine: SqliteEngine):
    head = await commit(engine, Put("k", b"1"), token=3)
    engine._database._store._db.pragma("max_page_count", engine._database._store._db.pragma("page_count") + 2)
    with pytest.raises(OutcomeUncertain, match="full"):
        await commit(engine, Put("large", bytes(100_000)))
    with pytest.raises(EngineUnavailable, match="must be reopened"):
        await engine.commit(expect=head, head=following(head), changes=[])
    with pytest.raises(EngineUnavailable, match="must be reopened"):
        await engine.head()
    with pytest.raises(EngineUnavailable, match="must be reopened"):
        await everything(engine)
    await engine.reopen()
    assert await engine.head() == head
    assert await everything(engine) == [Record("k", b"1")]
    await commit(engine, Put("large", bytes(100_000)))
    assert await keys(engine) == ["k", "large"]


@contextmanager
def files_end_at(bytes_max: int) -> Iterator[None]:
    """A disk that takes no more: writing past the bound fails with an error of the system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def commit_for_ever(engine: SqliteEngine, acknowledged: list[str]) -> None:
    while True:
        key = f"{len(acknowledged):04}"
        await commit(engine, Put(key, bytes(10_000)))
        acknowledged.append(key)


async def test_nothing_acknowledged_is_lost_when_the_disk_refuses(engine: SqliteEngine):
    acknowledged: list[str] = []
    with files_end_at(200_000):
        with pytest.raises(OutcomeUncertain):
            await commit_for_ever(engine, acknowledged)
        with files_end_at(20_000), pytest.raises(EngineUnavailable):
            await engine.reopen()
        with pytest.raises(EngineUnavailable):
            await commit(engine)
    await engine.reopen()
    assert (await keys(engine))[: len(acknowledged)] == acknowledged
    assert len(acknowledged) > 5
    await commit(engine, Put("z", b""))


async def test_a_fold_that_fails_takes_nothing_away(engine: SqliteEngine):
    await commit(engine, *puts(["a", "b"]))
    engine._database._store._db.set_authorizer(lambda action, *_: int(action == apsw.SQLITE_DELETE))
    with pytest.raises(EngineUnavailable):
        await keys(engine)
    await engine.reopen()
    assert await keys(engine) == ["a", "b"]


async def test_a_failed_fold_in_the_background_refuses_the_next_commit(engine: SqliteEngine, small_bounds: None):
    engine._database._store._db.set_authorizer(lambda action, *_: int(action == apsw.SQLITE_DELETE))
    await commit(engine, *puts("abcdefghijklmnop"))
    with pytest.raises(EngineUnavailable, match="must be reopened"):
        await engine._worker.ask(engine._database._require_sound)
    await engine.reopen()
    assert await keys(engine) == list("abcdefghijklmnop")


async def test_a_token_raised_after_a_crash_survives_a_reopen(engine: SqliteEngine, database: Path, tmp_path: Path):
    await commit(engine, token=3)
    again = SqliteEngine(crash_image(database, tmp_path / "crash"))
    raised = await again.head()
    await again.reopen()
    assert await again.head() == raised
    await again.close()


async def test_a_file_that_lost_durable_commits_is_not_used(engine: SqliteEngine):
    await commit(engine, Put("k", b""))
    engine._database._head = following(engine._database._head)
    with pytest.raises(EngineCorrupt, match="has lost commits"):
        await engine.reopen()
    with pytest.raises(EngineUnavailable):
        await commit(engine)


# Files that are not for us


def test_a_place_where_no_database_can_be_is_refused(tmp_path: Path):
    assert refusal(tmp_path) == f"{tmp_path} is a folder, not a database file"
    assert refusal(tmp_path / "no" / "x.db") == f"the folder {tmp_path / 'no'} does not exist"
    # Not even root can create a file there.
    assert refusal(Path("/sys/x.db")) == "cannot write /sys/x.db.lock: Permission denied"


@pytest.mark.parametrize("content", [b"hello", b"hello, this is a letter and not a database\n" * 100])
def test_a_file_that_is_no_database_is_refused_and_left_alone(database: Path, content: bytes):
    database.write_bytes(content)
    assert refusal(database) == f"{database} is not a database"
    assert database.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_alone(database: Path):
    with apsw.Connection(str(database)) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    content = database.read_bytes()
    assert refusal(database) == f"{database} is a database of another program"
    assert database.read_bytes() == content


def test_a_database_of_a_newer_version_is_refused(database: Path):
    Store(database).close()
    db = apsw.Connection(str(database))
    db.pragma("user_version", sqlite_file.SCHEMA_VERSION + 1)
    db.close()
    assert refusal(database) == f"{database} was written by a newer openintent (format 2, this one knows 1)"


def test_an_empty_file_becomes_a_database(database: Path):
    database.touch()
    assert Store(database).head == Head()


@pytest.mark.parametrize("blob", [b"", b"\xc1", b"\x91\x93\x09\xa1k\xa1v"])
def test_a_journal_that_cannot_be_read_is_not_guessed_at(database: Path, blob: bytes):
    store = Store(database)
    store._db.execute(sqlite_database.APPEND, (1, b"\x90", blob))
    store.close()
    with pytest.raises(EngineCorrupt, match="cannot be read"):
        Store(database)


# Folding


def test_folding_in_slices_keeps_everything_at_each_step(database: Path, small_bounds: None):
    store = Store(database)
    expected: dict[str, bytes] = {}
    for number in range(40):
        changes = (Put(f"{number % 7}", b"%d" % number), Delete(f"{(number + 3) % 7}"))
        store.append(sqlite_database.encode_head(Head(1, number)), changes, sqlite_database.encode_changes(changes))
        expected[f"{number % 7}"] = b"%d" % number
        expected.pop(f"{(number + 3) % 7}", None)
    steps = 0
    while store.weight:
        store.fold()
        steps += 1
        assert _contents(database) == (Head(1, 39), expected)
    assert steps == 20
    store.close()


def _contents(path: Path) -> tuple[Head, dict[str, bytes]]:
    """What somebody would find who opened a copy now."""
    copy = crash_image(path, path.with_name(f"copy{len(list(path.parent.iterdir()))}"))
    store = Store(copy)
    store.fold_all()
    records = store.scan("", LAST, limit=100, reverse=False)
    store.close()
    return store.head, {record.key: record.value for record in records}


async def test_a_long_journal_is_folded_between_commits(engine: SqliteEngine, small_bounds: None):
    for number in range(100):
        await commit(engine, Put(f"{number:03}", b""))
        assert engine._database._store.weight <= sqlite_database.FORCED_WEIGHT + 2
    assert len(await keys(engine)) == 100


async def test_a_quiet_moment_is_used_for_folding(engine: SqliteEngine, small_bounds: None):
    await commit(engine, *puts("abcdefghi"))
    await engine._worker.ask(lambda: engine._database.fold_some(idle=True))
    assert engine._database._store.weight == 0
    assert await keys(engine) == list("abcdefghi")


async def test_a_quiet_moment_with_nothing_to_fold_passes(engine: SqliteEngine):
    await commit(engine, *puts("abc"))
    assert await keys(engine) == list("abc")
    await engine._worker.ask(lambda: engine._database.fold_some(idle=True))
    await commit(engine, *puts("d"))
    assert await keys(engine) == list("abcd")


async def test_the_wal_does_not_grow_for_ever(engine: SqliteEngine, database: Path):
    for number in range(500):
        await commit(engine, Put(f"{number % 10}", bytes(40_000)))
    assert Path(f"{database}-wal").stat().st_size < 2 * sqlite_file.WAL_BYTES_KEPT


# The thread


async def test_a_cancelled_commit_happens_all_the_same(engine: SqliteEngine):
    gate = threading.Event()
    blocked = engine._worker.ask(gate.wait)
    attempt = asyncio.create_task(commit(engine, Put("k", b"")))
    await asyncio.sleep(0)  # it has asked, and waits behind the gate
    attempt.cancel()
    gate.set()
    await blocked
    assert await keys(engine) == ["k"]


async def test_a_busy_loop_gives_way_to_the_thread(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch):
    gave_way = threading.Event()
    monkeypatch.setattr(worker.time, "sleep", lambda _seconds: gave_way.set())
    assert await engine._worker.ask(gave_way.wait, 10)


async def test_after_close_the_thread_has_ended_and_every_call_is_refused(database: Path):
    engine = SqliteEngine(database)
    await engine.close()
    assert not engine._worker._thread.is_alive()
    for call in (engine.head(), engine.reopen(), everything(engine), engine.announce("x"), commit(engine)):
        with pytest.raises(EngineUnavailable, match="is closed"):
            await call


def test_an_engine_survives_the_loop_it_was_used_in(database: Path):
    engine = SqliteEngine(database)

    async def leave_without_waiting() -> None:
        engine._worker.ask(lambda: None)

    asyncio.run(leave_without_waiting())
    head = asyncio.run(commit(engine, Put("k", b"")))
    assert asyncio.run(engine.head()) == head
    asyncio.run(engine.close())


# Old formats


@pytest.mark.parametrize("records_end", ["NOT NULL);", "NOT NULL) WITHOUT ROWID;"], ids=["now", "at first"])
async def test_a_database_of_version_1_is_read_as_it_was_meant(database: Path, records_end: str):
    table = "CREATE TABLE records (key TEXT PRIMARY KEY, value BLOB "
    written = (GOLDEN / "v1.sql").read_text()
    assert f"{table}NOT NULL);" in written
    db = apsw.Connection(str(database))
    db.execute(written.replace(f"{table}NOT NULL);", table + records_end))
    db.close()
    engine = SqliteEngine(database)
    assert await engine.head() == Head(2, 3, 6, 50, "b", 2**40, 10, farewell=True)
    assert await everything(engine) == [Record("a/3", b"three"), Record("c", b"last"), Record("ключ/中", b"")]
    await commit(engine, Put("c", b"newest"), Delete("a/3"))
    assert await everything(engine) == [Record("c", b"newest"), Record("ключ/中", b"")]
    await engine.close()


def test_this_version_still_writes_version_1():
    """If this fails, the format has changed: give it a new number and a new file, and read the old one."""
    spec = importlib.util.spec_from_file_location("golden_make", GOLDEN / "make.py")
    assert spec is not None
    assert spec.loader is not None
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    assert make.dump() == (GOLDEN / "v1.sql").read_text()
