"""Requests that are recognised: they must be taken just as the parser would take them."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_words import House, arrive, request

from openintent.engines.memory import MemoryEngine
from openintent.grantor.grantor import Grantor
from openintent.model import Limits
from openintent.server import heads
from openintent.server.auth import Gate
from openintent.server.exchange import Exchange
from openintent.server.heads import Head
from openintent.server.keys import DEV, Principal
from openintent.server.routing import Route, Router, arguments
from openintent.server.service import Service

pytestmark = pytest.mark.anyio

# Of each piece the first is the usual one: most chunks are odd in one place, or in none.
PIECES = [
    ["", "\r\n", "X\r\n"],
    ["GET", "POST", "PATCH", "get", "CONNECT", "G\tT"],
    [" ", "  "],
    [
        "/hot/a",
        "/hot/a1",
        "/hot/a-b",
        "/hot/",
        "/hot/a b",
        "/hot/a?x=1",
        "/hot/%61",
        "/hot/a/",
        "/hot/plain",
        "/hot/other",
        "/slow/x",
        "*",
        "",
    ],
    [" HTTP/1.1", " HTTP/1.0", " HTTP/2.0", " HTTP/1.1 ", ""],
]
HEADERS = [
    ["Host: localhost"],
    ["Host: localhost", "X-Agent-ID: ada"],
    ["Host: localhost", "X-Agent-ID: ada", "Content-Length: 2"],
    ["Host: localhost", "Content-Length: 2"],
    ["Host: localhost", "Content-Length: 0"],
    ["Host: localhost", "Content-Length: 2", "Content-Length: 2"],
    ["Host: localhost", "Transfer-Encoding: chunked"],
    ["Host: localhost", "Connection: close"],
    ["Host: localhost", "If-Match: 1"],
    ["Host: localhost", "If-Match: 23", "Content-Length: 2"],
    ["Host: localhost", "If-Match: *", "Content-Length: 2"],
    ["Host: localhost", 'If-Match: "23"', "Content-Length: 2"],
    ["Host: localhost", "If-Match: 1", "If-Match: 2"],
    ["Host: localhost", "If-Match: 1", "If-Match: 1"],
    ["Host: localhost", "if-match: 1", "If-Match: 2"],
    ["Host: localhost", "If-Match: 4", "Idempotency-Key: a1", "Content-Length: 2"],
    ["Host: localhost", "Idempotency-Key: a2", "If-Match: 5", "Content-Length: 2"],
    ["Host: localhost", "Idempotency-Key: a-2", "If-Match: 5", "Content-Length: 2"],
    ["Host: localhost", "Idempotency-Key: a1"],
    ["Host: localhost", "Idempotency-Key: a1", "X-Agent-ID: ada"],
    ["Host: localhost", "Idempotency-Key: a2", "Content-Length: 2"],
    ["Host: localhost", "Idempotency-Key: b\tc", "Content-Length: 2"],
    ["Host: localhost", "Idempotency-Key: a1", "Idempotency-Key: a2"],
    ["Host: localhost", "idempotency-key: a1", "Idempotency-Key: a2"],
    ["Host: localhost", "Idempotency-Key: a", "Idempotency-Key: a"],
    ["Host: localhost", "idempotency-key: a", "Idempotency-Key: a"],
    ["Host: localhost", "Idempotency-Key: a"],
    ["Host: a", "Host: a"],
    ["Host: localhost", "Idempotency-Key: "],
    ["X-Agent-ID: ada"],
]
BODIES = [b"", b"{}", b"{}\r\n\r\n", b"{", b"2\r\n{}\r\n0\r\n\r\n"]


@st.composite
def chunks(draw):
    odd = draw(st.integers(-1, len(PIECES) - 1))
    line = "".join(draw(st.sampled_from(piece)) if index == odd else piece[0] for index, piece in enumerate(PIECES))
    fields, body = draw(st.sampled_from(HEADERS)), draw(st.sampled_from(BODIES))
    return "\r\n".join([line, *fields, "", ""]).encode() + body


PLAIN = [
    "\r\n".join([f"{method} /hot/a HTTP/1.1", *fields, "", ""]).encode() + body
    for method in ("GET", "POST")
    for fields in HEADERS
    for body in BODIES
]


def fed(line, house, data):
    """What becomes of a chunk: what the service was asked, what was said, and whether the line stays open."""
    before = len(house.office.asked)
    arrive(line, data)
    told = [
        (each.method, each.path, each.query, each.body, dict(each.headers), each.route, handed(each))
        for each in house.office.asked[before:]
    ]
    for index in range(before, len(house.office.asked)):
        house.office.answer(index)
    return told, line.transport.statuses(), line.transport.closed, line.transport.ended


def handed(exchange):
    """What the handler would be called with."""
    return tuple(exchange.names) if exchange.head is not None else arguments(exchange.route, exchange.names)


async def compare(chunk):
    """One server has seen its like, the other has not."""
    fresh, practised = House(), House()
    for each in PLAIN:
        fed(practised.connect(), practised, each)
    lines = fresh.connect(), practised.connect()
    first = request("/hot/first")
    assert fed(lines[0], fresh, first) == fed(lines[1], practised, first)
    fresh.config.http_protocol_class.familiar.heads.clear()
    assert practised.config.http_protocol_class.familiar.heads
    assert fed(lines[0], fresh, chunk) == fed(lines[1], practised, chunk)


@settings(max_examples=300, deadline=None)
@given(chunks())
def test_a_chunk_means_the_same_whether_or_not_its_like_has_been_seen(chunk):
    asyncio.run(compare(chunk))


ODD_LINES = [
    "".join(odd if index == place else piece[0] for index, piece in enumerate(PIECES))
    for place, oddities in enumerate(PIECES)
    for odd in oddities
]


@pytest.mark.parametrize("line", ODD_LINES)
async def test_a_line_is_read_anew_whatever_comes_after_it(line):
    await compare(f"{line}\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    await compare(f"{line}\r\nHost: localhost\r\n\r\n".encode())


def known(house):
    return house.config.http_protocol_class.familiar


async def test_the_second_request_of_a_kind_does_not_reach_the_parser(house):
    line = house.connect()
    arrive(line, request("/hot/a", method="POST", body=b"{}"))
    house.office.answer(0)
    line.parser = None  # whoever asks it now fails
    arrive(line, request("/hot/b", method="POST", body=b"[]"))
    assert [exchange.body for exchange in house.office.asked] == [b"{}", b"[]"]
    assert house.office.paths() == ["/hot/a", "/hot/b"]
    assert house.office.asked[1].head is not None


@pytest.mark.parametrize(
    ("path", "other", "wanted"),
    [
        ("/hot/a", "/hot/b", ("b",)),
        ("/in/i1/parts", "/in/i1/parts", ("intent:i1",)),
        ("/in/i1/parts/a", "/in/i1/parts/b", ("intent:i1", "b")),
        ("/parts/a", "/parts/b", (None, "b")),
    ],
)
async def test_a_handler_is_called_with_the_same_whether_or_not_the_request_was_recognised(house, path, other, wanted):
    line = house.connect()
    for index, each in enumerate([path, other, other]):
        arrive(line, request(each, method="POST"))
        house.office.answer(index)
    assert [exchange.head is not None for exchange in house.office.asked] == [False, True, True]
    assert handed(house.office.asked[1]) == handed(house.office.asked[2]) == wanted
    fresh = House()
    arrive(fresh.connect(), request(other, method="POST"))
    assert handed(fresh.office.asked[0]) == wanted


async def test_a_space_at_the_end_of_a_path_is_left_to_the_parser(house):
    line = house.connect()
    for index in range(2):
        arrive(line, request("/in/i1", method="POST"))
        house.office.answer(index)
    assert [exchange.head for exchange in house.office.asked] == [None, None]
    assert handed(house.office.asked[1]) == ("intent:i1",)


async def test_a_version_of_its_own_makes_no_head_strange(house):
    line = house.connect()
    arrive(line, request("/hot/a", "If-Match: 1", "Idempotency-Key: one", method="POST", body=b"{}"))
    house.office.answer(0)
    line.parser = None
    arrive(line, request("/hot/a", "If-Match: 22", "Idempotency-Key: two", method="POST", body=b"{}"))
    first, second = house.office.asked
    assert [each.headers[b"if-match"] for each in (first, second)] == [b"1", b"22"]
    assert [each.headers[b"idempotency-key"] for each in (first, second)] == [b"one", b"two"]


async def test_an_attempt_of_its_own_makes_no_head_strange(house):
    line = house.connect()
    arrive(line, request("/hot/a", "Idempotency-Key: one", "X-Agent-ID: ada", method="POST", body=b"{}"))
    house.office.answer(0)
    line.parser = None
    arrive(line, request("/hot/a", "Idempotency-Key: two", "X-Agent-ID: ada", method="POST", body=b"{}"))
    first, second = house.office.asked
    assert (first.headers[b"idempotency-key"], second.headers[b"idempotency-key"]) == (b"one", b"two")
    assert second.headers[b"x-agent-id"] == b"ada"
    house.office.answer(1)
    arrive(line, request("/hot/a", "X-Agent-ID: ada", method="POST", body=b"{}"))
    assert b"idempotency-key" not in house.office.asked[2].headers


async def test_a_field_that_comes_twice_with_one_letter_is_not_left_out_of_the_next_head(house):
    """There is one object for all texts of one byte: by that alone nobody can tell whether a field has come before."""
    line = house.connect()
    for index, headers in enumerate((("Idempotency-Key: z", "Idempotency-Key: z"), ("Idempotency-Key: z",))):
        arrive(line, request("/hot/a", *headers, method="POST", body=b"{}"))
        house.office.answer(index)
    assert [each.headers.get(b"idempotency-key") for each in house.office.asked] == [b"z", b"z"]


async def test_a_name_that_is_too_long_is_never_recognised():
    house = House(limits=Limits(name_chars_max=20))
    line = house.connect()
    for index, path in enumerate(("/in/i1/parts", "/in/i1/parts/" + "x" * 21, "/in/i1/parts/" + "x" * 21)):
        arrive(line, request(path, method="POST", body=b"{}"))
        house.office.answer(index)
    assert [each.head is None for each in house.office.asked] == [True, True, True]


@pytest.mark.parametrize("name", ["X-Agent-ID", "X-Request-ID"])  # recognised, and for the parser
async def test_a_line_with_requests_is_not_idle(house, name):
    line = house.connect()
    for index in range(4):
        arrive(line, request("/hot/a", f"{name}: ada"))
        house.office.answer(index)
        house.wait(70)  # of 75
    assert not line.transport.closed
    house.wait(6)
    assert line.transport.closed


async def test_a_head_that_will_not_come_again_is_not_remembered(house):
    line = house.connect()
    for index, name in enumerate(sorted(heads.UNIQUE)):
        arrive(line, request("/hot/a", f"{name.decode()}: x"))
        house.office.answer(index)
    assert not known(house).heads


async def test_what_is_remembered_has_a_bound(house, monkeypatch):
    monkeypatch.setattr(heads, "HEADS_MAX", 3)
    monkeypatch.setattr(heads, "DOORS_MAX", 2)
    line = house.connect()
    for index, name in enumerate("abcdefgh"):
        arrive(line, request("/hot/a", f"X-{name}: 1", method="GET" if index % 2 else "POST"))
        house.office.answer(index)
        assert len(known(house).heads) <= 3
        assert len(known(house).doors) <= 2
    arrive(line, request("/hot/a", f"X-Long: {'x' * heads.HEAD_BYTES_MAX}"))
    assert not any(b"xxx" in head for head in known(house).heads)


class Ring:
    in_force = True

    def __init__(self):
        self.edition = object()
        self.good = {b"key": Principal("ada", operator=False, agents=None, key_id=b"1")}

    def find(self, shown):
        return self.good.get(shown)

    def end_of(self, shown):
        return "revoked"


class Shown(Exchange):
    """A request of which only the status of its answer is looked at."""

    def write(self) -> None: ...


class Desk:
    """A service with one route, and who was let in there."""

    def __init__(self, ring=None, **fields):
        self.let_in = []
        self.route = Route("POST", "thing", self.handle)
        grantor = Grantor(MemoryEngine(), Limits(), member="test")
        self.service = Service(grantor, Limits(), Router([self.route]), Gate(ring))
        fields = {name.replace("_", "-").encode(): value.encode() for name, value in fields.items()}
        self.head = Head({b"host": b"localhost", **fields}, 2)

    def handle(self, _service, exchange):
        self.let_in.append(exchange.principal.name)
        exchange.conclude_at_once(200, b"")

    def ask(self, count=1):
        """So many requests in one turn, all recognised by one head."""
        asked = [
            Shown(self.service, "POST", "/api/v1/thing", "", self.head.fields, b"{}", self.route, (), self.head)
            for _ in range(count)
        ]
        self.service.dispatch_all(asked)
        return [exchange.status for exchange in asked]


def test_a_key_that_ends_ends_for_heads_that_were_read_before():
    ring = Ring()
    desk = Desk(ring, x_api_key="key")
    assert desk.ask() + desk.ask(2) == [200] * 3
    assert desk.let_in == ["ada"] * 3
    ring.good, ring.edition = {}, object()
    assert desk.ask(2) + desk.ask() == [401] * 3
    assert desk.let_in == ["ada"] * 3


def test_a_key_that_is_made_anew_stands_for_whom_it_stands_for_now():
    ring = Ring()
    desk = Desk(ring, x_api_key="key")
    desk.ask()
    ring.good = {b"key": Principal("bob", operator=False, agents=None, key_id=b"2")}
    ring.edition = object()
    desk.ask(2)
    assert desk.let_in == ["ada", "bob", "bob"]


def test_without_keys_what_was_found_to_be_of_this_machine_stays_so():
    desk = Desk()
    assert desk.ask(2) + desk.ask() == [200] * 3
    assert desk.head.edition is DEV
    assert desk.let_in == [DEV.name] * 3


def test_a_body_that_is_not_json_is_refused_however_often_it_comes():
    desk = Desk(content_type="text/plain")
    assert desk.ask(2) + desk.ask() == [415] * 3
    assert desk.let_in == []


@pytest.mark.parametrize("missing", [1, 2, 4])
async def test_a_head_without_its_end_is_no_request_yet(house, missing):
    line, whole = house.connect(), request("/hot/a")
    arrive(line, whole)
    house.office.answer(0)
    arrive(line, whole[:-missing])
    assert len(house.office.asked) == 1
    arrive(line, whole[-missing:])
    assert len(house.office.asked) == 2
