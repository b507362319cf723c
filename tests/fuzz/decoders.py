"""Fuzz targets for everything that reads bytes from others. Each takes any bytes, and fails if a promise is broken."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import msgspec
from lane_words import House, Office, settle

from openintent import records
from openintent.client.sse import Parser
from openintent.core import scopes
from openintent.errors import BY_CODE, EngineCorrupt
from openintent.model import Limits
from openintent.server import bodies, problems, query
from openintent.server.exchange import Exchange
from openintent.server.routes import ROUTER, ROUTES
from openintent.server.routing import BadName, Match, decoded

LIMITS = Limits()
BODIES = sorted({route.body for route in ROUTES if route.body is not None}, key=lambda shape: shape.__name__)
QUERIES = sorted({route.query for route in ROUTES if route.query is not None}, key=lambda shape: shape.__name__)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "BREW")
KINDS = sorted(records.KINDS)
CUTS_MAX = 8
SCOPES_MAX = 6  # each is compared with each, after each

_runner = asyncio.Runner()


def request(*, asked: str = "", headers: dict[bytes, bytes] | None = None) -> Exchange:
    """One of which only one part matters; whoever answers it fails."""
    return Exchange(Office(), "GET", "/", asked, headers or {})


def chosen(data: bytes, among: Any) -> tuple[Any, bytes]:
    """One of these, by the first byte, and the rest."""
    return among[data[0] % len(among)] if data else among[0], data[1:]


def pieces(data: bytes) -> tuple[list[bytes], bytes]:
    """The data whole and cut up; its first bytes say where."""
    number, rest = chosen(data, range(CUTS_MAX))
    places, whole = sorted(rest[:number]), rest[number:]
    cuts = [0, *(place * len(whole) // 256 for place in places), len(whole)]
    return [whole[one:other] for one, other in pairwise(cuts)], whole


def refusal(refused: problems.Refused) -> None:
    """What a refusal must be like, whatever was refused."""
    assert 400 <= refused.status < 500, refused.status
    said = json.loads(problems.encode(refused.problem))
    assert said["error"]["code"] in BY_CODE


# Requests


def body(data: bytes) -> None:
    """A body is refused, or it is JSON by everybody's rules, and fits its shape."""
    shape, raw = chosen(data, BODIES)
    try:
        value, _ = bodies.decode_loosely(shape, raw)
    except problems.Refused as refused:
        refusal(refused)
        return
    assert isinstance(value, shape)
    whole = json.loads(raw or b"{}", object_pairs_hook=_once, parse_constant=_no_constant)
    assert isinstance(whole, dict)
    msgspec.msgpack.encode(whole)  # so can every engine


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), "a name twice"
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no number")


def asked_for(data: bytes) -> None:
    """A query is refused, or within the bounds of its shape."""
    shape, raw = chosen(data, QUERIES)
    try:
        value, ignored = query.decode(shape, request(asked=raw.decode("latin-1")))
    except problems.Refused as refused:
        refusal(refused)
        return
    msgspec.convert(msgspec.structs.asdict(value), shape)
    assert ignored.count(b"\r\n") <= 1


def path(data: bytes) -> None:
    """A path has a route or none, and its names are printable or refused."""
    method, raw = chosen(data, METHODS)
    text = "/" + raw.decode("latin-1")
    found = ROUTER.find(method, text)
    if not isinstance(found, Match):
        assert found is None or (found and method not in found)
        return
    assert found.route.method == method
    assert len(found.names) == found.route.pattern.count("{}")
    for name in found.names:
        try:
            meant = decoded(name, chars_max=LIMITS.name_chars_max)
        except BadName:
            continue
        assert meant.isprintable()
        assert 1 <= len(meant) <= LIMITS.name_chars_max


def header(data: bytes) -> None:
    """A header is a text or a number that can be used, or refused."""
    headers = dict.fromkeys((b"x-agent-id", b"idempotency-key", b"if-match", b"x-lease-token"), data)
    exchange = request(headers=headers)
    for read in (_agent, _attempt, bodies.expected_version, _token):
        try:
            value = read(exchange)
        except problems.Refused as refused:
            refusal(refused)
        else:
            assert value is None or value == "" or str(value).isprintable()


def _agent(exchange: Exchange) -> str:
    return bodies.actor(exchange, LIMITS)


def _attempt(exchange: Exchange) -> str | None:
    return bodies.attempt(exchange, LIMITS)


def _token(exchange: Exchange) -> int | None:
    return bodies.lease_token(exchange, None)


# Connections


class Clerk(Office):
    """Answers at once."""

    def dispatch(self, exchange: Any) -> None:
        self.asked.append(_kept(exchange.method, exchange.path, exchange.query, exchange.headers, exchange.body))
        exchange.conclude_at_once(200, b"{}")


class Application:
    """The same for what the hot lane leaves to others."""

    def __init__(self, clerk: Clerk) -> None:
        self.clerk = clerk

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        whole, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            whole, more = whole + message.get("body", b""), message.get("more_body", False)
        target = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        self.clerk.asked.append(_kept(scope["method"], *target, dict(scope["headers"]), whole))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def _kept(method: str, target: str, said: str, headers: dict[bytes, bytes], whole: bytes) -> tuple[Any, ...]:
    return method, target, said, sorted(headers.items()), bytes(whole)


def connection(data: bytes) -> None:
    """However a connection's bytes are cut, the same is understood; and it is never cut off without a word."""
    parts, whole = pieces(data)
    assert _runner.run(_heard(parts)) == _runner.run(_heard([whole]))


async def _heard(parts: list[bytes]) -> tuple[list[Any], list[int]]:
    house = House()
    house.office = Clerk()
    house.config.http_protocol_class.service = house.office
    house.config.loaded_app = Application(house.office)
    line = house.connect()
    for part in parts:
        line.data_received(part)
        await settle()
    await settle()
    wire = line.transport
    assert not wire.aborted, "a callback of the parser failed"
    line.connection_lost(None)
    await settle()
    assert set(wire.statuses()) <= {100, 200, 400, 413, 414, 417, 431}, wire.sent
    # Whether a client was told to go on depends on when its body came.
    return house.office.asked, [status for status in wire.statuses() if status != 100]


# Others


def record(data: bytes) -> None:
    """Bytes from an engine are a value that would be written the same way again, or `EngineCorrupt`."""
    kind, raw = chosen(data, KINDS)
    try:
        value = records.decode(f"{kind}/x", raw)
    except EngineCorrupt:
        return
    written = records.encode(value)
    assert records.encode(records.decode(f"{kind}/x", written)) == written


def events(data: bytes) -> None:
    """However a stream is cut, the same messages are found in it."""
    parts, whole = pieces(data)
    parser, other = Parser(), Parser()
    found = [message for part in parts for message in parser.feed(part)]
    assert found == other.feed(whole)
    for message in found:
        assert message.data is None or "\r" not in message.data


def scope(data: bytes) -> None:
    """Names of scopes are refused or overlap as the rules say, and the index finds what a list finds."""
    given = data.decode("utf-8", "replace").split("\n")[:SCOPES_MAX]
    names = [name for name in given if scopes.problem(name, LIMITS) is None]
    index: scopes.ScopeIndex[str] = scopes.ScopeIndex()
    held: list[str] = []
    for name in names:
        if name in held:
            index.remove(name)
            held.remove(name)
        else:
            index.add(name, "ada", name)
            held.append(name)
        for asked in names:
            assert sorted(index.overlapping(asked)) == sorted(each for each in held if scopes.overlap(each, asked))
            assert (index.other(asked, "bob") is not None) == any(scopes.overlap(each, asked) for each in held)
