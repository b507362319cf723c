"""What only ZooKeeper promises: who is let in, which versions are refused, and what is found there."""

import asyncio
import os
import shutil
import struct
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import server_zookeeper
from engine_words import commit, following, keys
from server_zookeeper import Server
from zookeeper_post import frame, read_frame

from openintent.engines import open_engine, zookeeper
from openintent.engines.base import Engine, Head, Put
from openintent.errors import EngineCorrupt, EngineError, EngineUnavailable

pytestmark = pytest.mark.anyio

NO_NODE = -101


@pytest.fixture(scope="session")
def installed(servers: Any) -> None:
    """For those that start a server of their own: they are skipped, too, where there is none."""
    servers.fresh_url("zookeeper")


@pytest.fixture
def server(installed: None) -> Server:
    return server_zookeeper.RUNNING[-1]


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Engine]:
    engine = open_engine(url)
    try:
        yield engine
    finally:
        await engine.close()


async def refusal(url: str) -> str:
    async with opened(url) as engine:
        with pytest.raises(EngineUnavailable) as refused:
            await engine.head()
    message = str(refused.value)
    assert "\n" not in message
    return message


async def one_commit(url: str) -> Engine:
    """The engine after one commit, closed: for what it says of itself."""
    async with opened(url) as engine:
        await commit(engine, Put("k", b""))
        assert await keys(engine) == ["k"]
    return engine


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


async def test_an_unreachable_server_is_one_line():
    (port,) = server_zookeeper.free_ports(1)
    said = await refusal(f"zookeeper://127.0.0.1:{port}/place")
    assert f"zookeeper://127.0.0.1:{port}/place cannot be reached" in said
    assert "refused" in said


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


async def test_one_member_is_durable_but_not_to_be_lost(server: Server):
    engine = await one_commit(server.fresh_url())
    assert engine.guarantees.durable
    assert not engine.guarantees.survives_node_loss
    assert not engine.guarantees.exclusive_open
    assert "has one member" in (engine.notice or "")


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


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ("", "names no host, or one that cannot be; write zookeeper://"),
        ("/place", "names no host"),
        ("h:port/place", "names no host"),
        ("h:70000/place", "names no host"),
        ("h,,g/place", "names no host"),
        ("u:secret@h/place", "are given by .auth="),
        ("h/zookeeper/config", "cannot be one of ours"),
        ("h/a/../b", "cannot be one of ours"),
        ("h/place?timeout=0", "timeout='0'"),
        ("h/place?timeout=nan", "timeout='nan'"),
        ("h/place?nonsense=1", "nonsense is no option of the ZooKeeper engine"),
        ("h/place?auth=u:secret", "auth= is not of the form digest:user:password"),
        ("h/place?auth=sasl:u:secret", "auth= is not of the form"),
        ("h/place?auth=digest:secret", "auth= is not of the form"),
        ("h/place?tls=perhaps", "tls='perhaps'"),
        ("h/place?ca=x", "ca is for TLS: add tls=yes"),
        ("h/place?tls=yes&cert=x", "cert and key go together"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_without_its_password(rest: str, why: str):
    with pytest.raises(ValueError, match=why) as refused:
        open_engine(f"zookeeper://{rest}")
    assert "secret" not in str(refused.value)


def test_all_parts_of_a_url_are_read():
    url = "zookeeper://h1,h2:1,[::1],[::1]:2/one/tw%20o?auth=digest:a%26b:c:d&timeout=2&tls=yes&ca=x"
    place = zookeeper.open_store(url)._place
    assert place.hosts == ("h1:2181", "h2:1", "[::1]:2181", "[::1]:2")
    assert (place.path, place.auth, place.timeout_s) == ("/one/tw o", ("digest", "a&b:c:d"), 2.0)
    assert place.tls == {"ca": "x"}
    assert place.above() == ["/one"]
    assert zookeeper.open_store("zookeeper://h")._place.path == "/openintent"
    assert "c:d" not in place.name


async def test_after_close_every_call_is_refused(server: Server):
    engine = await one_commit(server.fresh_url())
    for call in (engine.head(), engine.reopen(), commit(engine)):
        with pytest.raises(EngineError, match="is closed"):
            await call


async def test_the_next_host_is_asked_if_one_cannot_be_reached(server: Server):
    (dead,) = server_zookeeper.free_ports(1)
    for _ in range(3):
        await one_commit(server.fresh_url().replace("127.0.0.1:", f"127.0.0.1:{dead},127.0.0.1:"))


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


async def test_who_come_at_the_same_time_find_one_place(server: Server):
    url = server.fresh_url()
    engines = [open_engine(url) for _ in range(5)]
    assert await asyncio.gather(*(engine.head() for engine in engines)) == [Head()] * 5
    seen = await commit(engines[0], Put("k", b""))
    assert await asyncio.gather(*(engine.head() for engine in engines)) == [seen] * 5
    for engine in engines:
        await engine.close()


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


@pytest.fixture(scope="module")
def certificate() -> Iterator[Path]:
    """Of the server, of its clients, and of who vouches for both."""
    if shutil.which("openssl") is None and "CI" not in os.environ:
        pytest.skip(reason="openssl is not installed")
    with server_zookeeper.own_folder() as folder:
        words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test"]
        words += [
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            f"{folder}/key.pem",
            "-out",
            f"{folder}/cert.pem",
        ]
        subprocess.run(["openssl", *words], check=True, capture_output=True)
        (folder / "both.pem").write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
        for file in folder.iterdir():
            file.chmod(0o644)
        yield folder


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
        url = f"zookeeper://127.0.0.1:{port}/place?tls=yes&timeout=3"
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


async def test_two_places_know_nothing_of_each_other(server: Server):
    url = server.fresh_url()
    async with opened(url) as one, opened(f"{url}2") as other:
        await commit(one, Put("k", b""))
        assert await other.head() == Head()
        await commit(other, Put("l", b""))
        assert (await keys(one), await keys(other)) == (["k"], ["l"])


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
