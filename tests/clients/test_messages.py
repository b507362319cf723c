"""HTTP as bytes: what is sent, and how answers are read wherever they are cut."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.client.http import messages
from openintent.client.http.messages import (
    Asked,
    Gathering,
    NoAnswer,
    Origin,
    Reading,
    origin_of,
    parse_head,
    request_bytes,
)
from openintent.client.transport import Identity
from openintent.version import __version__

WHO = Identity("a1", "secret")
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

# Each with its body, and whether its connection may be used again.
ANSWERS = {
    "with a length": (OK + b"content-length: 3\r\n\r\nabc", b"abc", True),
    "with an empty body": (OK + b"Content-Length: 0\r\n\r\n", b"", True),
    "without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "without a reason": (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", b"a", True),
    "that is not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b"", True),
    "in chunks": (CHUNKED + b"3\r\nabc\r\n2;note=1\r\nde\r\n0\r\n\r\n", b"abcde", True),
    "in chunks with a line end in them": (CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n", True),
    "in chunks with something after the last": (CHUNKED + b"1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n", b"a", True),
    "in large numbers": (CHUNKED + b"00A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", True),
    "that closes": (OK + b"CONNECTION: Close\r\ncontent-length: 1\r\n\r\na", b"a", False),
    "of an old server": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", b"a", False),
    "after an announcement": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", b"a", True),
    "after hints": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", b"a", True),
    "with more than it said": (OK + b"Content-Length: 1\r\n\r\nab", b"a", False),
    "with more than its chunks": (CHUNKED + b"1\r\na\r\n0\r\n\r\nb", b"a", False),
}
NO_ANSWERS = {
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "another version": b"HTTP/2 200\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "a header without a name": OK + b": x\r\n\r\n",
    "a header without a colon": OK + b"x\r\n\r\n",
    "a header with a space in its name": OK + b"Content Length: 1\r\n\r\n",
    "a header over two lines": OK + b"X: 1\r\n 2\r\n\r\n",
    "a bare line end": b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
    "a zero byte": OK + b"X: a\0b\r\n\r\n",
    "a length below zero": OK + b"Content-Length: -1\r\n\r\n",
    "a length that is no number": OK + b"Content-Length: 1e3\r\n\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length without end": OK + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
    "a length and chunks": OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "another coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "chunks of an old server": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a compressed answer": OK + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\n",
    "another protocol from here on": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "announcements without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    "headers without end": OK + b"X: " + b"x" * (70 << 10) + b"\r\n\r\n",
    "a head without end": OK + b"X: " + b"x" * (70 << 10),
    "a chunk without a size": CHUNKED + b"\r\n",
    "a chunk of a size below zero": CHUNKED + b"-1\r\n",
    "a chunk that is longer than was said": CHUNKED + b"1\r\nab\r\n",
    "a chunk whose size has no end": CHUNKED + b"1" * 5_000,
    "a chunk larger than any": CHUNKED + b"f" * 16 + b"\r\n",
    "notes on a chunk without end": CHUNKED + b"1;" + b"x" * 5_000,
    "lines after the last chunk without end": CHUNKED + b"0\r\n" + b"X: 1\r\n" * 20_000,
}


def read(pieces: list[bytes]) -> tuple[Gathering, bool]:
    gathering, done = Gathering(), False
    for piece in pieces:
        done = gathering.feed(piece)
    return gathering, done


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer(kind):
    raw, body, reusable = ANSWERS[kind]
    gathering, done = read([raw])
    assert done
    assert gathering.answer().body == body
    assert gathering.reading.reusable is reusable


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_says_the_same_wherever_it_is_cut(kind):
    raw, body, reusable = ANSWERS[kind]
    for at in range(1, len(raw)):
        gathering, done = read([raw[:at], raw[at:]])
        assert done
        assert (gathering.answer().body, gathering.reading.reusable) == (body, reusable), at


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(0, 150)))
def test_an_answer_says_the_same_in_however_many_pieces(kind, cuts):
    raw, body, reusable = ANSWERS[kind]
    places = [0, *sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    gathering, done = read([raw[a:b] for a, b in pairwise(places) if a < b])
    assert done
    assert (gathering.answer().body, gathering.reading.reusable) == (body, reusable)


@pytest.mark.parametrize("kind", sorted(set(ANSWERS) - {"with more than it said", "with more than its chunks"}))
def test_an_answer_that_breaks_off_is_none(kind):
    raw, _, _ = ANSWERS[kind]
    for at in range(len(raw)):
        gathering, done = read([raw[:at]] if at else [])
        assert not done
        with pytest.raises(NoAnswer, match="hung up"):
            gathering.feed(b"")


def test_an_answer_without_a_length_ends_with_its_connection():
    gathering, done = read([OK + b"X: 1\r\n\r\n", b"ab", b"c"])
    assert not done
    assert gathering.feed(b"")
    assert gathering.answer().body == b"abc"
    assert not gathering.reading.reusable


@pytest.mark.parametrize("kind", NO_ANSWERS)
def test_what_breaks_the_rules_is_no_answer(kind):
    with pytest.raises(NoAnswer):
        read([NO_ANSWERS[kind]])
    with pytest.raises(NoAnswer):
        read([NO_ANSWERS[kind][at : at + 7] for at in range(0, len(NO_ANSWERS[kind]), 7)])


@pytest.mark.parametrize("raw", [OK + b"Content-Length: 11\r\n\r\n0", CHUNKED + b"b\r\n01234567890"])
def test_a_body_has_a_bound(monkeypatch, raw):
    monkeypatch.setattr(messages, "BODY_BYTES_MAX", 10)
    with pytest.raises(NoAnswer, match="longer than 10 bytes"):
        read([raw])


def test_an_answer_without_an_end_has_no_bound(monkeypatch):
    monkeypatch.setattr(messages, "BODY_BYTES_MAX", 10)
    reading = Reading()
    assert reading.feed(CHUNKED + b"b\r\n01234567890\r\n") == b"01234567890"
    assert not reading.done


@given(st.binary(max_size=300))
def test_whatever_comes_is_an_answer_or_none(raw):
    for head in (b"", OK, CHUNKED):
        with suppress(NoAnswer):
            read([head + raw])


def test_names_of_headers_are_small_and_repeated_ones_are_joined():
    head = parse_head(b"HTTP/1.1 503 Busy\r\nRetry-AFTER:\t 2 \r\nVia: a\r\nvia: b")
    assert head.headers == {"retry-after": "2", "via": "a, b"}
    assert head.status == 503


# Out


def asked(**changed) -> Asked:
    fields = {"method": "POST", "target": "/api/v1/x?a=1", "who": WHO, "headers": {}, "body": b"{}"}
    return Asked(**{**fields, "timeout_s": 1.0, "connect_s": 1.0, **changed})


def origin(url: str, host: str | None = None) -> Origin:
    found = origin_of(url, host)
    assert found is not None
    return found


def test_a_request_is_one_piece():
    sent = request_bytes(origin("http://a.example:8000/below"), asked(headers={"Idempotency-Key": "k"}))
    assert sent == (
        b"POST /below/api/v1/x?a=1 HTTP/1.1\r\n"
        b"Host: a.example:8000\r\n"
        b"User-Agent: openintent/" + __version__.encode() + b"\r\n"
        b"Accept-Encoding: identity\r\n"
        b"X-Agent-ID: a1\r\nContent-Type: application/json\r\nX-API-Key: secret\r\n"
        b"Idempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(("method", "told"), [("GET", False), ("DELETE", False), ("POST", True), ("PATCH", True)])
def test_a_request_without_a_body_says_so_where_one_is_expected(method, told):
    sent = request_bytes(origin("http://a"), asked(method=method, body=None))
    assert sent.endswith(b"\r\n\r\n")
    assert (b"Content-Length: 0\r\n" in sent) is told


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "\0", "naïve", "a\x7f"])
def test_no_header_can_be_smuggled_in(value):
    with pytest.raises(ValueError, match="cannot be written in a header"):
        request_bytes(origin("http://a"), asked(headers={"Idempotency-Key": value}))
    with pytest.raises(ValueError, match="X-API-Key should say cannot be written") as failure:
        Identity("a1", value)
    assert value not in str(failure.value)


@pytest.mark.parametrize(
    ("url", "host", "port", "below", "named"),
    [
        ("http://a", "a", 80, "", b"Host: a\r\n"),
        ("http://a:80", "a", 80, "", b"Host: a:80\r\n"),
        ("http://127.0.0.1:8000/x/y-z", "127.0.0.1", 8_000, "/x/y-z", b"Host: 127.0.0.1:8000\r\n"),
        ("http://[::1]:8000", "::1", 8_000, "", b"Host: [::1]:8000\r\n"),
        ("unix:/var/s.sock", "/var/s.sock", 0, "", b"Host: localhost\r\n"),
    ],
)
def test_where_a_server_is(url, host, port, below, named):
    found = origin(url)
    assert (found.host, found.port, found.below) == (host, port, below)
    assert found.head.startswith(named)
    assert origin(url, "localhost").head.startswith(b"Host: localhost\r\n")


@pytest.mark.parametrize("url", ["https://a", "http://u:p@a", "http://a/%20", "http://bücher.example", "http://a?b"])
def test_what_is_unusual_is_left_to_the_library(url):
    assert origin_of(url) is None
