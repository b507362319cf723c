"""The lines that carry requests, against servers that misbehave."""

import asyncio
import os
import socket
import threading
from contextlib import closing, suppress

import pytest
from askers import CHUNKED, Asker
from misbehaving import Peer, answering, ok, serving

from openintent.client.http import awaited, idle, messages, sync
from openintent.client.http.messages import NoAnswer, NotSent

pytestmark = pytest.mark.anyio


# Connections


async def test_a_connection_is_used_again(ask):
    with serving(answering(ok(b"1"), ok(b"2"))) as server:
        assert [(await ask(server.url)).body for _ in range(3)] == [b"1", b"2", b"2"]
        assert server.connections == 1


async def test_a_server_that_closes_is_connected_to_anew(ask):
    with serving(answering(ok(b"1", "Connection: close"))) as server:
        assert [(await ask(server.url)).body for _ in range(2)] == [b"1", b"1"]
        assert server.connections == 2


async def test_what_was_idle_for_long_is_not_used_again(plain, monkeypatch):
    now_s = 1_000.0
    monkeypatch.setattr(idle, "boot_s", lambda: now_s)
    with serving(answering(ok())) as server:
        await plain(server.url)
        now_s += idle.IDLE_S_MAX - 0.1
        await plain(server.url)
        assert server.connections == 1
        now_s += idle.IDLE_S_MAX
        await plain(server.url)
        assert server.connections == 2


async def test_only_so_many_connections_stay_idle(plain, monkeypatch):
    monkeypatch.setattr(idle, "IDLE_MAX", 1)
    met = threading.Barrier(2)

    def behave(peer: Peer) -> None:
        while peer.request():
            met.wait(5.0)
            peer.send(ok())

    with serving(behave) as server:
        await asyncio.gather(plain(server.url), plain(server.url))
        assert await asyncio.to_thread(server.hung_up.acquire, timeout=5.0)


async def test_a_connection_that_the_server_closed_is_replaced_unseen(ask):
    def once(peer: Peer) -> None:
        peer.request()
        peer.send(ok())

    with serving(once) as server:
        for number in range(1, 4):
            assert (await ask(server.url)).status == 200
            assert await asyncio.to_thread(server.hung_up.acquire, timeout=5.0)
            assert server.connections == number


async def test_a_loop_that_was_busy_finds_out_that_the_server_closed():
    def once(peer: Peer) -> None:
        peer.request()
        peer.send(ok())

    asker = Asker(awaited.Line())
    with serving(once) as server:
        for _ in range(2):
            assert (await asker(server.url)).status == 200
            assert server.hung_up.acquire(timeout=5.0)  # the loop stands still meanwhile
    await asker.line.close()


async def test_what_could_not_even_begin_to_be_sent_is_taken_to_another_connection(monkeypatch):
    """As if the server had closed it in the instant after we looked."""

    def once(peer: Peer) -> None:
        peer.request()
        peer.send(ok())
        peer.reset()

    monkeypatch.setattr(sync.Connection, "quiet", lambda _: True)
    asker = Asker(sync.Line())
    with serving(once) as server, closing(asker.line):
        for _ in range(2):
            assert (await asker(server.url)).status == 200
            assert server.hung_up.acquire(timeout=5.0)
        assert len(server.requests) == 2


async def test_a_server_may_be_started_anew_between_two_requests(ask):
    def once(peer: Peer) -> None:
        peer.request()
        peer.send(ok())

    with serving(once) as server:
        await ask(server.url)
        assert await asyncio.to_thread(server.hung_up.acquire, timeout=5.0)
    with serving(once, port=int(server.url.rpartition(":")[2])) as server:
        await ask(server.url)
        assert server.connections == 1


async def test_what_may_have_arrived_is_not_sent_again(ask):
    """The connection was good before. That the answer is missing says nothing about the request."""

    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(ok())
        peer.request()
        peer.reset()

    with serving(behave) as server:
        await ask(server.url)
        with pytest.raises(NoAnswer):
            await ask(server.url)
        assert len(server.requests) == 2


async def test_what_comes_unasked_is_nobodys_answer(plain):
    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(ok(b"1") + ok(b"for nobody"))
        peer.request()

    with serving(behave) as server:
        assert (await plain(server.url)).body == b"1"
        assert (await plain(server.url)).body == b"1"
        assert server.connections == 2


async def test_where_nobody_listens_nothing_was_sent(ask):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(NotSent):
        await ask(url)


async def test_a_name_that_does_not_exist_is_nowhere(plain):
    for url in ("http://nowhere.invalid", "http://" + "a" * 70, "unix:/nowhere/s.sock"):
        with pytest.raises(NotSent):
            await plain(url)


async def test_connecting_has_a_bound_of_its_own(ask):
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(full.getsockname())
        with pytest.raises(NotSent):
            await ask(f"http://127.0.0.1:{full.getsockname()[1]}", connect_s=0.2, timeout_s=60.0)


async def test_a_connection_does_not_gather_what_is_sent(plain):
    with serving(answering(ok())) as server:
        await plain(server.url)
        (kept,) = next(iter(plain.line._idle._kept.values()))
        sock = kept._socket if isinstance(kept, sync.Connection) else kept._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# Answers


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"abc"),
        CHUNKED + b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\ncontent-LENGTH: 3\r\n\r\nabc",
    ],
)
async def test_every_way_of_ending_an_answer_is_understood(ask, raw):
    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(raw)

    with serving(behave) as server:
        for _ in range(2):
            assert (await ask(server.url)).body == b"abc"
            assert await asyncio.to_thread(server.hung_up.acquire, timeout=5.0)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 20",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        CHUNKED + b"1\r\na",
        CHUNKED + b"a\r\nabc",
        b"220 mail.example ESMTP\r\n\r\n",
    ],
)
@pytest.mark.parametrize("how", ["closed", "reset"])
async def test_an_answer_that_breaks_off_is_none(ask, raw, how):
    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(raw)
        if how == "reset":
            peer.reset()

    with serving(behave) as server, pytest.raises(NoAnswer):
        await ask(server.url)
    assert len(server.requests) == 1


async def test_a_large_answer_arrives_whole(ask):
    body = os.urandom(5 << 20)
    with serving(answering(ok(body))) as server:
        assert (await ask(server.url)).body == body


async def test_an_answer_without_bounds_is_none(plain, monkeypatch):
    monkeypatch.setattr(messages, "BODY_BYTES_MAX", 1_000)
    with serving(answering(ok(b"x" * 1_001))) as server, pytest.raises(NoAnswer, match="longer"):
        await plain(server.url)
    with serving(answering(ok(b"", "X: " + "x" * (70 << 10)))) as server, pytest.raises(NoAnswer, match="no end"):
        await plain(server.url)


@pytest.mark.parametrize("part", ["head", "body"])
async def test_an_answer_that_trickles_is_too_late(plain, part):
    """The bound is on all of it, not on each of its bytes."""

    def behave(peer: Peer) -> None:
        peer.request()
        answer = ok(b"x" * 1_000)
        if part == "body":
            head = answer.index(b"x" * 1_000)
            peer.send(answer[:head])
            answer = answer[head:]
        peer.send_slowly(answer, 0.02)

    with serving(behave) as server, pytest.raises(NoAnswer, match="in time"):
        await plain(server.url, timeout_s=0.3)


async def test_a_large_request_arrives_whole(ask):
    body = os.urandom(5 << 20)
    with serving(answering(ok())) as server:
        assert (await ask(server.url, body=body)).status == 200
        assert server.requests[0].endswith(body)


async def test_a_request_that_nobody_reads_is_too_late(plain):
    with serving(lambda peer: peer._server.ended.wait()) as server, pytest.raises(NoAnswer, match="in time"):
        await plain(server.url, body=b"x" * (20 << 20), timeout_s=0.3)


@pytest.mark.parametrize("polite", [True, False])
async def test_who_is_refused_before_it_has_said_all_hears_why(plain, polite):
    def behave(peer: Peer) -> None:
        peer.receive(10)
        peer.send(ok(b"too long", "Connection: close", status="413 Too Large"))
        while polite and peer.receive(65_536):
            pass

    with serving(behave) as server:
        answer = await plain(server.url, body=b"x" * (5 << 20))
        assert (answer.status, answer.body) == (413, b"too long")
