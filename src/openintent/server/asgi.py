"""The ordinary lane: the same handlers behind ASGI, for whatever the hot lane leaves to it."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any, Final, Self

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from openintent.server.cycles import TRANSPORT
from openintent.server.exchange import Desk, Exchange
from openintent.server.forwarding import Relay, StreamExchange
from openintent.server.pages import HOST, index
from openintent.server.routing import JSON
from openintent.server.service import Service
from openintent.server.stream import SOCKET_BYTES_MAX, Stream

BODY_BYTES_MAX: Final = 1_048_576 + 65_536  # the largest state, and room for what is around it
STREAM_HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"connection", b"close"),
)


class AsgiExchange(StreamExchange, kw_only=True):
    """An exchange whose answer is a future."""

    scope: Scope
    written: "asyncio.Future[None]"
    stream: Stream | Relay | None = None  # what follows the head of the answer, instead of a payload

    @classmethod
    def of(cls, desk: Desk, request: Request) -> Self:
        scope = request.scope
        return cls(
            desk,
            "GET" if request.method == "HEAD" else request.method,
            scope["raw_path"].decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            dict(scope["headers"]),
            scope=scope,
            written=asyncio.get_running_loop().create_future(),
        )

    @property
    def address(self) -> str:
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    def relay(self, stream: Relay) -> None:
        self.stream = stream

    def write(self) -> None:
        if not self.written.done():
            self.written.set_result(None)


class ApiEndpoint:
    """Everything that has a handler, and JSON errors for all that has none."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        exchange = AsgiExchange.of(self._service, request)
        try:
            body = await self._body(request)
        except ClientDisconnect:
            return
        if body is None:
            payload = self._service.problem_payload(413, "body_too_large", f"more than {BODY_BYTES_MAX} bytes")
            exchange.conclude_at_once(413, payload, extra=b"connection: close\r\n")
        else:
            exchange.body = body
            self._service.dispatch(exchange)
            await self._answered_or_gone(exchange, receive)
        self._service.answered[exchange.status] += exchange.written.done()
        try:
            if exchange.stream is not None and exchange.status == 200 and exchange.written.done():
                await self._tell(exchange, exchange.stream, receive, send)
            elif exchange.written.done():
                await _response(exchange)(scope, receive, send)
        finally:
            if exchange.stream is not None:
                exchange.stream.discard()

    async def _tell(self, exchange: AsgiExchange, stream: Stream | Relay, receive: Receive, send: Send) -> None:
        _bound_socket(exchange.scope)
        await send({"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *_marks(exchange)]})
        if exchange.scope["method"] == "HEAD":
            await send({"type": "http.response.body"})
            return
        if isinstance(stream, Relay):
            await stream.run(receive, send)
            return
        self._service.streams.add(stream)
        try:
            await stream.run(receive, send)
        finally:
            self._service.streams.remove(stream)

    async def _body(self, request: Request) -> bytes | None:
        """The whole body; None if it is larger than anybody needs."""
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                return None
        return bytes(body)

    async def _answered_or_gone(self, exchange: AsgiExchange, receive: Receive) -> None:
        """Until there is an answer, or nobody to give it to."""
        if exchange.written.done():
            return
        watch: asyncio.Future[Any] = asyncio.ensure_future(receive())
        try:
            await asyncio.wait([watch, exchange.written], return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
        if not exchange.written.done():
            exchange.gone()


def _response(exchange: Exchange) -> Response:
    asked = exchange.route if exchange.status == 200 else None
    response = Response(exchange.payload, exchange.status, media_type=asked.media if asked else JSON)
    response.raw_headers.extend(_marks(exchange))
    return response


def _marks(exchange: Exchange) -> Iterator[tuple[bytes, bytes]]:
    for line in (exchange.mark_lines() + exchange.extra).split(b"\r\n"):
        name, colon, value = line.partition(b": ")
        if colon:
            yield name, value


def _bound_socket(scope: Scope) -> None:
    """Let the system hold no more for a reader than is sensible: it would take megabytes for one that does not read."""
    transport: asyncio.Transport | None = scope.get("extensions", {}).get(TRANSPORT)
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES_MAX)


def make_app(service: Service) -> ASGIApp:
    """The pages, and the API everywhere else. No path and no method is left to others to answer."""
    api = ApiEndpoint(service)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        looks = scope["method"] in ("GET", "HEAD")
        if looks and scope["path"] == "/":
            await index(Request(scope).headers.get("host", HOST))(scope, receive, send)
        elif looks and scope["path"] == "/docs":
            await (await _docs(service, Request(scope)))(scope, receive, send)
        else:
            await api(scope, receive, send)

    return app


async def _docs(service: Service, request: Request) -> Response:
    from openintent.server.docs_page import page  # noqa: PLC0415  # few ask for it, and it looks at every route

    # In a thread, the first time: it takes as long as many requests.
    found = await asyncio.to_thread(page, service.router, service.limits)
    if request.headers.get("if-none-match") == found.headers["etag"]:
        return Response(status_code=304, headers=found.headers)
    return HTMLResponse(found.payload, headers=found.headers)
