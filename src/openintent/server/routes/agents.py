"""The registry of agents, and assignments, over HTTP."""

from typing import Final

from openintent.core.answers import Agents, AgentSeen, Assigned, Assignments, Done, Reply
from openintent.core.commands import (
    Assign,
    GetAgent,
    GetIntent,
    ListAgents,
    ListAssigned,
    ListAssignments,
    MarkAgent,
    RegisterAgent,
    Unassign,
)
from openintent.model import Agent, Assignment
from openintent.server import bodies, query
from openintent.server.exchange import Exchange
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.wire import (
    AgentBody,
    AgentsQuery,
    AgentStatusBody,
    AgentView,
    AssignedList,
    AssignmentBody,
    AssignmentList,
    AssignmentView,
    CapacityBody,
    DoneView,
    HeartbeatConfigBody,
)

CAPABILITIES_MAX: Final = 1_000
BEAT_MS_MIN: Final = 100


def register(service: Service, exchange: Exchange) -> None:
    body, ignored = bodies.decode_loosely(AgentBody, exchange.body)
    agent_id = bodies.agent(exchange, service.limits, named=body.agent_id)
    checks = bodies.Checks(service.limits)
    checks.name("agent_id", body.agent_id)
    agent = _agent(checks, agent_id, body)
    checks.settle()
    _show(service, exchange, service.apply(RegisterAgent(agent)), extra=ignored)


def _agent(checks: bodies.Checks, agent_id: str, body: AgentBody) -> Agent:
    limits, capacity = checks.limits, body.capacity or CapacityBody()
    for field in ("role_id", "name", "endpoint"):
        if (value := getattr(body, field)) is not None:
            checks.name(field, value, most=limits.text_chars_max)
    if len(body.capabilities) > CAPABILITIES_MAX:
        checks.fault("capabilities", f"must be at most {CAPABILITIES_MAX}", "size")
    checks.size("capabilities", body.capabilities, limits.metadata_bytes_max)
    checks.size("metadata", body.metadata, limits.metadata_bytes_max)
    beat_ms, unhealthy_ms, dead_ms = _beats(checks, body.heartbeat_config)
    drain_s = body.drain_timeout_seconds
    return Agent(
        id=agent_id,
        role_id=body.role_id,
        name=body.name,
        capabilities=body.capabilities,
        load_max=capacity.max_concurrent_tasks,
        load=capacity.current_load,
        endpoint=body.endpoint,
        metadata=body.metadata,
        heartbeat_ms=beat_ms,
        unhealthy_ms=unhealthy_ms,
        dead_ms=dead_ms,
        drain_ms=None if drain_s is None else _ms(checks, "drain_timeout_seconds", drain_s),
    )


def _beats(checks: bodies.Checks, given: HeartbeatConfigBody | None) -> tuple[int, int, int]:
    """How often it will be heard of, and after which silence it is marked. Marks without a time follow the rhythm."""
    limits = checks.limits
    config = given or HeartbeatConfigBody(limits.heartbeat_ms_default / 1_000)
    beat_ms = _ms(checks, "heartbeat_config.interval_seconds", config.interval_seconds)
    unhealthy_ms, dead_ms = beat_ms * limits.missed_until_unhealthy, beat_ms * limits.missed_until_dead
    if config.unhealthy_after_seconds is not None:
        unhealthy_ms = _ms(checks, "heartbeat_config.unhealthy_after_seconds", config.unhealthy_after_seconds)
    if config.dead_after_seconds is not None:
        dead_ms = _ms(checks, "heartbeat_config.dead_after_seconds", config.dead_after_seconds)
    if dead_ms < unhealthy_ms:
        checks.fault("heartbeat_config.dead_after_seconds", "must not be less than unhealthy_after_seconds", "range")
    return beat_ms, unhealthy_ms, dead_ms


def _ms(checks: bodies.Checks, field: str, seconds: float) -> int:
    return checks.ms(field, seconds, least_ms=BEAT_MS_MIN, most_ms=checks.limits.hold_ms_max)


def get(service: Service, exchange: Exchange, agent_id: str) -> None:
    _show(service, exchange, service.apply(GetAgent(agent_id)))


def set_status(service: Service, exchange: Exchange, agent_id: str) -> None:
    body, ignored = bodies.decode_loosely(AgentStatusBody, exchange.body)
    _mark(service, exchange, agent_id, body.status, extra=ignored)


def deregister(service: Service, exchange: Exchange, agent_id: str) -> None:
    _mark(service, exchange, agent_id, "deregistered")


def _mark(service: Service, exchange: Exchange, agent_id: str, status: str, *, extra: bytes = b"") -> None:
    actor = bodies.agent(exchange, service.limits, named=agent_id)
    _show(service, exchange, service.apply(MarkAgent(agent_id=agent_id, actor=actor, status=status)), extra=extra)


def _show(service: Service, exchange: Exchange, reply: Reply, *, extra: bytes = b"") -> None:
    if isinstance(reply.answer, AgentSeen):
        service.show(exchange, reply, service.views.agent(reply.answer.agent), extra=extra)
    else:
        service.show_refusal(exchange, reply)


def list_all(service: Service, exchange: Exchange) -> None:
    wanted, ignored = query.decode(AgentsQuery, exchange)
    command = ListAgents(status=wanted.status, role_id=wanted.role_id, offset=wanted.offset, limit=wanted.limit)
    reply = service.apply(command)
    answer = reply.answer
    assert isinstance(answer, Agents)
    shown = [service.views.agent(agent) for agent in answer.agents]
    following = query.next_line(wanted.offset + wanted.limit, more=answer.more)
    service.show(exchange, reply, shown, extra=ignored + following)


# Assignments


def assign(service: Service, exchange: Exchange, intent_id: str) -> None:
    body, ignored = bodies.decode_loosely(AssignmentBody, exchange.body)
    checks = bodies.Checks(service.limits)
    checks.name("role", body.role)
    checks.agents(body.agent_id)
    checks.settle()
    # Whoever may write may give work to anybody; only without a name it is for oneself.
    agent_id = body.agent_id or bodies.agent(exchange, service.limits)
    assignment = Assignment(intent_id=intent_id, agent_id=agent_id, role=body.role)
    reply = service.apply(Assign(assignment=assignment, actor=bodies.actor(exchange, service.limits)))
    if not isinstance(reply.answer, Assigned):
        service.show_refusal(exchange, reply)
        return
    intent = service.apply(GetIntent(intent_id)).answer.intent
    service.show(exchange, reply, service.views.assignment(reply.answer.assignment, intent), extra=ignored)


def unassign(service: Service, exchange: Exchange, intent_id: str, agent_id: str) -> None:
    actor = bodies.actor(exchange, service.limits)
    reply = service.apply(Unassign(intent_id=intent_id, agent_id=agent_id, actor=actor))
    if isinstance(reply.answer, Done):
        service.show(exchange, reply, DoneView("Agent unassigned"))
    else:
        service.show_refusal(exchange, reply)


def list_assigned(service: Service, exchange: Exchange, intent_id: str) -> None:
    reply = service.apply(ListAssigned(intent_id))
    if isinstance(reply.answer, Assignments):
        service.show(exchange, reply, AssignedList(_shown(service, reply.answer)))
    else:
        service.show_refusal(exchange, reply)


def list_assignments(service: Service, exchange: Exchange, agent_id: str) -> None:
    reply = service.apply(ListAssignments(agent_id))
    service.show(exchange, reply, AssignmentList(_shown(service, reply.answer)))


def _shown(service: Service, answer: Assignments) -> list[AssignmentView]:
    return [service.views.assignment(assignment, intent) for assignment, intent in answer.rows]


_ONE: Final = "agents/{}"
_ASSIGNED: Final = "intents/{}/agents"

_AGENT: Final = ("X-Agent-ID",)

ROUTES: Final = [
    Route(
        "POST",
        "agents/register",
        register,
        "Register an agent",
        body=AgentBody,
        view=AgentView,
        codes=("limit_reached",),
        name="register_agent",
    ),
    Route("GET", "agents", list_all, "List agents", query=AgentsQuery, view=list[AgentView], name="list_agents"),
    Route("GET", f"{_ONE}/record", get, "Read an agent", view=AgentView, name="get_agent"),
    Route(
        "PATCH",
        f"{_ONE}/status",
        set_status,
        "Mark an agent",
        body=AgentStatusBody,
        view=AgentView,
        name="set_agent_status",
    ),
    Route("DELETE", _ONE, deregister, "Take an agent off the registry", view=AgentView, name="deregister_agent"),
    Route(
        "GET",
        f"{_ONE}/assignments",
        list_assignments,
        "List what it is to work on",
        view=AssignmentList,
        name="list_assignments",
    ),
    Route(
        "POST",
        _ASSIGNED,
        assign,
        "Assign an agent",
        body=AssignmentBody,
        view=AssignmentView,
        reads=_AGENT,
        codes=("agent_required", "limit_reached", "governance_violation"),
        name="assign_agent",
    ),
    Route("GET", _ASSIGNED, list_assigned, "List who works on it", view=AssignedList, name="list_assigned_agents"),
    Route(
        "DELETE",
        f"{_ASSIGNED}/{{}}",
        unassign,
        "Unassign an agent",
        view=DoneView,
        reads=_AGENT,
        name="unassign_agent",
    ),
]
