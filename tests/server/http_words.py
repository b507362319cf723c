"""Words that the tests of the server share: the real server as a process, and a client for either of its lanes."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import described
import httpx2


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


class Api:
    """A plain HTTP client. The hot lane takes no chunked bodies, so a chunked request is one for the ordinary lane."""

    def __init__(self, url: str, lane: str) -> None:
        self.url = url
        self.lane = lane
        self.http = httpx2.Client(base_url=url, timeout=20)

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
