"""What nobody should send, over raw sockets, to a server in a process of its own.

Each is refused in JSON with a 4xx, or closed by its deadline; nothing is changed by it, and nobody else notices.
"""

import json
import select
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest
from edge_words import AGENT, CASES, HOST, INTENTS, KIND, Line, acquire, chunks, head
from serverprocess import ServerProcess


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """One server for all, with something that could be damaged. Its log must have nothing to complain about."""
    server = ServerProcess(tmp_path_factory.mktemp("edges") / "leases.db")
    try:
        server.start()
        with Line(server.port) as line:
            made = line.ask(head(f"POST {INTENTS}", HOST, AGENT, KIND, body=b'{"id": "kept", "title": "Kept"}'))
            assert made.status == 200
            held = line.ask(head("POST /api/v1/intents/kept/leases", HOST, AGENT, body=b'{"ttl_seconds": 600}'))
            assert held.status == 200
        yield server
        assert server.stop() == 0
        log = server.log.read_text()
        assert " ERROR " not in log
        assert "Traceback" not in log
    finally:
        server.kill()


def everything(port):
    """All that there is, as far as time alone does not change it."""
    with Line(port) as line:
        leases = line.ask(head("GET /api/v1/leases", HOST)).json()["leases"]
        intents = line.ask(head("GET /api/v1/intents", HOST)).json()["intents"]
        events = line.ask(head("GET /api/v1/intents/kept/events", HOST)).json()
    return [(lease["id"], lease["token"], lease["space"]) for lease in leases], intents, events


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_json_and_changes_nothing(house, name):
    raw, status, code, ends = CASES[name]
    before = everything(house.port)
    with Line(house.port) as line:
        reply = line.ask(raw)
        assert (reply.status, reply.json()["error"]["code"]) == (status, code), reply.body
        assert reply.headers["content-type"] == "application/json"
        assert (reply.headers.get("connection") == "close") is ends
        if ends:
            assert line.closed()
        else:
            assert line.ask(head("GET /livez", HOST)).status == 200
    assert everything(house.port) == before


def test_what_is_only_unusual_is_served(house):
    """Each on a connection of its own, because some end theirs."""
    for raw in (
        head("GET /livez", version="1.0"),
        head("GET http://localhost/livez", "Host: evil.example"),  # a whole address: then Host does not count
        b"\r\n" + head("GET /livez", HOST),
        head("GET /livez", HOST, "Upgrade: websocket", "Connection: Upgrade"),
        head("GET /livez", HOST, "Upgrade: h2c"),
        head("GET /livez", HOST, "Expect: 100-continue", version="1.0"),
        head("GET /livez?a=%00&a=%zz", HOST),
        head("GET /livez", HOST, body=b"{}"),
        head("GET /livez", HOST, "X-Odd: \xe9"),
    ):
        with Line(house.port) as line:
            assert line.ask(raw).status == 200, raw


def test_a_name_may_contain_whatever_is_escaped(house):
    """And it is decoded once: `%252F` is a name with a percent sign, not one with a slash."""
    for escaped, name in (("a%2Fb", "a/b"), ("%252F", "%2F"), ("%E2%82%AC", "€"), ("a%20b", "a b"), ("%2e%2e", "..")):
        with Line(house.port) as line:
            made = line.ask(acquire(line=f"POST /api/v1/spaces/{escaped}/leases")).json()
            assert made["space"] == f"space:{name}"
            gone = line.ask(head(f"DELETE /api/v1/leases/{made['id']}", HOST, AGENT))
            assert gone.status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/livez",
        "/",
        "/api/v1/spaces/none/leases",
        "/api/v1/intents/kept",
        "/api/v1/intents/none",
        "/nowhere",
        "/api/v1/guard/check",
    ],
)
def test_head_is_get_without_the_body(house, path):
    with Line(house.port) as line:
        whole = line.ask(head(f"GET {path}", HOST))
        bare = line.ask(head(f"HEAD {path}", HOST), bodiless=True)
        assert (bare.status, bare.headers["content-type"]) == (whole.status, whole.headers["content-type"])
        assert bare.status == 405 or bare.headers["content-length"] == whole.headers["content-length"]
        assert line.ask(head("GET /livez", HOST)).json() == {"status": "alive"}  # nothing was left on the line


def test_behind_a_goodbye_nothing_is_carried_out(house):
    before = everything(house.port)
    check = b'{"space": "space:edge", "scope": "a", "token": 1}'  # answered at once, while the rest is in hand
    for first in (head("POST /api/v1/guard/check", HOST, AGENT, "Connection: close", body=check), b"nonsense\r\n\r\n"):
        with Line(house.port) as line:
            line.send(first + acquire())
            line.reply()
            assert line.closed()
    assert everything(house.port) == before


# Those who take their time

ORDINARY = head(f"POST {INTENTS}", HOST, AGENT, KIND, "Content-Length: 100")
SLOW = {  # what is sent at once, and what then comes byte by byte
    "silent": (b"", b""),
    "a slow request line": (b"G", b"ET /" + b"a" * 100),
    "slow headers": (head("GET /livez", HOST)[:-2], b"X-A: b\r\n"),
    "a slow body": (acquire(body=b" " * 1_000)[:-1_000], b" "),
    "a slow body of the other lane": (ORDINARY, b" "),
    "no body": (ORDINARY, b""),
    "slow chunks": (chunks(), b"1\r\n \r\n"),
}
EACH = 20  # of every kind
GIVEN_UP_S = 16  # ten seconds, a sweep or two, and a busy machine


@pytest.mark.slow
def test_the_slow_are_given_up_in_time_and_nobody_waits_for_them(house):
    with ExitStack() as stack:
        holder = stack.enter_context(Line(house.port))
        lease = holder.ask(acquire(body=b'{"scope": "held", "ttl_seconds": 5}')).json()
        beat = json.dumps({"leases": [{"id": lease["id"], "token": lease["token"]}]}).encode()
        slow = {}
        for first, rest in [SLOW[name] for name in SLOW for _ in range(EACH)]:
            line = stack.enter_context(Line(house.port))
            line.send(first)
            slow[line.socket] = cycle(rest)
        began, answers = time.monotonic(), []
        while slow and time.monotonic() < began + GIVEN_UP_S:
            for each in select.select(list(slow), [], [], 0.5)[0]:
                answers.append(each.recv(65_536)[9:12])
                del slow[each]
            for each, rest in slow.items():
                each.sendall(bytes([byte for byte in [next(rest, None)] if byte is not None]))
            verdict = holder.ask(head("POST /api/v1/agents/ada/heartbeat", HOST, AGENT, body=beat)).json()["leases"][0]
            assert verdict["verdict"] == "renewed"
            assert verdict["remaining_seconds"] == 5.0
        assert not slow
        assert sorted(answers) == [b""] * EACH + [b"408"] * EACH * (len(SLOW) - 1)
        holder.ask(head(f"DELETE /api/v1/leases/{lease['id']}", HOST, AGENT))


# Stopping

STOP_S_MAX = 2.0


def large_answers(port, stack):
    """Clients that have asked for more than fits on the way, and read nothing of it."""
    with Line(port) as line:
        for number in range(4):
            body = json.dumps({"id": f"large-{number}", "title": "Large", "state": {"a": "x" * 900_000}}).encode()
            assert line.ask(head(f"POST {INTENTS}", HOST, AGENT, KIND, body=body)).status == 200
    for target in ("/api/v1/intents/large-0", "/api/v1/intents?limit=100"):  # one for each lane
        deaf = socket.socket()
        stack.enter_context(deaf)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", port))
        deaf.sendall(head(f"GET {target}", HOST) * 8)
        assert deaf.recv(1) == b"H"


@pytest.mark.alone
def test_a_stop_is_soon_over_and_leaves_nobody_in_doubt(tmp_path: Path):
    server = ServerProcess(tmp_path / "leases.db")
    try:
        server.start()
        with ExitStack() as stack:
            lines = [stack.enter_context(Line(server.port)) for _ in range(60)]
            holder, *others = lines
            lease = holder.ask(acquire(body=b'{"ttl_seconds": 600, "scope": "held"}')).json()
            idle, heads, bodies, chunked, waiting = (others[at : at + 10] for at in range(0, 50, 10))
            for line in idle:
                assert line.ask(head("GET /livez", HOST)).status == 200
            for line in heads:
                line.send(acquire()[:40])
            for line in bodies:
                line.send(acquire(body=b'{"scope": "never"}')[:-3])
            for line in chunked:
                line.send(chunks(b"5\r\n{"))
            for number, line in enumerate(waiting):
                body = json.dumps({"agent_id": f"bob-{number}", "scope": "held", "wait_seconds": 60}).encode()
                line.send(acquire("Idempotency-Key: k", body=body))
            large_answers(server.port, stack)
            wait_for_queue(server.port, len(waiting))
            began = time.monotonic()
            assert server.stop() == 0
            took_s = time.monotonic() - began
            assert all(line.closed() for line in [*idle, *others[50:]])
            for line in [*heads, *bodies, *chunked, *waiting]:
                reply = line.reply()
                assert (reply.status, reply.json()["error"]["code"]) == (503, "unavailable")
                assert reply.headers["retry-after"] == "1"
                assert line.closed()
        assert took_s < STOP_S_MAX
        log = server.log.read_text().splitlines()
        assert "term ended term=1 leases=1" in log[-1]
        assert not any(" ERROR " in line or " WARNING " in line for line in log)
        after_a_farewell(server, lease)
    finally:
        server.kill()


def wait_for_queue(port, length):
    with Line(port) as line:
        while len(line.ask(head("GET /api/v1/spaces/edge/queue", HOST)).json()["waiters"]) < length:
            pass


def after_a_farewell(server, lease):
    """The next term knows the exact deadline. Without the farewell it would have to give the whole ttl again."""
    server.start()
    with Line(server.port) as line:
        now = line.ask(head(f"GET /api/v1/leases/{lease['id']}", HOST)).json()
    assert 500 < now["remaining_seconds"] < 600


# A server with one more answer: one that does not end before it is told to.
ENDLESS = """
from openintent.server import app
from openintent.server.settings import Settings

usual = app.make_app

def with_stream(service):
    inner = usual(service)

    async def stream(scope, receive, send):
        if scope["path"] != "/endless":
            return await inner(scope, receive, send)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        await service.stopping.wait()
        await send({"type": "http.response.body", "body": b"ended"})

    return stream

app.make_app = with_stream
app.run(Settings(port=0, engine="memory:"), lambda url: print(url, flush=True))
"""


@pytest.mark.alone
def test_answers_without_an_end_are_ended_by_a_stop():
    command = [sys.executable, "-c", ENDLESS]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        ExitStack() as stack,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        lines = [stack.enter_context(Line(port)) for _ in range(20)]
        for line in lines:
            assert line.ask(head("GET /endless", HOST), bodiless=True).status == 200
            assert line.file.read(10) == b"5\r\nbegun\r\n"
        began = time.monotonic()
        process.terminate()
        assert [line.file.read() for line in lines] == [b"5\r\nended\r\n0\r\n\r\n"] * 20
        assert process.wait() == 0
        assert time.monotonic() - began < STOP_S_MAX / 2  # nobody had to be cut off
        assert "Traceback" not in process.stderr.read()
