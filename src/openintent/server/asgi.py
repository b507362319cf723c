"""The ordinary lane: the same handlers behind ASGI, for whatever the hot lane leaves to it."""

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from openintent.server.exchange import Desk, Exchange
from openintent.server.pages import HOST, index
from openintent.server.service import Service

BODY_BYTES_MAX = 1_048_576 + 65_536  # the largest state, and room for what is around it


class AsgiExchange(Exchange):
    """An exchange whose answer is a future."""

    __slots__ = ("written",)

    def __init__(self, desk: Desk, request: Request) -> None:
        scope = request.scope
        headers = dict(scope["headers"])
        method = "GET" if request.method == "HEAD" else request.method
        super().__init__(
            desk, method, scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1"), headers
        )
        self.written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def write(self) -> None:
        if not self.written.done():
            self.written.set_result(None)


class ApiEndpoint:
    """Everything that has a handler, and JSON errors for all that has none."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        exchange = AsgiExchange(self._service, request)
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
        if exchange.written.done():
            await _response(exchange)(scope, receive, send)

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
    response = Response(exchange.payload, exchange.status, media_type="application/json")
    for line in (exchange.mark_lines() + exchange.extra).split(b"\r\n"):
        name, colon, value = line.partition(b": ")
        if colon:
            response.raw_headers.append((name, value))
    return response


def make_app(service: Service) -> ASGIApp:
    """The page at the root, and the API everywhere else. No path and no method is left to others to answer."""
    api = ApiEndpoint(service)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
            await index(Request(scope).headers.get("host", HOST))(scope, receive, send)
        else:
            await api(scope, receive, send)

    return app
