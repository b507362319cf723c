"""From an exchange to the ledger and back: the part that both lanes share."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from openintent.core.answers import Queued, Reply
from openintent.core.commands import Acquire, Command
from openintent.errors import EngineUnavailable
from openintent.grantor.grantor import Grantor, NotServing, Refusal
from openintent.grantor.parcels import tell
from openintent.model import Limits
from openintent.server import auth, bodies, problems
from openintent.server.auth import Gate
from openintent.server.beats import Beats, Renewals
from openintent.server.cluster import Cluster
from openintent.server.exchange import Exchange, Render
from openintent.server.forwarding import Forwarder
from openintent.server.lease_texts import LeaseTexts
from openintent.server.overload import BUSY_MIN, PAYLOAD, RETRY_LINE, Overload
from openintent.server.routing import BadName, Match, Route, Router, arguments, decoded, is_plain
from openintent.server.stream import STREAMS_MAX, Streams
from openintent.server.views import Views
from openintent.server.wishes import Wishes

log = logging.getLogger("openintent.server")

_encode = msgspec.json.Encoder().encode

# Whose request it is, what it asks of the ledger, and how to show the answer; None for one that may have to wait.
Asked = tuple[Exchange, Command, Render | None]

STATUS_MAX: Final = 599
AGAIN_S: Final = 1.0
AGAIN_IN_CLUSTER_S: Final = 0.1


class Service:
    """Answers exchanges. Implements the exchange's `Desk`."""

    def __init__(
        self,
        grantor: Grantor,
        limits: Limits,
        router: Router,
        gate: Gate,
        overload: Overload | None = None,
        *,
        streams_max: int = STREAMS_MAX,
    ) -> None:
        self.grantor = grantor
        # The grantor's own, without a detour: these are called for every request.
        self.apply = grantor.apply
        self.park = grantor.park
        self._asked: list[Asked] = []
        self._gathering = False
        self.limits = limits
        self.router = router
        self.views = Views(grantor)
        self.lease_texts = LeaseTexts(self.views)
        self.beats = Beats(limits)
        self.renewals = Renewals(limits)
        self.wishes = Wishes(limits)
        self.gate = gate
        self.overload = overload or Overload()
        # Set as the first thing of a stop: an answer without an end (a stream) waits for it too, and ends then.
        self.stopping = asyncio.Event()
        self.streams = Streams(gate, self.stopping, most=streams_max)
        self.forwarder: Forwarder | None = None  # where several servers share the engine
        self.cluster = Cluster(grantor)
        self._tasks: set[asyncio.Task[None]] = set()
        # For whoever watches: answers that left, by status, and how many connections there are.
        self.answered = [0] * (STATUS_MAX + 1)
        self.connections: Callable[[], int] = lambda: 0

    # Dispatch

    def dispatch(self, exchange: Exchange) -> None:
        """Find the handler and let it answer, now or later. Never raises."""
        self._dispatch(exchange, self.gate.edition)

    def _dispatch(self, exchange: Exchange, edition: object) -> None:
        try:
            route, head = exchange.route, exchange.head
            if route is None or head is None or head.edition is not edition:
                route = self._admit(exchange)
            else:
                exchange.principal = head.principal
            overload = self.overload
            overload.asked += 1
            if overload.asked > BUSY_MIN and not route.vital and overload.refuses(route.urgency):
                exchange.conclude_at_once(429, PAYLOAD, extra=RETRY_LINE)
                return
            if route.operator and not exchange.principal.operator:
                raise auth.not_operator()  # noqa: TRY301  # as whatever a handler raises
            pending = route.handler(self, exchange, *exchange.names)
            if pending is not None:
                self.run(exchange, pending)
        except Exception as failure:  # noqa: BLE001  # an answer for the client, a log line for us
            tell(self._fail, exchange, failure)

    def dispatch_all(self, exchanges: Sequence[Exchange]) -> None:
        """The same for many at once: what their handlers ask of the ledger is decided when all have asked."""
        # One of them may be a batch, whose parts come here too: these are decided in its place, with all the others.
        outermost, self._gathering = not self._gathering, True
        edition = self.gate.edition
        for exchange in exchanges:
            self._dispatch(exchange, edition)
        if outermost:
            self._gathering = False
            self._decide()

    def settle(self) -> None:
        """Have what was asked so far decided before the end of the turn, for whoever must see what becomes of it."""
        self._decide()

    def ask(self, exchange: Exchange, command: Command, show: Render | None) -> None:
        """Have the ledger decide and the answer shown, now or at the end of the turn."""
        self._asked.append((exchange, command, show))
        if not self._gathering:
            self._decide()

    def ask_or_wait(self, exchange: Exchange, command: Acquire, show: Render) -> None:
        """The same for an acquire that may have to wait: then the answer is shown when that is over."""
        exchange.render = show
        self.ask(exchange, command, None)

    def _decide(self) -> None:
        asked, self._asked = self._asked, []
        if not asked or not self._may_decide(asked):
            return
        decide = self.grantor.decide
        for exchange, command, show in asked:
            try:
                # One after the other: a view shows a thing as it is after its own command, not after those behind it.
                if show is None:
                    self._decide_or_wait(exchange, command)
                else:
                    show(self, exchange, decide(command))
            except Exception as failure:  # noqa: BLE001  # as in dispatch
                tell(self._fail, exchange, failure)
        self.grantor.see_to_it()

    def _may_decide(self, asked: list[Asked]) -> bool:
        """The time for all of them: when it is read, all have been sent."""
        try:
            self.grantor.look()
        except NotServing as failure:
            for exchange, _, _ in asked:
                tell(self._fail, exchange, failure)
            return False
        return True

    def _decide_or_wait(self, exchange: Exchange, command: Command) -> None:
        assert isinstance(command, Acquire)
        reply = self.grantor.decide_or_wait(command, exchange)
        if isinstance(reply.answer, Queued):
            exchange.waiting = 0 if exchange.done else command.request
        else:
            exchange.answer(reply)

    def _found(self, exchange: Exchange) -> Route:
        found = self.router.find(exchange.method, exchange.path)
        if isinstance(found, Match):
            exchange.route, exchange.names = found.route, found.names
            return found.route
        if found is None:
            raise problems.Refused(404, problems.plain("not_found", "no such route", detail="Not Found"))
        allow = f"allow: {', '.join(found)}\r\n".encode()
        problem = problems.plain("method_not_allowed", f"{exchange.method} is not offered here", detail=found)
        raise problems.Refused(405, problem, extra=allow)

    def _admit(self, exchange: Exchange) -> Route:
        """Find out what is known already of a request like those before: where it leads, and whether it may."""
        route = exchange.route or self._found(exchange)
        if exchange.body:
            bodies.check_media_type(exchange)
        self.gate.check(exchange)
        if exchange.head is None:
            exchange.names = self._arguments(exchange, route)
        return route

    def _arguments(self, exchange: Exchange, route: Route) -> Sequence[str | None]:
        names = [str(name) for name in exchange.names]
        if not is_plain(exchange.path, chars_max=self.limits.name_chars_max):
            names = [decoded(name, chars_max=self.limits.name_chars_max) for name in names]
        return arguments(route, names)

    def run(self, exchange: Exchange, pending: Awaitable[None]) -> None:
        """Let a handler go on that must wait for the engine."""
        task = asyncio.ensure_future(self._finish(exchange, pending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def log_complete(self) -> None:
        """Until the log has all that was decided so far: what is read from it then misses nothing of that."""
        if not await self.grantor.feed.reached(self.grantor.books.seq):
            raise NotServing

    async def _finish(self, exchange: Exchange, pending: Awaitable[None]) -> None:
        try:
            await pending
        except Exception as failure:  # noqa: BLE001  # as in dispatch
            tell(self._fail, exchange, failure)

    def _fail(self, exchange: Exchange, failure: Exception) -> None:
        if isinstance(failure, BadName):
            failure = problems.Refused(400, problems.plain("bad_request", str(failure)))
        if isinstance(failure, problems.Refused):
            agent = exchange.headers.get(b"x-agent-id", b"").decode("utf-8", "replace")
            said = (failure.status, exchange.method, exchange.path, agent, failure)
            log.debug("request refused status=%d method=%s path=%s agent=%s reason=%s", *said)
            exchange.conclude_at_once(failure.status, problems.encode(failure.problem), extra=failure.extra)
        elif isinstance(failure, NotServing) and self.forwarder is not None and self.forwarder.takes(exchange):
            self.run(exchange, self.forwarder.forward(exchange))
        elif isinstance(failure, NotServing | EngineUnavailable):  # the second: while the log is read
            self.refuse(exchange, Refusal.UNAVAILABLE)
        else:
            log.error("request failed method=%s path=%s", exchange.method, exchange.path, exc_info=failure)
            exchange.conclude_at_once(500, self.problem_payload(500, "internal", "Internal Server Error"))

    # Answers

    def encode(self, view: Any) -> bytes:
        return _encode(view)

    def show(self, exchange: Exchange, reply: Reply, view: Any, extra: bytes = b"") -> None:
        """A success, as soon as it may be told."""
        self.tell(exchange, reply, _encode(view), extra)

    def tell(self, exchange: Exchange, reply: Reply, payload: bytes, extra: bytes = b"") -> None:
        """The same, as it was written."""
        exchange.payload, exchange.place = payload, reply
        if extra:
            exchange.extra = extra
        self.park(reply, exchange)

    def show_refusal(self, exchange: Exchange, reply: Reply) -> None:
        """An answer that is not a success: also only when it is durable that it is true."""
        status, problem = problems.of_answer(reply.answer, self.views, now_ms=self.grantor.now_ms)
        seconds = problem.retry_after_seconds
        exchange.extra = problems.retry_after(seconds) if seconds is not None else b""
        exchange.status, exchange.payload, exchange.place = status, problems.encode(problem), reply
        self.park(reply, exchange)

    def problem_payload(self, _status: int, code: str, message: str, hint: str | None = None) -> bytes:
        return problems.encode(problems.plain(code, message, hint=hint))

    # What an exchange asks of its desk

    def refuse(self, exchange: Exchange, refusal: Refusal) -> None:
        if refusal is Refusal.UNAVAILABLE:
            # Where another can take over, that takes a fraction of a second if it was announced.
            again_s = AGAIN_S if self.forwarder is None else AGAIN_IN_CLUSTER_S
            problem = problems.plain(
                "unavailable", "the server cannot answer now; nothing happened", retry_after_seconds=again_s
            )
            exchange.conclude_at_once(503, problems.encode(problem), extra=problems.retry_after(1))
            return
        message = "the server could not find out whether this was stored: it may have happened"
        exchange.conclude_at_once(504, self.problem_payload(504, "outcome_unknown", message))

    def abandon(self, request: int) -> None:
        if request < 0 and self.forwarder is not None:
            self.forwarder.abandon(request)
        else:
            self.grantor.abandon(request)

    async def close(self, *, within_s: float | None = None) -> None:
        """Wait for handlers under way, but not for ever if a time is given: their clients are gone by then."""
        while self._tasks:
            _, late = await asyncio.wait(list(self._tasks), timeout=within_s)
            for task in late:
                task.cancel()
