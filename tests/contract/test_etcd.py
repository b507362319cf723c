"""What only etcd promises: large values in parts, its history, and a database that is full."""

import asyncio
from base64 import b64encode
from typing import Any
from urllib.error import HTTPError

import pytest
import server_etcd
from engine_words import LAST, commit, everything, keys, opened, puts
from remote_words import one_commit
from server_etcd import Server

from openintent.engines import etcd, etcd_gateway, etcd_keys
from openintent.engines.base import Delete, DeleteRange, Head, OutcomeUncertain, Put, Record
from openintent.errors import EngineCorrupt, EngineUnavailable

pytestmark = pytest.mark.anyio

BIG = 150_000  # bytes; more than a record has room for


@pytest.fixture(scope="module")
def kind() -> str:
    return "etcd"


# What is stored


async def test_parts_of_large_values_go_with_them(server: Server):
    url = server.fresh_url()
    prefix = url.rpartition("/")[2]
    large = bytes(BIG)
    async with opened(url) as engine:
        await commit(engine, *[Put(name, large) for name in ("", "a", "a\0", "a\0b", "ab", "b")], Put("c", b"small"))
        assert [len(record.value) for record in await everything(engine)] == [*6 * [BIG], 5]
        assert len(server.keys(f"{prefix}/p/")) == 6
        await commit(engine, Put("a", b"small"), Delete(""), Put("b", large[1:]))
        assert [len(record.value) for record in await everything(engine)] == [5, BIG, BIG, BIG, BIG - 1, 5]
        assert len(server.keys(f"{prefix}/p/")) == 4
        await commit(engine, DeleteRange("a\0", "ab"))
        assert await keys(engine) == ["a", "ab", "b", "c"]
        assert len(server.keys(f"{prefix}/p/")) == 2
        assert server.keys(f"{prefix}/j/") == server.keys(f"{prefix}/s/") == []


async def test_a_reverse_scan_of_several_pages_is_whole(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(etcd, "RECORDS_PER_PAGE", 7)
    names = [f"{number:03}" for number in range(40)]
    async with opened(server.fresh_url()) as engine:
        await commit(engine, *puts(names))
        for limit in (1, 7, 8, 39, 40, 41):
            found = await engine.scan("", LAST, limit=limit, reverse=True)
            assert [record.key for record in found] == names[::-1][:limit]
            assert [record.key for record in await engine.scan("", LAST, limit=limit)] == names[:limit]
        assert await engine.scan("5", "4", limit=1, reverse=True) == []


async def test_a_part_that_is_gone_is_noticed(server: Server):
    url = server.fresh_url()
    prefix = url.rpartition("/")[2]
    async with opened(url) as engine:
        await commit(engine, Put("k", bytes(BIG)))
        await everything(engine)
        server.ask("/v3/kv/deleterange", key=b64encode(server.keys(f"{prefix}/p/")[0]).decode())
        with pytest.raises(EngineCorrupt, match="parts of a record are gone"):
            await everything(engine)


async def test_commits_that_vanish_are_noticed(server: Server):
    url = server.fresh_url()
    async with opened(url) as engine:
        await commit(engine, Put("k", b""))
        prefix = f"{url.rpartition('/')[2]}/".encode()
        server.ask("/v3/kv/deleterange", key=b64encode(prefix).decode(), range_end=b64encode(prefix + b"z").decode())
        with pytest.raises(EngineCorrupt, match="has lost commits that were durable"):
            await engine.head()
        with pytest.raises(EngineCorrupt, match="has lost commits that were durable"):
            await engine.commit(expect=Head(0, 1, 1), head=Head(0, 2, 2), changes=[])


async def test_a_head_that_is_not_ours_is_noticed(server: Server):
    url = server.fresh_url()
    name = b64encode(f"{url.rpartition('/')[2]}/head".encode()).decode()
    server.ask("/v3/kv/put", key=name, value=b64encode(b"of another program").decode())
    async with opened(url) as engine:
        with pytest.raises(EngineCorrupt, match="/head is no head"):
            await engine.head()


# History


async def test_history_is_compacted_only_if_that_is_asked_for(installed: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(etcd, "COMPACT_EVERY_S", 0.0)
    monkeypatch.setattr(etcd_gateway, "REVISIONS_UNCOMPACTED", 3)
    with server_etcd.started() as server:
        for _ in range(3):
            engine = await one_commit(server.url())
        assert "has never been compacted" in (engine.notice or "")
        async with opened(server.url(options="?compact=yes")) as engine:
            for number in range(4):
                await commit(engine, Put("k", b"%d" % number))
                if engine._store._compacting is not None:
                    await engine._store._compacting
            assert await everything(engine) == [Record("k", b"3")]
        engine = await one_commit(server.url())
        assert "compacted" not in (engine.notice or "")


async def test_a_full_database_is_told_with_what_to_do(installed: None):
    with server_etcd.started(quota_backend_bytes=str(3_000_000)) as server:
        async with opened(server.url()) as engine:
            seen = await commit(engine, Put("k", b""))
            with pytest.raises(HTTPError):
                for _ in range(100):  # it learns its own size now and then only
                    server.ask("/v3/kv/put", key="eHh4", value=b64encode(bytes(500_000)).decode())
            while not server.ask("/v3/maintenance/alarm", action="GET").get("alarms"):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.01)  # it refuses by its size at first, and by the alarm a little later
            with pytest.raises(OutcomeUncertain, match="NOSPACE: it stores nothing; mend that") as full:
                await commit(engine, Put("l", b""))
            assert "etcdctl alarm disarm" in str(full.value)
            with pytest.raises(EngineUnavailable, match="NOSPACE"):
                await engine.reopen()
            told: Any = server.ask("/v3/maintenance/status")["header"]
            server.ask("/v3/kv/compaction", revision=told["revision"], physical=True)
            server.ask("/v3/maintenance/defragment")
            server.ask("/v3/maintenance/alarm", action="DEACTIVATE", memberID=told["member_id"], alarm="NOSPACE")
            await engine.reopen()
            assert await engine.head() == seen
            await commit(engine, Put("l", b""), term=2)
            assert await keys(engine) == ["k", "l"]


# Large


def test_a_request_stays_below_what_etcd_takes():
    values = {f"{number:04}": bytes(number) for number in range(3_000)} | {"big": bytes(2_700_000)}
    asked = etcd_keys.Folding(etcd_keys.Keys(b"place/"), has_parts=True)
    requests = list(asked.requests([DeleteRange("a", "b")] * 150, values, 7))
    assert max(map(len, requests)) <= 127
    assert max(sum(map(etcd_keys._size, request)) for request in requests) < 1_500_000
    stored = [each["request_put"]["key"] for request in requests for each in request if "request_put" in each]
    assert len(stored) == len(set(stored)) == 3_000 + 1 + 4
