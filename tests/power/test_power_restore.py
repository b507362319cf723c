"""Power cuts during a backup and a restore: a copy under its name is whole, and a place has the old or the new."""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw
import msgspec
import pytest
from powercheck import fill
from powerdisk import Image, Journal
from powervfs import recorded
from proving import size

from openintent import records
from openintent.engines.backup import back_up, restore
from openintent.engines.base import Head, Put
from openintent.engines.lockfile import LockFile
from openintent.engines.sqlite_database import Store
from openintent.errors import EngineError
from openintent.model import Intent

FATES = size("power_restore_fates", 20)  # of each of the last instants
LAST = 12  # the old gives way to the new in these; before, pages are copied to a file of no importance
OLD = Head(term=7, beat=3, rev=9, token=700, seq=0)
COPY = Head(term=3, beat=3, rev=9, token=300, seq=0)
RUBBISH = b"rubbish" * 1_000


class Done(NamedTuple):
    """The call has returned."""


class Found(NamedTuple):
    head: Head
    titles: tuple[str, ...]


def commit(store: Store, head: Head, title: str) -> None:
    """Enough for some pages."""
    text = Random(title).randbytes(2_000).hex()
    changes = tuple(
        Put(f"i/{number}", records.encode(Intent(id=str(number), title=title, description=text)))
        for number in range(20)
    )
    store.append(msgspec.msgpack.encode(head), changes, msgspec.msgpack.encode(changes))


def make(path: Path, head: Head, title: str) -> Path:
    with closing(Store(path)) as store:
        commit(store, head, title)
    return path


def read(path: Path) -> Found:
    with closing(Store(path)) as store:
        if store._db.pragma("integrity_check") != "ok":
            raise EngineError("damaged")
        store.fold_all()
        found = store.scan("i/", "i0", limit=100, reverse=False)
        titles = {records.decode(record.key, record.value).title for record in found}
        return Found(store.head, tuple(sorted(titles)))


def closed(home: Path) -> Found:
    return read(make(home / "leases.db", OLD, "old"))


def killed(home: Path) -> Found:
    """The server died: its last commits are in the WAL alone."""
    source = make(home.parent / "killed.db", msgspec.structs.replace(OLD, beat=1), "old")
    with closing(Store(source)) as store:
        store.append(msgspec.msgpack.encode(OLD), (), msgspec.msgpack.encode(()))
        for ending in ("", "-wal"):
            shutil.copy(f"{source}{ending}", home / f"leases.db{ending}")
    return Found(OLD, ("old",))


def damaged(home: Path) -> None:
    """As `killed`, and the database cannot be read any more: the WAL stays behind."""
    killed(home)
    (home / "leases.db").write_bytes(RUBBISH)


def deleted(home: Path) -> Found:
    """Somebody has deleted the database, but not the journal that would have been rolled back into it."""
    source = make(home.parent / "deleted.db", OLD, "old")
    with closing(apsw.Connection(str(source))) as db:
        db.pragma("journal_mode", "delete")
        db.pragma("cache_size", 1)
        with db:
            db.execute("UPDATE journal SET head = x''")
            db.execute("INSERT INTO journal (head, changes) VALUES (x'', zeroblob(500000))")  # too much to be held back
            shutil.copy(f"{source}-journal", home / "leases.db-journal")
    return Found(Head(), ())


class Stage:
    """A folder with an old database, a copy of another one elsewhere, and a place for images."""

    def __init__(self, folder: Path) -> None:
        self.home, self.place, self.elsewhere = (folder / name for name in ("home", "image", "elsewhere"))
        for made in (self.home, self.place, self.elsewhere):
            made.mkdir()
        self.database = self.home / "leases.db"
        make(self.elsewhere / "source.db", COPY, "new")
        self.copy = self.elsewhere / "copy"
        back_up(self.elsewhere / "source.db", self.copy, now_ms=1_000, replace=False, progress=lambda *_: None)

    def journal(self) -> Journal:
        files = {path.name: path.read_bytes() for path in self.home.iterdir() if not path.name.endswith("-shm")}
        return Journal(Image(files))

    def cuts(self, journal: Journal) -> Iterator[tuple[bool, Image]]:
        """Many instants: whether the call had returned by then, and what was left, which is in its place."""
        [(returned, _)] = journal.notes(Done)
        end = len(journal.steps)
        instants = [*range(0, end - LAST, 7), *FATES * list(range(end - LAST, end + 1))]
        for instant, image in journal.cuts(instants, Random(3)):
            fill(self.place, image)
            yield instant >= returned, image


@pytest.fixture
def stage(folder):
    return Stage(folder)


def ended_at(stage: Stage) -> Found | None:
    """What is there to be opened, if anything."""
    try:
        return read(stage.place / "leases.db")
    except (EngineError, apsw.Error):
        return None


@pytest.mark.parametrize("before", [closed, killed, damaged, deleted])
def test_a_restore_that_the_power_cuts_leaves_the_old_database_or_the_new_one(stage, before, figures):
    old = before(stage.home)
    journal = stage.journal()
    with recorded(journal, stage.home):
        restored = restore(stage.copy, stage.database, now_ms=2_000, progress=lambda *_: None)
        journal.mark(Done())
    new = Found(restored.head, ("new",))
    seen = Counter()
    for returned, image in stage.cuts(journal):
        lock = LockFile(stage.place / "leases.db")
        found = ended_at(stage)
        assert found == new or (found == old and not returned)
        assert found is not None or image.files["leases.db"] == RUBBISH, "it is not even the old one"
        if found == new:
            assert lock.admit(found.head, address="").token >= new.head.token
        lock.release()
        seen[found] += 1
    assert set(seen) == {old, new}
    what = f"power cuts during a restore, where the old database was {before.__name__}"
    figures.add(what, images=seen.total(), old=seen[old], new=seen[new], neither=0)


def test_the_old_database_is_kept_durably(stage):
    closed(stage.home)
    journal = stage.journal()
    with recorded(journal, stage.home):
        restored = restore(stage.copy, stage.database, now_ms=2_000, progress=lambda *_: None)
        journal.mark(Done())
    for _ in (returned for returned, _ in stage.cuts(journal) if returned):
        assert read(stage.place / restored.kept.name) == Found(OLD, ("old",))


@pytest.mark.parametrize("replace", [False, True])
def test_a_copy_that_is_there_under_its_name_is_whole(stage, replace):
    target = stage.home / "leases.backup"
    if replace:
        back_up(stage.elsewhere / "source.db", target, now_ms=1_000, replace=False, progress=lambda *_: None)
    source = make(stage.elsewhere / "newer.db", OLD, "newer")
    journal = stage.journal()
    with recorded(journal, stage.home):
        back_up(source, target, now_ms=1_000, replace=replace, progress=lambda *_: None)
        journal.mark(Done())
    new, old = Found(OLD, ("newer",)), Found(COPY, ("new",)) if replace else None
    for returned, image in stage.cuts(journal):
        found = read(stage.place / target.name) if target.name in image.files else None
        assert found == new or (found == old and not returned)


def test_what_an_older_restore_kept_is_not_taken_for_a_part_of_what_is_kept_now(stage):
    deleted(stage.home)
    for _ in range(2):
        kept = restore(stage.copy, stage.database, now_ms=2_000, progress=lambda *_: None).kept
    assert kept.name == "leases.db.before-restore-2"
    assert (stage.home / "leases.db.before-restore-1-journal").exists()
