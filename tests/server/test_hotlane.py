"""The protocol of a connection: order, ends and refusals, driven in process."""

import asyncio
import gc
import weakref

import pytest
from lane_words import House, arrive, request, settle
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from openintent.server.exchange import At
from openintent.server.hotlane import HOT_BODY_MAX, PIPELINED_MAX
from openintent.server.uvicorn_fit import self_check

pytestmark = pytest.mark.anyio


# One request


async def test_a_hot_request_reaches_the_service_without_a_task(house, line):
    line.data_received(request("/hot/a%20b?x=1", "X-Agent-ID: ada", method="POST", body=b"{}"))
    (exchange,) = house.office.asked
    assert (exchange.method, exchange.path, exchange.query, exchange.body) == ("POST", "/hot/a%20b", "x=1", b"{}")
    assert exchange.headers[b"x-agent-id"] == b"ada"
    assert exchange.names == ["a%20b"]
    assert not house.state.tasks


async def test_an_answer_is_written_at_once_and_in_one_piece(house, line):
    line.data_received(request("/hot/a"))
    exchange = house.office.asked[0]
    exchange.place = At(3, 7)
    exchange.conclude_at_once(409, b"{}", extra=b"retry-after: 1\r\n")
    head, body = line.transport.sent.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 409 Conflict\r\ncontent-type: application/json\r\ncontent-length: 2\r\n")
    assert {b"x-term: 3", b"x-rev: 7", b"retry-after: 1"} <= set(head.split(b"\r\n"))
    assert body == b"{}"
    assert line.transport.writes == 1
    assert not line.transport.closed


async def test_a_204_does_not_speak_of_a_body(house, line):
    line.data_received(request("/hot/a"))
    house.office.asked[0].conclude_at_once(204, b"", extra=b"x-more: 1\r\n")
    assert b"content-" not in line.transport.sent
    assert line.transport.sent.endswith(b"x-more: 1\r\n\r\n")


async def test_bytes_may_come_one_by_one(house, line):
    for byte in request("/hot/a", method="POST", body=b'{"a": 1}') * 2:
        line.data_received(bytes([byte]))
    assert [exchange.body for exchange in house.office.asked] == [b'{"a": 1}'] * 2


@pytest.mark.parametrize(
    ("headers", "version"), [(["Connection: close"], "1.1"), ([], "1.0"), (["Connection: keep-alive"], "1.0")]
)
async def test_the_connection_closes_when_the_client_wants_it(house, line, headers, version):
    line.data_received(request("/hot/a", *headers, version=version))
    assert not line.transport.closed
    house.office.answer(0)
    assert b"\r\nconnection: close\r\n" in line.transport.sent
    assert line.transport.closed


@pytest.mark.parametrize(
    "raw",
    [
        request("/slow/a"),
        request("/elsewhere"),
        request("/hot/a", method="PUT"),
        request("/hot/a#part"),
        request("http://localhost/hot/a"),
        request("/hot/a", "Expect: 100-continue", method="POST", body=b"{}"),
        request("/hot/a", "Transfer-Encoding: chunked", method="POST") + b"2\r\n{}\r\n0\r\n\r\n",
        request("/hot/a", "Upgrade: h2c", "Connection: Upgrade"),
        request("/hot/a", method="POST", body=b"x" * (HOT_BODY_MAX + 1)),
    ],
)
async def test_whatever_is_not_small_plain_and_hot_goes_by_asgi(house, line, raw):
    house.asgi.may_answer.set()
    line.data_received(raw)
    await settle()
    assert line.transport.statuses() in ([200], [100, 200])
    assert house.office.asked == []


async def test_an_application_that_fails_is_answered_in_json(house, line, caplog):
    line.data_received(request("/slow/broken"))
    await settle()
    assert (line.transport.statuses(), line.transport.problem()) == ([500], "internal")
    assert "ZeroDivisionError" in caplog.text


# Several requests


async def test_answers_leave_in_the_order_of_the_requests(house, line):
    line.data_received(request("/hot/1") + request("/hot/2") + request("/hot/3"))
    assert house.office.paths() == ["/hot/1", "/hot/2", "/hot/3"]
    house.office.answer(2)
    house.office.answer(1)
    assert line.transport.sent == b""
    house.office.answer(0)
    assert line.transport.bodies() == [b"/hot/1", b"/hot/2", b"/hot/3"]


async def test_both_lanes_keep_one_order(house, line):
    paths = ["/hot/1", "/slow/2", "/hot/3", "/hot/4", "/slow/5", "/slow/6", "/hot/7"]
    line.data_received(b"".join(map(request, paths)))
    await settle()
    assert (house.office.paths(), house.asgi.begun) == (["/hot/1"], [])
    house.office.answer(0)
    await settle()
    assert (house.office.paths(), house.asgi.begun) == (["/hot/1"], ["/slow/2"])
    house.asgi.may_answer.set()
    await settle()
    assert (house.office.paths(), house.asgi.begun) == (["/hot/1", "/hot/3", "/hot/4"], ["/slow/2"])
    house.office.answer(2)
    house.office.answer(1)
    await settle()
    house.office.answer(3)
    assert [body.decode() for body in line.transport.bodies()] == paths
    assert not line.pipeline
    assert not line.transport.paused


async def test_a_service_that_answers_at_once_changes_no_order(house, line):
    house.office.dispatch = lambda exchange: exchange.conclude_at_once(200, exchange.path.encode())
    house.asgi.may_answer.set()
    paths = ["/slow/1", "/hot/2", "/slow/3", "/hot/4", "/hot/5", "/slow/6"]
    connection = house.connect()
    connection.dispatch = house.office.dispatch
    connection.data_received(b"".join(map(request, paths)))
    await settle()
    assert [body.decode() for body in connection.transport.bodies()] == paths


async def test_beyond_the_bound_requests_are_dropped_and_the_connection_ends(house, line):
    line.data_received(b"".join(request(f"/hot/{n}") for n in range(PIPELINED_MAX + 5)))
    assert len(house.office.asked) == PIPELINED_MAX
    for n in range(PIPELINED_MAX):
        assert not line.transport.ended
        house.office.answer(n)
    assert len(line.transport.statuses()) == PIPELINED_MAX
    assert line.transport.sent.count(b"connection: close") == 1
    assert line.transport.ended


async def test_at_the_bound_reading_stops_until_there_is_room(house, line):
    line.data_received(b"".join(request(f"/hot/{n}") for n in range(PIPELINED_MAX)))
    assert line.transport.paused
    house.office.answer(1)
    assert line.transport.paused
    house.office.answer(0)
    assert not line.transport.paused
    line.data_received(request("/hot/more"))
    assert house.office.paths()[-1] == "/hot/more"


# Ends


async def test_a_lost_connection_concerns_every_request_on_it(house, line):
    line.data_received(b"".join(map(request, ["/hot/1", "/hot/2", "/hot/3", "/slow/4", "/hot/5"])))
    first, second, third = house.office.asked
    second.waiting = 22
    third.waiting = 33
    house.office.answer(0)
    line.transport.closed = True
    line.connection_lost(None)
    assert house.office.abandoned == [33, 22]
    assert first.done
    third.send()
    assert line.transport.statuses() == [200]
    assert len(house.office.asked) == 3


@pytest.mark.parametrize("answered", [0, 1, 2])
async def test_nothing_is_left_of_a_lost_connection(house, answered):
    line = house.connect()
    for index in range(2):  # one for the parser, and one like those before
        arrive(line, request("/hot/a"))
        if index < answered:
            house.office.answer(index)
    house.wait(2)
    line.connection_lost(None)
    left = [weakref.ref(line), *(weakref.ref(each) for each in (line.transport, line.flow))]
    del line
    house.office.asked.clear()
    gc.collect()
    assert [each() for each in left] == [None] * 3


async def test_a_lost_connection_is_told_to_the_application(house, line):
    line.data_received(request("/slow/1", method="POST", body=b"xx")[:-1] + b"")
    await settle()
    line.connection_lost(ConnectionResetError())
    await settle()
    assert house.asgi.gone == ["/slow/1"]
    assert not house.state.connections


async def test_a_stop_closes_idle_connections_and_lets_the_others_finish(house, line):
    idle = house.connect()
    line.data_received(request("/hot/1") + request("/hot/2"))
    idle.shutdown()
    line.shutdown()
    assert idle.transport.closed
    house.office.answer(0)
    assert not line.transport.closed
    assert b"connection: close" not in line.transport.sent
    house.office.answer(1)
    assert line.transport.sent.count(b"connection: close") == 1
    assert line.transport.closed


async def test_a_stop_takes_no_request_that_was_not_complete(house, line):
    second = request("/hot/2")
    line.data_received(request("/hot/1") + second[:-2])
    line.shutdown()
    line.data_received(second[-2:])
    house.office.answer(0)
    assert house.office.paths() == ["/hot/1"]
    assert line.transport.ended or line.transport.closed


# Refusals


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (b"\x16\x03\x01\x02\x00", 400, "bad_request"),
        (b"GET /hot/a HTTP/1.1\r\nbad header\r\n\r\n", 400, "bad_request"),
        (request("/hot/a", "Host: elsewhere"), 400, "bad_request"),
        (request("/hot/a", "Content-Length: 1", "Content-Length: 2", method="POST"), 400, "bad_request"),
        (request("/hot/a", "Transfer-Encoding: chunked", "Content-Length: 2", method="POST"), 400, "bad_request"),
        (request("/hot/a", "Upgrade: h2c", "Connection: Upgrade", method="POST", body=b"{}"), 400, "bad_request"),
        (request("localhost:80", method="CONNECT"), 400, "bad_request"),
        (request("/hot/" + "a" * 9_000), 414, "headers_too_large"),
        (b"GET /" + b"a" * 33_000, 414, "headers_too_large"),
        (request("/hot/a", *(f"X-{n}: y" for n in range(101))), 431, "headers_too_large"),
        (request("/hot/a", *["X-Same: y" * 2, "X-Same: z" * 2] * 101), 431, "headers_too_large"),
        (request("/hot/a", "X-Long: " + "y" * 40_000), 431, "headers_too_large"),
        (b"GET /hot/a HTTP/1.1\r\nX-Endless: " + b"y" * 40_000, 431, "headers_too_large"),
        (request("/hot/a", "Content-Length: 100000000", method="POST"), 413, "body_too_large"),
    ],
)
async def test_what_cannot_be_served_is_refused_in_json_and_the_connection_ends(house, line, raw, status, code):
    line.data_received(raw)
    assert (line.transport.statuses(), line.transport.problem()) == ([status], code)
    assert b"connection: close" in line.transport.sent
    assert line.transport.ended
    line.data_received(request("/hot/later"))
    assert house.office.asked == []


async def test_a_header_that_never_ends_is_cut_off_while_it_arrives(line):
    line.data_received(b"GET /hot/a HTTP/1.1\r\nX-Endless: ")
    sent = 0
    while not line.transport.ended:
        line.data_received(b"y" * 1_000)
        sent += 1
    assert sent < 40


async def test_a_chunked_body_that_never_ends_is_cut_off_while_it_arrives(house, line):
    line.data_received(request("/slow/a", "Transfer-Encoding: chunked", method="POST"))
    sent = 0
    while not line.transport.ended:
        line.data_received(b"2000\r\n" + b"y" * 0x2000 + b"\r\n")
        await settle()
        sent += 1
    assert sent < 200
    assert line.transport.statuses() == [413]
    assert house.asgi.gone == ["/slow/a"]


async def test_a_refusal_waits_for_the_answers_before_it(house, line):
    line.data_received(request("/hot/1") + b"nonsense\r\n\r\n")
    assert line.transport.sent == b""
    house.office.answer(0)
    assert line.transport.statuses() == [200, 400]
    assert line.transport.ended


async def test_headers_that_come_twice_are_joined_by_the_last(house, line):
    line.data_received(request("/hot/a", "X-Agent-ID: ada", "x-agent-id: bob"))
    assert house.office.asked[0].headers[b"x-agent-id"] == b"bob"


async def test_connections_have_a_bound_in_all_and_for_each_address(caplog):
    house = House(connections_max=3, connections_per_address_max=2, connections_reserved=0)
    lines = [house.connect(address) for address in ("10.0.0.1", "10.0.0.1", "10.0.0.1")]
    assert [line.transport.statuses() for line in lines] == [[], [], [503]]
    assert lines[2].transport.closed
    assert [house.connect("10.0.0.2").transport.statuses() for _ in range(1)] == [[503]]
    for line in [*house.state.connections]:
        line.connection_lost(None)
    assert house.connect("10.0.0.1").transport.statuses() == []


# The ground we stand on


def test_the_installed_uvicorn_fits():
    assert self_check() is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [(HttpToolsProtocol, "_start_asgi_task"), (FlowControl, "resume_reading"), (RequestResponseCycle, "__init__")],
)
def test_a_uvicorn_that_does_not_fit_is_noticed(monkeypatch, owner, name):
    monkeypatch.setattr(owner, name, lambda self, *something_else: None)
    assert f"{owner.__name__}.{name} takes (self, something_else)" in self_check()


def test_a_uvicorn_without_a_method_is_noticed(monkeypatch):
    monkeypatch.delattr(HttpToolsProtocol, "_start_asgi_task")
    assert self_check() == "uvicorn's HttpToolsProtocol has no _start_asgi_task"


def test_a_bug_in_a_callback_costs_one_connection(caplog):
    async def scenario():
        house = House()
        line = house.connect()
        line.dispatch = lambda _: 1 / 0
        line.data_received(request("/hot/a"))
        assert line.transport.aborted

    asyncio.run(scenario())
    assert "ZeroDivisionError" in caplog.text
