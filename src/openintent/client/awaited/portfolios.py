"""Portfolios: intents that belong together."""

from collections.abc import AsyncIterator
from typing import Unpack

from openintent.client import calls, spelling
from openintent.client.awaited.base import Base
from openintent.client.holder import new_attempt
from openintent.client.spelling import PortfolioOptions
from openintent.client.values import Membership, Portfolio, PortfolioIntents
from openintent.wire import PAGE_MAX


class Portfolios(Base):
    async def create_portfolio(
        self, name: str, description: str = "", **options: Unpack[PortfolioOptions]
    ) -> Portfolio:
        body = spelling.portfolio_of(name, description, options)
        return await self._ask(calls.create_portfolio(body, attempt=new_attempt()))

    async def get_portfolio(self, portfolio_id: str) -> Portfolio:
        return await self._ask(calls.get_portfolio(portfolio_id))

    async def list_portfolios(
        self, created_by: str | None = None, *, limit: int | None = None, offset: int | None = None
    ) -> list[Portfolio]:
        """All of them, or with a `limit` so many of them."""
        if limit is None and offset is None:
            return await self._all(lambda at: calls.list_portfolios(created_by=created_by, limit=PAGE_MAX, offset=at))
        return (await self._ask(calls.list_portfolios(created_by=created_by, limit=limit, offset=offset))).items

    def iter_portfolios(self, created_by: str | None = None) -> AsyncIterator[Portfolio]:
        """All of them, one after the other, fetched as they are needed."""
        return self._walk(lambda at: calls.list_portfolios(created_by=created_by, limit=PAGE_MAX, offset=at))

    async def update_portfolio_status(self, portfolio_id: str, status: str) -> Portfolio:
        """`active`, `completed` or `abandoned`."""
        return await self._ask(calls.set_portfolio_status(portfolio_id, status))

    async def add_intent_to_portfolio(
        self, portfolio_id: str, intent_id: str, role: str = "member", priority: int = 0
    ) -> Membership:
        """Put an intent into it. One that is there already only changes its role and priority."""
        body = {"intent_id": intent_id, "role": role, "priority": priority}
        return await self._ask(calls.add_member(portfolio_id, body))

    async def remove_intent_from_portfolio(self, portfolio_id: str, intent_id: str) -> None:
        await self._remove(calls.remove_member(portfolio_id, intent_id))

    async def get_portfolio_intents(self, portfolio_id: str) -> PortfolioIntents:
        """What is in it, the most important first, and how far it is."""
        return await self._ask(calls.get_members(portfolio_id))

    async def get_intent_portfolios(self, intent_id: str) -> list[Portfolio]:
        """The portfolios that an intent is in."""
        return await self._all(
            lambda at: calls.list_portfolios(created_by=None, limit=PAGE_MAX, offset=at, intent_id=intent_id)
        )
