"""Copies of a database, and how they are brought back: what can be seen without a server."""

import os
import random
import resource
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import msgspec
import pytest

from openintent import records
from openintent.engines import backup
from openintent.engines.backup import Contents, Known, NotOurs, TooNew, back_up, jumped, restore
from openintent.engines.base import Change, Head, Put
from openintent.engines.lockfile import LockFile, look
from openintent.engines.sqlite_database import Store
from openintent.errors import EngineCorrupt, EngineError, EngineInUse, EngineUnavailable
from openintent.model import Event, Intent, Limits

HEAD = Head(term=3, beat=9, rev=70, clock_ms=5_000, member="m", token=40, seq=90)


def ignored(_done: int, _pages: int) -> None:
    pass


def intent(number: int, *, chars: int = 10) -> Put:
    text = random.Random(number).randbytes(chars).hex()
    return Put(f"i/{number:06d}", records.encode(Intent(id=str(number), title="t", description=text)))


def commit(store: Store, head: Head, *changes: Change) -> Head:
    store.append(msgspec.msgpack.encode(head), changes, msgspec.msgpack.encode(changes))
    return head


def make(path: Path, *changes: Change, head: Head = HEAD) -> Path:
    with closing(Store(path)) as store:
        commit(store, head, *changes)
    return path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Of a few slices, so that much can happen while it is copied."""
    path = make(tmp_path / "leases.db", *(intent(n, chars=8_000) for n in range(200)))
    with closing(Store(path)) as store:
        store.fold_all()
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "leases.backup"


def copied(source: Path, target: Path, *, progress: backup.Progress = ignored, replace: bool = False) -> Contents:
    return back_up(source, target, now_ms=1_000, replace=replace, progress=progress)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def head_of(path: Path) -> Head:
    with closing(Store(path)) as store:
        return store.head


# Copying


def test_a_copy_ends_although_somebody_commits_after_each_slice_and_has_nothing_of_that(database, target):
    slices = []
    with closing(Store(database)) as server:

        def commit_more(done: int, pages: int) -> None:
            slices.append((done, pages))
            assert len(slices) < 100, "each commit makes it begin anew"
            commit(server, msgspec.structs.replace(HEAD, beat=HEAD.beat + len(slices)), intent(1_000 + len(slices)))
            server.fold_all()

        contents = copied(database, target, progress=commit_more)
    assert len(slices) > 2
    assert slices[-1][0] == slices[-1][1]
    assert (contents.intents, contents.head) == (200, HEAD)


def test_a_copy_is_one_plain_file_and_leaves_nothing_else_behind(database, target, tmp_path):
    copied(database, target)
    assert names(tmp_path) == {"leases.db", "leases.backup"}
    # Not in WAL mode: that could not be read where nothing can be written.
    assert target.read_bytes()[18:20] == b"\x01\x01"


def test_a_copy_and_what_is_brought_back_from_it_are_for_this_user_alone(database, target, tmp_path):
    copied(database, target)
    brought_back(target, tmp_path / "new.db")
    for path in (target, tmp_path / "new.db", tmp_path / "new.db.lock"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_what_is_only_in_the_wal_is_copied_too(tmp_path, target):
    with closing(Store(tmp_path / "leases.db")) as server:
        commit(server, HEAD, intent(1))
        contents = copied(tmp_path / "leases.db", target)
    assert (contents.head, contents.intents) == (HEAD, 1)


def test_a_copy_counts_an_event_once_that_stands_in_two_logs(tmp_path, target):
    event = Event(1, "note", "intent:a", "x", 0, also="agent:x")
    chunk = records.encode([event])
    source = make(tmp_path / "leases.db", Put("v/intent:a\t01", chunk), Put("v/agent:x\t01", chunk))
    assert copied(source, target).events == 1


def test_a_file_that_is_there_is_replaced_only_if_asked(database, target):
    target.write_text("precious")
    with pytest.raises(FileExistsError):
        copied(database, target)
    assert target.read_text() == "precious"
    copied(database, target, replace=True)
    assert head_of(target) == HEAD


@pytest.mark.parametrize("name", ["leases.db", "leases.db-wal", "leases.db.lock", "leases.db.keys", "link"])
def test_a_copy_never_takes_the_place_of_what_a_server_works_with(database, tmp_path, name):
    LockFile(database).release()
    (tmp_path / "leases.db.keys").touch()
    (tmp_path / "link").symlink_to(database)
    with closing(Store(database)) as server:
        commit(server, HEAD, intent(1))
        before = (tmp_path / name).stat()
        with pytest.raises(EngineUnavailable, match="belongs to the database itself"):
            copied(database, tmp_path / name, replace=True)
        assert (tmp_path / name).stat().st_ino == before.st_ino


def test_only_a_file_is_replaced(database, target, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EngineUnavailable, match="pipe is not a file"):
        copied(database, tmp_path / "pipe", replace=True)
    copied(database, target)
    with pytest.raises(EngineUnavailable, match="pipe is not a file"):
        brought_back(target, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_that_appears_meanwhile_is_not_replaced(database, target, tmp_path):
    with pytest.raises(FileExistsError):
        copied(database, target, progress=lambda _done, _pages: target.write_text("precious") and None)
    assert target.read_text() == "precious"
    assert names(tmp_path) == {"leases.db", "leases.backup"}


def test_an_interrupted_copy_leaves_nothing(database, target, tmp_path):
    def interrupt(_done: int, _pages: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copied(database, target, progress=interrupt)
    assert names(tmp_path) == {"leases.db"}


@contextmanager
def small_files(count: int) -> Iterator[None]:
    """No file may grow beyond this many bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_leaves_nothing(database, target, tmp_path):
    with small_files(1_000_000), pytest.raises(EngineUnavailable, match=r"cannot copy .*leases.db: disk I/O error"):
        copied(database, target)
    assert names(tmp_path) == {"leases.db"}


def test_a_damaged_database_makes_no_copy(database, target, tmp_path):
    content = database.read_bytes()
    pages = [content[start : start + 4_096] for start in range(0, len(content), 4_096)]
    database.write_bytes(b"".join(b"\xff" * 4_096 if b"i/000100" in page else page for page in pages))
    with pytest.raises(EngineError):
        copied(database, target)
    assert names(tmp_path) == {"leases.db"}


def test_a_database_whose_order_is_broken_makes_no_copy(database, target):
    # Every record can still be read, from end to end; but not all of them can be found any more.
    content = database.read_bytes()
    assert b"i/000100" in content
    database.write_bytes(content.replace(b"i/000100", b"i/900100"))
    with pytest.raises(EngineCorrupt, match="damaged"):
        copied(database, target)
    assert not target.exists()


def test_a_record_that_cannot_be_read_makes_no_copy(tmp_path, target):
    source = make(tmp_path / "leases.db", Put("l/1", b"\x01nonsense"))
    with pytest.raises(EngineCorrupt, match="l/1"):
        copied(source, target)
    assert not target.exists()


# What is ours


def foreign(path: Path, *, application: int, version: int) -> Path:
    with closing(apsw.Connection(str(path))) as db:
        db.execute("CREATE TABLE t (x)")
        db.pragma("application_id", application)
        db.pragma("user_version", version)
    return path


def test_only_a_database_of_ours_in_a_format_that_we_know_is_brought_back(tmp_path, database):
    other = foreign(tmp_path / "other", application=7, version=1)
    newer = foreign(tmp_path / "newer", application=backup.APPLICATION_ID, version=backup.SCHEMA_VERSION + 1)
    text = tmp_path / "text"
    text.write_text("not a database, " * 100)
    for file, refusal in ((other, NotOurs), (newer, TooNew), (text, NotOurs)):
        with pytest.raises(refusal):
            brought_back(file, database)
    assert head_of(database) == HEAD
    assert not any("before-restore" in name for name in names(tmp_path))


def test_another_programs_database_is_not_replaced(tmp_path, database, target):
    copied(database, target)
    other = foreign(tmp_path / "other.db", application=7, version=1)
    with pytest.raises(NotOurs):
        brought_back(target, other)


def test_a_database_cannot_be_brought_back_to_itself(database):
    with pytest.raises(EngineUnavailable, match="the database itself"):
        brought_back(database, database)


# Bringing back


def brought_back(file: Path, database: Path, *, now_ms: int = 1_000) -> backup.Restored:
    return restore(file, database, now_ms=now_ms, progress=ignored)


def test_the_old_database_is_kept_under_the_next_free_name(database, target, tmp_path):
    copied(database, target)
    kept = [brought_back(target, database).kept for _ in range(2)]
    assert kept == [tmp_path / "leases.db.before-restore-1", tmp_path / "leases.db.before-restore-2"]
    assert head_of(kept[0]) == HEAD


def test_a_database_in_use_is_left_alone(database, target):
    copied(database, target)
    lock = LockFile(database)
    try:
        with pytest.raises(EngineInUse):
            brought_back(target, database)
    finally:
        lock.release()
    assert head_of(database) == HEAD


def test_a_database_that_another_program_reads_is_left_alone(database, target):
    copied(database, target)
    with closing(apsw.Connection(str(database))) as reader:
        reader.execute("BEGIN; SELECT * FROM meta").get  # noqa: B018
        with pytest.raises(EngineUnavailable, match="another program reads"):
            brought_back(target, database)
    assert head_of(database) == HEAD


def test_a_wal_of_the_old_database_never_meets_the_new_one(database, target, tmp_path):
    copied(database, target)
    # A server that was killed: its last commits are in the WAL alone. And then its database was damaged.
    with closing(Store(database)) as server:
        commit(server, msgspec.structs.replace(HEAD, beat=99), intent(999))
        for name in ("leases.db", "leases.db-wal"):
            (tmp_path / f"crashed-{name}").write_bytes((tmp_path / name).read_bytes())
    (tmp_path / "crashed-leases.db-wal").rename(tmp_path / "leases.db-wal")
    database.write_bytes(b"rubbish" * 1_000)

    restored = brought_back(target, database)
    assert not (tmp_path / "leases.db-wal").exists()
    assert (tmp_path / "leases.db.before-restore-1-wal").exists()
    assert head_of(database) == restored.head
    assert copied(database, tmp_path / "again").intents == 200


def test_an_interrupted_restore_changes_nothing_but_tokens(database, target, tmp_path):
    copied(database, target)

    def interrupt(_done: int, _pages: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(target, database, now_ms=0, progress=interrupt)
    assert head_of(database) == HEAD
    assert names(tmp_path) == {"leases.db", "leases.backup", "leases.db.lock"}


def test_a_restore_that_fails_at_the_swap_leaves_the_old_database(database, target, monkeypatch):
    copied(database, target)

    def fail(_partial: Path, _target: Path, *, replace: bool) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(backup, "_publish", fail)
    with pytest.raises(OSError, match="No space"):
        brought_back(target, database)
    assert head_of(database) == HEAD


def test_a_restored_database_and_its_lock_file_agree(database, target):
    copied(database, target)
    head = brought_back(target, database).head
    entry = look(database).entry
    assert entry.token_reserved >= head.token
    assert entry.term == head.term
    lock = LockFile(database)
    try:
        admitted = lock.admit(head_of(database), address="")
    finally:
        lock.release()
    assert lock.notice is None
    assert admitted.token >= head.token


# How far it jumps


def contents(head: Head = HEAD, *, taken_ms: int | None = 1_000) -> Contents:
    return Contents(bytes=0, head=head, leases=0, intents=0, events=0, taken_ms=taken_ms)


def test_tokens_and_terms_jump_above_the_copy_and_all_that_is_known():
    head = jumped(contents(), Known(term=50, token=9_000, seq=700), now_ms=1_000)
    assert head.token == 9_000 + backup.TOKEN_JUMP
    assert head.term == 50 + backup.TERM_JUMP
    assert jumped(contents(), Known(), now_ms=1_000).token == HEAD.token + backup.TOKEN_JUMP


def test_events_go_on_after_the_newest_that_is_known_and_else_with_a_jump():
    assert jumped(contents(), Known(seq=700), now_ms=0).seq == 700
    assert jumped(contents(), Known(seq=7), now_ms=0).seq == HEAD.seq
    assert jumped(contents(), Known(), now_ms=0).seq == HEAD.seq + backup.SEQ_JUMP


def test_a_log_that_jumped_has_not_outlived_itself():
    years_ms = 10**12
    jump = jumped(contents(), Known(), now_ms=years_ms).seq - HEAD.seq
    assert jump <= Limits().events_kept_max / 2


def test_one_copy_brought_back_twice_by_machines_that_know_nothing_of_each_other_repeats_no_token():
    first = jumped(contents(), Known(), now_ms=60_000)
    second = jumped(contents(), Known(), now_ms=90_000)
    granted_between = 30_000 * 30  # the fastest server there is
    assert second.token > first.token + granted_between
    assert second.term > first.term + 100
    assert second.seq > first.seq + 10_000


def test_a_wall_clock_that_went_back_takes_nothing_from_the_jump():
    assert jumped(contents(taken_ms=90_000), Known(), now_ms=0).token == HEAD.token + backup.TOKEN_JUMP
    assert jumped(contents(taken_ms=None), Known(), now_ms=90_000).token == HEAD.token + backup.TOKEN_JUMP


def test_a_farewell_in_the_copy_does_not_count():
    said = msgspec.structs.replace(HEAD, farewell=True)
    head = jumped(contents(said), Known(), now_ms=0)
    assert not head.farewell
    assert head.clock_ms == HEAD.clock_ms


def test_a_thousand_restores_stay_exact_in_every_language():
    assert 1_000 * backup.TOKEN_JUMP < 2**53
