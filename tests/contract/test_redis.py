"""What only Redis promises: settings that are refused, places that are not ours, and how much one call may do."""

import asyncio
import re
from pathlib import Path

import pytest
import server_redis
from engine_words import LAST, commit, everything, keys, puts
from remote_words import one_commit, refusal
from server_redis import Server

from openintent.engines import open_engine, redis_admission, redis_scripts
from openintent.engines.base import Delete, DeleteRange, OutcomeUncertain, Put
from openintent.engines.memory import MemoryEngine
from openintent.errors import EngineUnavailable

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).resolve().parents[2] / "docs" / "engines" / "redis.md"


@pytest.fixture(scope="module")
def kind() -> str:
    return "redis"


# Settings


@pytest.mark.parametrize(
    ("name", "value"), [("appendonly", "no"), ("appendfsync", "everysec"), ("no-appendfsync-on-rewrite", "yes")]
)
async def test_a_server_that_does_not_sync_every_write_is_refused_unless_that_is_allowed(
    server: Server, name: str, value: str
):
    url = server.fresh_url()
    with server.set(**{name: value}):
        for durability in ("full", "trust"):
            said = await refusal(f"{url}&durability={durability}")
            assert f"is set to {name}={value}, which loses commits" in said
        weak = await one_commit(f"{url}&durability=weak")
        assert not weak.guarantees.durable
        assert weak.notice is not None
        assert f"{name}={value}" in weak.notice


async def test_a_server_as_packaged_is_refused_with_all_that_is_wrong(server: Server):
    with server.set(appendonly="no", appendfsync="everysec"):
        assert "appendonly=no and appendfsync=everysec" in await refusal(server.fresh_url())


async def test_a_setting_that_becomes_unsafe_under_us_is_noticed_by_the_next_commit(server: Server):
    engine = open_engine(server.fresh_url())
    await commit(engine, Put("k", b""))
    with server.set(appendfsync="everysec"):
        with pytest.raises(OutcomeUncertain, match="appendfsync=everysec: the commit may not be on the disk"):
            await commit(engine, Put("l", b""))
        with pytest.raises(EngineUnavailable, match="appendfsync=everysec, which loses commits"):
            await engine.reopen()
    await engine.reopen()
    await commit(engine, Put("m", b""), term=1)
    assert await keys(engine) == ["k", "l", "m"]
    await engine.close()


async def test_a_server_that_hides_its_settings_needs_somebody_to_vouch_for_it(server: Server):
    server.run("ACL", "SETUSER", "guest", "on", ">secret", "~*", "+@all", "-config")
    url = server.fresh_url().replace("//", "//guest:secret@")
    said = await refusal(url)
    assert "does not show its settings" in said
    assert "?durability=trust" in said
    assert "?durability=weak" in said
    for durability, durable in (("trust", True), ("weak", False)):
        engine = await one_commit(f"{url}{durability}&durability={durability}")
        assert engine.guarantees.durable is durable
        assert "does not show whether it syncs every write" in (engine.notice or "")


async def test_a_setting_that_is_hidden_under_us_leaves_the_commit_in_doubt(server: Server):
    server.run("ACL", "SETUSER", "demoted", "on", ">secret", "~*", "+@all")
    engine = open_engine(server.fresh_url().replace("//", "//demoted:secret@"))
    await commit(engine, Put("k", b""))
    server.run("ACL", "SETUSER", "demoted", "-config")
    with pytest.raises(OutcomeUncertain, match="no permissions"):
        await commit(engine, Put("l", b""))
    await engine.close()


async def test_a_user_that_may_not_ask_for_what_is_needed_is_told_so(server: Server):
    server.run("ACL", "SETUSER", "blind", "on", ">secret", "~*", "+@all", "-info")
    assert "does not answer INFO, which must be allowed" in await refusal(
        server.fresh_url().replace("//", "//blind:secret@")
    )


async def test_the_rights_that_the_documentation_names_are_enough(server: Server):
    (rights,) = re.findall(r"^ACL SETUSER openintent (.*)$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    server.run("ACL", "SETUSER", *("openintent " + rights).split())
    engine = open_engine(server.url().replace("//", "//openintent:secret@"))
    await commit(engine, *puts(["a", "b"]), Delete("c"), DeleteRange("x", "y"), term=1)
    assert await keys(engine) == ["a", "b"]
    await engine.close()
    assert "permissions" in await refusal(server.fresh_url().replace("//", "//openintent:secret@"))


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_server_that_throws_keys_away_is_refused(server: Server, policy: str):
    with server.set(maxmemory_policy=policy):
        await one_commit(server.fresh_url())  # nothing is ever thrown away for want of a limit
        with server.set(maxmemory="100mb"):
            assert f"maxmemory-policy={policy}, so that keys would vanish" in await refusal(server.fresh_url())
            assert "vanish" in await refusal(server.fresh_url("&durability=weak"))
    with server.set(maxmemory="100mb"):
        await one_commit(server.fresh_url())


async def test_a_replica_is_refused_even_if_it_can_be_written(server: Server, tmp_path: Path):
    with server_redis.started(tmp_path, replicaof=f"127.0.0.1 {server.port}", replica_read_only="no") as replica:
        assert "is a replica: the engine must be the primary" in await refusal(replica.fresh_url())


# Who cannot come in


async def test_a_wrong_password_is_one_line_without_the_password(server: Server):
    server.run("ACL", "SETUSER", "guarded", "on", ">right", "~*", "+@all")
    url = server.fresh_url().replace("//", "//guarded:wrong-secret@")
    said = await refusal(url)
    assert "invalid username-password pair" in said
    assert "wrong-secret" not in said
    await one_commit(url.replace("wrong-secret", "right"))


async def test_a_password_that_is_wanted_and_not_given_is_one_line(tmp_path: Path):
    with server_redis.started(tmp_path, requirepass="se:cr@t") as guarded:
        assert "Authentication required" in await refusal(guarded.fresh_url())
        await one_commit(guarded.fresh_url().replace("//", "//:se%3Acr%40t@"))


async def test_a_database_that_is_not_there_is_one_line(server: Server):
    assert "DB index is out of range" in await refusal(f"redis://127.0.0.1:{server.port}/99")


async def test_a_server_that_is_too_old_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(redis_admission, "SERVER_VERSION_MIN", (99, 1))
    assert "and 99.1 is the oldest that serves" in await refusal(server.fresh_url())


async def test_over_tls_a_server_is_spoken_to_only_if_its_certificate_is_known(tmp_path: Path, certificate: Path):
    port, cert = server_redis.free_port(), str(certificate / "cert.pem")
    settings = {"tls_cert_file": cert, "tls_ca_cert_file": cert, "tls_key_file": str(certificate / "key.pem")}
    with server_redis.started(tmp_path, tls_port=str(port), tls_auth_clients="no", **settings):
        url = f"rediss://127.0.0.1:{port}/0"
        await one_commit(f"{url}?ssl_ca_certs={cert}")
        assert "certificate" in await refusal(url)
        assert "cannot be reached" in await refusal(url.replace("rediss:", "redis:"))


# Places


async def test_keys_of_a_newer_version_are_refused(server: Server):
    url = server.fresh_url()
    await one_commit(url)
    server.run("HSET", head_of(url), "format", "2")
    assert "has keys that were written by a newer openintent (format 2, this one knows 1)" in await refusal(url)


async def test_keys_of_another_program_are_refused_and_left_alone(server: Server):
    url = server.fresh_url()
    server.run("SET", head_of(url).replace("head", "journal"), "theirs")
    assert "without a head of ours; name others with ?prefix=" in await refusal(url)
    assert server.run("GET", head_of(url).replace("head", "journal")) == b"theirs"


def head_of(url: str) -> str:
    return f"{{{url.rpartition('=')[2]}}}:head"


@pytest.mark.slow  # a node that has just started writes nothing for two seconds
async def test_on_a_node_of_a_cluster_all_keys_are_in_one_slot_and_other_nodes_say_where(tmp_path: Path):
    with (
        server_redis.started(tmp_path / "1", cluster_enabled="yes") as one,
        server_redis.started(tmp_path / "2", cluster_enabled="yes") as two,
    ):
        one.run("CLUSTER", "ADDSLOTSRANGE", 0, 16_000)
        two.run("CLUSTER", "ADDSLOTSRANGE", 16_001, 16_383)
        assert "The cluster is down" in await refusal(one.url())  # until they know each other
        two.run("CLUSTER", "MEET", "127.0.0.1", one.port, one.bus)
        async with asyncio.timeout(30):
            while any(b"cluster_state:ok" not in node.run("CLUSTER", "INFO") for node in (one, two)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await one_commit(one.url())
        assert f"is in a cluster, and the keys are at 127.0.0.1:{one.port}: name that one" in await refusal(two.url())


# How much one call may do


@pytest.mark.parametrize("count", [redis_scripts.KEYS_PER_CALL - 1, redis_scripts.KEYS_PER_CALL, 1_201])
async def test_what_is_more_than_one_call_may_do_takes_several(server: Server, count: int):
    names = [f"k/{number:05}" for number in range(count)]
    engine, model = open_engine(server.fresh_url()), MemoryEngine()
    for each in (engine, model):
        await commit(each, *puts(names), *puts([f"l/{number:03}" for number in range(300)]))
    assert await everything(engine) == await everything(model)
    spans = [DeleteRange(f"l/{number:03}", f"l/{number:03}0") for number in range(0, 300, 2)]
    for each in (engine, model):
        await commit(each, *spans, DeleteRange("k/", "k/01100"), *puts(["k/00007", "a"]), Delete("l/001"))
    for reverse in (False, True):
        found = await engine.scan("", LAST, limit=count + 300, reverse=reverse)
        assert found == await model.scan("", LAST, limit=count + 300, reverse=reverse)
    await engine.close()


async def test_large_rows_and_large_values_are_read_in_several_portions(server: Server):
    url = server.fresh_url()
    large = redis_scripts.BYTES_PER_CALL // 3
    engine, again, model = open_engine(url), open_engine(url), MemoryEngine()
    for each in (engine, model):
        for number in range(12):
            await commit(each, Put(f"{number % 9}", bytes([number]) * large), Put(f"s{number}", b""))
    for each in (again, model):
        await commit(each, term=1)
    assert await everything(again) == await everything(model)
    for each in (engine, again):
        await each.close()


async def test_an_operator_can_look_at_the_keys_as_the_documentation_says(server: Server):
    server.run("DEL", *redis_scripts.keys_below("openintent"))
    engine = open_engine(server.url())
    await commit(engine, Put("k", b""))
    assert await keys(engine) == ["k"]
    await commit(engine, Put("l", b""))
    shown = re.findall(r"^redis-cli (.*?)(?:  +#.*)?$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    looks = [line.replace("'", "").split() for line in shown if "{openintent}" in line]
    assert len(looks) >= 4
    for look in looks:
        assert server.run(*look)
    await engine.close()
