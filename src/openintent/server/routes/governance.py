"""Policies, decisions and arbitration over HTTP."""

from typing import Any, Final
from uuid import uuid4

import msgspec

from openintent.core.answers import ArbitrationAsked, Decisions, DecisionSeen, IntentSeen
from openintent.core.commands import Arbitrate, GetIntent, ListDecisions, RecordDecision, SetPolicy
from openintent.model import Decision
from openintent.server import bodies
from openintent.server.exchange import Exchange
from openintent.server.routes.intents import show_intent
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.wire import (
    ArbitrationBody,
    ArbitrationView,
    DecisionBody,
    DecisionList,
    DecisionView,
    IntentView,
    PolicyBody,
    PolicyView,
)


def set_policy(service: Service, exchange: Exchange, intent_id: str) -> None:
    body, ignored = bodies.decode_loosely(PolicyBody, exchange.body)
    checks = bodies.Checks(service.limits)
    checks.policy("body", body)
    checks.settle()
    _change_policy(service, exchange, intent_id, bodies.policy(body), extra=ignored)


def remove_policy(service: Service, exchange: Exchange, intent_id: str) -> None:
    _change_policy(service, exchange, intent_id, None)


def _change_policy(
    service: Service, exchange: Exchange, intent_id: str, policy: dict[str, Any] | None, *, extra: bytes = b""
) -> None:
    command = SetPolicy(
        intent_id=intent_id,
        actor=bodies.actor(exchange, service.limits),
        policy=policy,
        operator=exchange.principal.operator,
        expect=bodies.version_if_given(exchange),
    )
    show_intent(service, exchange, service.apply(command), extra=extra)


def get_policy(service: Service, exchange: Exchange, intent_id: str) -> None:
    reply = service.apply(GetIntent(intent_id))
    if not isinstance(reply.answer, IntentSeen):
        service.show_refusal(exchange, reply)
        return
    policy = reply.answer.intent.governance_policy or {}
    effective = msgspec.to_builtins(PolicyBody()) | policy
    service.show(exchange, reply, PolicyView(intent_id, policy, effective))


def decide(service: Service, exchange: Exchange, intent_id: str) -> None:
    body, ignored = bodies.decode_loosely(DecisionBody, exchange.body)
    checks = bodies.Checks(service.limits)
    checks.name("decision_type", body.decision_type)
    checks.agents(body.decided_by, field="decided_by")
    checks.name("outcome", body.outcome, most=service.limits.text_chars_max)
    checks.text("reasoning", body.reasoning)
    checks.text("rationale", body.rationale)
    checks.settle()
    decision = Decision(
        id=str(uuid4()),
        intent_id=intent_id,
        actor=bodies.actor(exchange, service.limits, named=body.decided_by),
        type=body.decision_type,
        outcome=body.outcome,
        reasoning=body.reasoning or body.rationale,
    )
    reply = service.apply(RecordDecision(decision=decision, attempt=bodies.attempt(exchange, service.limits)))
    if isinstance(reply.answer, DecisionSeen):
        service.show(exchange, reply, service.views.decision(reply.answer.decision), extra=ignored)
    else:
        service.show_refusal(exchange, reply)


def list_decisions(service: Service, exchange: Exchange, intent_id: str) -> None:
    reply = service.apply(ListDecisions(intent_id))
    if isinstance(reply.answer, Decisions):
        shown = [service.views.decision(decision) for decision in reply.answer.decisions]
        service.show(exchange, reply, DecisionList(shown))
    else:
        service.show_refusal(exchange, reply)


def arbitrate(service: Service, exchange: Exchange, intent_id: str) -> None:
    body, ignored = bodies.decode_loosely(ArbitrationBody, exchange.body)
    checks = bodies.Checks(service.limits)
    checks.name("reason", body.reason, most=service.limits.text_chars_max)
    checks.size("context", body.context, service.limits.checkpoint_bytes_max)
    checks.agents(body.requested_by, field="requested_by")
    checks.settle()
    actor = bodies.actor(exchange, service.limits, named=body.requested_by)
    command = Arbitrate(
        id=str(uuid4()),
        intent_id=intent_id,
        actor=actor,
        reason=body.reason,
        context=body.context,
        attempt=bodies.attempt(exchange, service.limits),
    )
    reply = service.apply(command)
    asked = reply.answer
    if not isinstance(asked, ArbitrationAsked):
        service.show_refusal(exchange, reply)
        return
    made_at = service.views.date(asked.at_ms)
    shown = ArbitrationView(asked.id, intent_id, actor, body.reason, body.context, "pending", made_at)
    service.show(exchange, reply, shown, extra=ignored)


_POLICY: Final = "intents/{}/governance"
_DECISIONS: Final = "intents/{}/decisions"

_MAY_COMPARE: Final = ("X-Agent-ID", "If-Match")
_POLICY_CODES: Final = ("version_conflict", "governance_violation")
_ATTEMPTS: Final = ("X-Agent-ID", "Idempotency-Key")
_ATTEMPT_CODES: Final = ("attempt_reused", "limit_reached")

ROUTES: Final = [
    Route(
        "PUT",
        _POLICY,
        set_policy,
        "Set the policy",
        body=PolicyBody,
        view=IntentView,
        reads=_MAY_COMPARE,
        codes=(*_POLICY_CODES, "not_offered"),
        name="set_policy",
    ),
    Route("GET", _POLICY, get_policy, "Read the policy", view=PolicyView, name="get_policy"),
    Route(
        "DELETE",
        _POLICY,
        remove_policy,
        "Remove the policy",
        view=IntentView,
        reads=_MAY_COMPARE,
        codes=_POLICY_CODES,
        name="remove_policy",
    ),
    Route(
        "POST",
        _DECISIONS,
        decide,
        "Record a decision",
        body=DecisionBody,
        view=DecisionView,
        reads=_ATTEMPTS,
        codes=_ATTEMPT_CODES,
        name="record_decision",
    ),
    Route("GET", _DECISIONS, list_decisions, "List decisions", view=DecisionList, name="list_decisions"),
    Route(
        "POST",
        "intents/{}/arbitrate",
        arbitrate,
        "Ask a person to decide",
        body=ArbitrationBody,
        view=ArbitrationView,
        reads=_ATTEMPTS,
        codes=_ATTEMPT_CODES,
        name="request_arbitration",
    ),
]
