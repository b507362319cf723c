"""Lines that carry several requests at a time, requests that are given up, and answers without an end."""

import asyncio
import socket
import threading
from contextlib import closing, suppress
from typing import Any

import pytest
from askers import CHUNKED, LINES, WHO, Asker
from misbehaving import Peer, Server, answering, ok, serving

from openintent.client.http import awaited, sync
from openintent.client.http.messages import Answer, Asked, NoAnswer

pytestmark = pytest.mark.anyio


# At the same time


async def test_requests_at_the_same_time_have_connections_of_their_own(ask):
    met = threading.Barrier(3)

    def behave(peer: Peer) -> None:
        while request := peer.request():
            met.wait(5.0)
            peer.send(ok(request[-1:]))

    with serving(behave) as server:
        for _ in range(2):
            told = await asyncio.gather(*(ask(server.url, body=body) for body in (b"1", b"2", b"3")))
            assert [answer.body for answer in told] == [b"1", b"2", b"3"]
        assert server.connections == 3


async def test_cancelling_closes_the_connection():
    arrived = threading.Event()

    def behave(peer: Peer) -> None:
        request = peer.request()
        arrived.set()
        if request.endswith(b"late"):
            peer.request()  # until the other side hangs up
            return
        peer.send(ok(b"mine"))

    asker = Asker(awaited.Line())
    with serving(behave) as server:
        task = asyncio.create_task(asker(server.url, body=b"late"))
        assert await asyncio.to_thread(arrived.wait, 5.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.hung_up.acquire, timeout=5.0)
        assert (await asker(server.url, body=b"next")).body == b"mine"
    await asker.line.close()


async def test_an_interrupted_thread_leaves_no_answer_for_the_next(monkeypatch):
    def behave(peer: Peer) -> None:
        if peer.request().startswith(b"GET /late "):
            peer.request()
            peer.send(ok(b"late"))
        else:
            peer.send(ok(b"mine"))

    with serving(behave) as server, closing(sync.Line()) as line:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(sync.Connection, "receive", _interrupted)
            line.exchange(server.url, Asked("GET", "/late", WHO, {}, None, 5.0, 5.0))
        assert line.exchange(server.url, Asked("GET", "/next", WHO, {}, None, 5.0, 5.0)).body == b"mine"


def _interrupted(*_: object) -> bytes:
    raise KeyboardInterrupt


# Answers without an end


async def test_pieces_come_as_they_are_sent(ask):
    heard = threading.Event()

    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED + b"2\r\nab\r\n")
        heard.wait(5.0)
        peer.send(b"1\r\nc\r\n0\r\n\r\n")

    with serving(behave) as server:
        incoming = await ask.listen(server.url)
        heard.set()
        assert b"".join(await ask.pieces(incoming)) == b"abc"
        await ask.close(incoming)


async def test_a_refusal_to_be_listened_to_is_an_answer(ask):
    with serving(answering(ok(b"no", status="410 Gone"))) as server:
        answer = await ask.listen(server.url)
        assert isinstance(answer, Answer)
        assert (answer.status, answer.body) == (410, b"no")


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 500 Oh\r\nContent-Length: 5\r\n\r\na"])
async def test_an_answer_that_never_began_is_none(ask, raw):
    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(raw)

    with serving(behave) as server, pytest.raises(NoAnswer):
        await ask.listen(server.url)


@pytest.mark.parametrize("silent", [True, False])
async def test_a_stream_that_falls_silent_or_breaks_off_fails(ask, silent):
    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED + b"2\r\nab\r\n")
        if silent:
            peer.request()

    with serving(behave) as server:
        incoming = await ask.listen(server.url, silence_s=0.2)
        with pytest.raises(NoAnswer):
            await ask.pieces(incoming)
        await ask.close(incoming)


@pytest.mark.parametrize("kind", ["plain sync", "library sync"])
async def test_whoever_listens_can_be_interrupted_from_another_thread(kind):
    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED + b"2\r\nab\r\n")
        peer.request()

    asker = Asker(LINES[kind]())
    with serving(behave) as server, closing(asker.line):
        incoming = await asker.listen(server.url, silence_s=60.0)
        reading = asyncio.create_task(asker.pieces(incoming))
        incoming.interrupt()
        with suppress(NoAnswer):
            await asyncio.wait_for(reading, 5.0)
        incoming.close()
        incoming.interrupt()  # there is nothing left, and no harm in it


async def test_a_listener_that_does_not_keep_up_leaves_the_rest_with_the_server(monkeypatch):
    monkeypatch.setattr(awaited, "AHEAD_BYTES_MAX", 10)
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"

    def behave(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED)
        for _ in range(1_000):
            peer.send(chunk)
        peer.send(b"0\r\n\r\n")

    line = awaited.Line()
    with serving(behave) as server:
        incoming: Any = await Asker(line).listen(server.url)
        pieces = incoming.pieces()
        total = len(await anext(pieces))
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert incoming._bytes < 1 << 20
        async for piece in pieces:
            total += len(piece)
        assert total == 1_000 * 65_536
        await incoming.close()
    await line.close()


def test_the_server_of_these_tests_counts(tmp_path):
    with serving(answering(ok())) as server, socket.create_connection(("127.0.0.1", int(server.url[17:]))) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(100) == ok()
        assert isinstance(server, Server)
        assert (server.connections, len(server.requests)) == (1, 1)
