"""Run by the Python of an environment in which OpenIntent's own package is installed, against a server of ours.

It is a program and not a test because there `openintent` is the other package of that name. Its output is one line for
each thing that was seen to work; whatever does not work ends it with a traceback.
"""

import sys
import threading
from collections.abc import Callable
from datetime import datetime

import httpx

from openintent import OpenIntentClient
from openintent.exceptions import ConflictError, LeaseConflictError, NotFoundError, OpenIntentError, ValidationError
from openintent.models import EventType, IntentStatus, LeaseStatus, PortfolioStatus

URL = sys.argv[1]


def raised(kind: type[OpenIntentError], call: Callable[[], object]) -> OpenIntentError:
    """The error of just this kind that the call must end with."""
    try:
        call()
    except OpenIntentError as error:
        caught = error
    else:
        raise AssertionError(f"{kind.__name__} was not raised")
    assert type(caught) is kind, repr(caught)
    return caught


def intents(ann: OpenIntentClient) -> None:
    made = ann.create_intent("Report", "of the quarter", constraints={"rules": ["short"]}, initial_state={"pages": 0})
    assert ann.get_intent(made.id).title == "Report"
    assert made.id in [intent.id for intent in ann.list_intents(limit=10)]
    changed = ann.update_state(made.id, made.version, {"pages": 3})
    assert (changed.version, changed.state.to_dict()["pages"]) == (made.version + 1, 3)
    conflict = raised(ConflictError, lambda: ann.update_state(made.id, made.version, {"pages": 4}))
    assert conflict.current_version == changed.version
    assert ann.set_status(made.id, changed.version, IntentStatus.ACTIVE, "go").status is IntentStatus.ACTIVE
    assert made.id in [intent.id for intent in ann.list_intents(status=IntentStatus.ACTIVE)]
    raised(NotFoundError, lambda: ann.get_intent("nothing"))
    raised(ValidationError, lambda: raw_patch_without_a_version(ann, made.id))


def raw_patch_without_a_version(ann: OpenIntentClient, intent_id: str) -> object:
    return ann._handle_response(ann._client.post(f"/api/v1/intents/{intent_id}/state", json={"patches": []}))


def a_conflict_over_release_2_is_no_lease_conflict(ann: OpenIntentClient) -> None:
    body = {"id": "release-2", "title": "please lease the release"}
    assert httpx.post(f"{URL}/api/v1/intents", json=body).status_code == 200
    raised(ConflictError, lambda: ann.update_state("release-2", 99, {"a": 1}))


def relatives(ann: OpenIntentClient) -> None:
    whole = ann.create_intent("whole")
    first = ann.create_child_intent(whole.id, "first")
    second = ann.create_child_intent(whole.id, "second", depends_on=[first.id])
    assert [child.id for child in ann.get_children(whole.id)] == [first.id, second.id]
    assert [each.id for each in ann.get_descendants(whole.id)] == [first.id, second.id]
    assert [each.id for each in ann.get_ancestors(second.id)] == [whole.id]
    assert [each.id for each in ann.get_dependencies(second.id)] == [first.id]
    assert [each.id for each in ann.get_dependents(first.id)] == [second.id]
    assert [each.id for each in ann.get_ready_intents(whole.id)] == [first.id]
    assert [each.id for each in ann.get_blocked_intents(whole.id)] == [second.id]
    free = ann.remove_dependency(second.id, dependency_id=first.id, version=second.version)
    assert ann.add_dependency(second.id, dependency_id=first.id, version=free.version).version == free.version + 1


def leases(ann: OpenIntentClient, bob: OpenIntentClient) -> None:
    intent = ann.create_intent("shared")
    lease = ann.acquire_lease(intent.id, "draft", duration_seconds=60)
    assert (lease.agent_id, lease.status) == ("ann", LeaseStatus.ACTIVE)
    assert lease.is_active
    conflict = raised(LeaseConflictError, lambda: bob.acquire_lease(intent.id, "draft"))
    assert conflict.existing_lease["agent_id"] == "ann"
    renewed = ann.renew_lease(intent.id, lease.id, duration_seconds=120)
    assert renewed.id == lease.id
    assert renewed.expires_at > lease.expires_at
    assert [each.id for each in ann.get_leases(intent.id)] == [lease.id]
    raised(NotFoundError, lambda: bob.release_lease(intent.id, lease.id))
    ann.release_lease(intent.id, lease.id)
    assert bob.get_leases(intent.id) == []
    with bob.lease(intent.id, "draft", duration_seconds=30) as held:
        assert held.agent_id == "bob"
        raised(LeaseConflictError, lambda: ann.acquire_lease(intent.id, "*"))
    assert bob.get_leases(intent.id) == []
    types = {event.event_type for event in ann.get_events(intent.id)}
    assert {EventType.INTENT_CREATED, EventType.LEASE_ACQUIRED, EventType.LEASE_RELEASED} == types


def events(ann: OpenIntentClient) -> None:
    intent = ann.create_intent("logged")
    ann.log_event(intent.id, EventType.COMMENT, {"text": "hello"}, trace_id="t-1")
    comments = ann.get_events(intent.id, event_type=EventType.COMMENT, since=datetime(2020, 1, 1), limit=5)  # noqa: DTZ001
    assert [(event.payload["text"], event.actor) for event in comments] == [("hello", "ann")]
    assert ann.get_events(intent.id)[0].event_type is EventType.COMMENT, "the newest comes first"


def portfolios(ann: OpenIntentClient) -> None:
    portfolio = ann.create_portfolio("Trip", "to the sea", metadata={"budget": 5})
    assert ann.get_portfolio(portfolio.id).name == "Trip"
    assert portfolio.id in [each.id for each in ann.list_portfolios()]
    intent = ann.create_intent("Hotel")
    member = ann.add_intent_to_portfolio(portfolio.id, intent.id, priority=2)
    assert (member.portfolio_id, member.intent_id, member.priority) == (portfolio.id, intent.id, 2)
    inside, aggregate = ann.get_portfolio_intents(portfolio.id)
    assert ([each.id for each in inside], aggregate.total) == ([intent.id], 1)
    assert [each.id for each in ann.get_intent_portfolios(intent.id)] == [portfolio.id]
    ann.remove_intent_from_portfolio(portfolio.id, intent.id)
    assert ann.get_portfolio_intents(portfolio.id)[0] == []
    done = ann.update_portfolio_status(portfolio.id, PortfolioStatus.COMPLETED)
    assert done.status is PortfolioStatus.COMPLETED


def coordinators(ann: OpenIntentClient, bob: OpenIntentClient) -> None:
    intent = ann.create_intent("led")
    lease = ann.create_coordinator_lease("ann", intent.id, role="lead", metadata={"why": "test"}, colour="ignored")
    assert (lease.agent_id, lease.intent_id, lease.role) == ("ann", intent.id, "lead")
    refused = raised(LeaseConflictError, lambda: bob.create_coordinator_lease("bob", intent.id))
    assert refused.response["current_holder"] == "ann"
    assert ann.get_coordinator_lease(lease.id).id == lease.id
    assert [each.id for each in bob.list_coordinator_leases(intent.id)] == [lease.id]
    assert ann.coordinator_heartbeat(lease.id)["status"] == "active"


def agents(ann: OpenIntentClient) -> None:
    intent = ann.create_intent("work")
    record = ann.register_agent("ann", ["writing"], role_id="author", name="Ann", shoe_size=42)
    assert (record.agent_id, record.capabilities, record.role_id) == ("ann", ["writing"], "author")
    assert ann.get_agent_record("ann").name == "Ann"
    assert [each.agent_id for each in ann.list_agents(status="active", role_id="author")] == ["ann"]
    assert ann.agent_heartbeat("ann", current_load=1, tasks_in_progress=["t"])["status"] == "ok"
    assert ann.update_agent_status("ann", "draining")["status"] == "draining"
    assert ann.assign_agent(intent.id, "cid")["agent_id"] == "cid"
    ann.unassign_agent(intent.id, "cid")
    raised(NotFoundError, lambda: ann.unassign_agent(intent.id, "cid"))


def governance(ann: OpenIntentClient, bob: OpenIntentClient) -> None:
    intent = ann.create_intent("governed", governance_policy={"allowed_agents": ["ann"]})
    refused = raised(OpenIntentError, lambda: bob.update_state(intent.id, intent.version, {"a": 1}))
    assert refused.response["detail"]["rule"] == "allowed_agents"
    raised(OpenIntentError, lambda: bob.acquire_lease(intent.id, "draft"))
    strict = ann.set_governance_policy(intent.id, intent.version, {"completion_mode": "require_approval"})
    raised(OpenIntentError, lambda: ann.set_status(intent.id, strict.version, IntentStatus.COMPLETED))
    decision = ann.record_decision(intent.id, "completion", "approved", "it is good")
    assert [each.id for each in ann.get_decisions(intent.id)] == [decision.id]
    assert ann.get_governance_policy(intent.id)["effective_policy"]["completion_mode"] == "require_approval"
    done = ann.set_status(intent.id, strict.version, IntentStatus.COMPLETED)
    assert ann.remove_governance_policy(intent.id, done.version).version == done.version + 1
    asked = bob.request_arbitration(intent.id, "we disagree", {"about": "all"})
    assert (asked.requester_id, asked.reason) == ("bob", "we disagree")
    assert {event.event_type for event in ann.get_events(intent.id)} >= {
        EventType.DECISION_RECORDED,
        EventType.ARBITRATION_REQUESTED,
    }


def streams(ann: OpenIntentClient) -> None:
    """The agent's stream begins with its open assignments; an intent's stream says what happens."""
    intent = ann.create_intent("streamed")
    ann.assign_agent(intent.id, "eve")
    with_work = first_of(ann.subscribe_agent("eve"))
    assert (with_work.type, with_work.data["intent_id"]) == ("AGENT_ASSIGNED", intent.id)
    stream = ann.subscribe_sse(intent.id)
    timer = threading.Timer(0.5, lambda: ann.update_state(intent.id, intent.version, {"a": 1}))
    timer.start()
    changed = first_of(stream)
    assert (changed.type, changed.data["new_state"]) == ("STATE_CHANGED", {"a": 1})
    timer.join()


def first_of(stream: object) -> object:
    for event in stream:
        stream.stop()
        return event
    raise AssertionError("the stream ended")


def main() -> None:
    ann = OpenIntentClient(URL, "any-key", "ann")
    bob = OpenIntentClient(URL, "any-key", "bob")
    parts: list[tuple[Callable[..., None], tuple[OpenIntentClient, ...]]] = [
        (intents, (ann,)),
        (a_conflict_over_release_2_is_no_lease_conflict, (ann,)),
        (relatives, (ann,)),
        (leases, (ann, bob)),
        (events, (ann,)),
        (portfolios, (ann,)),
        (coordinators, (ann, bob)),
        (agents, (ann,)),
        (governance, (ann, bob)),
        (streams, (ann,)),
    ]
    assert "leasing" in ann.discover()["capabilities"]
    for part, clients in parts:
        part(*clients)
        print(part.__name__, flush=True)  # noqa: T201  # what the test reads


if __name__ == "__main__":
    main()
