"""Real sockets against the real server: what a client sees on one connection, whichever lane serves its requests."""

import contextlib
import json
import select
import socket
import struct
import time
from itertools import islice

import edge_words
import pytest

HOST, CONTENT = "Host: localhost", "Content-Type: application/json"


class Line(edge_words.Line):
    def __init__(self, url):
        super().__init__(int(url.rsplit(":", 1)[1]))

    def send(self, *requests):
        super().send(b"".join(requests))

    def reset(self):
        """Vanish, as a killed process on a lost network would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.__exit__()


@pytest.fixture
def line(server_url):
    with Line(server_url) as line:
        yield line


def request(method, path, body=None, *headers, agent="ada", version="1.1"):
    lines = [f"{method} /api/v1{path} HTTP/{version}", HOST, f"X-Agent-ID: {agent}", *headers]
    raw = b"" if body is None else json.dumps(body).encode()
    if raw:
        lines += [CONTENT, f"Content-Length: {len(raw)}"]
    return "\r\n".join([*lines, "", ""]).encode() + raw


def chunked(method, path, body, *, agent="ada"):
    raw = json.dumps(body).encode()
    pieces = [raw[at : at + 7] for at in range(0, len(raw), 7)] + [b""]
    head = request(method, path, None, CONTENT, "Transfer-Encoding: chunked", agent=agent)
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


# Order


def test_requests_of_both_lanes_on_one_connection_are_answered_in_order(line, name):
    intent = f"/intents/{name}"
    line.send(
        request("POST", "/intents", {"id": name, "title": "Report"}),  # ordinary
        request("GET", intent),
        request("POST", f"{intent}/leases", {"scope": "a"}),
        request("GET", "/intents"),  # ordinary
        request("PATCH", f"{intent}/state", {"state": {"a": 1}}, "If-Match: 1"),
        request("GET", f"{intent}/leases"),  # ordinary
        request("GET", "/nowhere"),  # ordinary
        request("GET", intent),
    )
    replies = [line.reply() for _ in range(8)]
    assert [reply.status for reply in replies] == [200, 200, 200, 200, 200, 200, 404, 200]
    created, seen, lease, listed, patched, leases, _, last = [reply.json() for reply in replies]
    assert (created["id"], seen["version"], lease["scope"]) == (name, 1, "a")
    assert name in [each["id"] for each in listed["intents"]]
    assert lease["id"] in json.dumps(leases)
    assert (patched["version"], last["version"], last["state"]) == (2, 2, {"a": 1})
    line.send(
        request("PATCH", f"{intent}/leases/{lease['id']}", {}),
        request("DELETE", f"{intent}/leases/{lease['id']}"),
        request("PATCH", f"{intent}/leases/{lease['id']}", {}),
    )
    assert [line.reply().status for _ in range(3)] == [200, 200, 409]


def test_what_the_ledger_decided_is_in_the_order_of_the_requests(line, space):
    for n in range(4):
        line.send(*(request("POST", f"{space}/leases", {"scope": f"{n}-{m}"}) for m in range(8)))
        marks = [(reply.headers["x-term"], int(reply.headers["x-rev"])) for reply in [line.reply() for _ in range(8)]]
        assert marks == sorted(marks)
        assert len(set(marks)) == 8


def test_an_answer_that_comes_later_keeps_its_place(line, server_url, space):
    with Line(server_url) as holder:
        lease = holder.ask(request("POST", f"{space}/leases", {"scope": "a"}, agent="eve")).json()
        line.send(
            request("POST", f"{space}/leases", {"scope": "a", "wait_seconds": 10}),
            request("POST", f"{space}/leases", {"scope": "b"}),
            request("GET", "/intents"),
        )
        line.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            line.socket.recv(1)
        line.socket.settimeout(20)
        line.file = line.socket.makefile("rb")
        assert holder.ask(request("DELETE", f"{space}/leases/{lease['id']}", agent="eve")).status == 200
        assert [line.reply().json().get("scope") for _ in range(3)] == ["a", "b", None]


def test_a_client_that_sends_too_much_ahead_gets_what_was_accepted(line, server_url, space):
    with Line(server_url) as holder:
        lease = holder.ask(request("POST", f"{space}/leases", {"scope": "0"}, agent="eve")).json()
        waiting = request("POST", f"{space}/leases", {"scope": "0", "wait_seconds": 10})
        line.send(waiting, *(request("POST", f"{space}/leases", {"scope": str(n)}) for n in range(1, 30)))
        assert holder.ask(request("DELETE", f"{space}/leases/{lease['id']}", agent="eve")).status == 200
        replies = []
        while b := line.file.peek(1):
            assert b
            replies.append(line.reply())
    assert [reply.json()["scope"] for reply in replies] == [str(n) for n in range(len(replies))]
    assert len(replies) >= 16
    assert replies[-1].headers.get("connection") == "close" or len(replies) == 30


# Departures


def test_a_client_that_vanishes_costs_nobody_else_a_reply(server_url, space):
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(Line(server_url)) for _ in range(40)]
        for n, line in enumerate(lines):
            line.send(*(request("POST", f"{space}/leases", {"scope": f"{n}-{m}"}) for m in range(4)))
            if n % 2:
                line.reset()
        for n, line in enumerate(lines[::2]):
            assert [line.reply().json()["scope"] for _ in range(4)] == [f"{2 * n}-{m}" for m in range(4)]


def test_a_waiter_that_vanishes_leaves_the_queue_even_with_requests_behind_it(line, server_url, space):
    lease = line.ask(request("POST", f"{space}/leases", {"scope": "a"})).json()
    with Line(server_url) as bob:
        bob.send(
            request("POST", f"{space}/leases", {"scope": "a", "wait_seconds": 15}, agent="bob"),
            request("GET", "/intents", agent="bob"),
        )
        _until(lambda: _queue_length(line, space) == 1)
    _until(lambda: _queue_length(line, space) == 0)
    assert line.ask(request("DELETE", f"{space}/leases/{lease['id']}")).status == 200


def test_of_waiters_that_vanish_together_none_is_granted_what_another_leaves(line, server_url, space):
    def everybody(what, where):
        return [each["agent_id"] for each in line.ask(request("GET", f"{space}/{where}")).json()[what]]

    line.ask(request("POST", f"{space}/leases", {"scope": "a"}))
    with Line(server_url) as waiting:
        waits = [("bob", "*"), ("cid", "b"), ("dan", "b")]  # only the first stands in the way of the others
        waiting.send(
            *(request("POST", f"{space}/leases", {"scope": s, "wait_seconds": 60}, agent=agent) for agent, s in waits)
        )
        _until(lambda: len(everybody("waiters", "queue")) == len(waits))
    _until(lambda: not everybody("waiters", "queue"))
    assert everybody("leases", "leases") == ["ada"]


def _queue_length(line, space):
    return line.ask(request("POST", f"{space}/leases", {"scope": "a"}, agent="eve")).json()["queue_length"]


def _until(condition):
    """Each look is a round trip to the server, so this neither sleeps nor spins."""
    give_up_at = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up_at


@pytest.mark.parametrize("path", ["/intents", "/agents/ada/heartbeat"])
@pytest.mark.parametrize(("header", "version"), [("Connection: close", "1.1"), ("X-None: 1", "1.0")])
def test_the_connection_closes_when_the_client_wants_it(line, path, header, version):
    method, body = ("GET", None) if path == "/intents" else ("POST", {"leases": []})
    reply = line.ask(request(method, path, body, header, version=version))
    assert reply.headers["connection"] == "close"
    assert line.closed()


# Bodies


def test_a_chunked_body_is_a_body(line, space):
    line.send(
        chunked("POST", f"{space}/leases", {"scope": "a"}),
        request("POST", f"{space}/leases", {"scope": "b"}),
        chunked("POST", f"{space}/leases", {"scope": "c"}),
    )
    assert [line.reply().json()["scope"] for _ in range(3)] == ["a", "b", "c"]


def test_a_client_may_ask_before_it_sends_its_body(line, space):
    raw = request("POST", f"{space}/leases", {"scope": "a"}, "Expect: 100-continue")
    head, body = raw.split(b"\r\n\r\n")
    assert line.ask(head + b"\r\n\r\n").status == 100
    assert line.ask(body).json()["scope"] == "a"
    assert line.ask(request("GET", "/intents")).status == 200


@pytest.mark.parametrize("size", [20_000, 200_000])  # one for each lane
def test_a_body_that_arrives_in_pieces_is_one_body(line, name, size):
    assert line.ask(request("POST", "/intents", {"id": f"{name}-{size}", "title": "Report"})).status == 200
    raw = request("PATCH", f"/intents/{name}-{size}/state", {"state": {"x": "y" * size}}, "If-Match: 1")
    line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for at in range(0, len(raw), 1_500):
        line.send(raw[at : at + 1_500])
    assert line.reply().json()["state"] == {"x": "y" * size}


@pytest.mark.parametrize("path", ["/spaces/{}/leases", "/intents"])  # one for each lane
@pytest.mark.parametrize("zeros", [1, 20, 5_000])
def test_a_length_may_begin_with_zeros(line, name, path, zeros):
    body = json.dumps({"title": "Report"} if path == "/intents" else {"scope": "a"})
    length = "0" * zeros + str(len(body))
    head = request("POST", path.format(name), None, CONTENT, f"Content-Length: {length}")
    assert line.ask(head + body.encode()).status == 200
    assert line.ask(request("GET", "/intents")).status == 200


@pytest.mark.parametrize("blanks", [" ", "\t", "  \t "])
def test_blanks_behind_a_header_are_no_part_of_it(line, space, name, blanks):
    body = json.dumps({"scope": "a"}).encode()
    headers = (CONTENT, f"Content-Length: {len(body)}{blanks}", f"Idempotency-Key: {name}{blanks}")
    for _ in range(2):
        lease = line.ask(request("POST", f"{space}/leases", None, *headers, agent=f"ada{blanks}") + body).json()
        assert (lease["agent_id"], lease["scope"]) == ("ada", "a")


# Refusals


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "bad_request"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", 400, "bad_request"),
        (request("GET", "/intents", None, "X-Long: " + "y" * 65_536), 431, "headers_too_large"),
        (request("GET", "/intents", None, *(f"X-{n}: y" for n in range(10_000))), 431, "headers_too_large"),
        (request("GET", "/" + "a" * 10_000), 414, "headers_too_large"),
        (chunked("POST", "/intents", {}).replace(b"2\r\n{}", b"zz\r\n{}"), 400, "bad_request"),
    ],
)
def test_what_is_not_fit_to_be_read_is_refused_in_json(line, raw, status, code):
    reply = line.ask(raw)
    assert (reply.status, reply.json()["error"]["code"]) == (status, code)
    assert (reply.headers["content-type"], reply.headers["connection"]) == ("application/json", "close")
    assert line.closed()


def test_a_refusal_comes_after_the_answers_before_it(line):
    line.send(request("GET", "/intents"), b"nonsense\r\n\r\n")
    assert [line.reply().status for _ in range(2)] == [200, 400]


def test_a_body_that_is_too_large_is_refused_before_it_is_read_and_the_refusal_arrives(line):
    head = request("POST", "/intents", None, CONTENT, "Content-Length: 100000000")
    line.send(head, b"x" * 3_000_000)
    assert line.reply().json()["error"]["code"] == "body_too_large"
    assert line.closed()


def test_a_chunked_body_without_end_is_cut_off(line):
    line.send(request("POST", "/intents", None, CONTENT, "Transfer-Encoding: chunked"))
    line.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
    with contextlib.suppress(ConnectionError, TimeoutError):
        for _ in range(1_000):
            line.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
    answer = b""
    with contextlib.suppress(ConnectionError):  # a reset may overtake it
        answer = line.file.readline()
    assert answer == b"" or b" 413 " in answer


# Deadlines

SLOW = [  # what is sent at once, and what is sent byte by byte
    (b"", b""),
    (b"GE", b""),
    (b"GE", b"T /api/v1/intents HTTP/1.1"),
    (request("GET", "/intents")[:-2], b"X: y\r\n" * 10),
    (request("POST", "/agents/ada/heartbeat", {"leases": []})[:-12], b" " * 11),
    (request("POST", "/intents", {"title": "Report"})[:-12], b" " * 11),
    (request("POST", "/intents", {"title": "Report"})[:-12], b""),
]


@pytest.mark.slow
def test_requests_that_stay_incomplete_are_given_up_in_time(server_url):
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(Line(server_url)) for _ in SLOW]
        started = time.monotonic()
        for line, (beginning, _) in zip(lines, SLOW, strict=True):
            line.send(beginning)
        trickles = {line.socket: iter(rest) for line, (_, rest) in zip(lines, SLOW, strict=True)}
        ended = dict.fromkeys(trickles)
        while None in ended.values() and time.monotonic() < started + 20:
            waiting = [each for each, answer in ended.items() if answer is None]
            heard = select.select(waiting, [], [], 1.0)[0]
            for each in heard:
                ended[each] = (time.monotonic() - started, each.recv(65_536))
            for each in [] if heard else waiting:
                each.send(bytes(islice(trickles[each], 1)))
    assert all(9 < after_s < 15 for after_s, _ in ended.values())
    assert [answer[9:12] for _, answer in ended.values()] == [b""] + [b"408"] * 6


@pytest.mark.slow
def test_a_client_that_does_not_read_is_given_up_in_time(line, server_url, name, space):
    body = {"id": name, "title": "Report", "state": {"x": "y" * 500_000}}
    assert line.ask(request("POST", "/intents", body)).status == 200
    assert line.ask(request("POST", f"{space}/leases", {"ttl_seconds": 60})).status == 200
    with Line(server_url) as deaf:
        deaf.send(*[request("GET", f"/intents/{name}")] * 16)
        # Somebody else's wait is our clock: it ends after the deadline, if the deaf client has held up nobody.
        waiting = request("POST", f"{space}/leases", {"wait_seconds": 18}, agent="bob")
        assert line.ask(waiting).json()["error"]["code"] == "wait_timeout"
        assert len(deaf.file.read()) < 16 * 500_000
