"""Intents, their state and their events over HTTP."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from msgspec import UNSET

from openintent.core.answers import Answer, Intents, IntentSeen, Logged, Missing, Reply
from openintent.core.commands import (
    Command,
    CreateIntent,
    GetIntent,
    GetPortfolio,
    ListIntents,
    LogEvent,
    PatchState,
    SetStatus,
    Tick,
)
from openintent.core.values import TooDeep, weigh
from openintent.model import STATUSES, Intent, Patch
from openintent.server import bodies, problems, query
from openintent.server.exchange import Exchange
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.spaces import (
    AGENT_SPACE,
    INTENT_SPACE,
    PLAIN_SPACE,
    PORTFOLIO_SPACE,
    intent_of,
    portfolio_of,
)
from openintent.wire import (
    EventBody,
    EventsQuery,
    EventView,
    IntentBody,
    IntentList,
    IntentsQuery,
    IntentView,
    PatchBody,
    StateBody,
    StatusBody,
)

OPS: Final = ("set", "append", "remove")
PATH_SEGMENTS_MAX: Final = 32
UNUSED_IN_EVENTS: Final = ("actor", "trace_id", "parent_event_id")  # OpenIntent's client sends them; we know the actor


def create(service: Service, exchange: Exchange) -> None:
    body, ignored = bodies.decode_loosely(IntentBody, exchange.body)
    create_from(service, exchange, body, extra=ignored)


def create_from(
    service: Service, exchange: Exchange, body: IntentBody, *, parent_id: str | None = None, extra: bytes = b""
) -> None:
    """Create an intent; `parent_id` is that of the path, if it is made as a part of another."""
    checks = bodies.Checks(service.limits)
    _check_intent(checks, body)
    if len({parent_id, body.parent_intent_id, body.parent_id} - {None}) > 1:
        checks.fault("parent_intent_id", "an intent is a part of one other, and this names two")
    checks.settle()
    actor = bodies.actor(exchange, service.limits, named=body.created_by)
    intent = Intent(
        id=body.id or str(uuid4()),
        title=body.title,
        description=body.description,
        created_by=body.created_by,
        parent_id=parent_id or body.parent_intent_id or body.parent_id,
        depends_on=body.depends_on,
        constraints=body.constraints,
        state=_given_state(body),
        status=body.status,
        confidence=body.confidence,
        governance_policy=bodies.policy(body.governance_policy),
    )
    key = bodies.attempt(exchange, service.limits)
    command = CreateIntent(intent=intent, chosen_id=body.id is not None, actor=actor, attempt=key)
    show_intent(service, exchange, service.apply(command), extra=extra)


def _given_state(body: IntentBody) -> dict[str, Any]:
    if body.state is not UNSET:
        return body.state
    return {} if body.initial_state is UNSET else body.initial_state


def _check_intent(checks: bodies.Checks, body: IntentBody) -> None:
    checks.name("title", body.title, most=checks.limits.text_chars_max)
    checks.agents(body.created_by, field="created_by")
    for field in ("parent_intent_id", "parent_id"):
        checks.slug(field, getattr(body, field))
    for other in body.depends_on:
        checks.slug("depends_on", other)
    checks.size("description", body.description, checks.limits.metadata_bytes_max)
    checks.size("constraints", body.constraints, checks.limits.metadata_bytes_max)
    checks.policy("governance_policy", body.governance_policy)
    if len(body.depends_on) > checks.limits.depends_on_max:
        checks.fault("depends_on", f"must be at most {checks.limits.depends_on_max}", "size")
    for field in ("state", "initial_state"):  # the second is checked even where the first has the word
        if getattr(body, field) is not UNSET:
            checks.size(field, getattr(body, field), checks.limits.state_bytes_max)
    if body.status not in STATUSES:
        checks.fault("status", f"must be one of {', '.join(STATUSES)}")
    checks.slug("id", body.id)


def get(service: Service, exchange: Exchange, intent_id: str) -> None:
    service.ask(exchange, GetIntent(intent_id), show_intent)


def list_all(service: Service, exchange: Exchange) -> None:
    wanted, ignored = query.decode(IntentsQuery, exchange)
    offset = wanted.after or wanted.offset
    reply = service.apply(ListIntents(status=wanted.status, offset=offset, limit=wanted.limit))
    answer = reply.answer
    assert isinstance(answer, Intents)
    shown = [service.views.intent(intent) for intent in answer.intents]
    following = str(offset + wanted.limit) if answer.more else None
    service.show(exchange, reply, IntentList(shown, following), extra=ignored)


def show_intent(service: Service, exchange: Exchange, reply: Reply, *, extra: bytes = b"") -> None:
    answer: Answer = reply.answer
    if type(answer) is IntentSeen:
        service.show(exchange, reply, service.views.intent(answer.intent), extra=extra)
    else:
        service.show_refusal(exchange, reply)


# State


def patch_state(service: Service, exchange: Exchange, intent_id: str) -> None:
    expect = bodies.expected_version(exchange)
    body = bodies.decode(StateBody, exchange.body)
    command = PatchState(
        intent_id=intent_id,
        actor=bodies.actor(exchange, service.limits),
        steps=_steps(service, body),
        expect=expect,
        token=bodies.lease_token(exchange, body.token),
        attempt=bodies.attempt(exchange, service.limits),
    )
    service.ask(exchange, command, show_intent)


def _steps(service: Service, body: StateBody) -> list[Patch]:
    most = service.limits.patches_per_call_max
    if (body.patches is UNSET) == (body.state is UNSET):
        raise problems.invalid(([], "give either patches or state", "value"))
    if body.state is not UNSET:
        if not 1 <= len(body.state) <= most:
            raise problems.invalid((["state"], f"must have 1 to {most} keys", "size"))
        faults = [fault for key, value in body.state.items() for fault in _key_faults(key, value)]
        steps = [Patch("set", (key,), value) for key, value in body.state.items()]
    else:
        assert body.patches is not UNSET
        if not 1 <= len(body.patches) <= most:
            raise problems.invalid((["patches"], f"must have 1 to {most} items", "size"))
        faults = [fault for index, patch in enumerate(body.patches) for fault in _patch_faults(index, patch)]
        steps = [_step(patch) for patch in body.patches]
    if faults:
        raise problems.invalid(*faults[: bodies.FAULTS_MAX])
    return steps


def _key_faults(key: str, value: Any) -> Iterator[bodies.Fault]:
    if not key:
        yield ["state", key], "a key must not be empty", "value"
    yield from _value_faults(value, ["state", key])


def _patch_faults(index: int, patch: PatchBody) -> Iterator[bodies.Fault]:
    where: list[str | int] = ["patches", index]
    if patch.op not in OPS:
        yield [*where, "op"], f"must be one of {', '.join(OPS)}", "value"
    segments = _segments(patch.path)
    if not all(segments):
        yield [*where, "path"], "must not be empty, nor have empty segments", "value"
    if len(segments) > PATH_SEGMENTS_MAX:
        yield [*where, "path"], f"must have at most {PATH_SEGMENTS_MAX} segments", "size"
    if patch.op != "remove" and patch.value is UNSET:
        yield [*where, "value"], "is required", "missing"
    yield from _value_faults(None if patch.value is UNSET else patch.value, [*where, "value"])


def _value_faults(value: Any, where: list[str | int]) -> Iterator[bodies.Fault]:
    try:
        weigh(value)
    except TooDeep as broken:
        yield where, str(broken), "too_deep"


def _step(patch: PatchBody) -> Patch:
    path = tuple(segment.replace("~1", "/").replace("~0", "~") for segment in _segments(patch.path))
    return Patch(patch.op, path, None if patch.value is UNSET else patch.value)


def _segments(path: str) -> list[str]:
    """`a/b` and `/a/b` are the same; `~1` is a slash and `~0` a tilde within a segment."""
    return path.removeprefix("/").split("/")


def set_status(service: Service, exchange: Exchange, intent_id: str) -> None:
    expect = bodies.expected_version(exchange)
    body = bodies.decode(StatusBody, exchange.body)
    checks = bodies.Checks(service.limits)
    checks.text("reason", body.reason)
    checks.settle()
    command = SetStatus(
        intent_id=intent_id,
        actor=bodies.actor(exchange, service.limits),
        status=body.status,
        reason=body.reason,
        expect=expect,
        token=bodies.lease_token(exchange, body.token),
        attempt=bodies.attempt(exchange, service.limits),
    )
    show_intent(service, exchange, service.apply(command))


# Events


async def list_events(service: Service, exchange: Exchange, space: str) -> None:
    wanted, ignored = query.decode(EventsQuery, exchange)
    reply = service.apply(_look_for(space))
    if isinstance(reply.answer, Missing):
        service.show_refusal(exchange, reply)
        return
    types = (wanted.types or wanted.event_type or "").split(",")
    events = await service.grantor.history.events(
        space,
        after=wanted.after,
        limit=wanted.limit,
        newest_first=wanted.order == "desc",
        types=tuple(kind for kind in types if kind),
    )
    service.show(exchange, reply, [service.views.event(event) for event in events], extra=ignored)


def _look_for(space: str) -> Command:
    """The command that finds out whether there is what the space is of."""
    intent_id, portfolio_id = intent_of(space), portfolio_of(space)
    if portfolio_id is not None:
        return GetPortfolio(portfolio_id)
    return Tick() if intent_id is None else GetIntent(intent_id)


def log_event(service: Service, exchange: Exchange, space: str) -> None:
    body, ignored = bodies.decode_loosely(EventBody, exchange.body, unused=UNUSED_IN_EVENTS)
    checks = bodies.Checks(service.limits)
    checks.name("event_type", body.event_type)
    checks.size("payload", body.payload, service.limits.checkpoint_bytes_max)
    checks.settle()
    actor = bodies.actor(exchange, service.limits)
    key = bodies.attempt(exchange, service.limits)
    command = LogEvent(space=space, actor=actor, type=body.event_type, payload=body.payload, attempt=key)
    reply = service.apply(command)
    if isinstance(reply.answer, Logged):
        service.show(exchange, reply, service.views.event(reply.answer.event), extra=ignored)
    else:
        service.show_refusal(exchange, reply)


def _logs(base: str, space: str) -> list[Route]:
    where = space.removesuffix(":")
    return [
        Route(
            "GET",
            f"{base}events",
            list_events,
            "Read the log",
            space=space,
            query=EventsQuery,
            view=list[EventView],
            name=f"list_{where}_events",
        ),
        Route(
            "POST",
            f"{base}events",
            log_event,
            "Log an event",
            space=space,
            body=EventBody,
            view=EventView,
            reads=_ATTEMPTS,
            codes=("attempt_reused", "limit_reached"),
            name=f"log_{where}_event",
        ),
    ]


def _patching(method: str, name: str) -> Route:
    return Route(
        method,
        "intents/{}/state",
        patch_state,
        "Change the state",
        hot=True,
        body=StateBody,
        view=IntentView,
        needs=("If-Match",),
        reads=(*_ATTEMPTS, "X-Lease-Token"),
        codes=(*_VERSION_CODES, "lease_held", "stale_token", "state_too_large"),
        name=name,
    )


_ATTEMPTS: Final = ("X-Agent-ID", "Idempotency-Key")
_VERSION_CODES: Final = ("version_conflict", "attempt_reused", "limit_reached", "governance_violation")
CREATE_CODES: Final = ("already_exists", "attempt_reused", "limit_reached", "not_offered")

ROUTES: Final = [
    Route(
        "POST",
        "intents",
        create,
        "Create an intent",
        body=IntentBody,
        view=IntentView,
        reads=_ATTEMPTS,
        codes=CREATE_CODES,
        name="create_intent",
    ),
    Route("GET", "intents", list_all, "List intents", query=IntentsQuery, view=IntentList, name="list_intents"),
    Route("GET", "intents/{}", get, "Read an intent", hot=True, view=IntentView, name="get_intent"),
    _patching("PATCH", "patch_state"),
    _patching("POST", "post_state"),
    Route(
        "POST",
        "intents/{}/status",
        set_status,
        "Change the status",
        body=StatusBody,
        view=IntentView,
        needs=("If-Match",),
        reads=(*_ATTEMPTS, "X-Lease-Token"),
        codes=(*_VERSION_CODES, "stale_token"),
        name="set_intent_status",
    ),
    *_logs("intents/{}/", INTENT_SPACE),
    *_logs("spaces/{}/", PLAIN_SPACE),
    *_logs("portfolios/{}/", PORTFOLIO_SPACE),
    *_logs("agents/{}/", AGENT_SPACE),
]
