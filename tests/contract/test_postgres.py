"""What only PostgreSQL promises: settings that are refused, places that are not ours, long keys, and poolers."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import server_postgres
from engine_words import commit, everything, keys, puts
from remote_words import one_commit, refusal
from server_postgres import GUARDED, Server

from openintent.engines import open_engine, postgres, postgres_tables
from openintent.engines.base import Delete, DeleteRange, Deposed, Head, Put
from openintent.engines.memory import MemoryEngine
from openintent.errors import EngineUnavailable

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).resolve().parents[2] / "docs" / "engines" / "postgres.md"


@pytest.fixture(scope="module")
def kind() -> str:
    return "postgres"


# Settings


@pytest.mark.parametrize("name", ["synchronous_commit", "fsync", "full_page_writes"])
async def test_a_server_that_does_not_sync_is_refused_unless_that_is_allowed(server: Server, name: str):
    url = server.fresh_url()
    with server.set(**{name: "off"}):
        assert f"is set to {name}=off, which loses commits" in await refusal(url)
        weak = await one_commit(f"{url}&durability=weak")
        assert not weak.guarantees.durable
        assert weak.notice is not None
        assert f"{name}=off" in weak.notice
    engine = open_engine(url)
    assert engine.guarantees.durable
    await engine.close()


@pytest.mark.parametrize("of", ["DATABASE", "ROLE"])
async def test_a_database_or_a_role_that_does_not_wait_is_refused(server: Server, of: str):
    name = server.fresh_database()
    server.run(f"CREATE ROLE {name}r SUPERUSER LOGIN")
    server.run(f"ALTER {of} {name}{'r' if of == 'ROLE' else ''} SET synchronous_commit = off")
    assert "synchronous_commit=off" in await refusal(server.url(name).replace("postgres@", f"{name}r@"))


async def test_a_setting_that_becomes_unsafe_under_us_stops_the_next_commit(server: Server):
    url = server.fresh_url()
    engine = open_engine(url)
    head = await commit(engine, Put("k", b""))
    with server.set(synchronous_commit="off"):
        with pytest.raises(EngineUnavailable, match="synchronous_commit=off"):
            await commit(engine, Put("l", b""))
        assert await engine.head() == head
    await commit(engine, Put("m", b""))
    assert await keys(engine) == ["k", "m"]
    await engine.close()


@pytest.mark.parametrize(("value", "told"), [("local", True), ("remote_write", True), ("on", False)])
async def test_an_operator_is_told_what_a_standby_may_lack(
    server: Server, caplog: pytest.LogCaptureFixture, value: str, told: bool
):
    with server.set(synchronous_commit=value):
        engine = await one_commit(server.fresh_url())
    assert ((engine.notice is not None) and f"synchronous_commit={value}" in engine.notice) is told
    assert caplog.text.count("engine warned notice=") == int(told)
    assert engine.guarantees.durable


async def test_an_isolation_that_the_database_prefers_does_not_matter(server: Server):
    name = server.fresh_database()
    server.run(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    one, other = open_engine(server.url(name)), open_engine(server.url(name))
    for number in range(10):
        head = Head(number + 1, 1)
        attempts = [each.commit(expect=Head(number, int(number > 0)), head=head, changes=[]) for each in (one, other)]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        assert sorted(map(type, outcomes), key=str) == sorted([Deposed, type(None)], key=str)
    await one.close()
    await other.close()


# Who cannot come in


async def test_a_wrong_password_is_one_line_without_the_password(server: Server):
    server.run(f"DROP ROLE IF EXISTS {GUARDED}")
    server.run(f"CREATE ROLE {GUARDED} SUPERUSER LOGIN PASSWORD 'right'")
    url = server.fresh_url().replace("postgres@", f"{GUARDED}:wrong-secret@")
    said = await refusal(url)
    assert f'password authentication failed for user "{GUARDED}"' in said
    assert "wrong-secret" not in said
    await one_commit(url.replace("wrong-secret", "right"))


async def test_a_database_that_is_not_there_is_one_line(server: Server):
    assert 'database "nowhere" does not exist' in await refusal(server.url("nowhere"))


async def test_a_server_that_is_too_old_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgres, "SERVER_VERSION_MIN", 99)
    assert "and 99 is the oldest that serves" in await refusal(server.fresh_url())


async def test_a_role_that_may_not_create_the_schema_is_told_so(server: Server):
    name = server.fresh_database()
    server.run(f"CREATE ROLE {name}r LOGIN")
    url = server.url(name).replace("postgres@", f"{name}r@")
    assert f"permission denied for database {name}" in await refusal(url)
    server.run(f"CREATE SCHEMA openintent AUTHORIZATION {name}r", name)  # what its operator would do
    await one_commit(url)


# Schemas


async def test_a_schema_of_a_newer_version_is_refused(server: Server):
    url = server.fresh_url()
    await one_commit(url)
    schema = url.rpartition("=")[2]
    server.run("UPDATE @.meta SET value = '2'".replace("@", schema))
    assert f"a schema {schema} that was written by a newer openintent (format 2, this one knows 1)" in await refusal(
        url
    )


async def test_a_schema_of_another_program_is_refused_and_left_alone(server: Server):
    url = server.fresh_url()
    schema = url.rpartition("=")[2]
    server.run(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.journal (x int)")
    assert f"has a schema {schema} of another program" in await refusal(url)
    tables = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('@')"
    assert server.run(tables.replace("@", schema)) == [("journal",)]


# Keys


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_the_encoding_of_the_database_has_no_say_in_keys(server: Server, encoding: str):
    wanted = f"TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
    engine = open_engine(server.url(server.fresh_database(wanted)))
    names = ["\0", "a", "ÿ", "中", "\U0001f600"]
    await commit(engine, *puts(names[::-1]))
    assert await keys(engine) == names
    await engine.close()


async def test_keys_too_long_for_an_index_are_kept_in_their_order(server: Server):
    """An agent may choose names that make a key of 3 KB; no fold may stumble over it."""
    rng = random.Random(3)
    long = postgres_tables.KEY_BYTES
    noise = "".join(chr(rng.randrange(0x1F300, 0x1FAFF)) for _ in range(900))  # 3,600 bytes, hard to compress
    names = [noise[:place] + end for place in (100, long // 4 - 1, long // 4, long // 4 + 1, 900) for end in "\0az"]
    names += [noise[: long // 4] + end + noise[:500] for end in "abc"]
    engine, model = open_engine(server.fresh_url()), MemoryEngine()
    for each in (engine, model):
        await commit(each, *puts(rng.sample(names, len(names))))
        await commit(each, Put(names[-1], b"again"), Delete(names[-2]), DeleteRange(names[2], names[4]))
        await commit(each, DeleteRange(noise + "a", noise + "b"))
    assert await everything(engine) == await everything(model)
    first, last = noise[: long // 4] + "a", noise + "z"
    for reverse in (False, True):
        found = await engine.scan(first, last, limit=4, reverse=reverse)
        assert found == await model.scan(first, last, limit=4, reverse=reverse)
        assert len(found) == 4
    await engine.close()


# Poolers


@pytest.fixture
def pooled(server: Server) -> Iterator[str]:
    """A pooler that gives a session to another after every transaction."""
    with server_postgres.pooler(server) as port:
        yield server.fresh_url().replace(f":{server.port}/", f":{port}/")


async def test_behind_a_pooler_of_transactions_all_is_the_same(pooled: str):
    engines = [open_engine(pooled) for _ in range(3)]
    for term in range(1, 13):
        engine = engines[term % 3]
        await commit(engine, Put(f"{term:02}", b""), term=term)
        await commit(engine, *puts(["x", "y"]), Delete("x"))
        assert await keys(engine) == [f"{number:02}" for number in range(1, term + 1)] + ["y"]
    with pytest.raises(EngineUnavailable):
        await keys(engines[2])  # it does not write any more
    for engine in engines:
        await engine.close()


# What an operator sees


async def test_an_operator_can_look_at_the_tables_as_the_documentation_says(server: Server):
    name = server.fresh_database()
    await one_commit(server.url(name))
    shown = [block.partition("```")[0] for block in DOCS.read_text(encoding="utf-8").split("```sql\n")[1:]]
    looks = [line for block in shown for line in block.split(";") if line.strip().startswith("SELECT")]
    assert len(looks) >= 3
    for look in looks:
        assert len(server.run(look, name)) == 1
