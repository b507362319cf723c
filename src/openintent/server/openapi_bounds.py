"""What the server refuses although its type is right, as far as JSON Schema can say it.

The checks themselves are in `bodies` and the handlers, and go by the server's own limits; so do these. Bounds go by the
name of a field, because it means the same everywhere; `Shape.field` is for those that do not. That both say the same is
what `tests/e2e/test_schemathesis.py` is for.
"""

from collections.abc import Mapping
from typing import Any, Final

from openintent.errors import BY_CODE
from openintent.model import STATUSES, Limits
from openintent.server.bodies import SLUG_CHARS_MAX
from openintent.server.routes.agents import BEAT_MS_MIN, CAPABILITIES_MAX
from openintent.server.routes.intents import OPS, PATH_SEGMENTS_MAX
from openintent.spaces import (
    COORDINATOR_SPACE,
    INTENT_SPACE,
    PLAIN_SPACE,
    PORTFOLIO_SPACE,
)

Keywords = dict[str, Any]

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 64) - 1

# Python's notion of a printable character, exact up to U+00FF. Whole Unicode classes cannot be written so that every
# reader of patterns understands them.
_UNPRINTABLE: Final = r"\x00-\x1f\x7f-\xa0\xad"
PRINTABLE: Final = f"^[^{_UNPRINTABLE}]*$"
DATE: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$"
VISIBLE: Final = "^[!-~]([ -~]*[!-~])?$"  # what every HTTP client can put into a header
VISIBLE_OR_NONE: Final = "^([!-~]([ -~]*[!-~])?)?$"

LEASE_STATUSES: Final = ("active", "released", "expired", "revoked")
AGENT_STATUSES: Final = ("active", "unhealthy", "dead", "draining", "deregistered")
DATES: Final = ("createdAt", "updatedAt", "last_heartbeat", "server_timestamp")  # and all that end with _at
HEARTBEAT_S_MAX: Final = 86_400


def name(limits: Limits) -> Keywords:
    return _text(1, limits.name_chars_max)


def _text(least: int, most: int) -> Keywords:
    return {"minLength": least, "maxLength": most, "pattern": PRINTABLE}


def _seconds(least_ms: float, most_ms: float) -> Keywords:
    return {"minimum": least_ms / 1_000, "maximum": most_ms / 1_000}


def _scope(limits: Limits) -> Keywords:
    segment = f"[^/{_UNPRINTABLE}]*"
    pattern = f"^({segment}/){{0,{limits.scope_segments_max - 1}}}{segment}$"
    return {"minLength": 1, "maxLength": limits.scope_chars_max, "pattern": pattern}


def _space(limits: Limits) -> Keywords:
    starts = f"{INTENT_SPACE}|{PLAIN_SPACE}|{COORDINATOR_SPACE}"
    most = limits.name_chars_max + len(COORDINATOR_SPACE + PORTFOLIO_SPACE)
    return {"maxLength": most, "pattern": f"^({starts})[^{_UNPRINTABLE}]*$"}


SLUG: Final = {"minLength": 1, "maxLength": SLUG_CHARS_MAX, "pattern": "^[A-Za-z0-9][A-Za-z0-9._:~-]*$"}
FREE: Final[Keywords] = {}


def of_bodies(limits: Limits) -> Mapping[str, Keywords]:
    """Keywords for the fields of requests."""
    named, titled = name(limits), _text(1, limits.text_chars_max)
    text = {"maxLength": limits.text_chars_max}
    long_text = {"maxLength": limits.metadata_bytes_max - 2}  # its quotes count
    return {
        **_of_times(limits),
        **dict.fromkeys(("agent_id", "created_by", "decided_by", "requested_by", "supervisor_id"), named),
        **dict.fromkeys(("decision_type", "event_type", "role"), named),
        **dict.fromkeys(("title", "name", "outcome", "reason", "role_id", "endpoint"), titled),
        **dict.fromkeys(("purpose", "reasoning", "rationale", "StatusBody.reason"), text),
        **dict.fromkeys(("id", "parent_id", "parent_intent_id", "dependency_id"), SLUG),
        "HeldLease.id": FREE,  # whatever it is, the verdict says
        "description": long_text,
        "scope": _scope(limits),
        "space": _space(limits),
        "mode": {"enum": ["exclusive"]},
        "priority": {"minimum": -1_000_000, "maximum": 1_000_000},
        "depends_on": {"items": {"type": "string", **SLUG}, "maxItems": limits.depends_on_max},
        "allowed_agents": {"items": {"type": "string", **named}},
        "capabilities": {"maxItems": CAPABILITIES_MAX},
        "PartBody.path": FREE,  # whatever it is, the answer in its place says
        "requests": {"minItems": 1, "maxItems": limits.requests_per_batch_max},
        "HeartbeatBody.leases": {"maxItems": limits.leases_per_heartbeat_max},
        "IntentBody.status": {"enum": list(STATUSES)},
        "op": {"enum": list(OPS)},
        "path": {"pattern": f"^/?[^/]+(/[^/]+){{0,{PATH_SEGMENTS_MAX - 1}}}$"},
        "patches": {"minItems": 1, "maxItems": limits.patches_per_call_max},
        "StateBody.state": {
            "minProperties": 1,
            "maxProperties": limits.patches_per_call_max,
            "propertyNames": {"minLength": 1},
        },
    }


def _of_times(limits: Limits) -> Mapping[str, Keywords]:
    ttl = {**_seconds(limits.ttl_ms_min, limits.ttl_ms_max), "default": limits.ttl_ms_default / 1_000}
    renewed = _seconds(limits.ttl_ms_min, limits.ttl_ms_max)  # without one, it keeps the ttl that it has
    hold, beat = _seconds(limits.ttl_ms_min, limits.hold_ms_max), _seconds(BEAT_MS_MIN, limits.hold_ms_max)
    return {
        **dict.fromkeys(("ttl_seconds", "duration_seconds"), ttl),
        **dict.fromkeys(("RenewBody.ttl_seconds", "RenewBody.duration_seconds"), renewed),
        "wait_seconds": _seconds(0, limits.wait_ms_max),
        "max_hold_seconds": hold,
        "progress_seconds": hold,
        "cooldown_seconds": _seconds(0, limits.cooldown_ms_max),
        "heartbeat_interval_seconds": {"minimum": 0.001, "maximum": HEARTBEAT_S_MAX},
        **dict.fromkeys(("interval_seconds", "unhealthy_after_seconds", "dead_after_seconds"), beat),
        "drain_timeout_seconds": beat,
    }


NOT_BOTH_TTLS: Final = {"not": {"required": ["ttl_seconds", "duration_seconds"]}}

# What a body asks of its fields together.
TOGETHER: Final[Mapping[str, Keywords]] = {
    "AcquireBody": NOT_BOTH_TTLS,
    "RenewBody": NOT_BOTH_TTLS,
    "CoordinatorBody": {
        **NOT_BOTH_TTLS,
        "oneOf": [
            {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}
            for one, other in (("intent_id", "portfolio_id"), ("portfolio_id", "intent_id"))
        ],
    },
    "StateBody": {"oneOf": [{"required": ["patches"]}, {"required": ["state"]}]},
    "PatchBody": {"if": {"properties": {"op": {"const": "remove"}}}, "else": {"required": ["value"]}},
}

# Known to the decoder and to OpenIntent, but refused.
NOT_OFFERED: Final[Mapping[str, tuple[str, ...]]] = {"PolicyBody": ("max_cost",)}

QUERY: Final[Mapping[str, Keywords]] = {
    "attempt": {"minLength": 1},
    "AllLeasesQuery.status": {"enum": ["active"]},  # the other one needs a space
}
REQUIRED_IN_QUERY: Final = ("attempt",)

_AT_LEAST_0: Final = {"minimum": 0}
_AT_LEAST_1: Final = {"minimum": 1}

# Keywords for the fields of answers.
VIEWS: Final[Mapping[str, Keywords]] = {
    **dict.fromkeys(("remaining_seconds", "waited_seconds", "queue_length", "total"), _AT_LEAST_0),
    **dict.fromkeys(("version", "seq", "token", "place", "live_token", "current_version"), _AT_LEAST_1),
    "Problem.token": FREE,  # as the request named it
    "DiscoveryView.version": FREE,
    "VersionView.version": FREE,
    "LeaseView.mode": {"enum": ["exclusive"]},
    "LeaseView.status": {"enum": list(LEASE_STATUSES)},
    "ReleasedView.status": {"enum": list(LEASE_STATUSES)},
    "Verdict.verdict": {"enum": ["renewed", "preempt_asked", "lost"]},
    "HeartbeatView.status": {"enum": ["ok"]},
    "HeartbeatView.agent_status": {"enum": [*AGENT_STATUSES, None]},
    "IntentView.status": {"enum": list(STATUSES)},
    "AssignmentView.intent_status": {"enum": list(STATUSES)},
    "PortfolioView.status": {"enum": ["active", "completed", "abandoned"]},
    "MemberView.role": {"enum": ["primary", "member", "dependency"]},
    "AgentView.status": {"enum": list(AGENT_STATUSES)},
    "CoordinatorView.scope": {"enum": ["intent", "portfolio"]},
    "CoordinatorView.status": {"enum": ["active", "completed", "failed_over"]},
    "CoordinatorView.coordinator_type": {"enum": ["llm", "human", "composite", "system"]},
    "ArbitrationView.status": {"enum": ["pending"]},
    "AliveView.status": {"enum": ["alive"]},
    "ReadyView.status": {"enum": ["ready", "not ready"]},
    **{
        f"{shape}.role": {"enum": ["grantor", "standby"]} for shape in ("ReadyView", "ClusterView", "ClusterMemberView")
    },
    "ErrorCore.code": {"enum": sorted(BY_CODE)},
}


def headers(limits: Limits) -> Mapping[str, Keywords]:
    """Keywords for headers of requests. Where an agent may be left out, an empty one is none."""
    shown = {"minLength": 1, "maxLength": limits.name_chars_max, "pattern": VISIBLE}
    return {
        "X-Agent-ID": {"maxLength": limits.name_chars_max, "pattern": VISIBLE_OR_NONE},
        "X-Agent-ID.needed": shown,
        "Idempotency-Key": shown,
        "If-Match": {"pattern": r'^(\*|"?[0-9]{1,18}"?)$'},
        "X-Lease-Token": {"pattern": "^[0-9]{0,18}$"},
        "Last-Event-ID": {"pattern": "^[0-9]{0,18}$"},
    }
