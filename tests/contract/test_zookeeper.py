"""What only ZooKeeper promises: who is let in, which versions are refused, and what is found there."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import server_zookeeper
from engine_words import commit, following, opened
from posts import frame, read_frame
from remote_words import one_commit, refusal
from server_zookeeper import Server

from openintent.engines import zookeeper
from openintent.engines.base import Head, Put
from openintent.errors import EngineCorrupt

pytestmark = pytest.mark.anyio

NO_NODE = -101


@pytest.fixture(scope="module")
def kind() -> str:
    return "zookeeper"


@asynccontextmanager
async def pretender() -> AsyncIterator[str]:
    """Somebody who greets as ZooKeeper does, and knows of no node."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(frame(struct.pack(">iiqi16s?", 0, 4_000, 1, 16, bytes(16), False)))
        while not reader.at_eof():
            try:
                (xid,) = struct.unpack_from(">i", await read_frame(reader))
            except asyncio.IncompleteReadError:
                break
            writer.write(frame(struct.pack(">iqi", xid, 1, NO_NODE)))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        yield f"zookeeper://127.0.0.1:{listener.sockets[0].getsockname()[1]}/place"


# Who cannot come in


async def test_who_hangs_up_at_once_is_one_line():
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listener:
        said = await refusal(f"zookeeper://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    assert "cannot be reached: it hung up on us" in said


async def test_who_says_nothing_is_one_line():
    async def keep_quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(keep_quiet, "127.0.0.1", 0) as listener:
        said = await refusal(f"zookeeper://127.0.0.1:{listener.sockets[0].getsockname()[1]}?timeout=0.3")
    assert "cannot be reached: no answer within 0.3 s" in said


async def test_a_version_that_is_too_old_is_refused():
    async with pretender() as url:
        assert "is older than 3.5" in await refusal(url)


@pytest.mark.parametrize(
    ("members", "survives"),
    [(0, False), (1, False), (2, False), (3, True)],
)
def test_members_that_have_no_vote_are_not_counted(members: int, survives: bool):
    lines = [f"server.{n}=127.0.0.1:1:2:participant;127.0.0.1:3" for n in range(members)]
    text = "\n".join([*lines, "server.9=127.0.0.1:1:2:observer;127.0.0.1:3", "version=0"])
    store = zookeeper.open_store("zookeeper://h")
    store._tell(zookeeper.Node(text.encode(), 0, 0))
    assert store.guarantees.survives_node_loss is survives


def test_all_parts_of_a_url_are_read():
    url = "zookeeper://h1,h2:1,[::1],[::1]:2/one/tw%20o?auth=digest:a%26b:c:d&timeout=2&tls=yes&ca=x"
    place = zookeeper.open_store(url)._place
    assert place.hosts == ("h1:2181", "h2:1", "[::1]:2181", "[::1]:2")
    assert (place.path, place.auth, place.timeout_s) == ("/one/tw o", ("digest", "a&b:c:d"), 2.0)
    assert place.tls == {"ca": "x"}
    assert place.above() == ["/one"]
    assert zookeeper.open_store("zookeeper://h")._place.path == "/openintent"
    assert "c:d" not in place.name


# What is there already


async def write(server: Server, path: str, value: bytes) -> None:
    store = zookeeper.open_store(server.fresh_url())
    await (await store._front.call()).commit([("create", path, value)])
    await store.close()


async def test_nodes_of_another_program_are_not_touched(server: Server):
    await write(server, "/others", b"theirs")
    assert "has nodes of another program there; name another path" in await refusal(server.url("others"))
    await write(server, "/empty", b"")
    await write(server, "/empty/child", b"")
    assert "has nodes of another program there" in await refusal(server.url("empty"))


async def test_a_newer_format_is_refused(server: Server):
    await write(server, "/newer", b"openintent 2")
    said = await refusal(server.url("newer"))
    assert "written by a newer openintent (openintent 2, this one knows openintent 1)" in said


async def test_a_node_that_an_operator_has_made_is_used(server: Server):
    await write(server, "/made", b"")
    await one_commit(server.url("made"))


# Users


async def test_only_the_user_that_made_the_nodes_is_let_in(server: Server):
    url = server.fresh_url()
    await one_commit(f"{url}?auth=digest:ann:right")
    for stranger in (url, f"{url}?auth=digest:ann:wrong-secret", f"{url}?auth=digest:bob:right"):
        said = await refusal(stranger)
        assert "lets us not in: wrong user or password in ?auth=" in said
        assert "wrong-secret" not in said
    async with opened(f"{url}?auth=digest:ann:right") as engine:
        assert (await engine.head()).beat == 1


# TLS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the library leaves a socket unclosed
async def test_both_sides_show_their_certificates(installed: None, certificate: Path):
    cert, key = certificate / "cert.pem", certificate / "key.pem"
    (port,) = server_zookeeper.free_ports(1)
    settings = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(certificate / "both.pem"),
        "ssl.trustStore.location": str(cert),
    }
    with server_zookeeper.started(**settings):
        url = f"zookeeper://127.0.0.1:{port}/place?tls=yes&timeout=30"  # the first handshake of a server takes seconds
        await one_commit(f"{url}&ca={cert}&cert={cert}&key={key}")
        assert "CERTIFICATE_VERIFY_FAILED" in await refusal(url)
        assert "cannot be reached" in await refusal(f"{url}&ca={cert}")
        assert "No such file" in await refusal(f"{url}&ca={cert}.not")


# The head


async def test_commits_that_vanish_are_noticed(server: Server):
    url = server.fresh_url()
    async with opened(url) as engine, opened(url) as other:
        await commit(engine, Put("k", b""))
        store: Any = other._store
        call = await store._front.call()
        await call.commit([("set_data", store._place.head, zookeeper.encode_head(Head()))])
        with pytest.raises(EngineCorrupt, match="has lost commits that were durable"):
            await engine.head()
        with pytest.raises(EngineCorrupt, match="has lost commits that were durable"):
            await engine.commit(expect=Head(0, 1, 1), head=Head(0, 2, 2), changes=[])
        await call.commit([("delete", store._place.head)])
        with pytest.raises(EngineCorrupt, match="has lost commits that were durable"):
            await engine.head()


async def test_a_version_is_compared_when_its_count_begins_anew(server: Server, monkeypatch: pytest.MonkeyPatch):
    """After -2 comes -1, which means any version. Nobody can count so far in a test: here another one is the last."""
    url = server.fresh_url()
    store, other = zookeeper.open_store(url), zookeeper.open_store(url)
    monkeypatch.setattr(zookeeper, "LAST_VERSION", 1)
    heads = [Head()]
    for _ in range(4):
        await other.head()
        heads.append(following(heads[-1]))
        await store.append(expect=heads[-2], head=heads[-1], row=None)
    assert await store.head() == await other.head() == heads[-1]
    (node,) = await (await store._front.call()).get(store._place.head)
    assert node is not None
    assert node.version == 5  # four commits, one of which counted twice
    await store.close()
    await other.close()
