"""Requests drawn by Hypothesis from the table of routes and the shapes in `wire`: those that are right.

A route, a field or a header that is added is drawn by itself, as its type says. What only means something if it
exists is drawn as a mark, such as `<intent>`, for which whoever sends the request puts in what there is; and what a
field asks beyond its type stands in `MEANINGS` and `TOGETHER`. What nobody here knows how to draw is an error.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect as shapes

from openintent.model import Limits
from openintent.server import routes
from openintent.server.routing import NAME, Route

LIMITS = Limits()
AGENT = "ada"  # who holds whatever is held
KEPT = 8  # keys that every intent's state has, by the names kept-0 and so on
MARK = re.compile(rb"<(\w+)>")
SHOWN_MAX = 1_000  # of a request that is shown
WAIT_S_MAX = 0.02  # longer waits are as good, and would be waited for


@dataclass(repr=False)
class Request:
    """A request in its parts, so that one of them can be spoilt."""

    route: Route
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, bytes] = field(default_factory=dict)
    body: Any = None  # an object, or bytes; None for none
    lines: list[bytes] = field(default_factory=list)  # of the head, just as they are
    version: str = "1.1"
    host: bool = True
    framed: bool = False  # the lines say how long the body is
    wrong: str = ""  # what is, in a few words
    codes: frozenset[str] = frozenset()  # one of which must be the answer; empty if it is right

    def __repr__(self) -> str:
        said = f"{self.method} {self.target()} {self.headers} {self.lines} {self.payload()!r}"
        return f"<{self.route.name}: {self.wrong or 'right'}: {said[:SHOWN_MAX]}>"

    def payload(self) -> bytes:
        if self.body is None or isinstance(self.body, bytes):
            return self.body or b""
        return json.dumps(self.body, ensure_ascii=False).encode()

    def target(self) -> str:
        said = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.path}?{said}" if said else self.path

    def written(self, things: Mapping[str, str], *, chunked: bool) -> bytes:
        """As it goes over the wire, about these things. Chunked bodies go by the ordinary lane."""

        def put(text: bytes) -> bytes:
            return MARK.sub(lambda mark: things.get(mark[1].decode(), mark[0].decode()).encode(), text)

        body = put(self.payload())
        lines = [put(f"{self.method} {self.target()} HTTP/{self.version}".encode())]
        lines += [b"Host: localhost"] * self.host
        lines += [name.encode() + b": " + put(value) for name, value in self.headers.items()]
        if not self.framed and chunked:
            lines.append(b"Transfer-Encoding: chunked")
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
        elif not self.framed and body:
            lines.append(b"Content-Length: %d" % len(body))
        return b"\r\n".join([*lines, *self.lines, b"", body])


# Families


def families() -> dict[str, list[Route]]:
    """The routes by what they are about: by the file that they stand in, leases in plain spaces by themselves."""
    found: dict[str, list[Route]] = {}
    for route in routes.ROUTES:
        found.setdefault(_family(route), []).append(route)
    return found


def _family(route: Route) -> str:
    if route.stream:
        return "streams"
    if route.pattern.startswith("spaces/"):
        return "spaces"
    files = {name: each.ROUTES for name, each in vars(routes).items() if hasattr(each, "ROUTES")}
    return next(name for name, table in files.items() if route in table).replace("lease_table", "leases")


# Values by their type

_letters = st.characters(categories=("L", "N", "P", "S"))
names = st.text(_letters, min_size=1, max_size=12) | st.just("n" * LIMITS.name_chars_max)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
integers = st.integers(-(1 << 63), (1 << 64) - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-9, 9) | integers | floats | texts
anything = scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars | st.just([{"a": [0]}]), max_size=3)
objects = st.dictionaries(texts, anything, max_size=3)
slugs = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,30}", fullmatch=True)
scopes = st.lists(names.map(lambda name: name[:10]), min_size=1, max_size=4).map("/".join) | st.just("a/**")


def seconds(least_ms: int, most_ms: int) -> st.SearchStrategy[float]:
    return st.floats(least_ms / 1_000, most_ms / 1_000) | st.sampled_from([least_ms / 1_000, most_ms / 1_000])


def named(mark: str) -> st.SearchStrategy[str]:
    return st.just(f"<{mark}>")


_ttls = seconds(LIMITS.ttl_ms_min, LIMITS.ttl_ms_max)
_holds = seconds(LIMITS.ttl_ms_min, LIMITS.hold_ms_max)

# What a field asks beyond its type, by its name, or by its shape's and its own.
MEANINGS: Mapping[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("ttl_seconds", "duration_seconds"), _ttls),
    **dict.fromkeys(("max_hold_seconds", "progress_seconds"), _holds),
    **dict.fromkeys(
        ("interval_seconds", "unhealthy_after_seconds", "dead_after_seconds", "drain_timeout_seconds"), _holds
    ),
    **dict.fromkeys(("title", "name", "outcome", "reason", "role_id", "endpoint", "role", "decision_type"), names),
    **dict.fromkeys(("created_by", "decided_by", "requested_by", "agent_id"), names | st.just(AGENT)),
    **dict.fromkeys(("parent_intent_id", "parent_id"), named("intent")),
    **dict.fromkeys(("dependency_id", "intent_id"), named("other")),
    "portfolio_id": named("free"),
    "wait_seconds": st.floats(0, WAIT_S_MAX),
    "cooldown_seconds": seconds(0, LIMITS.cooldown_ms_max),
    "heartbeat_interval_seconds": seconds(1, 86_400_000),
    "event_type": names,
    "supervisor_id": names,
    "mode": st.just("exclusive"),
    "AcquireBody.priority": st.integers(-1_000_000, 1_000_000),
    "scope": scopes | st.just("*"),
    "space": st.sampled_from(["intent:", "space:", "coordinator:"]).flatmap(lambda kind: names.map(kind.__add__)),
    "id": slugs,
    "HeldLease.id": named("space_lease") | texts,
    "allowed_agents": st.lists(names, max_size=2).map(lambda others: [*others, AGENT]),
    "depends_on": st.lists(st.sampled_from(["<other>", "<dependency>"]), unique=True),
    "IntentBody.status": st.sampled_from(["draft", "active", "blocked", "completed"]),
    "op": st.sampled_from(["set", "append", "remove"]),
    "requests": st.lists(st.deferred(lambda: struct(_shape("PartBody"))), min_size=1, max_size=4),
    "PartBody.path": st.sampled_from(["/api/v1/spaces/<space>/leases", "/v1/leases/<space_lease>"]) | texts,
    "path": names.map(lambda name: name.replace("/", "-")),
    "StateBody.state": st.dictionaries(texts.filter(bool), anything, min_size=1, max_size=3),
    "max_cost": st.none(),  # no bound on costs is kept
    "patches": st.lists(st.deferred(lambda: struct(_shape("PatchBody"))), min_size=1, max_size=4),
}


def _one(body: dict[str, Any], *fields: str) -> dict[str, Any]:
    """Of these fields only the first that is there."""
    present = [name for name in fields if name in body]
    return {name: value for name, value in body.items() if name not in present[1:]}


def _coordinates(body: dict[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in body.items() if value is not None or not name.endswith("o_id")}
    body = _one(body, "ttl_seconds", "duration_seconds")
    whom = "portfolio_id" if body.get("portfolio_id") else "intent_id"
    rest = {name: value for name, value in body.items() if name not in ("portfolio_id", "intent_id")}
    return {**rest, whom: body.get(whom) or "<other>"}


def _changes_state(body: dict[str, Any]) -> dict[str, Any]:
    """Steps that can be carried out, each out of the way of the others. The token, if any, is the lease's own."""
    body = _one(body, "patches", "state") if "patches" in body or "state" in body else {**body, "state": {"a": 1}}
    for index, step in enumerate(body.get("patches", [])):
        step["path"] = f"kept-{index}" if step["op"] == "remove" else f"{index}{step['path']}"
        if step["op"] != "remove":
            step.setdefault("value", None)
    return body


def _in_order(body: dict[str, Any]) -> dict[str, Any]:
    """Nobody is dead before being unhealthy; and either follows from the rhythm if it is not said."""
    said = ("unhealthy_after_seconds", "dead_after_seconds")
    times = sorted(body[name] for name in said if body.get(name) is not None)
    rest = {name: value for name, value in body.items() if name not in said}
    # A time that follows from a rhythm of weeks is as long as it gets: nobody checks it.
    return {**rest, said[0]: times[0], said[1]: times[-1]} if times else rest


TOGETHER: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "AcquireBody": lambda body: _one(body, "ttl_seconds", "duration_seconds"),
    "RenewBody": lambda body: _one(body, "ttl_seconds", "duration_seconds"),
    "CoordinatorBody": _coordinates,
    "StateBody": _changes_state,
    "HeartbeatConfigBody": _in_order,
}


def _shape(name: str) -> Any:
    from openintent import wire

    return shapes.type_info(getattr(wire, name))


def values(kind: Any, owner: str = "", name: str = "") -> st.SearchStrategy[Any]:
    """Whatever a field of this type may hold; `TypeError` if nobody knows."""
    if isinstance(kind, shapes.UnionType):
        return st.one_of([values(each, owner, name) for each in kind.types])
    if type(kind) not in BY_TYPE:
        raise TypeError(f"{owner}.{name}: nobody knows how to draw {kind}")
    meant = MEANINGS.get(f"{owner}.{name}", MEANINGS.get(name))
    if meant is not None and not isinstance(kind, shapes.NoneType | shapes.LiteralType):
        return meant
    return BY_TYPE[type(kind)](kind)


def _numbers(kind: Any, *, whole: bool) -> st.SearchStrategy[Any]:
    least, most = kind.ge, kind.le
    if whole:
        return integers if least is None and most is None else st.integers(least, most)
    least = kind.gt if least is None else least
    return st.floats(least, most, exclude_min=kind.gt is not None, allow_nan=False, allow_infinity=False)


def struct(kind: Any) -> st.SearchStrategy[dict[str, Any]]:
    owner = kind.cls.__name__
    drawn = {each.encode_name: values(each.type, owner, each.encode_name) for each in kind.fields}
    needed = {each.encode_name: drawn.pop(each.encode_name) for each in kind.fields if each.required}
    return st.fixed_dictionaries(needed, optional=drawn).map(TOGETHER.get(owner, lambda body: body))


BY_TYPE: Mapping[type, Callable[[Any], st.SearchStrategy[Any]]] = {
    shapes.NoneType: lambda _: st.none(),
    shapes.StrType: lambda _: texts,
    shapes.IntType: lambda kind: _numbers(kind, whole=True),
    shapes.FloatType: lambda kind: _numbers(kind, whole=False),
    shapes.BoolType: lambda _: st.booleans(),
    shapes.LiteralType: lambda kind: st.sampled_from(kind.values),
    shapes.ListType: lambda kind: st.lists(values(kind.item_type), max_size=3),
    shapes.DictType: lambda _: objects,
    shapes.AnyType: lambda _: anything,
    shapes.RawType: lambda _: anything,
    shapes.StructType: struct,
}


# The other parts of a request

PLACES: Mapping[str, str] = {  # the word before a name in a path, and what there is by that name
    "intents": "intent",
    "spaces": "space",
    "portfolios": "portfolio",
    "agents": "agent",
    "coordinators": "coordinator",
    "dependencies": "dependency",
}
INSTEAD: Mapping[str, str] = {"delete_intent": "other"}  # nothing hangs on this one

HEADERS: Mapping[str, st.SearchStrategy[bytes]] = {
    "X-Agent-ID": st.sampled_from([AGENT, AGENT, AGENT, "bob", "Ada Łovelace"]).map(str.encode),
    "Idempotency-Key": st.sampled_from(["<fresh>", "<fresh> é", "<fresh>~"]).map(str.encode),
    "If-Match": st.sampled_from([b"*", b"*", b"1", b'"2"', b"7"]),
    "X-Lease-Token": st.sampled_from([b"", b"1", b"999999999999999999"]),
    "Last-Event-ID": st.sampled_from([b"", b"0", b"1"]),
}
NEEDS_AGENT = "agent_required"  # among the codes of routes that only seem to do without one


def path(route: Route) -> str:
    """The route's path with marks for its names; `KeyError` if nobody knows what stands in it."""
    segments = route.pattern.split("/")
    for index, segment in enumerate(segments):
        if segment == NAME:
            word = segments[index - 1]
            place = segments[0].removesuffix("s") if index > 1 else "space"
            mark = f"{place}_lease" if word == "leases" else INSTEAD.get(route.name, PLACES[word])
            segments[index] = f"<{mark}>"
    whole = "/".join(segments)
    return whole if whole.startswith("/") else f"/api/v1/{whole}"


def queries(route: Route) -> st.SearchStrategy[dict[str, str]]:
    """After the question mark: an attempt is one that was made, and must be named."""
    if route.query is None:
        return st.builds(dict)
    kind = shapes.type_info(route.query)
    drawn = {each.name: values(_said(each.type), "Query", each.name).map(_quoted) for each in kind.fields}
    if "attempt" in drawn:
        return st.builds(dict, attempt=st.just(f"<attempt_{(route.space or '').strip(':').replace(':', '_')}>"))
    if route.query.__name__ == "AllLeasesQuery":  # ended ones are listed for one space at a time
        drawn["status"] = st.just("active")
    return st.fixed_dictionaries({}, optional=drawn)


def _said(kind: Any) -> Any:
    """A type without None, which is to be left out."""
    return kind.types[0] if isinstance(kind, shapes.UnionType) else kind


def _quoted(value: Any) -> str:
    from urllib.parse import quote

    return quote(str(value), safe="<>")


@cache
def valid(route: Route) -> st.SearchStrategy[Request]:
    """Requests for this route with which nothing is wrong."""
    optional = {name: HEADERS[name] for name in route.reads}
    needed = {name: HEADERS[name] for name in route.needs}
    if NEEDS_AGENT in route.codes:
        needed["X-Agent-ID"] = optional.pop("X-Agent-ID", HEADERS["X-Agent-ID"])
    body = st.none() if route.body is None else struct(shapes.type_info(route.body))
    return st.builds(
        Request,
        route=st.just(route),
        method=st.just(route.method),
        path=st.just(path(route)),
        query=queries(route),
        headers=st.fixed_dictionaries(needed, optional=optional),
        body=body,
    )


def fields_of(shape: type) -> list[shapes.Field]:
    kind = shapes.type_info(shape)
    assert isinstance(kind, shapes.StructType)
    return list(kind.fields)
