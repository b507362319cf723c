"""The life of a connection: its bounds, its deadlines, and how it ends without an answer getting lost."""

import asyncio
import logging
import select
from abc import abstractmethod
from collections import deque
from typing import Any, ClassVar, Final, NoReturn

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openintent.server.cycles import CLOSE, AsgiCycle, Flow, HotCycle, Service
from openintent.server.exchange import STATUS_LINES
from openintent.server.sweep import Bounds, Phase, Swept

log = logging.getLogger("openintent.server")


NOTHING_YET: Final[dict[bytes, bytes]] = {}  # the headers of a connection on which no message has begun
RETRY_AFTER: Final = b"retry-after: 1\r\n"
HUNG_UP: Final = getattr(select, "POLLRDHUP", 0)  # where there is none, a hang-up is told without being asked for
TOO_MANY: Final = "too many connections; nothing happened"
LENGTH_DIGITS_MAX: Final = 20  # of the numbers that the parser lets pass; before them may be thousands of zeros


class Stop(Exception):
    """Raised in a callback of the parser to end its work: the rest of the chunk is not wanted."""


def length_of(value: bytes) -> int:
    """What a Content-Length says that the parser has let pass."""
    return int(value[-LENGTH_DIGITS_MAX:])


class Connection(HttpToolsProtocol, Swept):
    """uvicorn's connection, within bounds. What is done with its requests is for the subclass to say."""

    # Looked at with every request: side by side, not in a dictionary of fifty names (docs/decisions/0017).
    __slots__ = ("cycle", "deaf", "farewell", "flow", "pipeline", "receiving", "stirred", "transport")

    service: ClassVar[Service]
    bounds: ClassVar[Bounds]
    failure: ClassVar[bytes]  # the body of a 500
    addresses: ClassVar[dict[str, int]]  # connections of each
    guests: ClassVar[set["Connection"]]  # those beyond the bounds

    cycle: HotCycle | AsgiCycle | None  # type: ignore[assignment]  # the request being received, from its headers on
    pipeline: deque[HotCycle | AsgiCycle]  # type: ignore[assignment]  # unanswered, in the order of arrival
    flow: Flow

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        self.url = b""
        self.fields: dict[bytes, bytes] = NOTHING_YET
        self.stirred = True
        self.receiving = True  # the first request is due
        self.pending = 0  # bytes of the message being received, at least
        self.deaf = False  # what still arrives is thrown away
        self.lingering = False
        self.farewell = b""  # what to say after the last answer, instead of serving on

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(transport, self.pipeline)
        self.address = self.client[0] if self.client else ""
        others = self.addresses.get(self.address, 0)
        self.addresses[self.address] = others + 1
        bounds = self.bounds
        # A socket file has no addresses to tell apart.
        crowded = self.address and others >= bounds.connections_per_address_max
        if crowded or len(self.connections) - len(self.guests) > bounds.connections_max:
            self._admit_beyond_bounds(transport)

    def _admit_beyond_bounds(self, transport: asyncio.Transport) -> None:
        """A holder must get through to keep its lease: some are let in as guests, for one vital request each."""
        if len(self.guests) < self.bounds.connections_reserved:
            self.guests.add(self)
            return
        self.deaf = True
        transport.write(self._refusal(503, "overloaded", TOO_MANY))
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.cycle = None  # uvicorn would tell this one alone; and it knows us: no circle may stay
        super().connection_lost(exc)
        self.guests.discard(self)
        self.addresses[self.address] -= 1
        if not self.addresses[self.address]:
            del self.addresses[self.address]
        unanswered = tuple(self.pipeline)
        self.pipeline.clear()
        for cycle in reversed(unanswered):  # the last one first: none moves up to a grant that it would not hear of
            if cycle.hot:
                cycle.gone()
            else:
                cycle.disconnect()

    def shutdown(self) -> None:
        """Close, after the last answer that is due. What is not complete, or rests, has not happened and is told so."""
        begun = self.receiving and self.fields is not NOTHING_YET
        if (begun or self.flow.resting) and not self.deaf:
            self.flow.resting = False
            self._refuse(503, "unavailable", "the server stops; nothing happened")
        if not self.pipeline:
            self.transport.close()
        elif not self.farewell:
            self.pipeline[-1].keep_alive = False

    def pause_writing(self) -> None:
        self.stirred = True
        self.flow.pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        self.flow.resume_reading()

    def rest(self) -> None:
        self.stirred = True
        self.flow.pause_reading()
        self.flow.resting = True

    def has_hung_up(self) -> bool:
        """Whether the client went away while nothing was read from it: then nobody has been told."""
        socket = self.transport.get_extra_info("socket")
        if socket is None or not hasattr(select, "poll"):
            return False
        poll = select.poll()
        poll.register(socket.fileno(), HUNG_UP)
        return bool(poll.poll(0))

    @abstractmethod
    def flush(self) -> None:
        """Let leave what may leave."""

    # Refusals

    def _check_size(self) -> None:
        """The message is not complete and already larger than headers may be: for a body that may be fine."""
        bounds = self.bounds
        if self.deaf:
            return
        if self.cycle is None:
            long_target = not self.fields and len(self.url) > bounds.target_bytes_max
            self._refuse(414 if long_target else 431, "headers_too_large", "the head of the request does not end")
        elif self.pending > bounds.body_bytes_max + bounds.header_bytes_max:
            self._refuse(413, "body_too_large", f"a body of more than {bounds.body_bytes_max} bytes")

    def _broken(self, fault: httptools.HttpParserError) -> None:
        if self.deaf:
            return  # it was us who stopped the parser
        if isinstance(fault, httptools.HttpParserCallbackError):
            self._fail(fault.__context__)
        else:
            self.send_400_response(f"not HTTP/1.1: {fault}")

    def _fail(self, fault: BaseException | None) -> None:
        """A bug of ours costs one connection."""
        log.error("connection failed client=%s", self.address, exc_info=fault)
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "bad_request", msg)

    def _reject(self, status: int, code: str, message: str) -> NoReturn:
        """Refuse from within a callback of the parser."""
        self._refuse(status, code, message)
        raise Stop

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer the requests before this one, then say why there will be no more."""
        log.debug("request not read status=%d client=%s reason=%s", status, self.address, message)
        answered = self._break_off()
        self.deaf, self.receiving = True, False
        if answered:
            self._hang_up()
            return
        self.farewell = self._refusal(status, code, message)
        if not self.pipeline:
            self._say_farewell()

    def _break_off(self) -> bool:
        """Take back the ordinary request whose body will not come. Whether its answer has begun already."""
        cycle = self.cycle
        if cycle is None or cycle.hot or not self.receiving:
            return False
        cycle.disconnect()
        if not cycle.response_complete:
            self.pipeline.pop()
        return cycle.response_started

    def _refusal(self, status: int, code: str, message: str) -> bytes:
        payload = self.service.problem_payload(status, code, message)
        head = b"%bcontent-type: application/json\r\ncontent-length: %d\r\n" % (STATUS_LINES[status], len(payload))
        again = RETRY_AFTER if status == 503 else b""
        return head + again + CLOSE + b"\r\n" + payload

    def _say_farewell(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self.farewell)
            self._hang_up()

    def _hang_up(self) -> None:
        """Close. If the client may still be sending, listen on for a while: a reset would destroy our last answer."""
        transport = self.transport
        if self.deaf and not transport.is_closing() and transport.can_write_eof():
            transport.write_eof()
            self.lingering = True
            self.flow.resume_reading()
        else:
            self.deaf = True  # also to what has arrived already: carried out now, it would never be answered
            transport.close()

    # Deadlines

    def phase(self) -> Phase:
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.flow.write_paused:
            return Phase.BLOCKED
        if self.lingering:
            return Phase.LINGERING
        if self.receiving and not self._keeps_waiting():
            return Phase.RECEIVING
        return Phase.BUSY if self.pipeline or self.flow.resting else Phase.IDLE

    def _keeps_waiting(self) -> bool:
        """Whether the rest of the request is late because of us."""
        cycle = self.cycle
        return self.flow.read_paused or (cycle is not None and not cycle.hot and cycle.waiting_for_100_continue)

    def expire(self, phase: Phase) -> None:
        if phase in {Phase.CLOSING, Phase.BLOCKED}:
            self.transport.abort()
        elif phase is Phase.RECEIVING and self.fields is not NOTHING_YET:
            self._refuse(408, "bad_request", f"not complete after {self.bounds.receive_s_max:g} s")
        else:
            self.transport.close()
