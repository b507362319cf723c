"""The hot lane: small, frequent requests go from uvicorn's parser straight to the service, past ASGI.

uvicorn's httptools protocol is extended, so that both lanes live on one connection: a `HotCycle` takes the place of
uvicorn's request-response cycle, without task, scope or event, and everything that is not small, plain and hot goes the
way it would have gone without us.

It promises that requests on a connection are carried out in their order and answered in their order, and that no client
can have more than its `Bounds`. It does not do websockets.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openintent.server.connection import NOTHING_YET, RETRY_AFTER, TOO_MANY, Connection, Stop, length_of
from openintent.server.cycles import PIPELINED_MAX, TRANSPORT, AsgiCycle, HotCycle, Service
from openintent.server.exchange import USUAL, next_number
from openintent.server.heads import VERSION, Heads
from openintent.server.overload import BUSY_MIN
from openintent.server.routing import Match
from openintent.server.sweep import Bounds
from openintent.server.turns import Turn
from openintent.server.urgency import Urgency

__all__ = ["HOT_BODY_MAX", "PIPELINED_MAX", "Bounds", "HotCycle", "HotProtocol", "hot_protocol"]

HOT_BODY_MAX: Final = 64 * 1024  # a hot body is kept in one piece; larger ones get ASGI's flow control


class HotProtocol(Connection):
    """One connection. `hot_protocol` makes the class that serves a given service."""

    __slots__ = ("answered", "begin", "desk", "doors", "heads", "overload")

    familiar: ClassVar[Heads]  # of all connections
    turn: ClassVar[Turn]  # of all connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.desk = self.service
        self.find = self.service.router.find
        self.heads = self.familiar.heads
        self.doors = self.familiar.doors
        self.overload = self.service.overload
        self.answered = self.service.answered
        self.dispatch: Callable[[HotCycle], None] = self.service.dispatch
        self.begin: Callable[[HotCycle], None] = self.turn.add
        self.repeated: list[tuple[bytes, bytes]] = []  # headers that came again; all but the last of each
        self.modern = False  # HTTP/1.1

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self in self.guests:
            self.begin = self.dispatch = self._serve_guest

    # Requests: what the parser calls

    def data_received(self, data: bytes) -> None:
        overload = self.overload
        if self.deaf or (overload.asked >= BUSY_MIN and monotonic() > overload.turn_until_s and self._rests(data)):
            return
        if not self._recognise(data):
            self._parse(data)

    def _recognise(self, data: bytes) -> bool:
        """Begin the request that these bytes are, if they are just one, by itself, and like those before it."""
        if self.receiving or self.pipeline:
            return False
        before, end, body = data.partition(b"\r\n\r\n")
        line, _, lines = before.partition(VERSION)
        above, _, last = line.rpartition(b"/")
        head, door = self.heads.get(lines), self.doors.get(above)
        if head is None:
            head, fields = self.familiar.with_varying(lines)
        else:
            fields = head.fields
        if head is None or door is None or head.length != len(body) or not end:
            return False
        way = door.fixed.get(last, door.free)
        if way is None:
            return False
        path, names = way.path, way.names
        if way.open:
            if not last.isalnum() or len(line) > self.familiar.line_bytes_max:
                return False
            name = last.decode("ascii")
            path, names = path + name, (*names, name)
        # Nobody else keeps it: when the answer has left it goes at once, and the next one finds its place still warm.
        cycle = HotCycle(self.desk, way.route.method, path, "", fields, body, way.route, names, head, line=self)
        self.stirred = True
        self.pipeline.append(cycle)
        self.begin(cycle)
        return True

    def _parse(self, data: bytes) -> None:
        if self.pipeline:
            self.turn.end()  # what came before on this connection may be waiting for that
        whole = not self.receiving or self.fields is NOTHING_YET
        self.pending += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as fault:
            self._broken(fault)
        except httptools.HttpParserUpgrade:
            self.deaf = True  # we do not change protocols, and the parser cannot go on as if nothing had been asked
        if self.pending > self.bounds.header_bytes_max:
            self._check_size()
        cycle = self.cycle
        if whole and cycle is not None and cycle.hot and cycle.keep_alive and not (self.receiving or self.repeated):
            self.familiar.remember(data, self.fields, len(cycle.body))

    def on_message_begin(self) -> None:
        self.url = b""
        self.fields = {}
        self.stirred = True
        self.repeated = []
        self.cycle = None
        self.receiving = True
        if self.pipeline or self.deaf:
            self._check_room()

    def on_header(self, name: bytes, value: bytes) -> None:
        name, value, fields = name.lower(), value.rstrip(b" \t"), self.fields
        if name in fields:
            self._repeat(name, value)
        else:
            fields[name] = value

    def on_headers_complete(self) -> None:
        fields, url, bounds = self.fields, self.url, self.bounds
        if (
            len(fields) > bounds.headers_max
            or len(url) > bounds.target_bytes_max
            or self.pending > bounds.header_bytes_max
            or b"host" not in fields
        ):
            self._check_head()
        method = self.parser.get_method().decode("ascii")
        path, _, query = url.decode("ascii").partition("?")
        found = self.find(method, path)
        if type(found) is Match and found.route.hot and _plain(fields) and b"#" not in url:
            cycle = self.cycle = HotCycle(
                self.service, method, path, query, fields, b"", found.route, found.names, line=self
            )
            cycle.keep_alive = (self.modern or self._is_modern()) and self.parser.should_keep_alive()
        else:
            self._begin_ordinary(method, found)

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        assert cycle is not None
        if cycle.hot:
            cycle.body += body
        elif not cycle.response_complete:
            self._feed(cycle, body)

    def on_message_complete(self) -> None:
        self.pending = 0
        self.receiving = False
        cycle = self.cycle
        assert cycle is not None
        if not cycle.hot:
            cycle.more_body = False
            cycle.message_event.set()
        elif self.pipeline:
            self._line_up(cycle)
        else:
            self.pipeline.append(cycle)
            self.dispatch(cycle)

    def on_response_complete(self) -> None:
        """An ordinary request has been answered: those behind it may begin."""
        if self.transport.is_closing():
            return  # what waits was not carried out, and will not be
        self.pipeline.popleft()
        for cycle in tuple(self.pipeline):
            if not cycle.hot:
                break
            self.dispatch(cycle)
        self.flush()

    def flush(self) -> None:
        """Send the answers whose turn it is, and let an ordinary request begin when it is its turn."""
        pipeline = self.pipeline
        while pipeline:
            cycle = pipeline[0]
            if type(cycle) is not HotCycle:
                assert isinstance(cycle, AsgiCycle)
                self._start(cycle)
                break
            if not cycle.done:
                break
            pipeline.popleft()
            status, place = cycle.status, cycle.place
            self.answered[status] += 1
            if status == 200 and place.rev and cycle.keep_alive and not cycle.extra:  # most
                payload = cycle.payload
                self.transport.write(USUAL % (len(payload), next_number(), place.term, place.rev, payload))
                continue
            self.transport.write(cycle.rendered())
            if not cycle.keep_alive:
                self._hang_up()
        if self.farewell and not pipeline:
            self._say_farewell()
        elif self.flow.read_paused:
            self.flow.resume_reading()

    # Requests: the less frequent cases

    def _rests(self, data: bytes) -> bool:
        """Put it to rest for a later turn, if it begins a request that can wait."""
        begun = self.receiving and self.fields is not NOTHING_YET
        if begun or self in self.guests or (self.pipeline and not self.pipeline[-1].keep_alive):
            return False
        end = data.find(b" HTTP/", 0, self.bounds.target_bytes_max)
        if end < 0:
            return False  # the first line is not complete, or too long: it is for the parser to say which
        method, _, target = data[:end].lstrip(b"\r\n").decode("latin-1").partition(" ")
        found = self.find("GET" if method == "HEAD" else method, target.partition("?")[0])
        return self.overload.put_to_rest(self, data, found.route.urgency if type(found) is Match else Urgency.USUAL)

    def go_on(self, data: bytes) -> None:
        self.flow.resting = False
        if self.deaf or self.transport.is_closing():
            return
        if self.has_hung_up():  # what it asks for here it may have given up already, on another connection
            self.transport.abort()
            return
        try:
            if not self._recognise(data):
                self._parse(data)
            self.turn.end()  # a turn ends by the clock: it must see what this took
        except Exception as fault:  # noqa: BLE001  # as if it had been read just now
            self._fail(fault)
            return
        self.flow.resume_reading()

    def _check_room(self) -> None:
        """Behind a request after which we close, or beyond the bound, requests are dropped unread."""
        if not self.deaf:
            last = self.pipeline[-1]
            if len(self.pipeline) < PIPELINED_MAX and last.keep_alive:
                return
            last.keep_alive = False
        self.deaf, self.receiving = True, False
        raise Stop

    def _repeat(self, name: bytes, value: bytes) -> None:
        if name in {b"host", b"content-length", b"transfer-encoding"}:
            self._reject(400, "bad_request", f"more than one {name.decode()} header")
        if len(self.repeated) >= self.bounds.headers_max:
            self._reject(431, "headers_too_large", f"more than {self.bounds.headers_max} headers")
        self.repeated.append((name, self.fields[name]))
        self.fields[name] = value

    def _check_head(self) -> None:
        bounds, fields = self.bounds, [*self.fields.items(), *self.repeated]
        if len(self.url) > bounds.target_bytes_max:
            self._reject(414, "headers_too_large", f"a request target of more than {bounds.target_bytes_max} bytes")
        if len(fields) > bounds.headers_max:
            self._reject(431, "headers_too_large", f"more than {bounds.headers_max} headers")
        if sum(len(name) + len(value) + 4 for name, value in fields) > bounds.header_bytes_max:
            self._reject(431, "headers_too_large", f"headers of more than {bounds.header_bytes_max} bytes")
        if b"host" not in self.fields and self._is_modern():
            self._reject(400, "bad_request", "no host header")

    def _is_modern(self) -> bool:
        # Asked once per connection, because it is slow: an HTTP/1.0 client is told goodbye after its first answer.
        version = self.parser.get_http_version()
        if version not in {"1.1", "1.0"}:  # the parser lets 0.9 and 2.0 pass
            self._reject(400, "bad_request", f"HTTP/{version} is not spoken here, only HTTP/1.1")
        self.modern = version == "1.1"
        return self.modern

    def _serve_guest(self, cycle: HotCycle) -> None:
        """Answer once, and make room for the next guest."""
        cycle.keep_alive = False
        assert cycle.route is not None
        if cycle.route.vital:
            self.service.dispatch(cycle)
        else:
            payload = self.service.problem_payload(503, "overloaded", TOO_MANY)
            cycle.conclude_at_once(503, payload, extra=RETRY_AFTER)

    def _line_up(self, cycle: HotCycle) -> None:
        """Behind hot requests it may begin at once; behind an ordinary one it has to wait for its turn."""
        self._check_room()
        behind_hot_only = all(before.hot for before in self.pipeline)
        self.pipeline.append(cycle)
        if len(self.pipeline) >= PIPELINED_MAX:
            self.flow.pause_reading()
        if behind_hot_only:
            self.dispatch(cycle)

    def _begin_ordinary(self, method: str, found: Match | list[str] | None) -> None:
        """As uvicorn does it, except that it is late to prepare the scope and strict about its turn."""
        guest = self in self.guests
        if guest and not (isinstance(found, Match) and found.route.vital):
            self._reject(503, "overloaded", TOO_MANY)
        modern = self._is_modern()
        self._check_framing(modern=modern)
        scope = self._scope(method)
        if self.pipeline:
            self._check_room()
        self.cycle = AsgiCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=modern and b"expect" in self.fields,
            keep_alive=modern and not guest and self.parser.should_keep_alive() and not self.parser.should_upgrade(),
            on_response=self.on_response_complete,
        )
        self.cycle.failure = self.failure
        self.pipeline.append(self.cycle)
        if len(self.pipeline) >= PIPELINED_MAX:
            self.flow.pause_reading()
        self.flush()

    def _check_framing(self, *, modern: bool) -> None:
        fields, bounds = self.fields, self.bounds
        length = fields.get(b"content-length", b"0")
        coding = fields.get(b"transfer-encoding")
        if coding is not None and (b"content-length" in fields or not modern):
            self._reject(400, "bad_request", "transfer-encoding with content-length, or in HTTP/1.0")
        if coding is not None and coding.lower() != b"chunked":
            self._reject(400, "bad_request", "transfer-encoding: only chunked is offered")
        if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
            self._reject(417, "bad_request", "expect: only 100-continue is offered")
        if length_of(length) > bounds.body_bytes_max:
            self._reject(413, "body_too_large", f"a body of more than {bounds.body_bytes_max} bytes")
        # The parser takes a body behind an upgrade for the other protocol: the request would be carried out without it.
        if self.parser.should_upgrade() and (coding is not None or length_of(length)):
            self._reject(400, "bad_request", "an upgrade with a body")

    def _scope(self, method: str) -> Any:
        try:
            target = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            target = None
        if target is None or target.path is None:
            self._reject(400, "bad_request", "not a path")
        if target.host is not None:
            # The whole address, as one is sent to a proxy: then this is the host, not the header (RFC 9112, 3.2.2).
            self.fields[b"host"] = self.url.split(b"/", 3)[2]
        HttpToolsProtocol.on_message_begin(self)
        scope: Any = self.scope
        scope["headers"].extend([*self.repeated, *self.fields.items()])
        scope["http_version"] = self.parser.get_http_version()
        scope["method"] = method
        scope["path"] = self.root_path + unquote(target.path.decode("ascii"))
        scope["raw_path"] = self.root_path.encode("ascii") + target.path
        scope["query_string"] = target.query or b""
        scope["extensions"] = {TRANSPORT: self.transport}
        return scope

    def _start(self, cycle: AsgiCycle) -> None:
        if not cycle.started:
            cycle.started = True
            self.overload.begun += 1
            self._start_asgi_task(cycle, self.app)

    def _feed(self, cycle: AsgiCycle, body: bytes) -> None:
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()


def _plain(fields: dict[bytes, bytes]) -> bool:
    """Whether a body, if there is one, is small and comes by itself."""
    if b"transfer-encoding" in fields or b"expect" in fields or b"upgrade" in fields:
        return False
    length = fields.get(b"content-length")
    return length is None or len(length) < 5 or length_of(length) <= HOT_BODY_MAX


def hot_protocol(service: Service, bounds: Bounds) -> type[HotProtocol]:
    """The protocol class that uvicorn takes as `http=`."""
    failure = service.problem_payload(500, "internal", "Internal Server Error")
    shared = {
        "service": service,
        "bounds": bounds,
        "failure": failure,
        "addresses": {},
        "guests": set(),
        "familiar": Heads(service.router, name_chars_max=service.limits.name_chars_max),
        "turn": Turn(service.dispatch_all),
    }
    return type("HotProtocol", (HotProtocol,), shared)
