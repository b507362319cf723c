"""A killed server's process for SQLite may have the lock for a moment longer: who comes next waits for that."""

# ruff: noqa: ASYNC220  # nothing else runs in these loops

import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from engine_words import keys, until

from openintent.engines import lockfile
from openintent.engines.apart import ApartEngine
from openintent.engines.apart_program import Line, Program
from openintent.engines.apart_words import Announce, Close, Open, Reopen, frame
from openintent.engines.base import Head
from openintent.engines.lockfile import LockFile
from openintent.engines.sqlite_database import SqliteDatabase
from openintent.errors import EngineInUse

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
KILLS = 5


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


@pytest.fixture
def dead() -> int:
    """The pid of a process that is no more."""
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# The lock


def test_who_comes_after_an_orphan_waits_for_it(database: Path, dead: int, monkeypatch: pytest.MonkeyPatch):
    orphan = SqliteDatabase(database, pid=dead)
    monkeypatch.setattr(lockfile, "sleep", lambda _seconds: orphan.close())
    SqliteDatabase(database).close()


def test_nobody_waits_for_ever_for_an_orphan(database: Path, dead: int, monkeypatch: pytest.MonkeyPatch):
    orphan = SqliteDatabase(database, pid=dead)
    monkeypatch.setattr(lockfile, "ORPHAN_S_MAX", 0.05)
    with pytest.raises(EngineInUse, match=f"with pid {dead}"):
        SqliteDatabase(database)
    orphan.close()


async def test_a_server_that_was_killed_and_is_still_listed_does_not_run(
    database: Path, monkeypatch: pytest.MonkeyPatch
):
    with subprocess.Popen(["true"]) as process:
        await until(lambda: b") Z " in Path(f"/proc/{process.pid}/stat").read_bytes())
        orphan = SqliteDatabase(database, pid=process.pid)
        monkeypatch.setattr(lockfile, "sleep", lambda _seconds: orphan.close())
        SqliteDatabase(database).close()


@pytest.mark.parametrize("pid", [1, os.getpid()], ids=["another", "this"])
def test_nobody_waits_for_a_server_that_runs(database: Path, pid: int, monkeypatch: pytest.MonkeyPatch):
    first = SqliteDatabase(database, pid=pid)
    waits: list[float] = []
    monkeypatch.setattr(lockfile, "sleep", waits.append)
    with pytest.raises(EngineInUse, match=f"with pid {pid}"):
        SqliteDatabase(database)
    assert waits == []
    first.close()


# The process


async def test_a_server_that_is_started_again_at_once_finds_all_that_was_acknowledged(database: Path):
    acknowledged = 0
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, HERE / "committer.py", database, "apart"], stdout=subprocess.PIPE
        ) as server:
            assert server.stdout is not None
            lines = [server.stdout.readline() for _ in range(20)]
            server.kill()
            lines += [line for line in server.stdout.readlines() if line.endswith(b"\n")]
        assert int(lines[0]) > acknowledged
        acknowledged = int(lines[-1])
    engine = ApartEngine(database)
    head = await engine.head()
    beats = [int(key.removeprefix("a/")) for key in await keys(engine) if key.startswith("a/")]
    await engine.close()
    assert head.beat >= acknowledged
    assert beats == list(range(1, head.beat + 1))


def test_a_process_that_forgets_to_close_ends_all_the_same(database: Path):
    program = """if True:
        import asyncio, sys
        from openintent.engines import open_engine
        from openintent.engines.base import Head, Put
        engine = open_engine(f"sqlite:///{sys.argv[1]}", apart=True)

        async def commit():
            await engine.commit(expect=Head(), head=Head(1, 1), changes=[Put("k", b"")])

        asyncio.run(commit())
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, database], check=True, timeout=20)
    database_again = SqliteDatabase(database)
    assert (database_again.head.term, database_again.head.beat) == (1, 1)
    database_again.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends when it has done what it is doing")
def test_a_killed_server_takes_its_process_along_whatever_that_is_doing(database: Path):
    with subprocess.Popen([sys.executable, HERE / "committer.py", database, "apart"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        (child,) = children(server.pid)
        os.kill(child, signal.SIGSTOP)  # it would not see that the socket ends
        ended = os.pidfd_open(child)
        server.kill()
    try:
        assert select.select([ended], [], [], 20)[0]
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(ended, signal.SIGKILL)
        os.close(ended)


def test_what_it_had_not_begun_when_the_server_went_does_not_happen():
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(frame(Announce("a")) + frame(Announce("b")))
            line = Line(theirs)
            assert line.next() == Announce("a")
        assert line.next() is None


def test_a_server_that_goes_before_the_first_request_leaves_no_file(database: Path):
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(frame(Open("", os.getpid())))
        Program(Line(theirs), -1, database).run()
    assert not database.exists()


def test_it_ends_after_the_last_request(database: Path):
    ours, theirs = socket.socketpair()
    lock = LockFile(database)
    with ours, theirs:
        ours.sendall(frame(Open("", os.getpid())) + frame(Reopen(Head())) + frame(Close()) + frame(Reopen(Head())))
        Program(Line(theirs), os.dup(lock.fileno()), database).run()
    with pytest.raises(EngineInUse):
        SqliteDatabase(database)
    lock.release()
    SqliteDatabase(database).close()
