"""Words for tests of a connection in process: a transport that remembers, and a service that the test controls."""

import asyncio
import json
import re
from collections import Counter

from uvicorn.config import Config
from uvicorn.server import ServerState

from openintent.model import Limits
from openintent.server.hotlane import Bounds, hot_protocol
from openintent.server.overload import Overload
from openintent.server.routing import Route, Router
from openintent.server.sweep import Sweep

STATUS_LINE = re.compile(rb"HTTP/1\.1 \d{3}")


class Wire(asyncio.Transport):
    """The edge: what was written, and what was asked of the socket."""

    def __init__(self, address="127.0.0.1"):
        super().__init__({"peername": (address, 4711), "sockname": ("127.0.0.1", 8000)})
        self.sent = b""
        self.writes = 0
        self.closed = self.aborted = self.ended = self.paused = False

    def write(self, data):
        assert not self.ended
        if not self.closed:
            self.sent += data
            self.writes += 1

    def write_eof(self):
        self.ended = True

    def can_write_eof(self):
        return True

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    def abort(self):
        self.closed = self.aborted = True

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False

    def statuses(self):
        return [int(line[9:12]) for line in STATUS_LINE.findall(self.sent)]

    def bodies(self):
        return [STATUS_LINE.split(body)[0] for body in self.sent.split(b"\r\n\r\n")[1:]]

    def problem(self):
        return json.loads(self.bodies()[-1])["code"]


class Office:
    """A service that answers when the test says so."""

    router = Router(
        [
            Route("GET", "/hot/{}", print, hot=True),
            Route("POST", "/hot/{}", print, hot=True),
            Route("GET", "/slow/{}", print),
            Route("GET", "/hot/plain", print),
            Route("PUT", "/hot/other", print, hot=True),
            Route("POST", "/in/{}", print, hot=True, space="intent:"),
            Route("POST", "/in/{}/parts", print, hot=True, space="intent:"),
            Route("POST", "/in/{}/parts/{}", print, hot=True, space="intent:"),
            Route("POST", "/parts/{}", print, hot=True, space=""),
        ]
    )

    def __init__(self, limits=None):
        self.overload = Overload()
        self.limits = limits or Limits()
        self.answered = Counter()
        self.asked = []
        self.abandoned = []

    def dispatch(self, exchange):
        self.asked.append(exchange)

    def dispatch_all(self, exchanges):
        for exchange in exchanges:
            self.dispatch(exchange)

    def problem_payload(self, status, code, message, hint=None):
        return json.dumps({"status": status, "code": code, "message": message}).encode()

    def park(self, after, exchange):
        exchange.send()

    def abandon(self, request):
        self.abandoned.append(request)

    def paths(self):
        return [exchange.path for exchange in self.asked]

    def answer(self, index):
        exchange = self.asked[index]
        exchange.conclude_at_once(200, exchange.path.encode())


class Asgi:
    """An application that answers when the test says so."""

    def __init__(self):
        self.begun = []
        self.bodies = []
        self.gone = []
        self.may_answer = asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.begun.append(scope["path"])
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        if message["type"] == "http.disconnect":
            self.gone.append(scope["path"])
            return
        self.bodies.append(body)
        if scope["path"] == "/slow/broken":
            raise ZeroDivisionError
        await self.may_answer.wait()
        head = [(b"content-length", b"%d" % len(scope["path"]))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": scope["path"].encode()})


class House:
    """One server: its office, its application, its connections."""

    def __init__(self, *, limits=None, **bounds):
        self.office, self.asgi, self.state = Office(limits), Asgi(), ServerState()
        self.bounds = Bounds(**bounds)
        self.now_s = 0.0
        protocol = hot_protocol(self.office, self.bounds)
        self.config = Config(self.asgi, http=protocol, interface="asgi3", lifespan="off", log_config=None, ws="none")
        self.config.load()
        self.sweep = Sweep(self.state.connections, self.bounds, lambda: self.now_s)

    def connect(self, address="127.0.0.1"):
        connection = self.config.http_protocol_class(config=self.config, server_state=self.state, app_state={})
        connection.connection_made(Wire(address))
        return connection

    def wait(self, seconds):
        for _ in range(seconds):
            self.now_s += 1
            self.sweep.sweep()


def request(path, *headers, method="GET", body=b"", version="1.1"):
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def arrive(line, data):
    """The last thing in its turn of the loop."""
    line.data_received(data)
    line.turn.end()


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)
