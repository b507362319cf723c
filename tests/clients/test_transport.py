"""What a failure of the network means. The other side is a bare socket that misbehaves on purpose."""

import asyncio
import os
import pickle
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import httpx2
import misbehaving
import pytest
from misbehaving import serving

from openintent.client import calls
from openintent.client.http import library, sync
from openintent.client.http.library import MAY_HAVE_HAPPENED, NEVER_LEFT, translated
from openintent.client.http.messages import NoAnswer, NotSent
from openintent.client.loop.transport import AsyncHttpTransport, owner
from openintent.client.transport import Addresses, HttpTransport, Identity, failure_of, line_to
from openintent.clock import boot_s
from openintent.errors import OutcomeUnknown, Unavailable

CALL = calls.get_intent("i1")
IDENTITY = Identity("a1", "secret")


class Quietly(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def listening(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            behave(self.request)

    with Quietly(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def answering(status: str, body: bytes = b"{}", headers: str = "") -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n"
    return lambda connection: connection.sendall(head.encode() + body)


def hang_up(connection: socket.socket) -> None:
    connection.close()


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@contextmanager
def transport(*urls: str, timeout_s: float = 5.0) -> Iterator[HttpTransport]:
    made = HttpTransport(Addresses(urls), lambda: IDENTITY, timeout_s=timeout_s)
    try:
        yield made
    finally:
        made.close()


def test_where_nobody_listens_nothing_happened(nobody):
    with transport(nobody) as made, pytest.raises(Unavailable) as failure:
        made.exchange(CALL)
    assert failure.value.code == "unreachable"
    assert nobody in str(failure.value)


def test_an_answer_that_never_came_leaves_it_open():
    with listening(hang_up) as url, transport(url) as made, pytest.raises(OutcomeUnknown):
        made.exchange(CALL)


def test_an_answer_that_takes_too_long_leaves_it_open():
    done = threading.Event()
    with listening(lambda _: done.wait(5.0)) as url:
        with transport(url, timeout_s=0.1) as made, pytest.raises(OutcomeUnknown):
            made.exchange(CALL)
        done.set()


def test_an_answer_that_breaks_off_leaves_it_open():
    def break_off(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

    with listening(break_off) as url, transport(url) as made, pytest.raises(OutcomeUnknown):
        made.exchange(CALL)


def test_the_time_is_taken_before_the_request_leaves():
    arrived = []

    def note(connection: socket.socket) -> None:
        arrived.append(boot_s())
        answering("200 OK")(connection)

    with listening(note) as url, transport(url) as made:
        before = boot_s()
        assert before <= made.exchange(CALL).sent_at < arrived[0]


def test_of_several_addresses_the_one_that_answers_is_kept(nobody):
    with listening(answering("200 OK")) as url, transport(nobody, url) as made:
        assert made.exchange(CALL).status == 200
        assert made._addresses.in_order() == (url, nobody)


def test_when_none_answers_nothing_happened(nobody):
    with transport(nobody, nobody + "/two") as made, pytest.raises(Unavailable):
        made.exchange(CALL)


def test_an_unknown_outcome_is_not_taken_to_another_address():
    """That is for the flow to decide: the request may have happened."""
    asked = []
    with (
        listening(hang_up) as dead,
        listening(asked.append) as other,
        transport(dead, other) as made,
    ):
        with pytest.raises(OutcomeUnknown):
            made.exchange(CALL)
        assert asked == []
        assert made._addresses.in_order() == (other, dead)


def test_a_server_that_cannot_serve_is_left_for_the_next():
    with listening(answering("503 Busy", headers="Retry-After: 2\r\n")) as url, transport(url, url + "/b") as made:
        reply = made.exchange(CALL)
        assert (reply.status, reply.retry_after) == (503, "2")
        assert made._addresses.in_order()[0].endswith("/b")


@pytest.mark.anyio
async def test_the_async_transport_means_the_same(nobody):
    made = AsyncHttpTransport(Addresses([nobody]), lambda: IDENTITY, timeout_s=1.0)
    with pytest.raises(Unavailable):
        await made.exchange(CALL)
    await made.close()
    with listening(hang_up) as url:
        made = AsyncHttpTransport(Addresses([url]), lambda: IDENTITY, timeout_s=1.0)
        with pytest.raises(OutcomeUnknown):
            await made.exchange(CALL)
        await made.close()


def _kinds(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


def test_a_shared_file_that_nobody_serves_yet_is_worth_more_patience_than_a_server_that_is_not_there():
    gone = NotSent("nobody")
    assert failure_of(gone, "http://a").code == "unreachable"
    assert failure_of(gone, "sqlite:///leases.db").code == "unavailable"


@pytest.mark.parametrize("kind", sorted(set(_kinds(httpx2.RequestError)), key=lambda kind: kind.__name__))
def test_every_failure_of_the_http_library_means_something(kind):
    if not kind.__subclasses__():
        assert issubclass(kind, NEVER_LEFT) != issubclass(kind, MAY_HAVE_HAPPENED)
        means = NotSent if issubclass(kind, NEVER_LEFT) else NoAnswer
        with pytest.raises(means, match="so it is"), translated():
            raise kind("so it is")


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://a", "http://", "", "http://a:99999", "http://a:0", "http://a/?b=c", "http://a#b"]
)
def test_what_is_no_address_is_refused_at_once(url):
    with pytest.raises(ValueError, match="address"):
        Addresses([url])


def test_the_key_is_shown_nowhere():
    assert "secret" not in repr(IDENTITY)
    assert IDENTITY.headers["X-API-Key"] == "secret"


def test_a_closed_transport_says_so(nobody):
    with transport(nobody) as made:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        made.exchange(CALL)


# Which line carries it


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_a_proxy_is_asked_for_what_is_not_on_this_machine(monkeypatch, name):
    with serving(misbehaving.answering(misbehaving.ok())) as server:
        monkeypatch.setenv(name, server.url)
        with transport("http://far.example:81") as made:
            assert made.exchange(CALL).status == 200
        assert server.requests[0].startswith(b"GET http://far.example:81/api/v1/intents/i1 HTTP/1.1\r\n")


def test_a_proxy_has_no_say_in_what_is_on_this_machine(monkeypatch, nobody):
    monkeypatch.setenv("http_proxy", nobody)
    with serving(misbehaving.answering(misbehaving.ok())) as server, transport(server.url) as made:
        assert made.exchange(CALL).status == 200


@pytest.mark.parametrize(
    ("urls", "plain"),
    [
        (["http://127.0.0.1:8000", "http://far.example/below"], True),
        (["https://far.example"], False),
        (["http://far.example", "https://far.example"], False),
        (["http://name:word@far.example"], False),
    ],
)
def test_the_library_carries_what_is_not_plain(monkeypatch, urls, plain):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert Addresses(urls).plain is plain
    with closing(line_to(Addresses(urls))) as line:
        assert isinstance(line, sync.Line if plain else library.Line)


def test_the_library_means_the_same(nobody):
    with transport(f"http://name:word@{nobody[7:]}") as made, pytest.raises(Unavailable) as failure:
        made.exchange(CALL)
    assert failure.value.code == "unreachable"
    with listening(hang_up) as url, transport(f"http://name:word@{url[7:]}") as made, pytest.raises(OutcomeUnknown):
        made.exchange(CALL)


# Who may use it


def test_a_forked_child_has_connections_of_its_own():
    with serving(misbehaving.answering(misbehaving.ok())) as server, transport(server.url) as made:
        made.exchange(CALL)
        child = os.fork()
        if child == 0:
            os._exit(0 if made.exchange(CALL).status == 200 else 1)
        _, status = os.waitpid(child, 0)
        assert (status, server.connections) == (0, 2)
        made.exchange(CALL)
        assert server.connections == 2


def test_each_event_loop_has_connections_of_its_own():
    with serving(misbehaving.answering(misbehaving.ok())) as server:
        made = AsyncHttpTransport(Addresses([server.url]), lambda: IDENTITY, timeout_s=5.0)

        async def twice() -> None:
            await made.exchange(CALL)
            await made.exchange(CALL)
            await made._pool.get(owner()).close()

        asyncio.run(twice())
        asyncio.run(twice())
        assert (server.connections, len(server.requests)) == (2, 4)


@pytest.mark.parametrize("module", ["asyncio", "httpx2", "http.client", "ssl", "openintent.server", "uvicorn"])
def test_programs_pay_only_for_what_they_use(module):
    code = "import sys, openintent; openintent.OpenIntentClient('http://far.example').close()"
    code = f"{code}; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_can_be_imported():
    import openintent

    assert [name for name in openintent.__all__ if not hasattr(openintent, name)] == []
    assert set(openintent.__all__) <= set(dir(openintent))
    assert openintent.models.Lease is openintent.Lease
    assert pickle.loads(pickle.dumps(openintent.AsyncOpenIntentClient)) is openintent.AsyncOpenIntentClient  # noqa: S301
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        openintent.nothing_of_the_kind  # noqa: B018
