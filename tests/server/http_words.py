"""Words that the tests of the server share: the real server as a process, and a client for either of its lanes."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPMessage
from urllib.parse import quote, urlencode, urlsplit

import described

# What cannot stand in a target. A percent sign is the caller's own: some are wrong on purpose.
UNQUOTED = re.compile(r"[^]!$&'()*+,;=:/[@?%\w.~-]", re.ASCII)


@contextmanager
def running_server(*flags: str) -> Iterator[str]:
    """Runs `openintent serve` on a free port, with an engine that forgets; gives its address.

    Whatever was asked of it, it must have had nothing to complain about to its operator.
    """
    settings = {name: value for name, value in os.environ.items() if not name.startswith("OPENINTENT_")}
    command = [sys.executable, "-m", "openintent.cli", "serve", "--port", "0", "--engine", "memory:", *flags]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=settings) as process:
            try:
                assert process.stdout is not None
                ready = next((line for line in process.stdout if "http://127.0.0.1:" in line), None)
                assert ready is not None, f"the server did not start: {_text_of(log)}"
                yield ready.split()[-1]
            finally:
                process.terminate()
        # Without the hot lane, the tests of both lanes would be of one.
        assert not re.search("^Traceback| ERROR |hot lane off", text := _text_of(log), re.MULTILINE), text


def _text_of(log) -> str:
    log.seek(0)
    return log.read()


def is_stream(reply) -> bool:
    return reply.headers.get("content-type", "").startswith("text/event-stream")


@dataclass(frozen=True)
class Reply:
    asked: str  # method and path
    status_code: int
    headers: HTTPMessage
    content: bytes  # nothing of a stream

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self):
        return json.loads(self.content)


class Http:
    """The plainest client that there is: of thousands of requests, most of the time would be a better one's."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc
        self._idle: list[HTTPConnection] = []  # each is used by one thread at a time

    def request(self, method, path, *, content=b"", headers=None, params=None) -> Reply:
        """Content that is not bytes but their iterator is sent in chunks."""
        connection = self._idle.pop() if self._idle else HTTPConnection(self.address, timeout=20)
        target = UNQUOTED.sub(lambda found: quote(found[0], safe=""), path)
        target += f"?{urlencode(params)}" if params else ""
        chunked = not isinstance(content, bytes)
        sent = ({"Transfer-Encoding": "chunked"} if chunked else {}) | (headers or {})
        try:
            connection.request(method, target, content, sent, encode_chunked=chunked)
            reply = connection.getresponse()
            if is_stream(reply):  # it would not end
                reply.close()
                connection.close()
            content = b"" if reply.closed else reply.read()
            return Reply(f"{method} {path}", reply.status, reply.headers, content)
        except BaseException:
            connection.close()
            raise
        finally:
            self._idle.append(connection)

    def close(self) -> None:
        for connection in self._idle:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Api:
    """A plain HTTP client. The hot lane takes no chunked bodies, so a chunked request is one for the ordinary lane."""

    def __init__(self, url: str, lane: str) -> None:
        self.url = url
        self.lane = lane
        self.http = Http(url)

    def send(self, method, path, body=None, *, agent="ada", base="/api/v1", headers=None, **more):
        """One request, its body given as bytes or as what JSON shall say; the answer must be as it is described."""
        sent = {} if agent is None else {"X-Agent-ID": agent}
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        content = iter([raw]) if self.lane == "asgi" else raw
        reply = self.http.request(method, base + path, content=content, headers=sent, **more)
        described.check(method, base + path, reply)
        return reply

    def get(self, path, **options):
        return self.send("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.send("POST", path, body, **options)

    def patch(self, path, body=None, **options):
        return self.send("PATCH", path, body, **options)

    def delete(self, path, **options):
        return self.send("DELETE", path, **options)

    # What many tests begin with

    def intent(self, **fields) -> str:
        """A new intent's id."""
        reply = self.post("/intents", {"title": "Report", **fields})
        assert reply.status_code == 200, reply.text
        return reply.json()["id"]

    def lease(self, where, *, agent="ada", **fields):
        """A new lease, in an intent or a space given by its path."""
        reply = self.post(f"{where}/leases", fields, agent=agent)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def events(self, where, **query):
        return self.get(f"{where}/events", params={"order": "asc", **query}).json()


def refused(reply, status, code):
    """The problem that a refusal carries, after a look at what every problem has in common."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    problem = reply.json()
    assert problem["error"]["code"] == code
    assert set(problem["error"]) == {"code", "message", "hint"}
    assert problem["message"] == problem["error"]["message"]
    assert problem["detail"]
    return problem
