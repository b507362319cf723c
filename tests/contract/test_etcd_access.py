"""Who is let in by etcd, which versions of it serve, and what an operator is told if that fails."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import server_etcd
from engine_words import commit, keys, opened
from remote_words import one_commit, refusal
from server_etcd import Server

from openintent.engines import etcd, etcd_gateway, open_engine
from openintent.engines.base import Head, OutcomeUncertain, Put
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

pytestmark = pytest.mark.anyio

ROOT = {"name": "root", "password": "root"}


@pytest.fixture(scope="module")
def kind() -> str:
    return "etcd"


@asynccontextmanager
async def pretender(version: str, *, status: str = "200 OK") -> AsyncIterator[str]:
    """Somebody who says that it is etcd, and knows nothing more."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        text, said = (version, "200 OK") if asked.startswith(b"GET /version") else ("?", status)
        writer.write(f"HTTP/1.1 {said}\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        yield f"etcd://127.0.0.1:{listener.sockets[0].getsockname()[1]}/place"


# Who cannot come in


async def test_what_is_not_etcd_is_one_line():
    async with pretender("hello") as url:
        assert "is no etcd" in await refusal(url)


async def test_a_version_that_is_too_old_is_refused():
    async with pretender('{"etcdserver": "3.3.27"}') as url:
        assert "is 3.3.27, and 3.4 is the oldest that serves" in await refusal(url)


async def test_a_server_without_the_gateway_is_told_how_to_get_it(installed: None):
    with server_etcd.started(enable_grpc_gateway="false") as bare:
        assert "offers no JSON gateway; start it with --enable-grpc-gateway" in await refusal(bare.url())


async def test_an_error_that_is_not_etcds_own_leaves_a_commit_in_doubt(server: Server):
    """Such as that of a proxy, which may have passed the commit on."""
    async with pretender('{"etcdserver": "3.4.23"}', status="502 Bad Gateway") as url:
        place = etcd.open_store(url)
        place._gateway._admitted = True
        with pytest.raises(OutcomeUncertain, match="HTTP 502"):
            await place.append(expect=Head(), head=Head(1), row=None)
        await place.close()


@pytest.mark.parametrize(
    ("version", "members", "weak"),
    [
        ((3, 4, 20), 1, True),
        ((3, 4, 20), 3, False),
        ((3, 4, 21), 1, False),
        ((3, 5, 0), 3, True),
        ((3, 5, 2), 3, True),
        ((3, 5, 3), 3, False),
        ((3, 5, 4), 1, True),
        ((3, 5, 5), 1, False),
        ((3, 6, 0), 1, False),
    ],
)
def test_versions_that_lose_commits_are_known(version: tuple[int, ...], members: int, weak: bool):
    assert (etcd_gateway.weakness_of(version, members=members) is not None) is weak


async def test_a_version_that_loses_commits_is_refused_unless_that_is_allowed(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(etcd_gateway, "weakness_of", lambda *_, **__: "is broken")
    url = server.fresh_url()
    assert "is broken; upgrade it, or allow that: ?durability=weak" in await refusal(url)
    engine = await one_commit(f"{url}?durability=weak")
    assert not engine.guarantees.durable
    assert "is broken" in (engine.notice or "")


def test_all_parts_of_a_url_are_read():
    place = etcd.open_store("etcd://a%40b:c%3Ad@h1,h2:1,[::1],[::1]:2/one/tw%20o?timeout=2&compact=yes")._place
    assert place.endpoints == ("http://h1:2379", "http://h2:1", "http://[::1]:2379", "http://[::1]:2")
    assert (place.user, place.password, place.prefix) == ("a@b", "c:d", b"one/tw o/")
    assert (place.timeout_s, place.compact, place.weak) == (2.0, True, False)
    assert etcd.open_store("etcds://h")._place.prefix == b"openintent/"


# Users


@pytest.fixture(scope="module")
def guarded(installed: None) -> Iterator[Server]:
    """Ann may write below `anns`, and nowhere else."""
    with server_etcd.started() as server:
        for user in (ROOT, {"name": "ann", "password": "right"}):
            server.ask("/v3/auth/user/add", **user)
        first, last = (b64encode(key).decode() for key in (b"anns/", b"anns0"))
        server.ask("/v3/auth/role/add", name="writer")
        server.ask("/v3/auth/role/add", name="root")
        permission = {"permType": "READWRITE", "key": first, "range_end": last}
        server.ask("/v3/auth/role/grant", name="writer", perm=permission)
        server.ask("/v3/auth/user/grant", user="ann", role="writer")
        server.ask("/v3/auth/user/grant", user="root", role="root")
        server.ask("/v3/auth/enable")
        yield server


def as_ann(server: Server, password: str, prefix: str) -> str:
    return server.url(prefix).replace("://", f"://ann:{password}@")


async def test_a_wrong_password_is_one_line_without_the_password(guarded: Server):
    said = await refusal(as_ann(guarded, "wrong-secret", "anns"))
    assert "wrong user or password" in said
    assert "wrong-secret" not in said


async def test_who_gives_no_password_is_told_that_one_is_needed(guarded: Server):
    assert "wants a user: etcd://user:password@" in await refusal(guarded.url("anns"))


async def test_a_place_that_is_not_granted_is_one_line(guarded: Server):
    assert "permission denied: grant the user's role" in await refusal(as_ann(guarded, "right", "others"))


async def test_a_token_that_the_server_has_forgotten_is_renewed(guarded: Server):
    async with opened(as_ann(guarded, "right", "anns")) as engine:
        await commit(engine, Put("k", b""))
        guarded.stop()
        guarded.start()
        await commit(engine, Put("l", b""))
        assert await keys(engine) == ["k", "l"]
        await engine.reopen()


async def test_a_password_that_nobody_asks_for_is_mentioned(server: Server):
    engine = await one_commit(server.fresh_url().replace("://", "://ann:right@"))
    assert "asks nobody for a password" in (engine.notice or "")


# TLS


async def test_both_sides_show_their_certificates(installed: None, certificate: Path):
    cert, key = str(certificate / "cert.pem"), str(certificate / "key.pem")
    settings = {"cert_file": cert, "key_file": key, "trusted_ca_file": cert, "client_cert_auth": "true"}
    with server_etcd.started(secure=True, **settings) as server:
        await one_commit(server.url(options=f"?ca={cert}&cert={cert}&key={key}"))
        assert "CERTIFICATE_VERIFY_FAILED" in await refusal(server.url())
        assert "certificate" in await refusal(server.url(options=f"?ca={cert}"))
        await refusal(server.url().replace("etcds:", "etcd:"))


@pytest.mark.parametrize("option", ["ca", "cert"])
def test_a_certificate_that_is_not_there_is_one_line(option: str):
    with pytest.raises(EngineUnavailable, match=f"files for TLS .{option}. cannot be read: .*No such file"):
        open_engine(f"etcds://h/place?{option}=nowhere.pem")


# Several endpoints


async def test_endpoints_of_two_clusters_are_noticed(server: Server, guarded: Server):
    both = [server.port, guarded.port]
    async with opened(f"etcd://127.0.0.1:{both[0]},127.0.0.1:{both[1]}/anns") as engine:
        await commit(engine)
        engine._store._gateway._leave()
        with pytest.raises(EngineError):
            await engine.head()
    place = etcd.open_store(server.fresh_url())
    await place.head()
    place._gateway._cluster_id += 1
    with pytest.raises(EngineCorrupt, match="of another cluster"):
        await place.head()
    await place.close()
