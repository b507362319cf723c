"""The client for programs with an event loop. `client.py` has its twin: the same methods, without `await`."""

import asyncio
from collections.abc import Sequence
from typing import Any, Self
from weakref import WeakSet

from openintent.client import flows
from openintent.client.awaited.agents import Agents
from openintent.client.awaited.coordinators import Coordinators
from openintent.client.awaited.events import Events
from openintent.client.awaited.governance import Governance
from openintent.client.awaited.intents import Intents
from openintent.client.awaited.lineage import Lineage
from openintent.client.awaited.portfolios import Portfolios
from openintent.client.loop.transport import AsyncHttpTransport


class AsyncOpenIntentClient(Intents, Lineage, Governance, Coordinators, Portfolios, Agents, Events):
    """Talks to a server, or to several of which any may answer. Tasks of one event loop may share one client.

    `base_url` is `OPENINTENT_URL` if not given, else `http://localhost:8000`; `api_key` is `OPENINTENT_API_KEY`.
    Without an `agent_id` one is made up, so that two programs are two agents. `timeout` is how many seconds one
    method may take, with all its repeats, besides the time that it was asked to wait for a lease. No try is given less
    than one; and to give up a lease that it may have got, after no answer came, a method may take two more.
    """

    def __init__(
        self,
        base_url: str | Sequence[str] | None = None,
        api_key: str | None = None,
        agent_id: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        super().__init__(base_url, api_key, agent_id, timeout)
        self._transport = AsyncHttpTransport(self._addresses, self._holder.identity, timeout_s=timeout)
        self._background: set[asyncio.Task[Any]] = set()
        self._streams = WeakSet()

    async def close(self) -> None:
        """End what is kept alive, the streams and the connections. A lease that is still held lapses."""
        self._holder.keeper.close()
        for stream in list(self._streams):
            await stream.close()
        if self._background:
            await asyncio.wait(self._background, timeout=flows.GIVE_UP_S)
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
