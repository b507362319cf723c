"""Before a file that failed is used again, it is proved that it can be written."""

# ruff: noqa: ASYNC240  # nothing else runs in these loops

from pathlib import Path

import apsw
import pytest
from engine_words import commit, keys

from openintent.engines.base import Put
from openintent.engines.sqlite import SqliteEngine
from openintent.errors import EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


@pytest.fixture
async def engine(database: Path):
    engine = SqliteEngine(database)
    yield engine
    await engine.close()


@pytest.fixture
def onlooker(engine: SqliteEngine, database: Path):
    """Another program that has the file open. Without one, closing the file would write everything to it by itself."""
    connection = apsw.Connection(str(database))
    connection.execute("SELECT * FROM journal").get  # noqa: B018  # to read is to be there
    yield connection
    connection.close()


async def test_everything_is_in_the_database_itself_before_the_next_commit(engine, database, onlooker):
    await commit(engine, Put("k", b"1"))
    wal = Path(f"{database}-wal")
    assert wal.stat().st_size > 0
    await engine.reopen()
    assert wal.stat().st_size == 0
    assert await keys(engine) == ["k"]


async def test_a_file_that_cannot_be_written_is_not_used(engine, onlooker):
    await commit(engine, Put("k", b"1"))
    onlooker.execute("BEGIN; SELECT * FROM journal").get  # noqa: B018  # from here on it needs the WAL as it is
    await commit(engine, Put("l", b"1"))
    with pytest.raises(EngineUnavailable, match="cannot be written"):
        await engine.reopen()
    with pytest.raises(EngineUnavailable):
        await commit(engine, Put("m", b"1"))
    onlooker.execute("COMMIT")
    await engine.reopen()
    assert await keys(engine) == ["k", "l"]
