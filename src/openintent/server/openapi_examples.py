"""A story that uses every operation once, as the source of all examples.

`tests/server/test_openapi.py` plays it against a server, and the answers that it got stand in `openapi_examples.json`,
with the parts that differ each time made equal: dates, ids, fractions of seconds. So an example is always a request
that works, and an answer that was given.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from openintent.server.openapi_words import CODES

RECORDED: Final = Path(__file__).with_name("openapi_examples.json")
KEPT: Final = "$"  # begins a text that stands for something an earlier answer named


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the story. Who speaks is ada, unless the headers say otherwise."""

    route: str  # its name
    names: tuple[str, ...] = ()  # in the path
    query: dict[str, Any] = {}
    headers: dict[str, str] = {}
    body: Any = None
    keeps: str = ""  # what later steps call that which this one makes
    refused: str = ""  # the code of the refusal that it shows


class Recorded(msgspec.Struct):
    """What a server answered to the story."""

    kept: dict[str, dict[str, Any]]  # the id and the token of what was made
    answers: dict[str, Any]  # by the name of the route
    problems: dict[str, Any]  # by code


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """Of one operation."""

    body: Any = None
    query: Mapping[str, Any] = {}
    answer: Any = None

    NAMES: ClassVar[Mapping[str, str]] = {
        "intent_id": "report",
        "space": "default",
        "lease_id": "$lease",
        "portfolio_id": "q3",
        "coordinator_id": "$coordinator",
        "agent_id": "ada",
        "dependency_id": "census",
    }
    HEADERS: ClassVar[Mapping[str, str]] = {
        "X-Agent-ID": "ada",
        "If-Match": "*",
        "Idempotency-Key": "3b5e1c02",
        "X-Lease-Token": "7",
        "Last-Event-ID": "41",
    }


def filled(value: Any, kept: Mapping[str, Mapping[str, Any]]) -> Any:
    """The value with what was kept in place of its name: `$lease` is an id, `$lease.token` a token."""
    if isinstance(value, str) and value.startswith(KEPT):
        name, _, field = value[len(KEPT) :].partition(".")
        return kept[name][field or "id"] if name in kept else value
    if isinstance(value, dict):
        return {key: filled(each, kept) for key, each in value.items()}
    return [filled(each, kept) for each in value] if isinstance(value, list) else value


@cache
def recorded() -> Recorded:
    return msgspec.json.decode(RECORDED.read_bytes(), type=Recorded)


def examples() -> Mapping[str, Example]:
    """For each operation, the first time that it occurs in the story."""
    found: dict[str, Example] = {}
    for step in STORY:
        if not step.refused and step.route not in found:
            body = filled(step.body, recorded().kept)
            answer = recorded().answers.get(step.route)
            found[step.route] = Example(body=body, query=step.query, answer=answer)
    return found


def name_example(name: str) -> str:
    text: str = filled(Example.NAMES[name], recorded().kept)
    return text


def problem_examples() -> Mapping[str, Any]:
    """For each code: as it was answered in the story, or what it would be."""
    return {code: recorded().problems.get(code) or _imagined(code, *CODES[code]) for code in CODES}


def _imagined(code: str, _: int, said: str) -> Any:
    message = said.replace("`", "")
    return {"error": {"code": code, "message": message, "hint": None}, "detail": message, "message": message}


# The story


def _leases(where: str, place: str) -> Iterator[Step]:
    """A lease's life, in an intent or a plain space."""
    lease, rest = f"{KEPT}{where}-lease", (place,)
    one = (place, lease)
    ask = {"scope": "research", "ttl_seconds": 30, "purpose": "Collect sources"}
    yield Step(route=f"acquire_{where}_lease", names=rest, body=ask, keeps=f"{where}-lease")
    waits = {"scope": "research", "wait_seconds": 0.05}
    bob = {"X-Agent-ID": "bob", "Idempotency-Key": f"{where}-1"}
    yield Step(route=f"acquire_{where}_lease", names=rest, body=waits, headers=bob, refused="wait_timeout")
    yield Step(route=f"list_{where}_queue", names=rest)
    yield Step(route=f"give_up_{where}_attempt", names=rest, query={"attempt": f"{where}-1"}, headers=bob)
    yield Step(route=f"list_{where}_leases", names=rest, query={"status": "active"})
    yield Step(route=f"renew_{where}_lease", names=one, body={"ttl_seconds": 60})
    yield Step(route=f"report_{where}_progress", names=one, body={"checkpoint": {"page": 12}})
    yield Step(route=f"get_{where}_lease", names=one)
    yield Step(route=f"release_{where}_lease", names=one)
    yield Step(route=f"acquire_{where}_lease", names=rest, body={"scope": "notes"}, keeps=f"{where}-other")
    other = (place, f"{KEPT}{where}-other")
    yield Step(route=f"revoke_{where}_lease", names=other, body={"reason": "It was started by mistake"})


def _coordinator_queue(where: str, place: str) -> Iterator[Step]:
    """Somebody waits to lead it, and thinks better of it."""
    bob = {"X-Agent-ID": "bob", "Idempotency-Key": f"lead-{where}"}
    waits, rest = {f"{where}_id": place, "wait_seconds": 0.05}, (place,)
    yield Step(route="acquire_coordinator_lease", body=waits, headers=bob, refused="wait_timeout")
    yield Step(route=f"list_{where}_coordinator_queue", names=rest)
    attempt = {"attempt": bob["Idempotency-Key"]}
    yield Step(route=f"give_up_{where}_coordinator_attempt", names=rest, query=attempt, headers=bob)


def _refusals() -> Iterator[Step]:
    """What can go wrong, as far as it can be shown without breaking anything."""
    space, bob = ("default",), {"X-Agent-ID": "bob"}
    ask = {"scope": "build", "ttl_seconds": 60}
    at = "acquire_space_lease"
    yield Step(route=at, names=space, body=ask, headers=bob, refused="lease_held")
    yield Step(route=at, names=space, body=ask, refused="lease_held_by_you")
    yield Step(route=at, names=space, body={"ttl_second": 60, "priority": "high"}, refused="invalid")
    yield Step(route=at, names=space, body={"scope": "build", "mode": "shared"}, refused="not_offered")
    yield Step(route=at, names=space, body=ask, headers={"X-Agent-ID": ""}, refused="agent_required")
    key = {"Idempotency-Key": "3b5e1c02"}
    yield Step(route=at, names=space, body={"scope": "tests"}, headers=key, keeps="tests")
    yield Step(route=at, names=space, body={"scope": "docs"}, headers=key, refused="attempt_reused")
    short = {"scope": "deploy", "cooldown_seconds": 60}
    yield Step(route=at, names=space, body=short, keeps="deploy")
    yield Step(route="revoke_lease", names=("$deploy",), body={"reason": "The release is off"})
    yield Step(route=at, names=space, body={"scope": "deploy"}, refused="lease_cooldown")
    yield Step(route="renew_lease", names=("$deploy",), body={}, refused="lease_lost")
    yield Step(route="get_intent", names=("no-such-intent",), refused="not_found")
    yield Step(route="create_intent", body={"id": "report", "title": "Another"}, refused="already_exists")
    yield Step(route="delete_intent", names=("report",), refused="intent_in_use")
    stage = {"state": {"stage": "review"}}
    at = "patch_state"
    yield Step(route=at, names=("report",), body=stage, refused="if_match_required")
    yield Step(route=at, names=("report",), body=stage, headers={"If-Match": "1"}, refused="version_conflict")
    stale = {**stage, "token": 1}
    yield Step(route=at, names=("report",), body=stale, headers={"If-Match": "*"}, refused="stale_token")
    yield Step(route="set_policy", names=("census",), body={"allowed_agents": ["ada"]})
    yield Step(route="acquire_intent_lease", names=("census",), body={}, headers=bob, refused="governance_violation")


_REPORT: Final = {
    "id": "report",
    "title": "Quarterly report",
    "description": "Figures of the third quarter, with sources",
    "state": {"stage": "draft", "sources": []},
    "status": "active",
}
_ADA: Final = {
    "agent_id": "ada",
    "name": "Ada",
    "role_id": "researcher",
    "capabilities": ["search", "summarise"],
    "capacity": {"max_concurrent_tasks": 3},
    "heartbeat_config": {"interval_seconds": 10},
}
_STEPS: Final = [
    {"op": "set", "path": "research/sources", "value": []},
    {"op": "append", "path": "research/sources", "value": "census"},
]
_LEASES: Final = {"method": "POST", "path": "/api/v1/spaces/default/leases"}
_PAGES: Final = [
    {**_LEASES, "body": {"scope": "page-1"}, "attempt": "8f2c-1"},
    {**_LEASES, "body": {"scope": "page-2"}, "attempt": "8f2c-2"},
    {"method": "GET", "path": "/api/v1/intents/no-such-intent"},
]
_NOTE: Final = {"event_type": "comment", "payload": {"text": "Page 12 needs a source"}}
_NEWEST: Final = {"limit": 2}
_ANY: Final = {"If-Match": "*"}

STORY: Final = [
    Step(route="is_alive"),
    Step(route="is_ready"),
    Step(route="get_version"),
    Step(route="discover"),
    Step(route="get_config"),
    Step(route="get_cluster"),
    Step(route="get_metrics"),
    Step(route="get_openapi"),
    # Who is there
    Step(route="register_agent", body=_ADA),
    Step(route="list_agents", query={"status": "active"}),
    Step(route="get_agent", names=("ada",)),
    Step(route="log_agent_event", names=("ada",), body=_NOTE),
    Step(route="list_agent_events", names=("ada",), query=_NEWEST),
    # The work
    Step(route="create_intent", body=_REPORT),
    Step(route="create_intent", body={"id": "census", "title": "Collect the census figures"}),
    Step(route="create_child", names=("report",), body={"id": "chapter-1", "title": "Chapter on water"}),
    Step(route="add_dependency", names=("chapter-1",), body={"dependency_id": "census"}),
    Step(route="list_intents", query={"status": "draft", "limit": 1}),
    Step(route="get_intent", names=("report",)),
    Step(route="list_children", names=("report",)),
    Step(route="list_descendants", names=("report",)),
    Step(route="list_ancestors", names=("chapter-1",)),
    Step(route="list_dependencies", names=("chapter-1",)),
    Step(route="list_dependents", names=("census",)),
    Step(route="list_blocked", names=("report",)),
    Step(route="remove_dependency", names=("chapter-1", "census")),
    Step(route="list_ready", names=("report",)),
    Step(route="patch_state", names=("report",), headers={"If-Match": "1"}, body={"patches": _STEPS}),
    Step(route="post_state", names=("report",), headers=_ANY, body={"state": {"stage": "review"}}),
    Step(route="set_intent_status", names=("census",), headers=_ANY, body={"status": "active", "reason": "Begun"}),
    Step(route="log_intent_event", names=("report",), body=_NOTE),
    Step(route="list_intent_events", names=("report",), query=_NEWEST),
    Step(route="assign_agent", names=("report",), body={"agent_id": "ada", "role": "author"}),
    Step(route="list_assigned_agents", names=("report",)),
    Step(route="list_assignments", names=("ada",)),
    # Leases
    *_leases("intent", "report"),
    *_leases("space", "default"),
    Step(route="log_space_event", names=("default",), body=_NOTE),
    Step(route="list_space_events", names=("default",), query=_NEWEST),
    Step(route="acquire_space_lease", names=("default",), body={"scope": "build"}, keeps="lease"),
    Step(route="list_leases", query={"agent_id": "ada"}),
    Step(route="get_lease", names=("$lease",)),
    Step(route="renew_lease", names=("$lease",), body={"ttl_seconds": 60}),
    Step(route="report_progress", names=("$lease",), body={"checkpoint": {"step": 3}}),
    Step(route="heartbeat", names=("ada",), body={"leases": [{"id": "$lease", "token": "$lease.token"}]}),
    Step(route="check_token", body={"space": "space:default", "scope": "build", "token": "$lease.token"}),
    *_refusals(),
    Step(route="release_lease", names=("$lease",)),
    Step(route="acquire_space_lease", names=("default",), body={"scope": "build"}, keeps="second"),
    Step(route="revoke_lease", names=("$second",), body={"reason": "The build is not needed"}),
    # Who decides
    Step(route="set_policy", names=("report",), body={"completion_mode": "require_approval"}),
    Step(route="get_policy", names=("report",)),
    Step(
        route="request_arbitration", names=("report",), body={"reason": "Two sources disagree", "context": {"page": 12}}
    ),
    Step(
        route="record_decision",
        names=("report",),
        body={"decision_type": "completion", "outcome": "approved", "reasoning": "All figures have a source"},
    ),
    Step(route="list_decisions", names=("report",)),
    Step(route="remove_policy", names=("report",)),
    # What belongs together, and who leads it
    Step(route="create_portfolio", body={"id": "q3", "name": "Third quarter", "description": "All its reports"}),
    Step(route="list_portfolios", query={"created_by": "ada"}),
    Step(route="get_portfolio", names=("q3",)),
    Step(route="add_member", names=("q3",), body={"intent_id": "report", "role": "primary", "priority": 10}),
    Step(route="list_members", names=("q3",)),
    Step(route="list_portfolios_of_intent", names=("report",)),
    Step(route="log_portfolio_event", names=("q3",), body=_NOTE),
    Step(route="list_portfolio_events", names=("q3",), query=_NEWEST),
    Step(route="acquire_coordinator_lease", body={"portfolio_id": "q3", "ttl_seconds": 30}, keeps="coordinator"),
    Step(route="acquire_coordinator_lease", body={"intent_id": "report"}, keeps="leader"),
    *_coordinator_queue("portfolio", "q3"),
    *_coordinator_queue("intent", "report"),
    Step(route="get_coordinator_lease", names=("$coordinator",)),
    Step(route="renew_coordinator_lease", names=("$coordinator",), body={"ttl_seconds": 60}),
    Step(route="coordinator_heartbeat", names=("$coordinator",), body={}),
    Step(route="list_portfolio_coordinators", names=("q3",)),
    Step(route="list_intent_coordinators", names=("report",)),
    Step(route="release_coordinator_lease", names=("$coordinator",)),
    Step(route="remove_member", names=("q3", "report")),
    Step(route="set_portfolio_status", names=("q3",), body={"status": "completed"}),
    # Much at once
    Step(route="send_batch", body={"requests": _PAGES}),
    # The end
    Step(route="unassign_agent", names=("report", "ada")),
    Step(route="set_agent_status", names=("ada",), body={"status": "draining"}),
    Step(route="deregister_agent", names=("ada",)),
    Step(route="delete_intent", names=("chapter-1",)),
]
