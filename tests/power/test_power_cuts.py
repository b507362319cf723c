"""Power cuts at any instant: what was acknowledged is there afterwards, and no token comes twice."""

from unittest.mock import patch

import apsw
import pytest
from powercheck import Tally, lives
from powerlife import small_bounds
from proving import size

from openintent.engines.sqlite_database import Store
from openintent.errors import EngineCorrupt
from openintent.grantor.grantor import Grantor

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

IMAGES = size("power_cuts", 150)
IMAGES_PER_LIFE = 200  # a life of 150 steps has about three thousand instants
SEED = size("power_seed", 1)
FOLD = Store.fold
# Each of these must have happened, or the cuts could not have hit it.
SITUATIONS = {"checkpoint", "WAL cut back", "name gone", "folded", "spot", "stopped", "told", "events forgotten"}


async def many(folder, figures, images: int) -> Tally:
    tally = await lives(max(3, images // IMAGES_PER_LIFE), images, folder, SEED, progress=figures.progress)
    assert SITUATIONS - set(+tally.situations) == set(), "the script never came to this"
    assert tally.torn > 0
    return tally


async def test_a_power_cut_loses_nothing_that_was_acknowledged(folder, figures):
    with small_bounds():
        tally = await many(folder, figures, IMAGES)
    figures.add(
        "power cuts",
        images=tally.images,
        torn=tally.torn,
        acknowledged=tally.commits,
        lost=tally.wrong["lost"],
        unreadable=tally.wrong["unreadable"],
        other_than_committed=tally.wrong["strange"],
        tokens_repeated=tally.wrong["repeated"],
        seed=SEED,
    )
    assert tally.wrong == {}, tally.examples
    assert tally.early > 0, "no cut came between a commit and its acknowledgement"


# What follows proves that such a loss would be seen.


async def test_without_a_sync_in_each_commit_some_are_lost_and_still_no_token_comes_twice(folder, figures):
    """The database forgets, the lock file does not; and SQLite keeps the database whole even so."""
    with small_bounds("normal"):
        tally = await many(folder, figures, max(60, IMAGES // 4))
    figures.add("power cuts without a sync in each commit", images=tally.images, lost=tally.wrong["lost"], seed=SEED)
    assert tally.wrong["lost"] > 0
    assert set(tally.wrong) == {"lost"}, tally.examples


async def test_without_any_sync_databases_are_lost(folder):
    with small_bounds("off"):
        tally = await lives(1, 40, folder, SEED)
    assert tally.wrong["lost"] > 0
    assert tally.wrong["unreadable"] > 0


async def test_a_disk_that_only_claims_to_sync_is_found_out(folder, small):
    tally = await lives(1, 40, folder, SEED, syncs=False)
    assert tally.wrong["lost"] + tally.wrong["unreadable"] > 0


async def test_a_reply_that_leaves_before_its_commit_is_found_out(folder, small):
    with patch.object(Grantor, "park", lambda _grantor, _reply, parcel: parcel.send()):
        tally = await lives(1, 40, folder, SEED)
    assert tally.wrong["lost"] > 0
    assert any("a reply hung on event" in example for example in tally.examples)


def fold_head_first(store: Store) -> None:
    """As `fold`, but in two transactions: for a moment the records are behind the head."""
    last = list(store._slice())[-1]
    with store._db:
        store._db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('head', ?)", (last.head,))
        store._db.execute("DELETE FROM journal WHERE id <= ?", (last.id,))
    FOLD(store)


async def test_records_that_are_behind_their_head_are_found_out(folder, small):
    with patch.object(Store, "fold", fold_head_first):
        tally = await lives(1, 60, folder, SEED)
    assert tally.wrong["strange"] > 0, tally.wrong


async def test_a_lock_file_without_a_sync_is_found_out(folder):
    """How often the lock file is written depends on how busy the machine is: it is given several lives."""
    tallies = []
    with small_bounds("normal"):
        while len(tallies) < 30 and not (tallies and tallies[-1].wrong["repeated"]):
            tallies.append(await lives(1, 40, folder, SEED + len(tallies), fsyncs=False))
    assert tallies[-1].wrong["repeated"] > 0, tallies


def test_a_damaged_journal_is_called_damaged(folder):
    path = folder / "leases.db"
    Store(path).close()
    db = apsw.Connection(str(path))
    db.execute("""
        PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(sql, 'changes BLOB NOT NULL', 'changes BLOB') WHERE name = 'journal';
        PRAGMA writable_schema = RESET;
        INSERT INTO journal (id, head, changes) VALUES (1, x'90', NULL);
    """)
    db.close()
    with pytest.raises(EngineCorrupt, match="cannot be read"):
        Store(path)
