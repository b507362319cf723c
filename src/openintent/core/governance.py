"""Governance: what an intent's policy forbids, the decisions about it, and asking a person to decide.

A policy binds whoever writes to the intent or leases a part of it. It does not take back what was granted before it
came; but whoever still waits for a part is turned away if it forbids that.
"""

import math
from typing import Any

from openintent.core import attempts, waiting
from openintent.core.answers import (
    ArbitrationAsked,
    AttemptReused,
    Decisions,
    DecisionSeen,
    IntentSeen,
    LimitReached,
    Missing,
    Reply,
    Violation,
)
from openintent.core.books import Books, decision_key
from openintent.core.commands import Arbitrate, ListDecisions, RecordDecision, SetPolicy
from openintent.core.values import fingerprint
from openintent.core.versions import keep, new_version, version_differs
from openintent.model import Agent, Ask, Decision, Intent
from openintent.spaces import agent_name_of, home_of, intent_space, spaces_of_intent

COMPLETION = "completion"  # the type of a decision that counts towards completing an intent
APPROVED = "approved"

# What is forbidden


def forbids(books: Books, intent: Intent, actor: str) -> Violation | None:
    """Whether this agent may have a hand in the intent at all."""
    policy = intent.governance_policy
    if not policy:
        return None
    allowed = policy.get("allowed_agents")
    if allowed and actor not in allowed and agent_name_of(actor) not in allowed:
        return Violation("allowed_agents", f"{actor} is not among the agents that are allowed here")
    if policy.get("write_scope") == "assigned_only" and not _is_assigned(books, intent, actor):
        return Violation("write_scope", f"only assigned agents may act here, and {actor} is not assigned")
    return None


def _is_assigned(books: Books, intent: Intent, actor: str) -> bool:
    """By its own id, by the name of the agent that it is an instance of, or by the role that either registered with."""
    assigned = books.assigned.get(intent.id, {})
    names = {actor, agent_name_of(actor)}
    return not assigned.keys().isdisjoint(names) or any(_role_of(books, name) in assigned for name in names)


def _role_of(books: Books, agent_id: str) -> str | None:
    agent = books.agents.get(agent_id)
    return None if agent is None or agent.status == "deregistered" else agent.role_id


def forbids_lease(books: Books, ask: Ask) -> Violation | None:
    intent = books.governed.get(home_of(ask.space))
    return None if intent is None else forbids(books, intent, ask.holder)


def turn_away(books: Books, intent: Intent) -> None:
    """Whoever may no longer have a part of the intent waits for it in vain: say so, and let the others move up."""
    for name in spaces_of_intent(intent.id):
        space = books.spaces.get(name)
        if space is not None:
            waiters = [waiter for line in space.lines for waiter in line.waiters]
            refusals = [(waiter, forbids(books, intent, waiter.ask.holder)) for waiter in waiters]
            waiting.send_away(books, space, [(waiter, why) for waiter, why in refusals if why is not None])


def end_role(books: Books, agent: Agent) -> None:
    """An agent no longer has its role: where only the role was assigned, neither it nor an instance of it may act."""
    for intent_id in books.assignments.get(agent.role_id or "", {}):
        intent = books.intents[intent_id]
        if intent.governance_policy:
            turn_away(books, intent)


def forbids_status(books: Books, intent: Intent, status: str, reason: str | None) -> Violation | None:
    policy = intent.governance_policy or {}
    if policy.get("require_status_reason") and not reason:
        return Violation("require_status_reason", "a change of status needs a reason here")
    return _forbids_completion(books, intent, policy) if status == "completed" else None


def _forbids_completion(books: Books, intent: Intent, policy: dict[str, Any]) -> Violation | None:
    mode = policy.get("completion_mode", "auto")
    if mode == "auto":
        return None
    made = [each for each in books.decisions.get(intent.id, []) if each.type == COMPLETION]
    opinions = {agent_name_of(each.actor): each.outcome for each in made}  # however many instances it has
    approvers = {agent for agent, outcome in opinions.items() if outcome == APPROVED}
    needed = 1
    if mode == "quorum":
        assigned = set(map(agent_name_of, books.assigned.get(intent.id, ())))
        approvers &= assigned
        # Rounded first: 0.28 of 25 is a little more than 7 to a computer, and must not need an eighth.
        needed = max(1, math.ceil(round(policy.get("quorum_threshold", 0.6) * len(assigned), 6)))
    if len(approvers) >= needed:
        return None
    what = f"decisions of type {COMPLETION} with the outcome {APPROVED}"
    return Violation("completion_mode", f"completing it needs {needed} {what}, and there are {len(approvers)}")


# The policy itself


def set_policy(books: Books, command: SetPolicy) -> Reply:
    """Give the intent a policy, or take it away: whoever the present one binds, or an operator."""
    intent = books.intents.get(command.intent_id)
    if intent is None:
        return books.reply(Missing("intent"))
    violation = None if command.operator else forbids(books, intent, command.actor)
    refusal = violation or version_differs(intent, command.expect)
    if refusal is not None:
        return books.reply(refusal)
    space = intent_space(intent.id)
    intent.governance_policy = command.policy
    if command.policy:
        books.governed[space] = intent
    else:
        books.governed.pop(space, None)
    new_version(books, intent)
    keep(books, intent)
    kind = "governance.policy_set" if command.policy else "governance.policy_removed"
    books.log(kind, space, command.actor, payload={"governance_policy": command.policy, "version": intent.version})
    turn_away(books, intent)
    return books.reply(IntentSeen(intent), after=intent.batch)


# Decisions


def record(books: Books, command: RecordDecision) -> Reply:
    decision = command.decision
    if decision.intent_id not in books.intents:
        return books.reply(Missing("intent"))
    print_ = fingerprint("decision", decision.intent_id, decision.type, decision.outcome, decision.reasoning)
    made = books.decisions.get(decision.intent_id, [])
    known = attempts.find(books, decision.actor, command.attempt)
    if known is not None:
        again = next((each for each in made if each.id == known.target), None)
        same = known.print == print_ and again is not None
        return books.reply(DecisionSeen(again) if same and again is not None else AttemptReused(known.key))
    if len(made) >= books.limits.decisions_per_intent_max:
        return books.reply(LimitReached("decisions about this intent", books.limits.decisions_per_intent_max))
    if (refusal := attempts.none_left(books, command.attempt)) is not None:
        return books.reply(refusal)
    decision.made_at_ms = books.date_ms
    books.keep(decision_key(decision.intent_id, len(made)), decision)
    books.decisions.setdefault(decision.intent_id, []).append(decision)
    space = intent_space(decision.intent_id)
    books.log("decision_recorded", space, decision.actor, payload=_decision_payload(decision))
    attempts.settle(books, decision.actor, command.attempt, kind="decision", print_=print_, target=decision.id)
    return books.reply(DecisionSeen(decision))


def _decision_payload(decision: Decision) -> dict[str, object]:
    return {
        "decision_id": decision.id,
        "decision_type": decision.type,
        "outcome": decision.outcome,
        "reasoning": decision.reasoning,
    }


def list_decisions(books: Books, command: ListDecisions) -> Reply:
    if command.intent_id not in books.intents:
        return books.reply(Missing("intent"))
    return books.reply(Decisions(list(books.decisions.get(command.intent_id, []))))


def arbitrate(books: Books, command: Arbitrate) -> Reply:
    """Only the log keeps it: whoever arbitrates reads the request there, and records a decision."""
    if command.intent_id not in books.intents:
        return books.reply(Missing("intent"))
    print_ = fingerprint("arbitration", command.intent_id, command.reason, command.context)
    known = attempts.find(books, command.actor, command.attempt)
    if known is not None:
        id_, _, at_ms = known.target.partition(" ")
        return books.reply(ArbitrationAsked(id_, int(at_ms)) if known.print == print_ else AttemptReused(known.key))
    if (refusal := attempts.none_left(books, command.attempt)) is not None:
        return books.reply(refusal)
    payload = {"arbitration_id": command.id, "reason": command.reason, "context": command.context}
    books.log("arbitration_requested", intent_space(command.intent_id), command.actor, payload=payload)
    target = f"{command.id} {books.date_ms}"
    attempts.settle(books, command.actor, command.attempt, kind="arbitration", print_=print_, target=target)
    return books.reply(ArbitrationAsked(command.id, books.date_ms))
