"""Intents, their state and their events over HTTP."""

import re
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from msgspec import UNSET

from openintent.core.answers import Answer, Intents, IntentSeen, Logged, Missing, Repeated, Reply
from openintent.core.commands import CreateIntent, GetIntent, ListIntents, LogEvent, PatchState, SetStatus, Tick
from openintent.core.values import TooDeep, weigh
from openintent.model import INTENT_SPACE, PLAIN_SPACE, STATUSES, Intent, Patch, intent_of
from openintent.server import bodies, problems
from openintent.server.exchange import Exchange
from openintent.server.routing import Route
from openintent.server.service import Service
from openintent.wire import EventBody, IntentBody, IntentList, PatchBody, StateBody, StatusBody

PAGE_MAX: Final = 1_000
OPS: Final = ("set", "append", "remove")
PATH_SEGMENTS_MAX: Final = 32
UNUSED_IN_EVENTS: Final = ("actor", "trace_id", "parent_event_id")  # OpenIntent's client sends them; we know the actor
_SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]*")


def create(service: Service, exchange: Exchange) -> None:
    body, ignored = bodies.decode_loosely(IntentBody, exchange.body)
    checks = bodies.Checks(service.limits)
    actor = bodies.header_text(exchange, b"x-agent-id", service.limits) or body.created_by or "anonymous"
    _check_intent(checks, body)
    checks.settle()
    key = bodies.attempt(exchange, service.limits)
    intent = Intent(
        id=body.id or str(uuid4()),
        title=body.title,
        description=body.description,
        created_by=body.created_by,
        parent_id=body.parent_intent_id or body.parent_id,
        depends_on=body.depends_on,
        constraints=body.constraints,
        state=_given_state(body),
        status=body.status,
        confidence=body.confidence,
        governance_policy=body.governance_policy,
    )
    command = CreateIntent(intent=intent, chosen_id=body.id is not None, actor=actor, attempt=key)
    _show_intent(service, exchange, service.apply(command), extra=ignored)


def _given_state(body: IntentBody) -> dict[str, Any]:
    if body.state is not UNSET:
        return body.state
    return {} if body.initial_state is UNSET else body.initial_state


def _check_intent(checks: bodies.Checks, body: IntentBody) -> None:
    checks.name("title", body.title, most=checks.limits.text_chars_max)
    if body.created_by is not None:
        checks.name("created_by", body.created_by)
    for field in ("parent_intent_id", "parent_id"):
        _check_id(checks, field, getattr(body, field))
    for other in body.depends_on:
        _check_id(checks, "depends_on", other)
    checks.size("description", body.description, checks.limits.metadata_bytes_max)
    checks.size("constraints", body.constraints, checks.limits.metadata_bytes_max)
    checks.size("governance_policy", body.governance_policy, checks.limits.metadata_bytes_max)
    checks.size("depends_on", body.depends_on, checks.limits.metadata_bytes_max)
    checks.size("state", _given_state(body), checks.limits.state_bytes_max)
    if body.status not in STATUSES:
        checks.fault("status", f"must be one of {', '.join(STATUSES)}")
    _check_id(checks, "id", body.id)


def _check_id(checks: bodies.Checks, field: str, value: str | None) -> None:
    if value is not None and not (_SLUG.fullmatch(value) and len(value) <= bodies.INTENT_ID_CHARS_MAX):
        checks.fault(field, "must be a slug of at most 128 letters, digits and . _ : ~ -")


def get(service: Service, exchange: Exchange, intent_id: str) -> None:
    _show_intent(service, exchange, service.apply(GetIntent(intent_id)))


def list_all(service: Service, exchange: Exchange) -> None:
    query = bodies.Query(exchange)
    limit = query.whole("limit", 100, least=1, most=PAGE_MAX)
    offset = query.whole("after", 0, least=0, most=1 << 60) or query.whole("offset", 0, least=0, most=1 << 60)
    status = query.text("status")
    if status is not None:
        query.one_of("status", "", STATUSES)
    reply = service.apply(ListIntents(status=status, offset=offset, limit=limit))
    answer = reply.answer
    assert isinstance(answer, Intents)
    shown = [service.views.intent(intent) for intent in answer.intents]
    service.show(exchange, reply, IntentList(shown, str(offset + limit) if answer.more else None))


def _show_intent(service: Service, exchange: Exchange, reply: Reply, *, extra: bytes = b"") -> None:
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
        actor=_writer(service, exchange),
        steps=_steps(service, body),
        expect=expect,
        token=bodies.lease_token(exchange, body.token),
        attempt=bodies.attempt(exchange, service.limits),
    )
    _show_intent(service, exchange, service.apply(command))


def _writer(service: Service, exchange: Exchange) -> str:
    return bodies.header_text(exchange, b"x-agent-id", service.limits) or "anonymous"


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
    if body.status not in STATUSES:
        checks.fault("status", f"must be one of {', '.join(STATUSES)}")
    checks.text("reason", body.reason)
    checks.settle()
    command = SetStatus(
        intent_id=intent_id,
        actor=_writer(service, exchange),
        status=body.status,
        reason=body.reason,
        expect=expect,
        attempt=bodies.attempt(exchange, service.limits),
    )
    _show_intent(service, exchange, service.apply(command))


# Events


async def list_events(service: Service, exchange: Exchange, space: str) -> None:
    query = bodies.Query(exchange)
    limit = query.whole("limit", 100, least=1, most=PAGE_MAX)
    after = query.whole("after", 0, least=0, most=1 << 60)
    order = query.one_of("order", "desc", ("asc", "desc"))
    types = (query.text("types") or query.text("event_type") or "").split(",")
    intent_id = intent_of(space)
    reply = service.apply(Tick() if intent_id is None else GetIntent(intent_id))
    if isinstance(reply.answer, Missing):
        service.show_refusal(exchange, reply)
        return
    wanted = tuple(kind for kind in types if kind)
    events = await service.grantor.history.events(
        space, after=after, limit=limit, newest_first=order == "desc", types=wanted
    )
    ignored = query.ignored_line("limit", "after", "order", "types", "event_type")
    service.show(exchange, reply, [service.views.event(event) for event in events], extra=ignored)


async def log_event(service: Service, exchange: Exchange, space: str) -> None:
    body, ignored = bodies.decode_loosely(EventBody, exchange.body, unused=UNUSED_IN_EVENTS)
    checks = bodies.Checks(service.limits)
    checks.name("event_type", body.event_type)
    checks.size("payload", body.payload, service.limits.checkpoint_bytes_max)
    checks.settle()
    actor = bodies.header_text(exchange, b"x-agent-id", service.limits) or "anonymous"
    key = bodies.attempt(exchange, service.limits)
    command = LogEvent(space=space, actor=actor, type=body.event_type, payload=body.payload, attempt=key)
    reply = service.apply(command)
    answer = reply.answer
    if isinstance(answer, Repeated):
        event = await service.grantor.history.event(answer.space, answer.seq)
        if event is not None:
            answer = Logged(event)
    if isinstance(answer, Logged):
        service.show(exchange, reply, service.views.event(answer.event), extra=ignored)
    else:
        service.show_refusal(exchange, reply)


ROUTES: Final = [
    Route("POST", "intents", create),
    Route("GET", "intents", list_all),
    Route("GET", "intents/{}", get, hot=True),
    Route("POST", "intents/{}/state", patch_state, hot=True),
    Route("PATCH", "intents/{}/state", patch_state, hot=True),
    Route("POST", "intents/{}/status", set_status),
    Route("GET", "intents/{}/events", list_events, space=INTENT_SPACE),
    Route("POST", "intents/{}/events", log_event, space=INTENT_SPACE),
    Route("GET", "spaces/{}/events", list_events, space=PLAIN_SPACE),
    Route("POST", "spaces/{}/events", log_event, space=PLAIN_SPACE),
]
