"""One thing wrong with a request that is right otherwise.

`faults_of` lists what can be wrong with the requests of a route: with each field of its body, by the field's type and
by what it means; with its query, its headers, its path; with the body as a whole; and with the HTTP around it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect as shapes
from strategies import LIMITS, Request, struct

from openintent.core.values import DEPTH_MAX
from openintent.server.bodies import SLUG_CHARS_MAX
from openintent.server.routing import Route

Draw = Callable[[st.SearchStrategy[Any]], Any]
Where = tuple[str | int, ...]  # to a field in a body

MALFORMED = frozenset({"invalid", "bad_request"})
UNKNOWN = MALFORMED | {"not_found"}
KIND = frozenset({"unsupported_media_type"})
MISSING = frozenset({"agent_required", "if_match_required"}) | MALFORMED
NOT_OFFERED = MALFORMED | {"not_offered"}
TOO_LARGE = MALFORMED | {"body_too_large", "headers_too_large", "state_too_large"}


@dataclass(frozen=True)
class Fault:
    what: str
    spoil: Callable[[Draw, Request], None]
    codes: frozenset[str] = MALFORMED


# Fields

SAMPLES: Mapping[str, Any] = {
    "StrType": "7",
    "IntType": 7,
    "FloatType": 1.5,
    "BoolType": True,
    "NoneType": None,
    "ListType": [[1]],
    "DictType": {"a": 1},
}
ALSO: Mapping[str, tuple[str, ...]] = {  # what JSON has for these types
    "FloatType": ("IntType",),
    "LiteralType": ("StrType",),
    "StructType": ("DictType",),
}
BEYOND = (1 << 64, -(1 << 63) - 1, 10**30, -(10**30))  # no engine can store it
CONTROLS = ("\0", "a\rb", "a\nb", "a\x1b[31mb", "\x7f", "\u202egnp", "a\u2028b", "\ud7ff\u200f", "\u00a0")


def _kinds(kind: Any) -> set[str]:
    if isinstance(kind, shapes.UnionType):
        return {name for each in kind.types for name in _kinds(each)}
    own = type(kind).__name__
    return set(SAMPLES) if own == "AnyType" else {own, *ALSO.get(own, ())}


def _ranges(kind: Any) -> list[Any]:
    """Numbers just beyond the bounds that the type has."""
    if isinstance(kind, shapes.UnionType):
        return [number for each in kind.types for number in _ranges(each)]
    if not isinstance(kind, shapes.IntType | shapes.FloatType):
        return []
    below = [] if kind.ge is None else [kind.ge - 1]
    above = [] if kind.le is None else [kind.le + 1]
    return [*below, *([] if kind.gt is None else [kind.gt]), *above]


def _by_type(kind: Any) -> dict[str, list[Any]]:
    if isinstance(kind, shapes.RawType):
        return {}  # what is wrong there is said there
    found: dict[str, list[Any]] = {
        "another type": [SAMPLES[name] for name in SAMPLES if name not in _kinds(kind)],
        "beyond a bound of its type": _ranges(kind),
    }
    names = _kinds(kind)
    if "LiteralType" in names:
        found["not one of those offered"] = ["", "ACTIVE", "active ", "nothing", "\0"]
    if names & {"IntType", "DictType"}:
        found["an integer beyond 64 bits"] = [{"a": each} if "DictType" in names else each for each in BEYOND]
    if "DictType" in names and "StructType" not in names:
        found["nested too deeply"] = [nested(DEPTH_MAX + 1), nested(300)]
    if "ListType" in names:
        found["a list of something else"] = [[each] for each in _wrong_items(kind)]
    return found


def _wrong_items(kind: Any) -> list[Any]:
    lists = [each for each in getattr(kind, "types", (kind,)) if isinstance(each, shapes.ListType)]
    accepted = _kinds(lists[0].item_type) if lists else set(SAMPLES)
    return [SAMPLES[name] for name in SAMPLES if name not in accepted]


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = {"a": value}
    return value


def _bad_names(most: int) -> list[str]:
    return ["", "n" * (most + 1), *CONTROLS]


_BAD_SLUGS = ["", "s" * (SLUG_CHARS_MAX + 1), *CONTROLS, "a/b", "../a", "-a", "a b", "é", "%41", "."]


def _beyond(least_ms: int, most_ms: int) -> list[float]:
    return [least_ms / 1_000 - 0.001, most_ms / 1_000 + 0.001, -1, 1e18, 1 << 62]


_BAD_TTLS = _beyond(LIMITS.ttl_ms_min, LIMITS.ttl_ms_max)
_BAD_HOLDS = _beyond(LIMITS.ttl_ms_min, LIMITS.hold_ms_max)
_BAD_BEATS = _beyond(100, LIMITS.hold_ms_max)
_LARGE = {"a": "x" * LIMITS.metadata_bytes_max}

# What is wrong with a field although its type is right, by its name, or by its shape's and its own.
MEANT: Mapping[str, Sequence[Any]] = {
    **dict.fromkeys(("ttl_seconds", "duration_seconds"), _BAD_TTLS),
    **dict.fromkeys(("max_hold_seconds", "progress_seconds"), _BAD_HOLDS),
    **dict.fromkeys(("interval_seconds", "drain_timeout_seconds"), _BAD_BEATS),
    **dict.fromkeys(("unhealthy_after_seconds", "dead_after_seconds"), _BAD_BEATS),
    **dict.fromkeys(
        ("agent_id", "created_by", "decided_by", "requested_by", "supervisor_id"), _bad_names(LIMITS.name_chars_max)
    ),
    **dict.fromkeys(("decision_type", "event_type", "role"), _bad_names(LIMITS.name_chars_max)),
    **dict.fromkeys(("title", "name", "outcome", "reason", "role_id", "endpoint"), _bad_names(LIMITS.text_chars_max)),
    **dict.fromkeys(("purpose", "reasoning", "rationale", "StatusBody.reason"), ("x" * (LIMITS.text_chars_max + 1),)),
    **dict.fromkeys(("id", "parent_id", "parent_intent_id", "dependency_id"), _BAD_SLUGS),
    **dict.fromkeys(("metadata", "guardrails", "constraints", "PortfolioBody.governance_policy"), (_LARGE,)),
    **dict.fromkeys(("payload", "context", "checkpoint"), ({"a": "x" * LIMITS.checkpoint_bytes_max},)),
    "description": ["x" * LIMITS.metadata_bytes_max],
    "wait_seconds": _beyond(0, LIMITS.wait_ms_max),
    "cooldown_seconds": _beyond(0, LIMITS.cooldown_ms_max),
    "heartbeat_interval_seconds": [0, -1, 86_401, 1e18],
    "mode": ["shared", "semaphore", "", "Exclusive"],
    "AcquireBody.priority": [1_000_001, -1_000_001, 1 << 62],
    "scope": ["", "s" * (LIMITS.scope_chars_max + 1), *CONTROLS, "/".join("s" * (LIMITS.scope_segments_max + 1))],
    "space": ["", "plain", "spaces:a", "space", "space:a\0", "space:" + "n" * 600],
    "allowed_agents": [[""], ["a\nb"], ["n" * 300], ["n" * 250] * 100],
    "depends_on": [[""], ["a/b"], ["-a"], ["a\0"], ["a"] * (LIMITS.depends_on_max + 1)],
    "capabilities": [["c"] * 1_001, ["c" * LIMITS.metadata_bytes_max]],
    "leases": [[{"id": "a", "token": 1}] * (LIMITS.leases_per_heartbeat_max + 1)],
    "requests": [[], [{"method": "GET", "path": "/api/v1/livez"}] * (LIMITS.requests_per_batch_max + 1)],
    "IntentBody.status": ["", "done", "ACTIVE", "draft\0"],
    "op": ["", "SET", "replace", "set\0"],
    "path": ["", "/", "a//b", "a/", "//", "/".join("a" * 33)],
    "patches": [[], [{"op": "remove", "path": "kept-0"}] * (LIMITS.patches_per_call_max + 1)],
    "StateBody.state": [{}, {"": 1}, {str(n): n for n in range(LIMITS.patches_per_call_max + 1)}],
    "max_cost": [1, 0.5],
}
FREE = ("HeldLease.id", "PartBody.path")  # mean another thing than their namesakes, and may be anything
TWINS: Mapping[str, str] = {"ttl_seconds": "duration_seconds", "duration_seconds": "ttl_seconds"}


def _field_faults(shape: Any, where: Where = ()) -> tuple[Fault, ...]:
    """What can be wrong with the fields of a shape that stands at this place of a body."""
    owner, found = shape.cls.__name__, []
    for each in shape.fields:
        here = (*where, each.encode_name)
        for what, wrong in _wrong(owner, each).items():
            found += [_misfit(here, what, wrong)] if wrong else []
        if each.required:
            found.append(Fault(f"{_shown(here)}: missing", _without(here)))
        for below, inside in _structs(each.type, here):
            found += _field_faults(below, inside)
    if shape.forbid_unknown_fields:
        found.append(_misfit((*where, "ttl_second"), "no such field", [1, None]))
    return tuple(found)


def _wrong(owner: str, each: shapes.Field) -> dict[str, list[Any]]:
    name = each.encode_name
    found = _by_type(each.type)
    if f"{owner}.{name}" not in FREE and not isinstance(each.type, shapes.LiteralType):
        meant = MEANT.get(f"{owner}.{name}", MEANT.get(name, []))
        found["not what it may be"] = [value for value in meant if _fits(value, each.type)]
    return found


def _fits(value: Any, kind: Any) -> bool:
    """A namesake of another type is another thing."""
    return type(kind).__name__ == "AnyType" or any(
        type(value) is type(SAMPLES[name]) for name in _kinds(kind) & set(SAMPLES) - {"NoneType"}
    )


def _structs(kind: Any, where: Where) -> list[tuple[Any, Where]]:
    if isinstance(kind, shapes.UnionType):
        return [found for each in kind.types for found in _structs(each, where)]
    if isinstance(kind, shapes.ListType):
        return _structs(kind.item_type, (*where, 0))
    return [(kind, where)] if isinstance(kind, shapes.StructType) else []


def _shown(where: Where) -> str:
    return ".".join(map(str, where))


def _misfit(where: Where, what: str, wrong: list[Any]) -> Fault:
    def spoil(draw: Draw, request: Request) -> None:
        holder = _reach(draw, request, where)
        holder.pop(TWINS.get(str(where[-1])), None)
        holder[where[-1]] = draw(st.sampled_from(wrong))

    return Fault(f"{_shown(where)}: {what}", spoil, NOT_OFFERED | TOO_LARGE)


def _without(where: Where) -> Callable[[Draw, Request], None]:
    def spoil(draw: Draw, request: Request) -> None:
        _reach(draw, request, where).pop(where[-1], None)

    return spoil


def _reach(draw: Draw, request: Request, where: Where) -> Any:
    """What holds the field, with all that is needed around it."""
    kind, holder = shapes.type_info(request.route.body), request.body
    for step in where[:-1]:
        if isinstance(step, int):
            holder = holder[step]
            continue
        field = next(each for each in kind.fields if each.encode_name == step)
        below = _structs(field.type, ())
        kind = below[0][0]
        if not holder.get(step):
            value = draw(struct(kind))
            holder[step] = [value] if below[0][1] else value
        _drop_rivals(holder, step)
        holder = holder[step]
    return holder


def _drop_rivals(holder: dict[str, Any], step: str) -> None:
    if step == "patches":
        holder.pop("state", None)


# What a body's fields are together


def _also(**more: Any) -> Callable[[Draw, Request], None]:
    def spoil(_: Draw, request: Request) -> None:
        request.body |= more

    return spoil


def _only(body: Any) -> Callable[[Draw, Request], None]:
    def spoil(_: Draw, request: Request) -> None:
        request.body = body

    return spoil


_BOTH = Fault("both ttls", _also(ttl_seconds=60, duration_seconds=60))
_DEAD_FIRST = {"unhealthy_after_seconds": 60, "dead_after_seconds": 30}
TOGETHER: Mapping[str, list[Fault]] = {
    "AcquireBody": [
        _BOTH,
        *(Fault(f"{each}: not offered", _also(**{each: 1}), NOT_OFFERED) for each in ("scopes", "permits")),
    ],
    "RenewBody": [_BOTH],
    "CoordinatorBody": [
        _BOTH,
        Fault("coordinates two", _also(intent_id="<other>", portfolio_id="<free>")),
        Fault("coordinates nothing", _only({})),
    ],
    "StateBody": [
        Fault("state and patches", _also(state={"a": 1}, patches=[{"op": "set", "path": "a", "value": 1}])),
        Fault("neither state nor patches", _only({})),
        Fault("a step without a value", _only({"patches": [{"op": "set", "path": "a"}]})),
    ],
    "IntentBody": [Fault("two parents", _also(parent_id="<intent>", parent_intent_id="<other>"))],
    "AgentBody": [Fault("dead before unhealthy", _also(heartbeat_config=_DEAD_FIRST))],
}


def body_faults(route: Route) -> list[Fault]:
    if route.body is None:
        return []
    kind = shapes.type_info(route.body)
    return [*_field_faults(kind), *TOGETHER.get(route.body.__name__, [])]
