"""Words for tests of the edges: a connection by hand, and requests that nobody should send."""

import json
import socket

HOST, AGENT, KIND = "Host: localhost", "X-Agent-ID: ada", "Content-Type: application/json"
LEASES, INTENTS = "/api/v1/spaces/edge/leases", "/api/v1/intents"
CHUNKED = "Transfer-Encoding: chunked"
CLOSES, STAYS = True, False


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Line:
    """One connection, by hand."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, raw):
        self.socket.sendall(raw)

    def reply(self, *, bodiless=False):
        first = self.file.readline()
        assert first.startswith(b"HTTP/1.1 "), first
        headers = {}
        while line := self.file.readline().strip():
            name, _, value = line.decode("latin-1").partition(": ")
            headers[name.lower()] = value
        length = 0 if bodiless else int(headers.get("content-length", 0))
        return Reply(int(first.split()[1]), headers, self.file.read(length))

    def ask(self, raw, **how):
        self.send(raw)
        return self.reply(**how)

    def closed(self):
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True


def head(line, *headers, body=None, version="1.1"):
    lines = [f"{line} HTTP/{version}", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def chunks(*pieces):
    return head(f"POST {INTENTS}", HOST, AGENT, KIND, CHUNKED) + b"".join(pieces)


def acquire(*headers, line=f"POST {LEASES}", body=b"{}", version="1.1"):
    """An acquire that would succeed, but for what is wrong with it."""
    return head(line, HOST, AGENT, KIND, *headers, body=body, version=version)


# name: (what is sent, status, code, whether the connection ends)
CASES = {
    # The request line
    "nonsense": (b"nonsense\r\n\r\n", 400, "bad_request", CLOSES),
    "a TLS client": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50), 400, "bad_request", CLOSES),
    "an HTTP/2 client": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "bad_request", CLOSES),
    "HTTP/0.9": (b"GET /livez\r\n\r\n", 400, "bad_request", CLOSES),
    "HTTP/2.0 by name": (acquire(version="2.0"), 400, "bad_request", CLOSES),
    "HTTP/1.2": (acquire(version="1.2"), 400, "bad_request", CLOSES),
    "lines that end in LF": (acquire().replace(b"\r\n", b"\n"), 400, "bad_request", CLOSES),
    "no target": (head("POST ", HOST, AGENT, body=b"{}"), 400, "bad_request", CLOSES),
    "a blank in the target": (acquire(line="POST /api/v1/spaces/a b/leases"), 400, "bad_request", CLOSES),
    "NUL in the target": (acquire(line="POST /api/v1/spaces/a\0b/leases"), 400, "bad_request", CLOSES),
    "a target that is not ASCII": (acquire(line="POST /api/v1/spaces/\xe9/leases"), 400, "bad_request", CLOSES),
    "a query that is not ASCII": (head("GET /api/v1/leases?scope=\xe9", HOST), 400, "bad_request", CLOSES),
    "a target without a slash": (acquire(line="POST api/v1/spaces/edge/leases"), 400, "bad_request", CLOSES),
    "a long target": (acquire(line="POST /" + "a" * 9_000), 414, "headers_too_large", CLOSES),
    "a target without end": (b"GET /" + b"a" * 40_000, 414, "headers_too_large", CLOSES),
    "a star": (head("GET *", HOST), 404, "not_found", STAYS),
    "OPTIONS of a star": (head("OPTIONS *", HOST), 404, "not_found", STAYS),
    "a whole address that is not ours": (
        acquire(line=f"POST http://evil.example{LEASES}"),
        403,
        "forbidden",
        STAYS,
    ),
    "a network path": (head("GET //evil.example/livez", HOST), 404, "not_found", STAYS),
    "steps upwards": (head("GET /api/v1/../livez", HOST), 404, "not_found", STAYS),
    # Methods
    "CONNECT": (head("CONNECT localhost:80", HOST), 400, "bad_request", CLOSES),
    "TRACE": (head("TRACE /livez", HOST), 405, "method_not_allowed", STAYS),
    "OPTIONS": (head(f"OPTIONS {LEASES}", HOST), 405, "method_not_allowed", STAYS),
    "a method of others": (head(f"PROPFIND {LEASES}", HOST), 405, "method_not_allowed", STAYS),
    "no method at all": (head(f"ACQUIRE {LEASES}", HOST), 400, "bad_request", CLOSES),
    "a method in small letters": (acquire(line=f"post {LEASES}"), 400, "bad_request", CLOSES),
    # Headers
    "no Host": (head(f"POST {LEASES}", AGENT, body=b"{}"), 400, "bad_request", CLOSES),
    "two Hosts": (acquire(HOST), 400, "bad_request", CLOSES),
    "an empty Host": (head("GET /livez", "Host:"), 403, "forbidden", STAYS),
    "a blank in a name": (acquire("X Odd: 1"), 400, "bad_request", CLOSES),
    "a blank before the colon": (acquire("X-Odd : 1"), 400, "bad_request", CLOSES),
    "no colon": (acquire("X-Odd"), 400, "bad_request", CLOSES),
    "no name": (acquire(": 1"), 400, "bad_request", CLOSES),
    "a name that is not ASCII": (acquire("X-\xe9: 1"), 400, "bad_request", CLOSES),
    "a control character in a name": (acquire("X-\x01: 1"), 400, "bad_request", CLOSES),
    "NUL in a value": (acquire("X-Odd: a\0b"), 400, "bad_request", CLOSES),
    "escape in a value": (acquire("X-Odd: \x1b[31m"), 400, "bad_request", CLOSES),
    "a lonely CR in a value": (acquire("X-Odd: a\rb"), 400, "bad_request", CLOSES),
    "a lonely LF in a value": (acquire("X-Odd: a\nX-Agent-ID: eve"), 400, "bad_request", CLOSES),
    "a value over two lines": (acquire("X-Odd: a\r\n b"), 400, "bad_request", CLOSES),
    "too many headers": (acquire(*(f"X-{n}: y" for n in range(200))), 431, "headers_too_large", CLOSES),
    "one header too often": (acquire(*["X-Odd: yes"] * 200), 431, "headers_too_large", CLOSES),
    "a large header": (acquire("X-Odd: " + "y" * 65_536), 431, "headers_too_large", CLOSES),
    "a header without end": (acquire("X-Odd: " + "y" * 50_000)[:49_000], 431, "headers_too_large", CLOSES),
    "an expectation of others": (acquire("Expect: a-miracle"), 417, "bad_request", CLOSES),
    "an upgrade with a body": (acquire("Connection: Upgrade", "Upgrade: h2c"), 400, "bad_request", CLOSES),
    # Bodies
    "two lengths": (acquire("Content-Length: 3"), 400, "bad_request", CLOSES),
    "one length twice": (acquire("Content-Length: 2"), 400, "bad_request", CLOSES),
    "a list of lengths": (
        head(f"POST {LEASES}", HOST, AGENT, "Content-Length: 2, 2") + b"{}",
        400,
        "bad_request",
        CLOSES,
    ),
    "a length with a sign": (
        head(f"POST {LEASES}", HOST, AGENT, "Content-Length: +2") + b"{}",
        400,
        "bad_request",
        CLOSES,
    ),
    "less than nothing": (
        head(f"POST {LEASES}", HOST, AGENT, "Content-Length: -2") + b"{}",
        400,
        "bad_request",
        CLOSES,
    ),
    "a length in hexadecimal": (
        head(f"POST {LEASES}", HOST, AGENT, "Content-Length: 0x2") + b"{}",
        400,
        "bad_request",
        CLOSES,
    ),
    "an empty length": (head(f"POST {LEASES}", HOST, AGENT, "Content-Length:") + b"{}", 400, "bad_request", CLOSES),
    "a length beyond all numbers": (
        head(f"POST {LEASES}", HOST, AGENT, "Content-Length: " + "9" * 30),
        400,
        "bad_request",
        CLOSES,
    ),
    "100 MB announced": (
        head(f"POST {LEASES}", HOST, AGENT, "Content-Length: 100000000"),
        413,
        "body_too_large",
        CLOSES,
    ),
    "100 MB announced, with a question": (
        head(f"POST {LEASES}", HOST, AGENT, "Expect: 100-continue", "Content-Length: 100000000"),
        413,
        "body_too_large",
        CLOSES,
    ),
    "a length and chunks": (acquire(CHUNKED), 400, "bad_request", CLOSES),
    "chunks and a length": (
        head(f"POST {LEASES}", HOST, AGENT, CHUNKED, "Content-Length: 2") + b"2\r\n{}\r\n0\r\n\r\n",
        400,
        "bad_request",
        CLOSES,
    ),
    "compressed on the way": (
        chunks(b"2\r\n{}\r\n0\r\n\r\n").replace(b"chunked", b"gzip, chunked"),
        400,
        "bad_request",
        CLOSES,
    ),
    "chunks and then gzip": (chunks(b"0\r\n\r\n").replace(b"chunked", b"chunked, gzip"), 400, "bad_request", CLOSES),
    "another coding": (chunks(b"0\r\n\r\n").replace(b"chunked", b"xchunked"), 400, "bad_request", CLOSES),
    "chunked twice": (acquire(CHUNKED, CHUNKED, body=None), 400, "bad_request", CLOSES),
    "chunks in HTTP/1.0": (chunks(b"0\r\n\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"), 400, "bad_request", CLOSES),
    "a chunk that has no size": (chunks(b"zz\r\n{}\r\n0\r\n\r\n"), 400, "bad_request", CLOSES),
    "a chunk of less than nothing": (chunks(b"-2\r\n{}\r\n0\r\n\r\n"), 400, "bad_request", CLOSES),
    "a chunk beyond all numbers": (chunks(b"f" * 20 + b"\r\n{}"), 400, "bad_request", CLOSES),
    "a chunk that is longer than it says": (chunks(b"2\r\n{}{}\r\n0\r\n\r\n"), 400, "bad_request", CLOSES),
    "a Host behind the body": (chunks(b"2\r\n{}\r\n0\r\nHost: evil.example\r\n\r\n"), 400, "bad_request", CLOSES),
    "chunks without end": (chunks(*[b"10000\r\n" + b" " * 65_536 + b"\r\n"] * 40), 413, "body_too_large", CLOSES),
    "a compressed body": (acquire("Content-Encoding: gzip"), 415, "unsupported_media_type", STAYS),
    "a body that is not JSON": (
        head(f"POST {LEASES}", HOST, AGENT, "Content-Type: text/xml", body=b"<a/>"),
        415,
        "unsupported_media_type",
        STAYS,
    ),
    # Names
    "overlong UTF-8": (acquire(line="POST /api/v1/spaces/%c0%af/leases"), 400, "bad_request", STAYS),
    "half a pair": (acquire(line="POST /api/v1/spaces/%ed%a0%80/leases"), 400, "bad_request", STAYS),
    "no hexadecimal": (acquire(line="POST /api/v1/spaces/%zz/leases"), 400, "bad_request", STAYS),
    "half an escape": (acquire(line="POST /api/v1/spaces/a%2/leases"), 400, "bad_request", STAYS),
    "an escaped NUL": (acquire(line="POST /api/v1/spaces/a%00b/leases"), 400, "bad_request", STAYS),
    "an escaped new line": (acquire(line="POST /api/v1/spaces/a%0d%0ab/leases"), 400, "bad_request", STAYS),
    "a long name": (acquire(line=f"POST /api/v1/spaces/{'a' * 300}/leases"), 400, "bad_request", STAYS),
    "an empty name": (acquire(line="POST /api/v1/spaces//leases"), 404, "not_found", STAYS),
}
