"""What can be wrong around the fields of a body: with the bytes, the query, the headers, the path."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

from faults import MISSING, UNKNOWN, Draw, Fault, body_faults, nested
from faults_http import AROUND
from hypothesis import strategies as st
from msgspec import inspect as shapes
from strategies import LIMITS, NEEDS_AGENT, Request, fields_of, valid

from openintent.server.routing import Route

Spoil = Callable[[Draw, Request], None]


# The bytes of a body


def _bytes_faults(route: Route) -> list[Fault]:
    if route.body is None:
        return []
    found = [Fault(f"a body that is {what}", partial(_bytes, change)) for what, change in BYTES.items()]
    if any(each.required for each in fields_of(route.body)):
        found.append(Fault("no body", partial(_bytes, lambda _draw, _raw: b"")))
    return found


def _bytes(change: Callable[[Draw, bytes], bytes], draw: Draw, request: Request) -> None:
    request.body = change(draw, request.payload())


def _cut(draw: Draw, raw: bytes) -> bytes:
    return raw[: draw(st.integers(1, len(raw) - 1))]


def _with(text: bytes, raw: bytes) -> bytes:
    """With one more field, whose name nobody knows."""
    return b'{"zz":%b%b' % (text, b"," + raw[1:] if len(raw) > 2 else b"}")


def _among(*texts: bytes) -> Callable[[Draw, bytes], bytes]:
    return lambda draw, _: draw(st.sampled_from(texts))


def _holding(*texts: bytes) -> Callable[[Draw, bytes], bytes]:
    return lambda draw, raw: _with(draw(st.sampled_from(texts)), raw)


BYTES: Mapping[str, Callable[[Draw, bytes], bytes]] = {
    "cut off": _cut,
    "followed by more": lambda draw, raw: raw + draw(st.sampled_from([b"}", b"{}", b"x", b"\0", b","])),
    "not an object": _among(b"[]", b"[{}]", b"null", b"true", b"7", b'"a"', b'"{}"'),
    "not JSON": _among(b"{", b"{a:1}", b"{'a':1}", b'{"a":1,}', b"a=1", b"<a/>", b"\0", b"- a: 1", b"//\n{}"),
    "not UTF-8": _holding(b'"\xff"', b'"\xc0\xaf"', b'"\xed\xa0\x80"', b'"a\x80"', b'"\xf8\x88\x80\x80\x80"'),
    "in another encoding": lambda draw, raw: raw.decode().encode(draw(st.sampled_from(["utf-16", "utf-32-be"]))),
    "with a byte order mark": lambda _draw, raw: b"\xef\xbb\xbf" + raw,
    "with half a surrogate": _holding(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\u0041"'),
    "with a bad escape": _holding(b'"\\x41"', b'"\\u12"', b'"\\"', b'"a\nb"', b'"\0"'),
    "with no number": _holding(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"01", b"+1", b".5", b"1.", b"0x1", b"--1"),
    "with a number beyond 64 bits": _holding(b"18446744073709551616", b"-9223372036854775809", b"9" * 5_000),
    "nested without end": _holding(b"[" * 20_000, b'{"a":' * 20_000, json.dumps(nested(100)).encode()[:-100]),
    "with a name twice": lambda draw, raw: draw(
        st.sampled_from([_with(b'1,"zz":2', raw), _with(b'{"a":1,"a":1}', raw)])
    ),
}


# Headers


_UNPRINTABLE = ["\u202ea", "a\u200b", "\u0085", "\ud7ff\u2028"]
_BAD_NAMES = [b"\xff", b"a\xc0\xaf", b"n" * (LIMITS.name_chars_max + 1), *(each.encode() for each in _UNPRINTABLE)]
BAD_HEADERS: Mapping[str, list[bytes]] = {
    "X-Agent-ID": _BAD_NAMES,
    "Idempotency-Key": [b"", *_BAD_NAMES],
    "If-Match": [b"", b"abc", b"-1", b"1.0", b"1e3", b"9" * 19, b"W/1", b"**", b"\xd9\xa1", b"1, 2", b"null"],
    "X-Lease-Token": [b"abc", b"-1", b"1.0", b"9" * 19, b"\xd9\xa1", b"0x1", b'"1"'],
    "Last-Event-ID": [b"abc", b"-1", b"1.0", b"9" * 19, b"\xd9\xa1"],
}


def _header_faults(route: Route) -> list[Fault]:
    needed = [*route.needs, *(["X-Agent-ID"] if NEEDS_AGENT in route.codes else [])]
    found = [Fault(f"{name}: bad", _header(name, BAD_HEADERS[name])) for name in {*route.needs, *route.reads}]
    found += [Fault(f"{name}: missing", partial(_no_header, name), MISSING) for name in needed]
    return found


def _header(name: str, wrong: list[bytes]) -> Spoil:
    def spoil(draw: Draw, request: Request) -> None:
        request.headers[name] = draw(st.sampled_from(wrong))

    return spoil


def _no_header(name: str, _: Draw, request: Request) -> None:
    del request.headers[name]
    if isinstance(request.body, dict):  # which may say the same
        request.body.pop("agent_id", None)


# The query


def _query_faults(route: Route) -> list[Fault]:
    if route.query is None:
        return []
    found = []
    for each in fields_of(route.query):
        wrong = _bad_query_values(each.type)
        if wrong:
            found.append(Fault(f"?{each.name}: bad", partial(_asked, each.name, wrong)))
        if each.name == "attempt":
            found.append(Fault("?attempt: missing", lambda _draw, request: request.query.clear()))
            found.append(Fault("?attempt: empty", partial(_asked, "attempt", [""])))
    return found


def _bad_query_values(kind: Any) -> list[str]:
    """Any text is a text; what is none of these must be offered, or a number within bounds."""
    kind = kind.types[0] if isinstance(kind, shapes.UnionType) else kind
    if isinstance(kind, shapes.LiteralType):
        return ["", "nothing", "ACTIVE", "active%00", "%FF", "active,all"]
    if isinstance(kind, shapes.IntType):
        beyond = [str(kind.ge - 1), str(kind.le + 1), str(1 << 70), "9" * 5_000]
        return ["", "a", "1.0", "1e1", "%2B1", "+1", "1%00", "%D9%A1", "0x1", "NaN", "1%2C2", "%EF%BC%91", *beyond]
    assert isinstance(kind, shapes.StrType), kind
    return []


def _asked(name: str, wrong: list[str], draw: Draw, request: Request) -> None:
    request.query[name] = draw(st.sampled_from(wrong))


# The path

BAD_NAMES = ["%", "%zz", "a%2", "%ff", "%C0%AF", "%ED%A0%80", "%00", "a%0Ab", "%0D%0A", "%1B", "%7F", "%E2%80%AE"]
BAD_NAMES += ["n" * (LIMITS.name_chars_max + 1), "%C3%BC" * (LIMITS.name_chars_max + 1)]
MUST_EXIST = ("intent", "portfolio", "coordinator", "other", "intent_lease", "space_lease")


def _path_faults(route: Route) -> list[Fault]:
    if "{}" not in route.pattern:
        return []
    found = [Fault("a name in the path: bad", partial(_named, BAD_NAMES), UNKNOWN)]
    if not route.pattern.startswith(("agents", "spaces", "subscribe/agents", "subscribe/spaces")):
        found.append(Fault("a name in the path: unknown", partial(_named, ["nothing", "..", "%2e%2e", "*"]), UNKNOWN))
    return found


def _named(wrong: list[str], draw: Draw, request: Request) -> None:
    head, mark, rest = request.path.partition("<")
    request.path = head + draw(st.sampled_from(wrong)) + rest.partition(">")[2]
    assert mark


# All


@cache
def faults_of(route: Route) -> list[Fault]:
    inside = [*body_faults(route), *_bytes_faults(route)]
    return [*inside, *_query_faults(route), *_header_faults(route), *_path_faults(route), *AROUND]


@st.composite
def bad(draw: Draw, route: Route, fault: Fault | None = None) -> Request:
    """A request for this route with which one thing is wrong, and which: this one, or any."""
    fault = fault or draw(st.sampled_from(faults_of(route)))
    request = replace(draw(valid(route)), wrong=fault.what, codes=fault.codes)
    fault.spoil(draw, request)
    return request
