"""The requests on a connection that are not answered yet, one class for each lane."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal, Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from openintent.model import Limits
from openintent.server.exchange import STATUS_LINES, Desk, Exchange
from openintent.server.overload import Overload
from openintent.server.routing import Router

PIPELINED_MAX: Final = 16  # unanswered requests on one connection

CLOSE: Final = b"connection: close\r\n"
TRANSPORT: Final = "openintent.transport"  # the extension by which an ordinary request finds its connection


class Service(Desk, Protocol):
    """What the lane needs of the service behind it."""

    router: Router
    limits: Limits
    overload: Overload
    answered: list[int]

    def dispatch(self, exchange: Exchange, /) -> None: ...

    def dispatch_all(self, exchanges: Sequence[Exchange], /) -> None: ...

    def problem_payload(self, status: int, code: str, message: str, /) -> bytes: ...


class Line(Protocol):
    """What a hot request needs of its connection."""

    address: str
    pipeline: deque[Any]

    @property
    def service(self) -> Service: ...

    def flush(self) -> None: ...


class HotCycle(Exchange, kw_only=True, gc=False):
    """A request of the hot lane. The collector does not see it: whoever keeps one lets go of it when it is over."""

    line: Line
    keep_alive: bool = True
    hot: ClassVar[Literal[True]] = True

    @property
    def address(self) -> str:
        return self.line.address

    @property
    def origin(self) -> object:
        return self.line

    def send(self) -> None:
        if not self.done:
            self.done = True
            line = self.line
            if line.pipeline[0] is self:  # else it is answered, but it is not yet its turn
                line.flush()

    def rendered(self) -> bytes:
        """The whole answer. Called when it leaves: only then is it known whether the connection stays."""
        close = b"" if self.keep_alive else CLOSE
        if self.status == 204 or self.method == "HEAD":
            return self._bodiless(close)
        return b"%b%b%b\r\n%b" % (STATUS_LINES[self.status], self.head_lines(), close, self.payload)

    def _bodiless(self, close: bytes) -> bytes:
        # A 204 must not even speak of a body (RFC 9110, 8.6); a HEAD tells the length of the body that GET would have.
        lines = self.mark_lines() + self.extra if self.status == 204 else self.head_lines()
        return b"%b%b%b\r\n" % (STATUS_LINES[self.status], lines, close)


class AsgiCycle(RequestResponseCycle):
    """uvicorn's own cycle; only its last resort speaks JSON."""

    hot: ClassVar[Literal[False]] = False
    started = False
    failure: bytes

    async def send_500_response(self) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.failure)),
            (b"connection", b"close"),
        ]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": self.failure, "more_body": False})

    def disconnect(self) -> None:
        """The client is gone, or as good as gone."""
        self.disconnected = True
        self.message_event.set()


class Flow(FlowControl):
    """Reading goes on only while writing does, there is room for one more request, and none that was read rests.

    uvicorn resumes reading whenever an application asks for more of a body, whatever the reason for the pause was.
    """

    def __init__(self, transport: asyncio.Transport, pipeline: deque[Any]) -> None:
        super().__init__(transport)
        self._pipeline = pipeline
        self.resting = False

    def resume_reading(self) -> None:
        room = len(self._pipeline) < PIPELINED_MAX
        if self.read_paused and room and not self.write_paused and not self.resting:
            super().resume_reading()
