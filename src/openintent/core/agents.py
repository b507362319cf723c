"""Agents: who is there, how they are, and what they are to work on.

The status of an agent is a mark for people and schedulers. It ends no lease: leases end at their own deadlines.
Heartbeats are not written down, so a restart gives every agent the benefit of the doubt.
"""

from itertools import islice

from openintent.core import governance
from openintent.core.answers import (
    Agents,
    AgentSeen,
    Assigned,
    Assignments,
    Done,
    LimitReached,
    Missing,
    Reply,
    Violation,
)
from openintent.core.books import Books, assignment_key
from openintent.core.commands import (
    Assign,
    GetAgent,
    ListAgents,
    ListAssigned,
    ListAssignments,
    MarkAgent,
    RegisterAgent,
    Unassign,
)
from openintent.core.shelves import shelve, unshelve
from openintent.model import DEAD, DONE_STATUSES, Agent, Assignment, Intent
from openintent.spaces import agent_space, intent_space

# The registry


def register(books: Books, command: RegisterAgent) -> Reply:
    """Enter an agent into the registry, or bring what it says of itself up to date."""
    agent = command.agent
    known = books.agents.get(agent.id)
    if known is None and not _make_room(books):
        return books.reply(LimitReached("agents", books.limits.agents_max))
    if known is not None:
        agent.version = known.version + 1
        agent.registered_at_ms = known.registered_at_ms
        books.timers.died(known)
        known.timer_ms = DEAD
    else:
        agent.registered_at_ms = books.date_ms
    agent.seen_ms, agent.seen_at_ms = books.now_ms, books.date_ms
    books.agents[agent.id] = agent
    watch(books, agent)
    _keep(books, agent)
    payload = {"role_id": agent.role_id, "capabilities": agent.capabilities, "version": agent.version}
    books.log("agent.registered", agent_space(agent.id), agent.id, payload=payload)
    if known is not None and known.role_id != agent.role_id:
        governance.end_role(books, known)
    return books.reply(AgentSeen(agent), after=agent.batch)


def watch(books: Books, agent: Agent) -> None:
    """Wait for its next mark, if there is one to come."""
    if agent.due_ms != DEAD:
        books.timers.add(agent)
    else:
        books.timers.died(agent)
        agent.timer_ms = DEAD  # it may be back, and is to be watched anew then


def _make_room(books: Books) -> bool:
    """Whether one more fits. One that left is forgotten for it; else, of the dead, the one not heard of for longest."""
    if len(books.agents) < books.limits.agents_max:
        return True
    agents = books.agents.values()
    gone = next((agent for agent in agents if agent.status == "deregistered"), None)
    # Agents that crash and come back under new ids never leave: without this they would fill the registry for good.
    gone = gone or min((agent for agent in agents if agent.status == "dead"), key=_seen_ms, default=None)
    if gone is None:
        return False
    del books.agents[gone.id]
    books.drop(f"r/{gone.id}")
    governance.end_role(books, gone)
    return True


def _seen_ms(agent: Agent) -> int:
    return agent.seen_ms


def get(books: Books, command: GetAgent) -> Reply:
    agent = books.agents.get(command.agent_id)
    if agent is None:
        return books.reply(Missing("agent"))
    return books.reply(AgentSeen(agent), after=agent.batch)


def list_all(books: Books, command: ListAgents) -> Reply:
    """In the order of their registration; those that left only if they are asked for."""
    wanted = (agent for agent in books.agents.values() if _wanted(agent, command))
    page = list(islice(wanted, command.offset, command.offset + command.limit + 1))
    return books.reply(Agents(page[: command.limit], more=len(page) > command.limit))


def _wanted(agent: Agent, command: ListAgents) -> bool:
    asked_for = agent.status != "deregistered" if command.status is None else agent.status == command.status
    return asked_for and command.role_id in (None, agent.role_id)


def mark(books: Books, command: MarkAgent) -> Reply:
    agent = books.agents.get(command.agent_id)
    if agent is None:
        return books.reply(Missing("agent"))
    if agent.status != command.status:
        agent.seen_ms = books.now_ms
        _set_status(books, agent, command.status, command.actor)
    return books.reply(AgentSeen(agent), after=agent.batch)


def hear(books: Books, agent: Agent, load: int | None) -> str:
    """A heartbeat came. Whoever was given up for dead is back."""
    if agent.status != "deregistered":
        agent.seen_ms, agent.seen_at_ms = books.now_ms, books.date_ms
        agent.load = agent.load if load is None else load
        if agent.status in ("unhealthy", "dead"):
            _set_status(books, agent, "active", agent.id)
    return agent.status


def fall_due(books: Books, agent: Agent) -> None:
    """Too many heartbeats are missing."""
    books.rev += 1
    _set_status(books, agent, "unhealthy" if agent.status == "active" else "dead", agent.id)


def _set_status(books: Books, agent: Agent, status: str, actor: str) -> None:
    payload = {"old_status": agent.status, "new_status": status}
    agent.status = status
    agent.version += 1
    _keep(books, agent)
    watch(books, agent)
    kind = "agent.dead" if status == "dead" else "agent.status_changed"
    books.log(kind, agent_space(agent.id), actor, payload=payload)
    if status == "deregistered":
        governance.end_role(books, agent)


def _keep(books: Books, agent: Agent) -> None:
    agent.batch = books.batch
    books.keep(f"r/{agent.id}", agent)


# Assignments


def assign(books: Books, command: Assign) -> Reply:
    """Give an agent a part in an intent. Again is the same; with another role it changes that."""
    wanted = command.assignment
    intent = books.intents.get(wanted.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    known = books.assigned.get(intent.id, {}).get(wanted.agent_id)
    if known is not None and known.role == wanted.role:
        return books.reply(Assigned(known))
    refusal = _not_allowed(books, intent, wanted.agent_id) or (_no_room(books, wanted) if known is None else None)
    if refusal is not None:
        return books.reply(refusal)
    wanted.assigned_by, wanted.assigned_at_ms = command.actor, books.date_ms
    place(books, wanted)
    books.keep(assignment_key(intent.id, wanted.agent_id), wanted)
    _log(books, "agent_assigned", wanted, command.actor, again=known is not None)
    return books.reply(Assigned(wanted))


def place(books: Books, assignment: Assignment) -> None:
    shelve(books.assigned, assignment.intent_id, assignment.agent_id, assignment)
    shelve(books.assignments, assignment.agent_id, assignment.intent_id, assignment)


def _no_room(books: Books, wanted: Assignment) -> LimitReached | None:
    limits = books.limits
    if len(books.assigned.get(wanted.intent_id, ())) >= limits.agents_per_intent_max:
        return LimitReached("agents for this intent", limits.agents_per_intent_max)
    if len(books.assignments.get(wanted.agent_id, ())) >= limits.assignments_per_agent_max:
        return LimitReached("assignments of this agent", limits.assignments_per_agent_max)
    return None


def _not_allowed(books: Books, intent: Intent, agent_id: str) -> Violation | None:
    """The policy may name who can be assigned; that nobody is assigned yet cannot count against it."""
    violation = governance.forbids(books, intent, agent_id)
    return violation if violation is not None and violation.rule == "allowed_agents" else None


def unassign(books: Books, command: Unassign) -> Reply:
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    assignment = books.assigned.get(intent.id, {}).get(command.agent_id)
    if assignment is None:
        return books.reply(Missing("assignment"))
    take_off(books, assignment, command.actor)
    governance.turn_away(books, intent)
    return books.reply(Done())


def take_off(books: Books, assignment: Assignment, actor: str) -> None:
    unshelve(books.assigned, assignment.intent_id, assignment.agent_id)
    unshelve(books.assignments, assignment.agent_id, assignment.intent_id)
    books.drop(assignment_key(assignment.intent_id, assignment.agent_id))
    _log(books, "agent_unassigned", assignment, actor)


def list_assigned(books: Books, command: ListAssigned) -> Reply:
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    return books.reply(Assignments([(each, intent) for each in _in_order(books.assigned.get(intent.id, {}))]))


def list_assignments(books: Books, command: ListAssignments) -> Reply:
    """What is still to be done, so that an agent which was away learns of it."""
    mine = _in_order(books.assignments.get(command.agent_id, {}))
    rows = [(each, books.intents[each.intent_id]) for each in mine]
    return books.reply(Assignments([row for row in rows if row[1].status not in DONE_STATUSES]))


def _in_order(assignments: dict[str, Assignment]) -> list[Assignment]:
    return sorted(assignments.values(), key=lambda each: (each.assigned_at_ms, each.intent_id, each.agent_id))


def _log(books: Books, kind: str, assignment: Assignment, actor: str, *, again: bool = False) -> None:
    """In both logs: the intent's and the agent's. `again` tells a change of role from the beginning."""
    named = {"intent_id": assignment.intent_id, "agent_id": assignment.agent_id, "role": assignment.role}
    payload = {**named, "again": True} if again else named
    space, also = intent_space(assignment.intent_id), agent_space(assignment.agent_id)
    books.log(kind, space, actor, payload=payload, also=also)
