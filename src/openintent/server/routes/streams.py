"""What happens, told as it happens: server-sent events."""

from typing import Final

import msgspec

from openintent.core.answers import Assignments, Missing
from openintent.core.commands import Command, GetIntent, GetPortfolio, ListAssignments, Tick
from openintent.grantor.grantor import NotServing
from openintent.model import Assignment
from openintent.server import problems, query, sse
from openintent.server.asgi import AsgiExchange
from openintent.server.exchange import Exchange
from openintent.server.routing import Handler, Route
from openintent.server.service import Service
from openintent.server.stream import Stream
from openintent.spaces import (
    AGENT_SPACE,
    INTENT_SPACE,
    PLAIN_SPACE,
    PORTFOLIO_SPACE,
    intent_of,
    portfolio_of,
)
from openintent.wire import StreamQuery

HEADER: Final = b"last-event-id"
DIGITS_MAX: Final = 18


def whole_log(service: Service, exchange: Exchange, space: str) -> None:
    _subscribe(service, exchange, space, sse.Lower(service.views))


def for_agents(service: Service, exchange: Exchange, space: str) -> None:
    _subscribe(service, exchange, space, sse.Upper(space))


def _subscribe(service: Service, exchange: Exchange, space: str, family: sse.Family) -> None:
    assert isinstance(exchange, AsgiExchange)  # no stream is hot
    wanted, exchange.extra = query.decode(StreamQuery, exchange)
    if service.stopping.is_set():
        raise NotServing
    if service.streams.full:
        raise _too_many(service)
    reply = service.apply(_look_for(space))
    if isinstance(reply.answer, Missing):
        service.show_refusal(exchange, reply)
        return
    cursor = _cursor(service, exchange, wanted.after, refuses=family.refuses)
    exchange.stream = Stream(
        service.grantor,
        space,
        family,
        principal=exchange.principal,
        cursor=cursor,
        assigned=_open_ones(reply.answer) if cursor is None or family.repeats else [],
    )
    # The stream begins behind the newest event of the ledger: nobody may be told of that place before it is durable.
    exchange.place = reply
    service.park(msgspec.structs.replace(reply, after=service.grantor.books.written), exchange)


def _look_for(space: str) -> Command:
    """What tells whether there is such a thing, and what there is to know of it at the beginning."""
    intent_id, portfolio_id = intent_of(space), portfolio_of(space)
    if intent_id is not None:
        return GetIntent(intent_id)
    if portfolio_id is not None:
        return GetPortfolio(portfolio_id)
    return ListAssignments(space.removeprefix(AGENT_SPACE)) if space.startswith(AGENT_SPACE) else Tick()


def _open_ones(answer: object) -> list[Assignment]:
    return [assignment for assignment, _ in answer.rows] if isinstance(answer, Assignments) else []


# The cursor


def _cursor(service: Service, exchange: Exchange, after: int | None, *, refuses: bool) -> int | None:
    """The last event that the reader has; None if it wants to begin with the next one, or has no other choice."""
    horizon = service.grantor.books.horizon
    last = exchange.headers.get(HEADER)
    if not last and after == 0:
        return horizon
    cursor = _number(last) if last else after
    gone = None if cursor is None else _gone(service, cursor)
    if gone is None:
        return cursor
    if refuses:
        raise gone
    return None


def _number(text: bytes) -> int:
    if text.isdigit() and len(text) <= DIGITS_MAX:
        return int(text)
    raise problems.invalid((["Last-Event-ID"], "must be the number of an event", "value"), part="header")


def _gone(service: Service, cursor: int) -> problems.Refused | None:
    horizon, newest = service.grantor.books.horizon, service.grantor.feed.seq
    if horizon <= cursor <= newest:
        return None
    if cursor < horizon:
        message = f"the log no longer has all events after {cursor}"
    else:
        message = f"the log ends with event {newest}, before {cursor}: it may have been restored from a backup"
    hint = "read the present state, and subscribe without Last-Event-ID; after=0 begins with the oldest event"
    return problems.Refused(410, problems.plain("events_gone", message, hint=hint, oldest=horizon + 1))


def _too_many(service: Service) -> problems.Refused:
    problem = problems.plain(
        "overloaded",
        f"the limit of {service.streams.most} streams is reached",
        hint="try again after retry_after_seconds",
        retry_after_seconds=1.0,
    )
    return problems.Refused(503, problem, extra=problems.retry_after(1))


_SPACES: Final = {
    "intents": INTENT_SPACE,
    "portfolios": PORTFOLIO_SPACE,
    "agents": AGENT_SPACE,
    "spaces": PLAIN_SPACE,
}


def _stream(pattern: str, handler: Handler, says: str, space: str, name: str) -> Route:
    return Route(
        "GET",
        pattern,
        handler,
        says,
        space=space,
        query=StreamQuery,
        stream=True,
        reads=("Last-Event-ID",),
        codes=("events_gone",) if handler is whole_log else (),
        name=name,
    )


ROUTES: Final = [
    *(
        _stream(f"subscribe/{kind}/{{}}", whole_log, "Follow the log", space, f"subscribe_{kind}")
        for kind, space in _SPACES.items()
    ),
    *(
        _stream(f"{kind}/{{}}/subscribe", for_agents, "Follow what agents need", space, f"{kind}_subscribe")
        for kind, space in _SPACES.items()
        if kind != "spaces"
    ),
]
