"""Portfolios and what is in them."""

from openintent.client import replies
from openintent.client.calls.base import JSON, Call, headers, query, quoted, space_path
from openintent.client.replies import Page
from openintent.client.values import Membership, Portfolio, PortfolioIntents


def _path(portfolio_id: str) -> str:
    return space_path(f"portfolio:{portfolio_id}")


def create_portfolio(body: JSON, *, attempt: str) -> Call[Portfolio]:
    return Call("POST", "/portfolios", replies.reading(Portfolio), body, headers(attempt=attempt))


def get_portfolio(portfolio_id: str) -> Call[Portfolio]:
    return Call("GET", _path(portfolio_id), replies.reading(Portfolio))


def list_portfolios(
    *, created_by: str | None, limit: int | None, offset: int | str | None, intent_id: str | None = None
) -> Call[Page[Portfolio]]:
    base = "" if intent_id is None else space_path(f"intent:{intent_id}")
    asked = query(created_by=created_by, limit=limit, offset=offset)
    return Call("GET", f"{base}/portfolios{asked}", replies.page(Portfolio))


def set_portfolio_status(portfolio_id: str, status: str) -> Call[Portfolio]:
    return Call("PATCH", f"{_path(portfolio_id)}/status", replies.reading(Portfolio), {"status": status})


def add_member(portfolio_id: str, body: JSON) -> Call[Membership]:
    return Call("POST", f"{_path(portfolio_id)}/intents", replies.reading(Membership), body)


def remove_member(portfolio_id: str, intent_id: str) -> Call[None]:
    return Call("DELETE", f"{_path(portfolio_id)}/intents/{quoted(intent_id)}", replies.nothing)


def get_members(portfolio_id: str) -> Call[PortfolioIntents]:
    return Call("GET", f"{_path(portfolio_id)}/intents", replies.reading(PortfolioIntents))
