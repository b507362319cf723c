"""Leading: of all instances of a coordinator one has the lease on its portfolio or intent, the others stand by.

All that runs because it leads runs under that lease: it is cancelled when the lease is lost, before another can lead,
and whatever it still writes names a token that the server no longer accepts.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from openintent.agents.calling import Handlers
from openintent.agents.context import AgentBase
from openintent.agents.hearing import Ear
from openintent.agents.work import leading
from openintent.chance import SPREAD
from openintent.client.coordinator import CoordinatorLease
from openintent.client.loop.streams import AsyncStream
from openintent.client.values import Event
from openintent.errors import LeaseLost, NotFoundError, OpenIntentError, WaitTimeout

logger = logging.getLogger("openintent.agents")

# A place in the queue is kept for so long at a time; then it is taken anew.
CAMPAIGN_S: Final = 300.0
# After a refusal that is no matter of waiting: the server is away, or what it is to lead does not exist yet.
TROUBLE_S: Final = (0.5, 2.0)
# Whether the stream is there yet is looked at so often.
CONNECT_LOOK_S: Final = 0.05


class Campaign:
    """For as long as it runs, the agent leads or stands by."""

    def __init__(self, agent: AgentBase, handlers: Handlers, make_ear: Callable[[], Ear]) -> None:
        self._agent = agent
        self._client = agent.async_client
        self._handlers = handlers
        self._make_ear = make_ear
        self._told_complete: dict[str, int] = {}  # the versions of the intents that were all complete

    async def run(self) -> None:
        while True:
            try:
                await self._lead_once()
            except WaitTimeout:
                continue  # somebody else leads
            except LeaseLost as lost:
                logger.warning("coordinator deposed agent=%s reason=%s", self._agent.agent_id, lost.reason)
                await self._handlers.tell("lease_lost", None, lost.reason)
            except (OpenIntentError, BaseExceptionGroup) as failed:
                logger.warning("coordinator failed agent=%s error=%r", self._agent.agent_id, failed)
                await asyncio.sleep(SPREAD.uniform(*TROUBLE_S))

    async def _lead_once(self) -> None:
        settings = self._agent.settings
        block = self._client.coordinate(
            settings.portfolio_id,
            intent_id=settings.intent_id,
            ttl_seconds=settings.lease_ttl,
            wait_seconds=CAMPAIGN_S,
            metadata={"agent": settings.name},
        )
        async with block as lease:
            logger.info("coordinator leads agent=%s token=%d", self._agent.agent_id, lease.token)
            token = leading.set(lease)
            self._agent.leads(lease)
            try:
                await self._lead(lease)
            finally:
                self._agent.leads(None)
                leading.reset(token)

    async def _lead(self, lease: CoordinatorLease) -> None:
        """Until it is cancelled: by the loss of the lease, or because the agent stops."""
        ear = self._make_ear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ear.tell())
                group.create_task(self._listen(ear))
                for hooked in self._handlers.of("lead"):
                    group.create_task(self._handlers.tell_one(hooked, lease))
        finally:
            await ear.close()

    async def _listen(self, ear: Ear) -> None:
        self._told_complete = {}
        stream = self._stream()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_once(stream))
            group.create_task(self._hear(ear, stream))

    async def _look_once(self, stream: AsyncStream[Event]) -> None:
        """The last may have been completed while nobody led. From when the stream is there, it tells."""
        while stream.cursor is None:  # noqa: ASYNC110  # a stream tells events, not that it is there
            await asyncio.sleep(CONNECT_LOOK_S)
        await self._perhaps_all_complete()

    async def _hear(self, ear: Ear, stream: AsyncStream[Event]) -> None:
        async for event in stream:
            await ear.hear(event)
            if event.event_type == "status_changed" and event.payload.get("new_status") == "completed":
                await self._perhaps_all_complete()

    def _stream(self) -> AsyncStream[Event]:
        settings = self._agent.settings
        if settings.portfolio_id is not None:
            return self._client.subscribe_portfolio(settings.portfolio_id, on_gap="skip")
        return self._client.subscribe_intent(str(settings.intent_id), on_gap="skip")

    async def _perhaps_all_complete(self) -> None:
        portfolio_id = self._agent.settings.portfolio_id
        if portfolio_id is None or not self._handlers.has("all_complete"):
            return
        try:
            there = await self._client.get_portfolio_intents(portfolio_id)
        except NotFoundError:
            return
        versions = {intent.id: intent.version for intent in there}
        if versions in ({}, self._told_complete) or any(intent.status != "completed" for intent in there):
            return
        self._told_complete = versions
        await self._handlers.tell("all_complete", portfolio_id)
