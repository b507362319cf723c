"""Agents: who is there, how they are, and what they are to work on."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Unpack

from openintent.client import calls, spelling
from openintent.client.awaited.base import Base
from openintent.client.lease import Lease
from openintent.client.spelling import AgentOptions
from openintent.client.values import AgentRecord, Assignment, Heartbeat
from openintent.wire import PAGE_MAX


class Agents(Base):
    async def register_agent(self, agent_id: str | None = None, **options: Unpack[AgentOptions]) -> AgentRecord:
        """Enter an agent into the registry, this one if none is named; again brings its record up to date."""
        return await self._ask(calls.register_agent(spelling.agent_of(agent_id or self.agent_id, options)))

    async def get_agent_record(self, agent_id: str | None = None) -> AgentRecord:
        return await self._ask(calls.get_agent(agent_id or self.agent_id))

    async def list_agents(
        self,
        status: str | None = None,
        role_id: str | None = None,
        *,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[AgentRecord]:
        """All of them, or with a `limit` so many; those that left the registry only under their status."""
        if limit is None and offset is None:
            return await self._all(
                lambda at: calls.list_agents(status=status, role_id=role_id, limit=PAGE_MAX, offset=at)
            )
        return (await self._ask(calls.list_agents(status=status, role_id=role_id, limit=limit, offset=offset))).items

    def iter_agents(self, status: str | None = None, role_id: str | None = None) -> AsyncIterator[AgentRecord]:
        """All of them, one after the other, fetched as they are needed."""
        return self._walk(lambda at: calls.list_agents(status=status, role_id=role_id, limit=PAGE_MAX, offset=at))

    async def update_agent_status(self, agent_id: str, status: str) -> AgentRecord:
        """Mark an agent: `active`, `draining`, `unhealthy`, `dead` or `deregistered`. The mark ends no lease."""
        return await self._ask(calls.mark_agent(agent_id, status))

    async def deregister_agent(self, agent_id: str | None = None) -> AgentRecord:
        """Take an agent off the registry. Its leases and assignments stay what they are."""
        return await self._ask(calls.deregister_agent(agent_id or self.agent_id))

    async def agent_heartbeat(
        self,
        agent_id: str | None = None,
        *,
        leases: Iterable[Lease] = (),
        status: str | None = None,
        current_load: int | None = None,
        tasks_in_progress: Sequence[str] | int | None = None,
    ) -> Heartbeat:
        """Say that the agent lives, and renew exactly the leases that are listed."""
        listed = list(leases)
        body = spelling.heartbeat_of(listed, status, current_load, tasks_in_progress)
        return self._holder.hear(await self._ask(calls.heartbeat(agent_id or self.agent_id, body)), listed)

    # Assignments

    async def assign_agent(self, intent_id: str, agent_id: str | None = None, role: str = "worker") -> Assignment:
        """Give an agent a part in an intent, this one if none is named. Again is the same."""
        return await self._ask(calls.assign_agent(intent_id, agent_id or self.agent_id, role=role))

    async def unassign_agent(self, intent_id: str, agent_id: str | None = None) -> None:
        await self._remove(calls.unassign_agent(intent_id, agent_id or self.agent_id))

    async def list_assigned_agents(self, intent_id: str) -> list[Assignment]:
        """Who works on it."""
        return await self._ask(calls.list_assigned(intent_id))

    async def get_assignments(self, agent_id: str | None = None) -> list[Assignment]:
        """What an agent is to work on, this one if none is named."""
        return await self._ask(calls.get_assignments(agent_id or self.agent_id))

    @property
    def agents(self) -> "AgentsFace":
        """The same under the documents' names: `client.agents.register(...)`."""
        return AgentsFace(self)


class AgentsFace:
    def __init__(self, client: Agents) -> None:
        self._client = client

    async def register(self, agent_id: str | None = None, **options: Unpack[AgentOptions]) -> AgentRecord:
        return await self._client.register_agent(agent_id, **options)

    async def heartbeat(
        self, agent_id: str | None = None, status: str | None = None, current_load: int | None = None
    ) -> Heartbeat:
        return await self._client.agent_heartbeat(agent_id, status=status, current_load=current_load)

    async def drain(self, agent_id: str | None = None) -> AgentRecord:
        """It is to finish what it has and take nothing new."""
        return await self._client.update_agent_status(agent_id or self._client.agent_id, "draining")

    async def get_status(self, agent_id: str | None = None) -> AgentRecord:
        return await self._client.get_agent_record(agent_id)

    async def get(self, agent_id: str | None = None) -> AgentRecord:
        return await self._client.get_agent_record(agent_id)

    async def deregister(self, agent_id: str | None = None) -> AgentRecord:
        return await self._client.deregister_agent(agent_id)

    async def list(self, role_id: str | None = None, status: str | None = None) -> Sequence[AgentRecord]:
        return await self._client.list_agents(status, role_id)
