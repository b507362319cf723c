"""What the doctor says of engines on servers: one line for each thing that can be wrong, and what to do."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import server_etcd
import server_postgres
import server_redis
from engine_words import commit

from openintent.cli import doctor_checks as checks
from openintent.cli.doctor_checks import Finding
from openintent.cli.doctor_engine import Served, remedy_for
from openintent.cli.doctor_facts import gather
from openintent.engines import open_engine
from openintent.engines.base import Head

MEMBER = "http://10.0.0.7:8000#ab12"


def said_of(url: str) -> list[Finding]:
    facts = gather({"engine": url, "port": 0}, config=None, env={"OPENINTENT_LEADER_TTL_SECONDS": "1"})
    findings = list(checks.engine(facts))
    assert all("\n" not in finding.message for finding in findings)
    assert all("secret" not in f"{finding.message} {finding.remedy}" for finding in findings)
    return findings


def trouble(url: str) -> Finding:
    (finding,) = said_of(url)
    assert finding.level == "problem", finding
    assert finding.remedy
    return finding


def lead(url: str, **changed: object) -> None:
    """As a server leaves it that was killed, if nothing else is said."""

    async def leading() -> None:
        engine = open_engine(url)
        await commit(engine, term=4, member=MEMBER, token=1_234, seq=99, **changed)
        await engine.close()

    asyncio.run(leading())


def test_an_engine_that_can_be_used_says_what_it_is_and_that_nobody_leads(served_url):
    first, *notes, leader = said_of(served_url)
    software = {"postgresql": "PostgreSQL ", "etcd": "etcd 3.", "redis": "Redis ", "zookeeper": "ZooKeeper"}
    assert first.level == "ok"
    assert first.message.startswith(software[served_url.partition(":")[0]])
    assert "commits survive a crash, not the loss of its machine" in first.message
    assert {note.level for note in notes} <= {"note"}
    assert (leader.level, leader.message) == ("ok", "nobody has led yet; it is empty")


def test_the_last_leader_is_named_and_that_it_is_silent(served_url):
    lead(served_url)
    leader = said_of(served_url)[-1]
    assert leader.level == "note"
    assert "http://10.0.0.7:8000 led last, in term 4, and has written nothing for 1." in leader.message
    assert "1,234 is the newest token, 99 the newest event" in leader.message


def test_one_that_said_farewell_is_not_waited_for(served_url):
    lead(served_url, farewell=True)
    leader = said_of(served_url)[-1]
    assert leader.level == "ok"
    assert "nobody leads; http://10.0.0.7:8000 said farewell in term 4" in leader.message


def test_who_writes_leads():
    """By facts: a leader that writes while we look."""
    facts = gather({"engine": "memory:", "port": 0}, config=None, env={})
    served = Served("redis://h", software="Redis 7", head=Head(term=4, beat=2, member=MEMBER), moved=True)
    (_, leader) = checks.engine(replace(facts, served=served))
    assert (leader.level, "http://10.0.0.7:8000 leads, in term 4" in leader.message) == ("ok", True)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:secret@127.0.0.1:1/x",
        "redis://ann:secret@127.0.0.1:1/0",
        "etcd://ann:secret@127.0.0.1:1/some",
        "zookeeper://127.0.0.1:1/some",
    ],
)
def test_an_unreachable_server(url):
    finding = trouble(f"{url}?timeout=1")
    assert "failed" in finding.message or "refused" in finding.message
    assert "start it, or correct host and port" in finding.remedy


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from openintent.cli.doctor_engine import served_facts
found = served_facts(sys.argv[2], leader_ttl_s=1.0)
print(found.trouble, found.remedy, sep="; ")
"""


@pytest.mark.parametrize(("scheme", "library"), [("postgresql", "psycopg"), ("redis", "redis"), ("zookeeper", "kazoo")])
def test_a_missing_library(scheme, library):
    """In a process of its own, which has none."""
    words = [sys.executable, "-c", WITHOUT, library, f"{scheme}://127.0.0.1:1/0"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    extra = "postgres" if scheme == "postgresql" else scheme
    assert f"{scheme}: needs the library {library}" in told
    assert f"pip install 'openintent-leases[{extra}]'; install it, as it says" in told


def test_a_url_that_cannot_be():
    assert trouble("mongodb://ann:secret@h/x").remedy == "correct the URL of the engine"
    assert trouble("etcd://ann:secret@h/x").remedy == "correct the URL of the engine"


# What only some of them have


@pytest.fixture
def postgres(servers) -> server_postgres.Server:
    servers.fresh_url("postgres")
    return server_postgres.RUNNING[0]


@pytest.fixture
def redis(servers) -> server_redis.Server:
    servers.fresh_url("redis")
    return server_redis.RUNNING[0]


@pytest.fixture(scope="module")
def guarded(servers) -> Iterator[server_etcd.Server]:
    servers.fresh_url("etcd")  # skips, where it is not installed
    with server_etcd.started() as server:
        server.ask("/v3/auth/user/add", name="root", password="right")  # noqa: S106  # of a server that lives as long as the test
        server.ask("/v3/auth/role/add", name="root")
        server.ask("/v3/auth/user/grant", user="root", role="root")
        server.ask("/v3/auth/enable")
        yield server


def test_postgresql_with_a_wrong_password_or_an_unsafe_setting(postgres):
    postgres.run(f"DROP ROLE IF EXISTS {server_postgres.GUARDED}")
    postgres.run(f"CREATE ROLE {server_postgres.GUARDED} LOGIN PASSWORD 'right'")
    wrong = trouble(postgres.fresh_url().replace("postgres@", f"{server_postgres.GUARDED}:secret@"))
    assert "password authentication failed" in wrong.message
    assert "correct the user and the password" in wrong.remedy
    with postgres.set(synchronous_commit="off"):
        unsafe = trouble(postgres.fresh_url())
    assert "synchronous_commit=off, which loses commits" in unsafe.message
    assert "change that on the server" in unsafe.remedy


def test_redis_with_a_wrong_password_or_an_unsafe_setting(redis):
    wrong = trouble(redis.fresh_url().replace("//", "//guarded:secret@"))
    assert "correct the user and the password" in wrong.remedy
    with redis.set(appendfsync="everysec"):
        unsafe = trouble(redis.fresh_url())
        weak = said_of(redis.fresh_url("&durability=weak"))
    assert "appendfsync=everysec, which loses commits" in unsafe.message
    assert "change that on the server" in unsafe.remedy
    assert "a crash may lose commits" in weak[0].message
    assert weak[1].level == "note"


def test_etcd_with_a_wrong_password_and_with_none(guarded):
    wrong = trouble(guarded.url("some").replace("://", "://root:secret@"))
    assert "wrong user or password" in wrong.message
    assert "correct the user and the password" in wrong.remedy
    assert "correct the user and the password" in trouble(guarded.url("some")).remedy


def test_zookeeper_with_a_wrong_password(servers):
    url = servers.fresh_url("zookeeper")
    lead(f"{url}?auth=digest:ann:right")
    wrong = trouble(f"{url}?auth=digest:ann:secret")
    assert "wrong user or password" in wrong.message
    assert "correct the user and the password" in wrong.remedy


def test_etcd_that_stores_nothing_any_more(servers):
    url = servers.fresh_url("etcd")
    server = server_etcd.RUNNING[0]
    alarm = {"alarm": "NOSPACE", "memberID": server.ask("/v3/maintenance/status")["header"]["member_id"]}
    server.ask("/v3/maintenance/alarm", action="ACTIVATE", **alarm)
    try:
        full = trouble(url)
    finally:
        server.ask("/v3/maintenance/alarm", action="DEACTIVATE", **alarm)
    assert "NOSPACE: it stores nothing" in full.message
    assert "compact and defragment it" in full.remedy


def test_a_postgresql_that_streams_from_another_is_no_engine(postgres):
    with server_postgres.standby_of(postgres, streams=True) as standby:
        url = postgres.fresh_url()
        lead(url)  # at the primary, and all of it is soon at the standby
        schema = url.partition("schema=")[2]
        while not standby.run(f"SELECT to_regclass('{schema}.head') IS NOT NULL")[0][0]:
            pass
        assert postgres.run("SELECT state FROM pg_stat_replication") == [("streaming",)]
        finding = trouble(url.replace(f":{postgres.port}/", f":{standby.port}/"))
    assert "is read-only: a standby? The engine must be the primary" in finding.message
    assert "name the primary" in finding.remedy


def test_a_redis_that_follows_another_is_no_engine(redis, tmp_path):
    follows = {"replicaof": f"127.0.0.1 {redis.port}"}
    with redis.set(repl_diskless_sync_delay="0"), server_redis.started(tmp_path, **follows) as replica:
        while replica.run("INFO", "replication")["master_link_status"] != "up":
            pass
        finding = trouble(replica.fresh_url())
    assert "is a replica: the engine must be the primary" in finding.message
    assert "name the primary" in finding.remedy


PORT = re.compile(r"127\.0\.0\.1:(\d+)")


@asynccontextmanager
async def reworded(url: str, said: bytes, instead: bytes) -> AsyncIterator[str]:
    """A way to a real server on which one word is another, of the same length."""

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                sink.write(re.sub(said, instead, data))
        sink.close()
        with suppress(OSError):
            await sink.wait_closed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", int(PORT.search(url)[1]))
        carried.append(asyncio.gather(carry(reader, here), carry(there, writer)))

    carried: list[asyncio.Future[list[None]]] = []
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        yield PORT.sub(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}", url)
    await asyncio.gather(*carried)  # who asked has hung up: nothing of this may outlive the loop


# No old server can be installed here. So a new one is used, and only what tells its version is changed on the way.
OLD = {
    "postgres": (rb"(?<=server_version\0)\d\d", b"12", r"is PostgreSQL 12, and 13 is the oldest that serves$"),
    "redis": (rb"(?<=redis_version:)\d", b"5", r"is Redis 5\.\S+, and 6\.2 is the oldest that serves$"),
    "etcd": (rb'(?<="etcdserver":"3\.)\d', b"3", r"is 3\.3\.\d+, and 3\.4 is the oldest that serves$"),
    # Before 3.5 there was no such node.
    "zookeeper": (rb"/zookeeper/config", b"/zookeeper/nobody", r"is older than 3\.5, which is the oldest that serves$"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", OLD)
async def test_a_server_of_an_old_version(name, servers):
    said, instead, message = OLD[name]
    async with reworded(servers.fresh_url(name), said, instead) as url:
        finding = await asyncio.to_thread(trouble, url)
    assert re.search(message, finding.message)
    assert finding.remedy == "upgrade that server"


SAID = [
    ("redis://h:1/0 is Redis 5.0, and 6.2 is the oldest that serves", "upgrade that server"),
    ("postgresql://h/x is PostgreSQL 12, and 13 is the oldest that serves", "upgrade that server"),
    ("etcd at http://h:1 is 3.3, and 3.4 is the oldest that serves", "upgrade that server"),
    ("zookeeper://h/x is older than 3.5, which is the oldest that serves", "upgrade that server"),
    ("etcd at http://h:1 is 3.5.0, 3.5.1 or 3.5.2, which may lose commits in a crash; upgrade it, or", "upgrade"),
    ("postgresql://h/x is read-only: a standby? The engine must be the primary", "name the primary"),
    ("redis://h:1/0 is a replica: the engine must be the primary", "name the primary"),
    ("redis://h:1/0 is in a cluster, and the keys are at h:2: name that one", "name the primary"),
    ("etcd at http://h:1: NOSPACE: it stores nothing; mend that", "compact and defragment"),
    ("redis://h:1/0 does not show its settings: if appendonly=yes", "change that on the server"),
    ("redis://h:1/0 has keys that were written by a newer openintent", "update openintent-leases"),
    ("postgresql://h/x has a schema s of another program; name another", "name another place"),
    ("etcd at http://h:1 offers no JSON gateway", "start it"),
    ("something else altogether", "docs/engines"),
]


@pytest.mark.parametrize(("said", "remedy"), SAID)
def test_each_trouble_has_its_remedy(said, remedy):
    assert remedy in remedy_for(said)


def test_the_places_named_in_remedies_are_there():
    folder = Path(__file__).parents[2] / "docs" / "engines"
    assert (folder / "README.md").is_file()
    assert (folder / "etcd.md").is_file()
