"""PostgreSQL when something breaks, as far as only PostgreSQL breaks so: its locks, its sessions, its standbys."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg
import pytest
import server_postgres
from engine_words import add, commit, everything, following, keys, puts, until
from faultproxy import FaultProxy
from proving import Figures, size
from server_postgres import Server

from openintent.engines import journaled, open_engine, postgres_tables
from openintent.engines.base import Delete, Engine, Head, OutcomeUncertain, Put
from openintent.engines.postgres import PostgresStore, open_store
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def kind() -> str:
    return "postgres"


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = open_store(url)
    yield store
    await store.close()


async def contents(engine: Engine) -> dict[str, bytes]:
    return {record.key: record.value for record in await everything(engine)}


def sessions(server: Server, which: str) -> int:
    return len(server.run("SELECT pid FROM pg_stat_activity WHERE @".replace("@", which)))


# A commit whose answer does not come


async def test_whatever_is_cut_nothing_acknowledged_is_lost_and_nothing_comes_back(
    far: Engine, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, figures: Figures
):
    """Commits and the folds behind them, each cut off somewhere; who is in doubt begins a new term and looks."""
    for name in ("SLICE_WEIGHT", "IDLE_WEIGHT"):
        monkeypatch.setattr(journaled, name, 5)
    rng, count = random.Random(11), size("postgres_cuts", 40)
    expected, doubts = {"first": b""}, 0
    for number in range(count):
        head = await far.head()
        way = rng.choice([proxy.requests, proxy.answers])
        way.cut_after = rng.choice([None, 0, rng.randrange(500), rng.randrange(2_000)])
        key, value = f"{rng.randrange(50)}", b"%d" % number
        try:
            await far.commit(expect=head, head=following(head), changes=[Put(key, value)])
            expected[key] = value
            with suppress(EngineError):  # a scan folds first; if the cut is still to come, it comes then
                assert await contents(far) == expected, number
            way.cut_after = None
        except EngineError as error:
            way.cut_after = None
            doubts += isinstance(error, OutcomeUncertain)
            await far.reopen()
            await commit(far, term=(await far.head()).term + 1)
            found = await contents(far)
            assert found in (expected, expected | {key: value}), number
            expected = found
    proxy.heal()
    await far.reopen()
    assert await contents(far) == expected
    assert doubts >= count // 5
    figures.add("cut connections to PostgreSQL", commits=count, in_doubt=doubts, lost=0, seed=11)


async def test_a_wait_for_a_standby_that_was_cancelled_is_a_doubt(server: Server, engine: Engine):
    """The server calls that a success, with a warning beside it."""
    await commit(engine, Put("first", b""))
    with server.set(synchronous_standby_names="nobody"):
        while True:  # soon the server has read its new setting
            committing = asyncio.create_task(commit(engine, Put("second", b"")))
            await until(lambda now=committing: now.done() or sessions(server, "wait_event = 'SyncRep'") == 1)
            if not committing.done():
                break
        server.run("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        with pytest.raises(OutcomeUncertain, match="canceling wait for synchronous replication"):
            await committing


async def test_a_cancelled_commit_happens_all_the_same_and_the_line_stays_in_step(store: PostgresStore):
    head = await add(store, 1, term=1)
    next_head = following(head)
    tasks = {
        asyncio.create_task(store.append(expect=head, head=next_head, row=(2, b"=\x90"))),
        asyncio.create_task(store.head()),
    }
    await asyncio.sleep(0)  # both have asked
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    assert await store.head() == next_head
    assert [number for number, _ in await store.rows(after=0, limit=9)] == [1, 2]


# Folds


def rows(server: Server, url: str) -> list[object]:
    """The numbers of the rows in the journal."""
    return [number for (number,) in server.run(place(url, "SELECT number FROM @.journal ORDER BY 1"))]


def place(url: str, statement: str) -> str:
    return statement.replace("@", url.rpartition("=")[2])


async def test_a_fold_that_fails_takes_no_row_out(server: Server, url: str, engine: Engine):
    await commit(engine, *puts(["a", "bad", "c"]))
    server.run(place(url, "ALTER TABLE @.records ADD CONSTRAINT c CHECK (key <> 'bad')"))
    with pytest.raises(EngineUnavailable, match='violates check constraint "c"'):
        await keys(engine)
    assert rows(server, url) == [1]
    await commit(engine, Delete("c"))
    server.run(place(url, "ALTER TABLE @.records DROP CONSTRAINT c"))
    assert await keys(engine) == ["a", "bad"]
    assert rows(server, url) == []


async def test_rows_that_were_folded_and_came_back_are_noticed_and_kept(server: Server, url: str, store: PostgresStore):
    """A standby was promoted that has all commits and lacks the newest fold: what it says is only in those rows."""
    for number in (1, 2):
        await add(store, number, term=1)
    await store.fold(term=1, ranges=[], values={"k": b"1"}, upto=1)
    server.run(place(url, "INSERT INTO @.journal VALUES (1, '='); DELETE FROM @.records; SELECT 1"))
    with pytest.raises(EngineCorrupt, match="has lost what was folded"):
        await store.fold(term=1, ranges=[], values={"l": b"2"}, upto=2)
    assert rows(server, url) == [1, 2]


async def test_appends_pass_a_fold_by_and_a_takeover_waits_for_it(server: Server, url: str, engine: Engine):
    head = await commit(engine, term=1)
    async with await psycopg.AsyncConnection.connect(server.url()) as fold:
        await fold.execute(place(url, postgres_tables.HOLD).encode(), ("20s", 1))
        for _ in range(3):
            head = await commit(engine, Put("k", b""))
        taking = asyncio.create_task(commit(engine, term=2, member="b"))
        await until(lambda: taking.done() or sessions(server, "wait_event_type = 'Lock'") == 1)
        assert not taking.done()
        assert server.run(place(url, "SELECT term, beat FROM @.head")) == [(1, head.beat)]
    assert (await taking).term == 2


async def test_a_fold_of_a_frozen_process_ends_by_itself(server: Server, url: str, engine: Engine):
    await commit(engine, term=1)
    frozen = await psycopg.AsyncConnection.connect(server.url())
    await frozen.execute(place(url, postgres_tables.HOLD).encode(), ("0.2s", 1))
    await commit(engine, term=2, member="b")
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        await frozen.execute("SELECT 1")
    await frozen.close()


# The server


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_a_restart_between_two_commits_goes_unnoticed(server: Server, engine: Engine, how: int):
    """Even if it was a crash: what was acknowledged is there, and a line that has ended is not used."""
    for number in range(20):
        head = await commit(engine, Put(f"{number:02}", b""))
    server.stop(how)
    with pytest.raises(EngineUnavailable, match="refused"):
        await engine.head()
    server.start()
    await engine.commit(expect=head, head=following(head), changes=[Put("more", b"")])
    assert len(await keys(engine)) == 21


async def test_a_backend_that_is_killed_ends_our_line_and_no_more(server: Server, engine: Engine):
    """PostgreSQL then restarts all its sessions, also those that had nothing to do with it."""
    head = await commit(engine, Put("first", b""))
    other = await psycopg.AsyncConnection.connect(server.url())
    os.kill(other.info.backend_pid, signal.SIGKILL)

    def all_are_gone() -> bool:
        with suppress(psycopg.OperationalError):  # it starts anew just now
            return sessions(server, "application_name = 'openintent'") == 0
        return False

    await until(all_are_gone)
    await engine.reopen()
    assert await engine.head() == head
    await commit(engine, Put("second", b""))
    assert await keys(engine) == ["first", "second"]
    await other.close()


async def test_a_head_that_is_gone_is_not_taken_for_a_new_place(server: Server, url: str, engine: Engine):
    await commit(engine)
    server.run(place(url, "DELETE FROM @.head"))
    with pytest.raises(EngineCorrupt, match="head is empty"):
        await engine.head()


async def test_a_standby_is_refused_and_one_that_took_over_too_early_is_noticed(server: Server, url: str):
    with server_postgres.standby_of(server) as standby:
        both = open_engine(url.replace(f":{server.port}/", f":{server.port},127.0.0.1:{standby.port}/"))
        alone = open_engine(url.replace(f":{server.port}/", f":{standby.port}/"))
        try:
            with pytest.raises(EngineUnavailable, match="is read-only: a standby"):
                await alone.head()
            await commit(both, Put("k", b""))  # of this the standby never hears
            server.stop(signal.SIGQUIT)
            with pytest.raises(EngineUnavailable):
                await both.head()
            standby.run("SELECT pg_promote()")
            for call in (both.head, both.reopen, lambda: commit(both)):
                with pytest.raises(EngineCorrupt, match="has lost commits that were durable"):
                    await call()
            assert await alone.head() == Head()  # who was not there cannot know
        finally:
            await both.close()
            await alone.close()
            server.start()
