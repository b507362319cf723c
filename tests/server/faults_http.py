"""What can be wrong with the HTTP around a request, whatever its route: thousands of each kind, drawn by their grammar.

What a server may let pass is not among it: a port in `Host` that nobody listens on, or a body that nobody reads.
"""

import string
from collections.abc import Callable
from urllib.parse import quote

from faults import KIND, MALFORMED, TOO_LARGE, UNKNOWN, Draw, Fault
from hypothesis import strategies as st
from strategies import Request

from openintent.server.routes import ROUTES
from openintent.server.sweep import Bounds

Spoil = Callable[[Draw, Request], None]
Lines = st.SearchStrategy[bytes]

BOUNDS = Bounds()
FORBIDDEN = MALFORMED | {"forbidden"}
NOT_TAKEN = UNKNOWN | {"method_not_allowed"}

_LETTERS = string.ascii_letters + string.digits
_DELIMITERS = '"(),/;<=>?@[\\]{} '
_CONTROLS = "".join(map(chr, [*range(9), 11, 12, *range(14, 32), 127]))
_tokens = st.text(_LETTERS + "!#$%&'*+-.^_`|~", min_size=1, max_size=16)
_words = st.text(_LETTERS, min_size=1, max_size=12)
_values = st.text(_LETTERS + _DELIMITERS, max_size=16)
_bytes = st.binary(min_size=1, max_size=6).map(lambda raw: bytes(each | 0x80 for each in raw))  # no ASCII


def _joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(each) if isinstance(each, str) else each for each in parts)).map("".join)


def _line(*parts: st.SearchStrategy[str] | str) -> Lines:
    return _joined(*parts).map(lambda text: text.encode("latin-1"))


def _lines(lines: Lines, *, framed: bool = False) -> Spoil:
    def spoil(draw: Draw, request: Request) -> None:
        request.lines = [draw(lines)]
        request.framed = framed

    return spoil


# The first line

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "LOCK", "SEARCH", "PURGE", "get"]
VERSIONS = ["2.0", "0.9", "3", "1.2", "1", "x", "1.10", "01.1", "1,1", "1.1 x"]


def _another_method(draw: Draw, request: Request) -> None:
    offered = {route.method for route in ROUTES if route.pattern == request.route.pattern}
    # HEAD is GET without a body, and CONNECT speaks to a proxy.
    others = (st.sampled_from(METHODS) | _tokens).filter(lambda name: name not in offered | {"HEAD", "CONNECT"})
    request.method = draw(others)
    request.body = None


def _version(draw: Draw, request: Request) -> None:
    numbers = _joined(st.sampled_from("023456789"), ".", st.sampled_from(string.digits))
    request.version = draw(st.sampled_from(VERSIONS) | numbers | _tokens.filter(lambda said: said[0] != "1"))


def _long_target(draw: Draw, request: Request) -> None:
    length = draw(st.integers(BOUNDS.target_bytes_max, 9 * BOUNDS.target_bytes_max))
    request.query[draw(_words)] = draw(st.sampled_from(["x", "%41", "a&b="])) * length


def _in_target(draw: Draw, request: Request) -> None:
    letters = st.sampled_from(_CONTROLS + " \t") | st.characters(min_codepoint=0xA1, max_codepoint=0xD7FF)
    request.path += draw(_joined(st.text(_LETTERS, max_size=8), letters, st.text(_LETTERS, max_size=8)))


def _no_such_path(draw: Draw, request: Request) -> None:
    """A segment is empty, or spelt with a percent sign where the path itself is fixed: it is matched as it came."""
    first, slash, rest = request.path[1:].partition("/")
    at = draw(st.integers(0, len(first) - 1))
    spelt = first[:at] + f"%{ord(first[at]):02{draw(st.sampled_from('xX'))}}" + first[at + 1 :]
    wrong = [f"{spelt}{slash}{rest}", f"{first}/{slash}{rest}", f"/{first}{slash}{rest}"]
    request.path = "/" + draw(st.sampled_from(wrong)) + draw(st.just("") | _joined("//", _tokens.map(quote)))


# Hosts and origins: without keys, a server is for its own machine

_ports = st.just("") | st.integers(1, 65_535).map(":{}".format)
_domains = st.lists(_words, min_size=1, max_size=3).map(".".join)
_addresses = st.ip_addresses(v=4).filter(lambda address: not address.is_loopback).map(str)
_addresses |= st.ip_addresses(network="2001:db8::/32").map("[{}]".format)
_strangers = st.one_of(
    _joined(_domains, st.sampled_from([".example", ".com", ".local", "."])),
    _joined("localhost.", _domains),
    _joined("127.0.0.1.", _domains),
    _joined(_domains, ".localhost"),
    _addresses,
)
_broken_hosts = _joined(st.sampled_from(["[", "]", "[::1", "/", "?", "#", "@", "[zz]"]), _words)


def _host(draw: Draw, request: Request) -> None:
    request.host = False
    said = _joined(_strangers | _joined("localhost@", _strangers), _ports) | _broken_hosts | st.just("")
    request.lines = [b"Host: " + draw(said).encode()]


def _no_host(_: Draw, request: Request) -> None:
    request.host = False


_two_hosts = _line("Host: ", _strangers | st.just("localhost"), _ports)
_schemes = st.sampled_from(["http", "https", "ws", "HTTP"])
_origins = _line("Origin: ", _joined(_schemes, "://", _strangers, _ports) | st.just("null") | _values)

# Headers

_sizes = st.integers(BOUNDS.header_bytes_max, 4 * BOUNDS.header_bytes_max)
_separators = st.sampled_from(_DELIMITERS) | st.characters(min_codepoint=0x80, max_codepoint=0xFF)
_names = _joined(_tokens, _separators, _tokens)
_broken = st.one_of(
    _tokens.map(str.encode),
    _line(": ", _values),
    _line(_tokens, " : ", _values),
    _line(_names, ": ", _values),
    _line(_tokens, ": ", _values, st.sampled_from(_CONTROLS.replace("\t", "")), _values),
    _line(_tokens, ": ", _words, st.sampled_from(["\r", "\r\r"]), _words),
    _line(_tokens, ": ", _words, st.sampled_from(["\n ", "\r\n ", "\r\n\t"]), _words),
)


def _many_headers(draw: Draw, request: Request) -> None:
    name, most = draw(_words), BOUNDS.headers_max
    many = [f"{name}-{number}: a".encode() for number in range(draw(st.integers(most, 100 * most)))]
    large = f"{name}: ".encode() + b"x" * draw(_sizes)
    same = [large[: BOUNDS.header_bytes_max // 8]] * draw(st.integers(9, 40))
    request.lines = draw(st.sampled_from([many, [large], same]))


_expected = _tokens.filter(lambda said: said.lower() != "100-continue")
_expectations = _line("Expect: ", st.just("100-continue, ") | st.just(""), _expected)

# How long a body is, and what it is

_numbers = st.integers(0, 99).map(str)
_no_numbers = st.one_of(
    _joined(st.sampled_from("+-"), _numbers),
    _joined(_numbers, st.sampled_from(["e1", ".0", "x", "_0", ",", " 0", ";", "\xb2"])),
    _joined(st.sampled_from(["0x", "0b", "#", "x"]), _numbers),
    _joined(_numbers, ", ", _numbers),
    st.integers(1 << 64, 1 << 200).map(str),
    st.sampled_from(["", "zero", "NaN", "\x31\xb2"]),
)
_two_numbers = st.tuples(_numbers, _numbers).map("\r\nContent-Length: ".join)
_lengths = _line("Content-Length: ", _no_numbers | _two_numbers)
_other_codings = _tokens.filter(lambda said: said.lower() not in {"chunked", "identity"})
_more_codings = st.sampled_from(["", "chunked, ", "chunked,chunked, ", "chunked\r\nTransfer-Encoding: "])
_codings = st.one_of(
    _line("Transfer-Encoding: ", _more_codings, _other_codings),
    _line("Transfer-Encoding: chunked\r\nContent-Length: ", _numbers),
    _line("Content-Length: ", _numbers, "\r\nTransfer-Encoding: chunked"),
)
_too_large = _line("Content-Length: ", st.integers(BOUNDS.body_bytes_max + 1, (1 << 63) - 1).map(str))
_no_sizes = st.one_of(
    _joined(st.sampled_from("ghijxyzGXZ-+_ "), _words),
    _joined(_numbers, st.sampled_from(["x", "z", " ", "-"]), _numbers),
    st.integers(1 << 64, 1 << 90).map("{:x}".format),
)


def _broken_chunk(draw: Draw, request: Request) -> None:
    """A size that is none, or data that goes on beyond its size."""
    request.lines, request.framed = [b"Transfer-Encoding: chunked"], True
    text = draw(_words)
    beyond = f"{draw(st.integers(0, len(text) - 1)) or 1:x}\r\n{text}x\r\n0\r\n\r\n"
    request.body = draw(st.sampled_from([draw(_no_sizes) + f"\r\n{text}\r\n0\r\n\r\n", beyond])).encode()


def _upgrade(draw: Draw, request: Request) -> None:
    """Whoever wants to speak something else has no body for us."""
    request.body = request.payload() or draw(_words).encode()
    request.lines = [b"Connection: Upgrade", b"Upgrade: " + draw(_tokens).encode()]


_kinds = _joined(_tokens, "/", _tokens).filter(lambda kind: kind.lower() != "application/json" and "+json" not in kind)
_parameters = st.just("") | _joined("; ", _tokens, "=", _words)
_KINDS = ["application/x-www-form-urlencoded", "application/jsonp", "application/json, text/plain", "json", "\xff"]


def _another_kind(draw: Draw, request: Request) -> None:
    request.body = request.payload() or b"{}"
    request.headers["Content-Type"] = draw(_line(st.sampled_from(_KINDS) | _kinds, _parameters))


def _compressed(draw: Draw, request: Request) -> None:
    request.body = b"\x1f\x8b\x08" + draw(_bytes)
    coding = st.sampled_from(["gzip", "br", "deflate", "identity, gzip"]) | _other_codings
    request.headers["Content-Encoding"] = draw(coding).encode()


AROUND = [
    Fault("a body of another kind", _another_kind, KIND),
    Fault("a compressed body", _compressed, KIND),
    Fault("another method", _another_method, NOT_TAKEN),
    Fault("no host", _no_host),
    Fault("the host of another machine", _host, FORBIDDEN),
    Fault("two hosts", _lines(_two_hosts)),
    Fault("the origin of another machine", _lines(_origins), FORBIDDEN),
    Fault("another version of HTTP", _version),
    Fault("too many headers", _many_headers, TOO_LARGE),
    Fault("a target too long", _long_target, TOO_LARGE),
    Fault("a character that no target has", _in_target, UNKNOWN),
    Fault("a path that there is not", _no_such_path, UNKNOWN),
    Fault("a length that is none", _lines(_lengths, framed=True), TOO_LARGE),
    Fault("a coding that is not offered", _lines(_codings, framed=True)),
    Fault("a chunk that is none", _broken_chunk),
    Fault("a line that is no header", _lines(_broken)),
    Fault("an expectation", _lines(_expectations)),
    Fault("an upgrade with a body", _upgrade),
    Fault("a body too large", _lines(_too_large, framed=True), TOO_LARGE),
]
