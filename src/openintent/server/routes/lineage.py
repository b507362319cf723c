"""How intents are related, over HTTP: parts, dependencies, and taking one away."""

from functools import partial
from typing import Final

import msgspec

from openintent.core.answers import Done, Intents, IntentSeen
from openintent.core.commands import AddDependency, DeleteIntent, GetIntent, GetRelatives, RemoveDependency
from openintent.core.lineage import KINDS
from openintent.server import bodies, query
from openintent.server.exchange import Exchange
from openintent.server.routes.intents import CREATE_CODES, create_from, show_intent
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.wire import DependencyBody, DoneView, IntentBody, IntentView, PageQuery


def create_child(service: Service, exchange: Exchange, intent_id: str) -> None:
    body, ignored = bodies.decode_loosely(IntentBody, exchange.body)
    parent = service.apply(GetIntent(intent_id))
    if not isinstance(parent.answer, IntentSeen):
        service.show_refusal(exchange, parent)
        return
    create_from(service, exchange, body, parent_id=intent_id, extra=ignored)


def list_relatives(kind: str, service: Service, exchange: Exchange, intent_id: str) -> None:
    wanted, ignored = query.decode(PageQuery, exchange)
    reply = service.apply(GetRelatives(intent_id, kind))
    if isinstance(reply.answer, Intents):
        page, following = query.page(reply.answer.intents, wanted)
        service.show(exchange, reply, {kind: [*map(service.views.intent, page)]}, extra=ignored + following)
    else:
        service.show_refusal(exchange, reply)


def add_dependency(service: Service, exchange: Exchange, intent_id: str) -> None:
    body, ignored = bodies.decode_loosely(DependencyBody, exchange.body)
    checks = bodies.Checks(service.limits)
    checks.slug("dependency_id", body.dependency_id)
    checks.settle()
    command = AddDependency(
        intent_id=intent_id,
        dependency_id=body.dependency_id,
        actor=bodies.actor(exchange, service.limits),
        expect=bodies.version_if_given(exchange),
    )
    show_intent(service, exchange, service.apply(command), extra=ignored)


def remove_dependency(service: Service, exchange: Exchange, intent_id: str, dependency_id: str) -> None:
    command = RemoveDependency(
        intent_id=intent_id,
        dependency_id=dependency_id,
        actor=bodies.actor(exchange, service.limits),
        expect=bodies.version_if_given(exchange),
    )
    show_intent(service, exchange, service.apply(command))


def delete(service: Service, exchange: Exchange, intent_id: str) -> None:
    actor, expect = bodies.actor(exchange, service.limits), bodies.version_if_given(exchange)
    reply = service.apply(DeleteIntent(intent_id, actor, expect))
    if isinstance(reply.answer, Done):
        service.show(exchange, reply, DoneView("Intent deleted"))
    else:
        service.show_refusal(exchange, reply)


def _relatives(kind: str) -> Route:
    shape = msgspec.defstruct(f"{kind.title()}List", [(kind, list[IntentView])])
    handler, pattern = partial(list_relatives, kind), f"intents/{{}}/{kind}"
    return Route("GET", pattern, handler, _SAYS[kind], query=PageQuery, view=shape, name=f"list_{kind}")


_SAYS: Final = {
    "children": "List its parts",
    "descendants": "List its parts, and theirs",
    "ancestors": "List what it is a part of",
    "dependencies": "List what it waits for",
    "dependents": "List what waits for it",
    "ready": "List the parts that can be worked on",
    "blocked": "List the parts that must wait",
}
_DEPENDENCIES: Final = "intents/{}/dependencies"
_AGENT: Final = ("X-Agent-ID",)
_MAY_COMPARE: Final = ("X-Agent-ID", "If-Match")

ROUTES: Final = [
    Route(
        "DELETE",
        "intents/{}",
        delete,
        "Delete an intent",
        view=DoneView,
        reads=_MAY_COMPARE,
        codes=("version_conflict", "intent_in_use", "governance_violation"),
        name="delete_intent",
    ),
    Route(
        "POST",
        "intents/{}/children",
        create_child,
        "Create a part of it",
        body=IntentBody,
        view=IntentView,
        reads=(*_AGENT, "Idempotency-Key"),
        codes=CREATE_CODES,
        name="create_child",
    ),
    *map(_relatives, KINDS),
    Route(
        "POST",
        _DEPENDENCIES,
        add_dependency,
        "Let it wait for another",
        body=DependencyBody,
        view=IntentView,
        reads=_MAY_COMPARE,
        codes=("version_conflict", "governance_violation", "limit_reached"),
        name="add_dependency",
    ),
    Route(
        "DELETE",
        f"{_DEPENDENCIES}/{{}}",
        remove_dependency,
        "Let it wait no longer",
        view=IntentView,
        reads=_MAY_COMPARE,
        codes=("version_conflict", "governance_violation"),
        name="remove_dependency",
    ),
]
