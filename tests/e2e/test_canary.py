"""No key is ever found where it does not belong: all keys here contain a canary, and it is looked for everywhere.

CANARY_TREE=FOLDER looks through that folder, too: after a run of all tests, the one where pytest has kept their files.
"""

import base64
import json
import logging
import os
import socket
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from http_words import is_stream
from key_words import API, CANARY, Caller, Things, ask, connected, make_key, write_keys
from serverprocess import ServerProcess

from openintent import OpenIntentClient
from openintent.engines.memory import MemoryEngine
from openintent.errors import OpenIntentError
from openintent.grantor.grantor import Grantor
from openintent.model import Limits
from openintent.server.auth import Gate
from openintent.server.exchange import Exchange
from openintent.server.keys import KeyRing
from openintent.server.logs import FORMATS
from openintent.server.routes import ROUTES
from openintent.server.routing import Route, Router
from openintent.server.service import Service

CHUNK = 1 << 20


def forms(secret: str) -> list[bytes]:
    """How a secret may look in a file: as it is, or as some encoding of it that anybody can undo."""
    raw = secret.encode()
    # Where a group of base64 begins is chance; its last letters depend on what follows.
    shifted = [base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4] for shift in range(3)]
    return [raw, raw[::-1], raw.hex().encode(), raw.hex().upper().encode(), secret.encode("utf-16-le"), *shifted]


FORMS = forms(CANARY)


def sung(data: bytes) -> bool:
    return any(form in data for form in FORMS)


def nests(tree: Path) -> list[str]:
    """The files of a folder that contain the canary, in any form, also in their names."""
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if sung(str(path).encode()) or _sung_in(path)]


def _sung_in(path: Path) -> bool:
    before = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            if sung(before + chunk):
                return True
            before = chunk[-4 * len(CANARY) :]
    return False


# The search itself


@pytest.mark.parametrize("form", FORMS)
def test_the_search_finds_what_is_there_also_between_two_chunks(tmp_path, form):
    (tmp_path / "clean").write_bytes(b"x" * CHUNK)
    assert nests(tmp_path) == []
    nest = tmp_path / "folder" / "nest"
    nest.parent.mkdir()
    nest.write_bytes(b"x" * (CHUNK - 5) + form + b"x" * CHUNK)
    assert nests(tmp_path) == [str(nest)]


@pytest.mark.parametrize("before", range(3))
def test_the_search_finds_a_key_in_base64(tmp_path, before):
    (tmp_path / "nest").write_bytes(base64.b64encode(b"a" * before + f"oi_1234.{CANARY}-7".encode()))
    assert nests(tmp_path) == [str(tmp_path / "nest")]


@pytest.mark.skipif("CANARY_TREE" not in os.environ, reason="nobody asked for a folder to be searched: CANARY_TREE")
def test_no_key_is_in_the_folder_that_was_asked_for():
    # The tests of the search itself have planted some.
    assert [nest for nest in nests(Path(os.environ["CANARY_TREE"])) if Path(nest).name != "nest"] == []


# A server


class Talkative(ServerProcess):
    """One that logs all that it can."""

    log_format = "text"

    @property
    def command(self):
        return [*super().command, "--log-level", "debug", "--log-format", self.log_format]


class Run:
    """Everything that a server was asked with its keys, and all that it answered."""

    def __init__(self, server: ServerProcess, keys: dict[str, str]) -> None:
        self.url = f"http://127.0.0.1:{server.port}"
        self.server = server
        self.keys = keys
        self.statuses: Counter[int] = Counter()
        self.leaks: list[str] = []

    def note(self, reply) -> None:
        self.statuses[reply.status_code] += 1
        head = "\n".join(f"{name}: {value}" for name, value in reply.headers.items()).encode()
        if sung(head) or (not is_stream(reply) and sung(reply.content)):
            self.leaks.append(reply.asked)

    def every_route(self, lane: str) -> None:
        """As everybody: who may, who may not, and who should not know the key that it shows."""
        with connected(self.url, lane, self.keys) as callers:
            operator = callers.pop("operator")
            untouched = Things(operator, "ada")
            for route in ROUTES:
                self.note(ask(operator, route, Things(operator, "ada"), "ada"))
                for kind, caller in callers.items():
                    self.note(ask(caller, route, untouched, "eve" if kind == "bound" else "ada"))
            operator.http.close()

    def mistakes(self, lane: str) -> None:
        """What people do with a key, and what goes wrong besides."""
        key = self.keys["operator"]
        caller = Caller(self.url, lane, key)
        path = f"{API}/spaces/x/leases"
        asks = [
            {"headers": {"Authorization": f"Bearer {key}x"}},
            {"headers": {"Authorization": f"Basic {key}", "X-API-Key": ""}},
            {"headers": {"Authorization": key, "X-API-Key": "wrong"}},
            {"headers": {"Content-Type": "text/plain"}},
            {"headers": {"Host": "evil.example", "Origin": "https://evil.example"}},
            {"headers": {"X-Filler": "x" * 40_000}},
            {"query": {"api_key": key, "key": key}},
            {"agent": "x" * 1_000},
            {"agent": None},
            {"body": {"ttl_second": 5}},
            {"body": {"scope": "x" * 1_000}},
            {"body": [1]},
        ]
        for how in asks:
            self.note(caller.send("POST", path, **{"body": {"scope": "s"}, "agent": "ada", **how}))
        self.note(caller.send("GET", f"{API}/nowhere"))
        self.note(caller.send("TRACE", path))
        caller.http.close()

    def broken_http(self) -> None:
        key = self.keys["operator"]
        for request in (
            f"GET / HTTP/1.1\r\nX-API-Key {key}\r\n\r\n",
            f"{key}\r\n\r\n",
            f"GET /{key}\0 HTTP/1.1\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", self.server.port)) as line:
                line.sendall(request.encode())
                answer = b"".join(iter(lambda: line.recv(65_536), b""))
            assert answer.startswith(b"HTTP/1.1 400")
            if sung(answer):
                self.leaks.append(request.split()[0])

    def process(self) -> None:
        for name in ("cmdline", "environ"):
            if sung(Path(f"/proc/{self.server.pid}/{name}").read_bytes()):
                self.leaks.append(name)

    def all(self) -> None:
        for lane in ("hot", "asgi"):
            self.every_route(lane)
            self.mistakes(lane)
        self.broken_http()
        self.process()


@pytest.fixture
def keys(tmp_path):
    yesterday, long_ago = timedelta(days=-1), timedelta(days=30)
    made = {
        "operator": make_key("operator", operator=True),
        "bound": make_key("bound", agents=("ada",)),
        "revoked": make_key("revoked", revoked=yesterday, age=long_ago),
        "expired": make_key("expired", expires=yesterday, age=long_ago),
    }
    write_keys(tmp_path / "leases.db.keys", *(stored for _, stored in made.values()))
    shown = {kind: key for kind, (key, _) in made.items()}
    assert all(CANARY in key for key in shown.values())
    return shown | {"wrong": shown["operator"] + "x", "stranger": f"oi_00000000.{CANARY}"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="what a process was given is read from /proc")
@pytest.mark.parametrize("log_format", FORMATS)
def test_a_server_keeps_keys_to_itself_over_all_routes_mistakes_a_crash_and_a_stop(tmp_path, keys, log_format):
    server = Talkative(tmp_path / "leases.db")
    server.log_format = log_format
    try:
        server.start()
        run = Run(server, keys)
        run.all()
        server.kill()
        assert nests(tmp_path) == []  # as the crash has left it: the journal was not folded into the database
        server.start()
        run.mistakes("hot")
        run.process()
        assert server.stop() == 0
    finally:
        server.kill()
    assert run.leaks == []
    assert nests(tmp_path) == []
    # It was a run worth looking at.
    assert {200, 400, 401, 403, 404, 405, 415, 422, 429, 431} <= set(run.statuses)
    assert run.statuses[200] > len(ROUTES)
    assert "request refused" in server.log.read_text()


# What is around it


class Request(Exchange):
    def write(self):
        """Nobody looks at the answer."""


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_failure_of_ours_tells_nobody_the_key_that_met_it(tmp_path, caplog, log_format):
    text, stored = make_key()
    write_keys(tmp_path / "keys", stored)
    ring = KeyRing(tmp_path / "keys")
    ring.open()

    def fails(service, exchange):
        raise RuntimeError(exchange.principal)

    grantor = Grantor(MemoryEngine(), Limits(), member="test")
    service = Service(grantor, Limits(), Router([Route("GET", "thing", fails)]), Gate(ring))
    exchange = Request(service, "GET", f"{API}/thing", "", {b"x-api-key": text.encode()})
    with caplog.at_level(logging.DEBUG):
        service.dispatch(exchange)
    assert exchange.status == 500
    assert not sung(exchange.payload)
    lines = "\n".join(FORMATS[log_format]().format(record) for record in caplog.records)
    assert "RuntimeError" in lines
    assert not sung(lines.encode())


def test_the_sdk_shows_no_key_whatever_goes_wrong(tmp_path, keys):
    server = ServerProcess(tmp_path / "leases.db")
    try:
        server.start()
        url = f"http://127.0.0.1:{server.port}"
        shown = []
        for kind in ("bound", "wrong", "revoked"):
            with OpenIntentClient(url, api_key=keys[kind], agent_id="eve") as client:
                with pytest.raises(OpenIntentError) as failure:
                    client.create_intent("Report")
                error = failure.value
                shown += [repr(client), str(error), repr(error), repr(vars(error)), repr(error.__cause__)]
        command = [sys.executable, "-m", "openintent.cli", "leases", "--url", url, "--json"]
        told = os.environ | {"OPENINTENT_API_KEY": keys["wrong"]}
        done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    finally:
        server.kill()
    assert json.loads(done.stderr)["error"]["code"] == "unauthenticated"
    assert not sung("\n".join([*shown, done.stdout, done.stderr]).encode())
