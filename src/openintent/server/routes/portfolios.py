"""Portfolios and what is in them, over HTTP."""

from collections import Counter
from typing import Final
from uuid import uuid4

from openintent.core.answers import Done, Members, MemberSeen, Portfolios, PortfolioSeen, Reply
from openintent.core.commands import (
    AddMember,
    CreatePortfolio,
    GetPortfolio,
    ListMembers,
    ListPortfolios,
    RemoveMember,
    SetPortfolioStatus,
)
from openintent.model import Intent, Member, Portfolio
from openintent.server import bodies, query
from openintent.server.exchange import Exchange
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.wire import (
    AggregateView,
    DoneView,
    MemberBody,
    MemberList,
    MemberView,
    PageQuery,
    PortfolioBody,
    PortfoliosQuery,
    PortfolioStatusBody,
    PortfolioView,
)


def create(service: Service, exchange: Exchange) -> None:
    body, ignored = bodies.decode_loosely(PortfolioBody, exchange.body)
    limits = service.limits
    checks = bodies.Checks(limits)
    checks.name("name", body.name, most=limits.text_chars_max)
    checks.slug("id", body.id)
    checks.agents(body.created_by, field="created_by")
    checks.size("description", body.description, limits.metadata_bytes_max)
    checks.size("governance_policy", body.governance_policy, limits.metadata_bytes_max)
    checks.size("metadata", body.metadata, limits.metadata_bytes_max)
    checks.settle()
    portfolio = Portfolio(
        id=body.id or str(uuid4()),
        name=body.name,
        description=body.description or "",
        created_by=body.created_by,
        governance_policy=body.governance_policy or {},
        metadata=body.metadata or {},
    )
    command = CreatePortfolio(
        portfolio=portfolio,
        chosen_id=body.id is not None,
        actor=bodies.actor(exchange, limits, named=body.created_by),
        attempt=bodies.attempt(exchange, limits),
    )
    _show(service, exchange, service.apply(command), extra=ignored)


def get(service: Service, exchange: Exchange, portfolio_id: str) -> None:
    _show(service, exchange, service.apply(GetPortfolio(portfolio_id)))


def set_status(service: Service, exchange: Exchange, portfolio_id: str) -> None:
    body, ignored = bodies.decode_loosely(PortfolioStatusBody, exchange.body)
    actor = bodies.actor(exchange, service.limits)
    command = SetPortfolioStatus(portfolio_id=portfolio_id, actor=actor, status=body.status)
    _show(service, exchange, service.apply(command), extra=ignored)


def _show(service: Service, exchange: Exchange, reply: Reply, *, extra: bytes = b"") -> None:
    if isinstance(reply.answer, PortfolioSeen):
        service.show(exchange, reply, service.views.portfolio(reply.answer.portfolio), extra=extra)
    else:
        service.show_refusal(exchange, reply)


def list_all(service: Service, exchange: Exchange) -> None:
    _list(service, exchange, intent_id=None)


def list_of_intent(service: Service, exchange: Exchange, intent_id: str) -> None:
    _list(service, exchange, intent_id=intent_id)


def _list(service: Service, exchange: Exchange, *, intent_id: str | None) -> None:
    wanted, ignored = query.decode(PortfoliosQuery, exchange)
    command = ListPortfolios(
        created_by=wanted.created_by, intent_id=intent_id, offset=wanted.offset, limit=wanted.limit
    )
    reply = service.apply(command)
    if not isinstance(reply.answer, Portfolios):
        service.show_refusal(exchange, reply)
        return
    shown = [service.views.portfolio(portfolio) for portfolio in reply.answer.portfolios]
    following = query.next_line(wanted.offset + wanted.limit, more=reply.answer.more)
    service.show(exchange, reply, shown, extra=ignored + following)


# Members


def add(service: Service, exchange: Exchange, portfolio_id: str) -> None:
    body, ignored = bodies.decode_loosely(MemberBody, exchange.body)
    member = Member(
        id=str(uuid4()),
        portfolio_id=portfolio_id,
        intent_id=body.intent_id,
        role=body.role,
        priority=body.priority,
    )
    reply = service.apply(AddMember(member=member, actor=bodies.actor(exchange, service.limits)))
    if isinstance(reply.answer, MemberSeen):
        service.show(exchange, reply, service.views.member(reply.answer.member), extra=ignored)
    else:
        service.show_refusal(exchange, reply)


def remove(service: Service, exchange: Exchange, portfolio_id: str, intent_id: str) -> None:
    actor = bodies.actor(exchange, service.limits)
    reply = service.apply(RemoveMember(portfolio_id=portfolio_id, intent_id=intent_id, actor=actor))
    if isinstance(reply.answer, Done):
        service.show(exchange, reply, DoneView("Intent removed from portfolio"))
    else:
        service.show_refusal(exchange, reply)


def list_members(service: Service, exchange: Exchange, portfolio_id: str) -> None:
    """A page of them; how far they are is said of all."""
    wanted, ignored = query.decode(PageQuery, exchange)
    reply = service.apply(ListMembers(portfolio_id))
    if not isinstance(reply.answer, Members):
        service.show_refusal(exchange, reply)
        return
    views, rows = service.views, reply.answer.rows
    page, following = query.page(rows, wanted)
    shown = MemberList(
        intents=[views.intent(intent) for _, intent in page],
        memberships=[views.member(member) for member, _ in page],
        aggregate_status=_aggregate([intent for _, intent in rows]),
    )
    service.show(exchange, reply, shown, extra=ignored + following)


def _aggregate(intents: list[Intent]) -> AggregateView:
    counts = Counter(intent.status for intent in intents)
    done = counts["completed"]
    return AggregateView(len(intents), dict(counts), round(100 * done / len(intents)) if intents else 0)


_ONE: Final = "portfolios/{}"
_MEMBERS: Final = "portfolios/{}/intents"

_AGENT: Final = ("X-Agent-ID",)

ROUTES: Final = [
    Route(
        "POST",
        "portfolios",
        create,
        "Create a portfolio",
        body=PortfolioBody,
        view=PortfolioView,
        reads=(*_AGENT, "Idempotency-Key"),
        codes=("already_exists", "attempt_reused", "limit_reached"),
        name="create_portfolio",
    ),
    Route(
        "GET",
        "portfolios",
        list_all,
        "List portfolios",
        query=PortfoliosQuery,
        view=list[PortfolioView],
        name="list_portfolios",
    ),
    Route("GET", _ONE, get, "Read a portfolio", view=PortfolioView, name="get_portfolio"),
    Route(
        "PATCH",
        f"{_ONE}/status",
        set_status,
        "Change its status",
        body=PortfolioStatusBody,
        view=PortfolioView,
        reads=_AGENT,
        name="set_portfolio_status",
    ),
    Route(
        "POST",
        _MEMBERS,
        add,
        "Add an intent",
        body=MemberBody,
        view=MemberView,
        reads=_AGENT,
        codes=("limit_reached",),
        name="add_member",
    ),
    Route("GET", _MEMBERS, list_members, "List its intents", query=PageQuery, view=MemberList, name="list_members"),
    Route(
        "DELETE",
        f"{_MEMBERS}/{{}}",
        remove,
        "Remove an intent",
        view=DoneView,
        reads=_AGENT,
        name="remove_member",
    ),
    Route(
        "GET",
        "intents/{}/portfolios",
        list_of_intent,
        "List the portfolios it is in",
        query=PortfoliosQuery,
        view=list[PortfolioView],
        name="list_portfolios_of_intent",
    ),
]
