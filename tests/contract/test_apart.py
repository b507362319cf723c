"""SQLite in a process of its own: how that lives and dies. What it does is in test_engines.py and test_sqlite.py."""

# ruff: noqa: ASYNC240  # nothing else runs in these loops

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from engine_words import commit, crash_image, everything, following, keys, puts, until

from openintent.engines import apart_program
from openintent.engines.apart import ApartEngine
from openintent.engines.apart_child import PROGRAM
from openintent.engines.apart_words import Announce, Answer, Failed, Inbox, decode_answer, failed, frame
from openintent.engines.base import Deposed, Head, OutcomeUncertain, Put, Record
from openintent.engines.lockfile import look
from openintent.engines.sqlite import SqliteEngine
from openintent.engines.sqlite_database import FORCED_WEIGHT, IDLE_WEIGHT, Store
from openintent.errors import EngineCorrupt, EngineInUse, EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


@pytest.fixture
async def engine(database: Path) -> AsyncIterator[ApartEngine]:
    engine = ApartEngine(database, address="http://127.0.0.1:8123")
    yield engine
    await engine.close()


def pid_of(engine: ApartEngine) -> int:
    return engine._child._process.pid


def exists(pid: int) -> bool:
    """Also if it has ended and nobody has looked yet."""
    return Path(f"/proc/{pid}").exists()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def kill(engine: ApartEngine) -> None:
    os.kill(pid_of(engine), signal.SIGKILL)
    await engine._child.end()


async def freeze(engine: ApartEngine) -> None:
    """As a disk does that hangs."""
    os.kill(pid_of(engine), signal.SIGSTOP)
    await until(lambda: state_of(pid_of(engine)) == "T")


def unfolded(database: Path) -> int:
    """Commits that are only in the journal."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
        count: int = db.execute("SELECT count(*) FROM journal").fetchone()[0]
        return count


# Opening


def test_the_program_is_the_one_that_is_started():
    assert apart_program.__name__ == PROGRAM


async def test_others_are_told_of_the_server_and_not_of_its_process(engine: ApartEngine, database: Path):
    told = rf"is in use by the server with pid {os.getpid()} at http://127\.0\.0\.1:8123$"
    for opening in (ApartEngine, SqliteEngine):
        with pytest.raises(EngineInUse, match=told):
            opening(database)
    await engine.announce("http://127.0.0.1:1")
    seen = look(database)
    assert seen is not None
    assert (seen.entry.pid, seen.entry.address) == (os.getpid(), "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("name", "said"), [("", "is a folder, not a database file"), ("no/x.db", "the folder .* does not exist")]
)
def test_a_place_where_no_database_can_be_is_refused(tmp_path: Path, name: str, said: str):
    with pytest.raises(EngineUnavailable, match=said):
        ApartEngine(tmp_path / name)


def test_a_damaged_database_is_refused_by_its_name(database: Path):
    store = Store(database)
    store._db.execute("INSERT INTO journal VALUES (1, x'90', x'c1')")
    store.close()
    with pytest.raises(EngineCorrupt, match="holds a commit that cannot be read"):
        ApartEngine(database)


async def test_what_was_odd_about_the_files_is_told(database: Path):
    database.with_name("leases.db.lock").write_bytes(b"?")
    engine = ApartEngine(database)
    assert engine.notice is not None
    assert "is damaged" in engine.notice
    await engine.close()


def test_an_error_about_a_path_that_is_no_text_arrives_too():
    said = frame(Answer(None, error=failed(EngineUnavailable(os.fsdecode(b"\xff.db")))))
    inbox = Inbox()
    for byte in said:  # however it is cut up
        inbox.add(bytes([byte]))
    (message,) = inbox.messages()
    assert decode_answer(message).error == Failed("EngineUnavailable", "\\udcff.db")


def test_a_process_that_cannot_be_started_is_told(database: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", str(database))
    with pytest.raises(EngineUnavailable, match="cannot be opened: no process for it: No such file"):
        ApartEngine(database)


def test_a_process_that_ends_before_it_has_opened_the_file_is_told(database: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(EngineUnavailable, match="cannot be opened: its process has ended with code 1"):
        ApartEngine(database)


async def test_modules_in_the_folder_where_it_is_started_are_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "msgspec.py").write_text("raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    await ApartEngine(tmp_path / "leases.db").close()


# Answers


async def test_several_requests_under_way_are_answered_in_their_order(engine: ApartEngine):
    heads = [Head(1, beat) for beat in range(20)]
    pairs = list(zip([Head(), *heads], heads, strict=False))

    def commits(some: list[tuple[Head, Head]]) -> list[Awaitable[None]]:
        return [engine.commit(expect=old, head=new, changes=[Put(f"{new.beat:02}", b"")]) for old, new in some]

    first = commits(pairs[:10])
    found = asyncio.ensure_future(keys(engine))
    await asyncio.sleep(0)  # it has asked
    await asyncio.gather(*first, *commits(pairs[10:]))
    assert await found == [f"{beat:02}" for beat in range(10)]
    assert await engine.head() == heads[-1]


async def test_what_is_larger_than_any_buffer_goes_both_ways(engine: ApartEngine):
    large = os.urandom(8_000_000)
    first, second = following(Head()), following(following(Head()))
    await asyncio.gather(
        engine.commit(expect=Head(), head=first, changes=[Put("k", large)]),
        engine.commit(expect=first, head=second, changes=[Put("l", large)]),
    )
    assert await everything(engine) == [Record("k", large), Record("l", large)]


async def test_a_cancelled_commit_happens_all_the_same_and_moves_the_head(engine: ApartEngine):
    await freeze(engine)
    attempt = asyncio.create_task(commit(engine, Put("k", b"")))
    await asyncio.sleep(0)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    os.kill(pid_of(engine), signal.SIGCONT)
    await until(lambda: engine._head == following(Head()))
    assert await keys(engine) == ["k"]


async def test_a_disk_that_hangs_does_not_hold_up_the_loop(engine: ApartEngine):
    await freeze(engine)
    attempt = asyncio.create_task(commit(engine, Put("k", b"")))
    for _ in range(100):
        await asyncio.sleep(0)
    assert await engine.head() == Head()
    assert not attempt.done()
    os.kill(pid_of(engine), signal.SIGCONT)
    await attempt


class Strange(msgspec.Struct, array_like=True, tag=99):
    """A change that no version knows."""


async def test_a_bug_arrives_with_the_place_where_it_happened(engine: ApartEngine):
    with pytest.raises(RuntimeError, match="ValidationError") as found:
        await engine.commit(expect=Head(), head=Head(1, 1), changes=[Strange()])
    assert "apart_program.py" in found.value.__notes__[0]
    assert await engine.head() == Head()


async def test_deposed_brings_the_head_along(engine: ApartEngine):
    head = await commit(engine, member="a")
    with pytest.raises(Deposed) as deposed:
        await engine.commit(expect=Head(), head=Head(1), changes=[])
    assert deposed.value.actual == head


def test_an_engine_survives_the_loop_it_was_used_in(database: Path):
    engine = ApartEngine(database)

    async def leave_without_waiting() -> None:
        engine._child.ask(Announce("x"))

    asyncio.run(leave_without_waiting())
    head = asyncio.run(commit(engine, Put("k", b"")))
    assert asyncio.run(engine.head()) == head
    asyncio.run(engine.close())


# Folding


async def test_a_quiet_moment_is_used_for_folding(engine: ApartEngine, database: Path):
    await commit(engine, *puts([f"{n:05}" for n in range(IDLE_WEIGHT)]))
    await until(lambda: unfolded(database) == 0)
    await commit(engine, Put("k", b""))
    assert unfolded(database) == 1  # not worth it


async def test_a_long_journal_is_folded_between_commits(engine: ApartEngine, database: Path):
    head, under_way = Head(), []
    for number in range(60):
        changes = puts([f"{number:02}/{n:03}" for n in range(FORCED_WEIGHT // 20)])
        under_way.append(engine.commit(expect=head, head=following(head), changes=changes))
        head = following(head)
    await asyncio.gather(*under_way)
    assert unfolded(database) <= 20  # that many weigh as much as is ever left


# Life and death


async def test_a_killed_process_leaves_commits_in_doubt_and_all_else_undone(engine: ApartEngine):
    await commit(engine, Put("k", b""))
    await freeze(engine)
    under_way = [asyncio.create_task(each) for each in (commit(engine), everything(engine), engine.reopen())]
    await asyncio.sleep(0)
    await kill(engine)
    in_doubt, *undone = await asyncio.gather(*under_way, return_exceptions=True)
    assert type(in_doubt) is OutcomeUncertain
    assert str(in_doubt) == f"{engine.path}: its process was ended by SIGKILL"
    assert [type(each) for each in undone] == [EngineUnavailable, EngineUnavailable]
    for call in (engine.head(), commit(engine), everything(engine), engine.announce("x")):
        with pytest.raises(EngineUnavailable, match="must be reopened: its process was ended by SIGKILL"):
            await call


async def test_after_reopen_another_process_goes_on_where_the_killed_one_was(engine: ApartEngine, database: Path):
    await engine.announce("http://127.0.0.1:1")
    head = await commit(engine, Put("k", b""), token=5)
    former = pid_of(engine)
    await kill(engine)
    assert not exists(former)
    await engine.reopen()
    assert pid_of(engine) != former
    found = await engine.head()
    assert (found.term, found.beat, found.rev) == (head.term, head.beat, head.rev)
    assert found.token > head.token
    await commit(engine, Put("l", b""))
    assert await keys(engine) == ["k", "l"]
    seen = look(database)
    assert seen is not None
    assert (seen.entry.pid, seen.entry.address) == (os.getpid(), "http://127.0.0.1:1")


async def test_many_who_reopen_start_one_process(engine: ApartEngine):
    await kill(engine)
    await asyncio.gather(*(engine.reopen() for _ in range(5)))
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert [pid for pid in children if PROGRAM in command_of(pid)] == [str(pid_of(engine))]


def command_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""  # it has ended meanwhile, as others of ours may


async def test_another_process_does_not_use_a_file_that_lost_durable_commits(
    engine: ApartEngine, database: Path, tmp_path: Path
):
    await commit(engine, Put("k", b""))
    older = crash_image(database, tmp_path / "older")
    await commit(engine, Put("l", b""))
    await kill(engine)
    for file in database.parent.glob("leases.db-*"):
        file.unlink()
    for file in older.parent.glob("*[!k]"):  # not the lock file
        file.rename(database.with_name(file.name))
    for _ in range(2):
        with pytest.raises(EngineCorrupt, match="has lost commits"):
            await engine.reopen()
        with pytest.raises(EngineUnavailable, match="could not be reopened"):
            await commit(engine)


async def test_nobody_else_gets_the_file_while_a_killed_process_is_not_replaced(engine: ApartEngine, database: Path):
    await kill(engine)
    for opening in (ApartEngine, SqliteEngine):
        with pytest.raises(EngineInUse, match=f"with pid {os.getpid()}"):
            opening(database)
    await engine.reopen()
    await commit(engine, Put("k", b""))


async def test_a_process_that_cannot_open_the_file_again_leaves_the_lock_with_the_server(
    engine: ApartEngine, database: Path, tmp_path: Path
):
    await commit(engine, Put("k", b""))
    await kill(engine)
    aside = database.rename(tmp_path / "aside")
    database.mkdir()
    for _ in range(2):
        with pytest.raises(EngineUnavailable, match="cannot open"):
            await engine.reopen()
    with pytest.raises(EngineUnavailable, match="must be reopened: its process has ended with code 0"):
        await commit(engine)
    database.rmdir()
    aside.rename(database)
    with pytest.raises(EngineInUse):
        SqliteEngine(database)
    await engine.reopen()
    assert await keys(engine) == ["k"]


async def test_a_lock_file_that_was_deleted_is_not_made_anew_by_another_process(engine: ApartEngine, database: Path):
    await commit(engine, Put("k", b""))
    database.with_name("leases.db.lock").unlink()
    await kill(engine)
    with pytest.raises(EngineUnavailable, match="its lock file was deleted: restart the server"):
        await engine.reopen()
    with pytest.raises(EngineUnavailable, match="its lock file was deleted"):
        await commit(engine)


async def test_after_close_the_process_has_ended_and_every_call_is_refused(database: Path):
    before = open_files()
    engine = ApartEngine(database)
    head = await commit(engine, Put("k", b""))
    await engine.close()
    assert not exists(pid_of(engine))
    assert open_files() == before
    for call in (engine.head(), engine.reopen(), everything(engine), engine.announce("x"), commit(engine)):
        with pytest.raises(EngineUnavailable, match="is closed"):
            await call
    seen = look(database)
    assert seen is not None
    assert not seen.in_use
    assert seen.entry.clean is not None
    assert seen.entry.clean.beat == head.beat


async def test_a_close_that_is_cancelled_goes_on_and_leaves_no_process(database: Path):
    engine = ApartEngine(database)
    await freeze(engine)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    os.kill(pid_of(engine), signal.SIGCONT)
    await until(lambda: not exists(pid_of(engine)))
    await ApartEngine(database).close()


async def test_a_killed_process_can_be_closed(database: Path):
    engine = ApartEngine(database)
    os.kill(pid_of(engine), signal.SIGKILL)
    await engine.close()
    assert not exists(pid_of(engine))


async def test_whoever_tells_all_processes_to_stop_does_not_stop_this_one(engine: ApartEngine):
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid_of(engine), number)
    await commit(engine, Put("k", b""))
    assert os.getpgid(pid_of(engine)) != os.getpgid(0)  # the terminal's gets its Ctrl-C
    assert os.getsid(pid_of(engine)) == os.getsid(0)  # between sessions, a kernel need not be fair
