"""What may come back: the answer that was asked for, every refusal by its code, and where each answer leads."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from openintent.server.openapi_shapes import REF, Schema, Shapes
from openintent.server.openapi_words import ANSWERED, CODES
from openintent.server.routing import JSON, NAME, Route
from openintent.server.urgency import Urgency, urgency

RETRIED: Final = frozenset({"lease_held", "lease_cooldown", "limit_reached", "overloaded", "unavailable"})
PROBLEM: Final = REF.format(name="Problem")
STREAM_EXAMPLE: Final = 'id: 42\nevent: lease_acquired\ndata: {"intent_id": "report", "scope": "research"}\n\n'

Links = tuple[Mapping[str, str], tuple[str, ...]]
_ID: Final = "$response.body#/id"

# From an answer to what can be done with it: where the names come from, and which operations take them.
LINKS: Final[Mapping[str, Links]] = {
    "create_intent": (
        {"intent_id": _ID},
        (
            "get_intent",
            "patch_state",
            "set_intent_status",
            "acquire_intent_lease",
            "list_intent_leases",
            "list_intent_queue",
            "list_intent_events",
            "log_intent_event",
            "create_child",
            "list_children",
            "assign_agent",
            "set_policy",
            "record_decision",
            "delete_intent",
        ),
    ),
    "create_child": ({"intent_id": _ID}, ("get_intent", "list_ancestors", "acquire_intent_lease", "delete_intent")),
    "acquire_intent_lease": ({"lease_id": _ID}, ("get_lease", "renew_lease", "report_progress", "release_lease")),
    "acquire_space_lease": (
        {"lease_id": _ID},
        ("get_lease", "renew_lease", "report_progress", "release_lease", "revoke_lease"),
    ),
    "create_portfolio": (
        {"portfolio_id": _ID},
        (
            "get_portfolio",
            "add_member",
            "list_members",
            "set_portfolio_status",
            "list_portfolio_events",
            "list_portfolio_coordinators",
        ),
    ),
    "add_member": (
        {"portfolio_id": "$response.body#/portfolio_id", "intent_id": "$response.body#/intent_id"},
        ("remove_member",),
    ),
    "acquire_coordinator_lease": (
        {"coordinator_id": _ID},
        (
            "get_coordinator_lease",
            "renew_coordinator_lease",
            "coordinator_heartbeat",
            "release_coordinator_lease",
        ),
    ),
    "register_agent": (
        {"agent_id": _ID},
        ("get_agent", "heartbeat", "set_agent_status", "list_assignments", "list_agent_events", "deregister_agent"),
    ),
    "assign_agent": (
        {"intent_id": "$response.body#/intent_id", "agent_id": "$response.body#/agent_id"},
        ("unassign_agent",),
    ),
}


def headers() -> Schema:
    """The headers of answers, for `components`."""
    whole = ("X-Term", "X-Rev", "Retry-After", "X-Next-Offset")
    shown: Schema = {
        name: {
            "description": said,
            "schema": {"type": "integer", "minimum": 1} if name in whole else {"type": "string", "minLength": 1},
        }
        for name, said in ANSWERED.items()
    }
    for always in ("X-Request-ID", "X-Term", "X-Rev"):
        shown[always]["required"] = True
    return shown


def _headers(*names: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-ID", *names)}


# What was asked for


def success(route: Route, shapes: Shapes, example: Any, routes: Mapping[str, Route]) -> Schema:
    if route.stream:
        content = {"text/event-stream": {"schema": {"type": "string"}, "example": STREAM_EXAMPLE}}
        return {"description": "Events, until either side closes the stream.", "content": content}
    if route.media != JSON:
        content = {route.media.partition(";")[0]: {"schema": {"type": "string"}}}
        return {"description": "Done.", "headers": _headers(), "content": content}
    schema = shapes.of(route.view) if route.view else {"type": "object"}
    media = {"schema": schema, **({} if example is None else {"example": example})}
    shown = {"description": "Done.", "headers": _headers(*_marks(route)), "content": {"application/json": media}}
    links = _links(route, routes)
    return {**shown, "links": links} if links else shown


def _marks(route: Route) -> Iterable[str]:
    if not asks_ledger(route):
        return
    yield from ("X-Term", "X-Rev")
    if route.query or (route.body and not _is_strict(route.body)):
        yield "X-Ignored-Fields"
    if route.query and "offset" in _fields(route.query) and "next" not in _fields(route.view):
        yield "X-Next-Offset"


def _fields(shape: Any) -> tuple[str, ...]:
    return getattr(shape, "__struct_fields__", ())


def _is_strict(body: type) -> bool:
    return bool(body.__struct_config__.forbid_unknown_fields)  # type: ignore[attr-defined]


def asks_ledger(route: Route) -> bool:
    """Whether every success does. A batch need not: all of its parts may be refused before that."""
    return not route.pattern.startswith(("/", "server/", "cluster", "batch"))


def _links(route: Route, routes: Mapping[str, Route]) -> Schema:
    names, targets = LINKS.get(route.name, ({}, ()))
    fields = _fields(route.view)
    links: Schema = {}
    for target in targets:
        given = dict(names)
        for header, field in (("X-Agent-ID", "agent_id"), ("If-Match", "version")):
            if header in routes[target].needs and field in fields:
                given[f"header.{header}"] = f"$response.body#/{field}"
        links[target] = {"operationId": target, "parameters": given}
    return links


# Refusals


def refusals(route: Route, shapes: Shapes, shared: Schema) -> Schema:
    """References to the refusals of a route; what they refer to is added to `shared`."""
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(_codes(route)):
        by_status.setdefault(CODES[code][0], []).append(code)
    if route.stream:
        by_status[503].append("overloaded")  # there are as many streams as there may be
    shown: Schema = {}
    for status, codes in sorted(by_status.items()):
        name = ".".join([str(status), *sorted(codes)])
        shared.setdefault(name, _refusal(status, sorted(codes)))
        shown[str(status)] = {"$ref": f"#/components/responses/{name}"}
    if route.pattern == "/readyz":  # which has more to say than that it cannot answer
        media = {"schema": shapes.of(route.view)}
        shown["503"] = {"description": "Not yet, or no longer.", "content": {"application/json": media}}
    return shown


def _codes(route: Route) -> Iterable[str]:
    yield from ("forbidden", "headers_too_large", "internal", *route.codes)
    if not route.open:
        yield from ("bad_request", "unauthenticated", "limit_reached")  # the last: of wrong keys
    if asks_ledger(route):
        yield from ("unavailable", "outcome_unknown")
    if urgency(route.method, route.pattern) is not Urgency.VITAL:
        yield "overloaded"
    if NAME in route.pattern:
        yield "not_found"
    if route.body:
        yield from ("body_too_large", "unsupported_media_type")
    if route.body or route.query or route.needs or route.reads:
        yield "invalid"
    if "X-Agent-ID" in (*route.needs, *route.reads):  # a key that is bound to agents needs one to be named
        yield "agent_required"
    if "If-Match" in route.needs:
        yield "if_match_required"


def _refusal(status: int, codes: list[str]) -> Schema:
    described = "\n".join(f"- `{code}`: {CODES[code][1]}" for code in codes)
    more = ["Retry-After"] if RETRIED.intersection(codes) else []
    shown = _headers(*more)
    if status == 401:
        shown["WWW-Authenticate"] = {"schema": {"type": "string"}}
    return {
        "description": described,
        "headers": shown,
        "content": {
            "application/json": {
                "schema": {
                    "$ref": PROBLEM,
                    "properties": {"error": {"properties": {"code": {"enum": codes}}}},
                },
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            }
        },
    }
