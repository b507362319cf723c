"""The registry of agents, and who works on what."""

from openintent.client import replies
from openintent.client.calls.base import JSON, Call, query, quoted, space_path
from openintent.client.replies import Page
from openintent.client.values import AgentRecord, Assignment


def _path(agent_id: str) -> str:
    return space_path(f"agent:{agent_id}")


def register_agent(body: JSON) -> Call[AgentRecord]:
    return Call("POST", "/agents/register", replies.reading(AgentRecord), body)


def get_agent(agent_id: str) -> Call[AgentRecord]:
    return Call("GET", f"{_path(agent_id)}/record", replies.reading(AgentRecord))


def list_agents(
    *, status: str | None, role_id: str | None, limit: int | None, offset: int | str | None
) -> Call[Page[AgentRecord]]:
    asked = query(status=status, role_id=role_id, limit=limit, offset=offset)
    return Call("GET", f"/agents{asked}", replies.page(AgentRecord))


def mark_agent(agent_id: str, status: str) -> Call[AgentRecord]:
    return Call("PATCH", f"{_path(agent_id)}/status", replies.reading(AgentRecord), {"status": status})


def deregister_agent(agent_id: str) -> Call[AgentRecord]:
    return Call("DELETE", _path(agent_id), replies.reading(AgentRecord))


# Assignments


def assign_agent(intent_id: str, agent_id: str, *, role: str = "worker") -> Call[Assignment]:
    body = {"agent_id": agent_id, "role": role}
    return Call("POST", _assigned_path(intent_id), replies.reading(Assignment), body)


def unassign_agent(intent_id: str, agent_id: str) -> Call[None]:
    return Call("DELETE", f"{_assigned_path(intent_id)}/{quoted(agent_id)}", replies.nothing)


def list_assigned(intent_id: str) -> Call[list[Assignment]]:
    return Call("GET", _assigned_path(intent_id), replies.listing(Assignment, "agents"))


def get_assignments(agent_id: str) -> Call[list[Assignment]]:
    return Call("GET", f"{_path(agent_id)}/assignments", replies.listing(Assignment, "assignments"))


def _assigned_path(intent_id: str) -> str:
    return f"{space_path(f'intent:{intent_id}')}/agents"
