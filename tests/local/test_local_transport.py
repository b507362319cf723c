"""How a client finds whoever serves the file, with a server on a socket file that does what the test says."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from programs import UNCLOSED

from openintent.client.http.messages import Answer, Asked, NotSent
from openintent.client.localfile import LocalLine
from openintent.client.loop.localfile import AsyncLocalLine
from openintent.client.transport import Identity

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings(UNCLOSED)]

BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1000\r\ncontent-length: 0\r\n\r\n"
FINE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Grantors:
    """One after the other under the same name; each connection has its own, and answers as it was told."""

    def __init__(self, path: Path, *answers: bytes) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._answers = iter(answers)
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        for answer in self._answers:
            self.connections += 1
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed: the test is over
                return
            with connection, suppress(OSError):  # whoever has its answer may hang up on the next
                self._answer(connection, answer)

    def _answer(self, connection: socket.socket, answer: bytes) -> None:
        request = connection.recv(65_536)
        while request:
            connection.sendall(answer)
            if b"connection: close" in request.lower():
                return
            request = connection.recv(65_536)

    def close(self) -> None:
        self._listener.close()


class Somewhere:
    """A place that is first nowhere, and then where it is said to be."""

    def __init__(self, address: str, *, looks: int = 0) -> None:
        self._address = address
        self._looks = looks

    def where(self) -> str | None:
        self._looks -= 1
        return self._address if self._looks < 0 else None

    def trouble(self) -> str:
        return "all is in motion"

    def leave(self) -> None: ...


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "s.sock"


@pytest.fixture(params=["sync", "async"])
async def ask(request, anyio_backend):
    """Asks a place for something, with that much patience, by either kind of client."""

    async def asking(place: Somewhere, *, connect_s: float = 5.0) -> Answer:
        asked = Asked("GET", "/", Identity("a1", None), {}, None, timeout_s=30.0, connect_s=connect_s)
        if request.param == "async":
            line = AsyncLocalLine(place)
            try:
                return await line.exchange("", asked)
            finally:
                await line.close()
        with closing(LocalLine(place)) as line:
            return line.exchange("", asked)

    return asking


@pytest.fixture
def grantors(path) -> Iterator[list[Grantors]]:
    made: list[Grantors] = []
    yield made
    for each in made:
        each.close()


async def test_a_request_waits_until_somebody_serves(ask, path, grantors):
    grantors.append(Grantors(path, FINE))
    assert (await ask(Somewhere(f"unix:{path}", looks=3))).status == 200


async def test_a_request_tries_again_where_nobody_listens_yet(ask, path, grantors):
    later = threading.Timer(0.1, lambda: grantors.append(Grantors(path, FINE)))
    later.start()
    assert (await ask(Somewhere(f"unix:{path}"))).status == 200
    later.join()


async def test_who_is_about_to_end_is_left_for_the_next(ask, path, grantors):
    grantors.append(Grantors(path, BUSY, FINE))
    assert (await ask(Somewhere(f"unix:{path}"))).status == 200
    assert grantors[0].connections == 2


async def test_a_refusal_is_an_answer_when_the_patience_has_ended(ask, path, grantors):
    grantors.append(Grantors(path, *[BUSY] * 100))
    assert (await ask(Somewhere(f"unix:{path}"), connect_s=0.1)).status == 503


async def test_nobody_at_all_is_a_failure_to_connect_that_says_why(ask, path):
    with pytest.raises(NotSent, match="all is in motion"):
        await ask(Somewhere(f"unix:{path}", looks=1_000_000), connect_s=0.05)
    with pytest.raises(NotSent):
        await ask(Somewhere(f"unix:{path}"), connect_s=0.05)


async def test_a_server_may_serve_the_file_too(ask):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=answer_one, args=(listener,), daemon=True).start()
        assert (await ask(Somewhere(f"http://127.0.0.1:{port}"))).status == 200


def answer_one(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        assert b"host: localhost\r\n" in connection.recv(65_536).lower()
        connection.sendall(FINE)
