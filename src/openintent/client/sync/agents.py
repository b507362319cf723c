"""Agents: who is there, how they are, and what they are to work on."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

from openintent.client import calls, spelling
from openintent.client.lease import Lease
from openintent.client.spelling import AgentOptions
from openintent.client.sync.base import Base
from openintent.client.values import AgentRecord, Assignment, Heartbeat
from openintent.wire import PAGE_MAX


class Agents(Base):
    def register_agent(self, agent_id: str | None = None, **options: Unpack[AgentOptions]) -> AgentRecord:
        """Enter an agent into the registry, this one if none is named; again brings its record up to date."""
        return self._ask(calls.register_agent(spelling.agent_of(agent_id or self.agent_id, options)))

    def get_agent_record(self, agent_id: str | None = None) -> AgentRecord:
        return self._ask(calls.get_agent(agent_id or self.agent_id))

    def list_agents(
        self,
        status: str | None = None,
        role_id: str | None = None,
        *,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[AgentRecord]:
        """All of them, or with a `limit` so many; those that left the registry only under their status."""
        if limit is None and offset is None:
            return self._all(lambda at: calls.list_agents(status=status, role_id=role_id, limit=PAGE_MAX, offset=at))
        return self._ask(calls.list_agents(status=status, role_id=role_id, limit=limit, offset=offset)).items

    def iter_agents(self, status: str | None = None, role_id: str | None = None) -> Iterator[AgentRecord]:
        """All of them, one after the other, fetched as they are needed."""
        return self._walk(lambda at: calls.list_agents(status=status, role_id=role_id, limit=PAGE_MAX, offset=at))

    def update_agent_status(self, agent_id: str, status: str) -> AgentRecord:
        """Mark an agent: `active`, `draining`, `unhealthy`, `dead` or `deregistered`. The mark ends no lease."""
        return self._ask(calls.mark_agent(agent_id, status))

    def deregister_agent(self, agent_id: str | None = None) -> AgentRecord:
        """Take an agent off the registry. Its leases and assignments stay what they are."""
        return self._ask(calls.deregister_agent(agent_id or self.agent_id))

    def agent_heartbeat(
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
        return self._holder.hear(self._ask(calls.heartbeat(agent_id or self.agent_id, body)), listed)

    # Assignments

    def assign_agent(self, intent_id: str, agent_id: str | None = None, role: str = "worker") -> Assignment:
        """Give an agent a part in an intent, this one if none is named. Again is the same."""
        return self._ask(calls.assign_agent(intent_id, agent_id or self.agent_id, role=role))

    def unassign_agent(self, intent_id: str, agent_id: str | None = None) -> None:
        self._remove(calls.unassign_agent(intent_id, agent_id or self.agent_id))

    def list_assigned_agents(self, intent_id: str) -> list[Assignment]:
        """Who works on it."""
        return self._ask(calls.list_assigned(intent_id))

    def get_assignments(self, agent_id: str | None = None) -> list[Assignment]:
        """What an agent is to work on, this one if none is named."""
        return self._ask(calls.get_assignments(agent_id or self.agent_id))

    @property
    def agents(self) -> "AgentsFace":
        """The same under the documents' names: `client.agents.register(...)`."""
        return AgentsFace(self)


class AgentsFace:
    def __init__(self, client: Agents) -> None:
        self._client = client

    def register(self, agent_id: str | None = None, **options: Unpack[AgentOptions]) -> AgentRecord:
        return self._client.register_agent(agent_id, **options)

    def heartbeat(
        self, agent_id: str | None = None, status: str | None = None, current_load: int | None = None
    ) -> Heartbeat:
        return self._client.agent_heartbeat(agent_id, status=status, current_load=current_load)

    def drain(self, agent_id: str | None = None) -> AgentRecord:
        """It is to finish what it has and take nothing new."""
        return self._client.update_agent_status(agent_id or self._client.agent_id, "draining")

    def get_status(self, agent_id: str | None = None) -> AgentRecord:
        return self._client.get_agent_record(agent_id)

    def get(self, agent_id: str | None = None) -> AgentRecord:
        return self._client.get_agent_record(agent_id)

    def deregister(self, agent_id: str | None = None) -> AgentRecord:
        return self._client.deregister_agent(agent_id)

    def list(self, role_id: str | None = None, status: str | None = None) -> Sequence[AgentRecord]:
        return self._client.list_agents(status, role_id)
