"""Policies, decisions and arbitration over HTTP."""

import pytest
from desk_words import counter
from http_words import refused

ANY = {"If-Match": "*"}
WHOLE_POLICY = {
    "completion_mode": "auto",
    "quorum_threshold": 0.6,
    "write_scope": "any",
    "allowed_agents": [],
    "require_status_reason": False,
}
DECISION_FIELDS = {
    "id",
    "decision_id",
    "intent_id",
    "decision_maker_id",
    "decision_type",
    "outcome",
    "reasoning",
    "created_at",
    "message",
}
ARBITRATION_FIELDS = {"id", "intent_id", "requester_id", "reason", "context", "status", "created_at", "message"}


def put(api, intent, policy, **options):
    return api.send("PUT", f"{intent}/governance", policy, **options)


def violated(reply, rule):
    """The violation, in the shape that OpenIntent gives it."""
    problem = refused(reply, 403, "governance_violation")
    assert set(problem["detail"]) == {"error", "rule", "message"}
    assert (problem["detail"]["error"], problem["detail"]["rule"]) == ("governance_violation", rule)
    assert problem["detail"]["message"] == problem["message"]
    return problem


# The policy


def test_a_policy_is_kept_in_full_and_is_a_new_version(api, intent):
    reply = put(api, intent, {"write_scope": "assigned_only", "colour": "red"})
    assert reply.json()["version"] == 2
    assert reply.json()["governance_policy"] == WHOLE_POLICY | {"write_scope": "assigned_only"}
    assert reply.headers["X-Ignored-Fields"] == "colour"
    seen = api.get(f"{intent}/governance").json()
    assert set(seen) == {"intent_id", "governance_policy", "effective_policy"}
    assert seen["governance_policy"] == reply.json()["governance_policy"]


def test_without_a_policy_the_effective_one_forbids_nothing(api, intent):
    seen = api.get(f"{intent}/governance").json()
    assert (seen["intent_id"], seen["governance_policy"]) == (intent.removeprefix("/intents/"), {})
    assert seen["effective_policy"] == WHOLE_POLICY | {"max_cost": None}


def test_a_policy_is_taken_away_again(api, intent):
    put(api, intent, {"require_status_reason": True})
    assert api.delete(f"{intent}/governance").json()["governance_policy"] is None
    assert api.post(f"{intent}/status", {"status": "active"}, headers=ANY).status_code == 200
    kinds = [event["event_type"] for event in api.events(intent)]
    assert kinds[1:3] == ["governance.policy_set", "governance.policy_removed"]


@pytest.mark.parametrize(("method", "body"), [("PUT", {}), ("DELETE", None)])
def test_a_policy_compares_versions_if_it_is_asked_to(api, intent, method, body):
    def change(version):
        return api.send(method, f"{intent}/governance", body, headers={"If-Match": version})

    assert refused(change("9"), 409, "version_conflict")["current_version"] == 1
    refused(change("x"), 400, "bad_request")
    assert change("1").json()["version"] == 2
    assert change("*").json()["version"] == 3


def test_a_bound_on_costs_is_not_offered_and_said_to_be_so(api, intent):
    refused(put(api, intent, {"max_cost": 5}), 422, "not_offered")
    refused(api.post("/intents", {"title": "t", "governance_policy": {"max_cost": 5}}), 422, "not_offered")
    assert put(api, intent, {"max_cost": None}).status_code == 200


def test_an_intent_can_have_a_policy_from_the_beginning(api):
    intent = f"/intents/{api.intent(governance_policy={'allowed_agents': ['bob']})}"
    assert api.get(f"{intent}/governance").json()["governance_policy"] == WHOLE_POLICY | {"allowed_agents": ["bob"]}
    violated(api.post(f"{intent}/leases", {}), "allowed_agents")


# What it forbids


def test_whoever_is_not_allowed_can_do_nothing_and_changes_nothing(api, intent):
    other = api.intent()
    api.post(f"{intent}/dependencies", {"dependency_id": other})
    put(api, intent, {"allowed_agents": ["bob"]})
    before = api.get(intent).json()
    id_ = intent.removeprefix("/intents/")
    replies = [
        api.patch(f"{intent}/state", {"state": {"a": 1}}, headers=ANY),
        api.post(f"{intent}/status", {"status": "active"}, headers=ANY),
        api.post(f"{intent}/leases", {}),
        api.post("/coordinators", {"intent_id": id_}),
        api.post(f"{intent}/dependencies", {"dependency_id": api.intent()}),
        api.delete(f"{intent}/dependencies/{other}"),
        api.post(f"{intent}/agents", {"agent_id": "ada"}),
        api.delete(intent),
    ]
    for reply in replies:
        assert "ada" in violated(reply, "allowed_agents")["message"]
    assert api.get(intent).json() == before
    assert api.get(f"{intent}/leases").json()["leases"] == []
    assert api.lease(intent, agent="bob")["agent_id"] == "bob"


def test_only_who_is_assigned_may_act_if_the_policy_says_so(api, intent):
    put(api, intent, {"write_scope": "assigned_only"})
    violated(api.patch(f"{intent}/state", {"state": {"a": 1}}, headers=ANY), "write_scope")
    violated(api.post(f"{intent}/leases", {}), "write_scope")
    api.post(f"{intent}/agents", {"agent_id": "ada"})
    assert api.patch(f"{intent}/state", {"state": {"a": 1}}, headers=ANY).status_code == 200
    assert api.lease(intent)["status"] == "active"


def test_completing_needs_what_the_policy_says(api, intent):
    put(api, intent, {"completion_mode": "require_approval", "require_status_reason": True})
    violated(api.post(f"{intent}/status", {"status": "completed"}, headers=ANY), "require_status_reason")
    done = {"status": "completed", "reason": "done"}
    violated(api.post(f"{intent}/status", done, headers=ANY), "completion_mode")
    api.post(f"{intent}/decisions", {"decision_type": "completion", "outcome": "approved"})
    assert api.post(f"{intent}/status", done, headers=ANY).json()["status"] == "completed"


@pytest.mark.anyio
async def test_whoever_waits_for_what_is_forbidden_now_is_told_so_at_once():
    async with counter() as desk:
        await desk.ask("POST", "/intents", {"id": "i1", "title": "t"})
        await desk.ask("POST", "/intents/i1/leases", {})
        await desk.ask("POST", "/coordinators", {"intent_id": "i1"})
        waiting = [
            desk.hand_in("POST", "/intents/i1/leases", {"wait_seconds": 300}, agent="bob"),
            desk.hand_in("POST", "/coordinators", {"intent_id": "i1", "wait_seconds": 300}, agent="bob"),
        ]
        await desk.ask("PUT", "/intents/i1/governance", {"allowed_agents": ["ada"]})
        for asked in waiting:
            await asked.answered.wait()
            assert (asked.status, asked.json()["detail"]["rule"]) == (403, "allowed_agents")


# Decisions


def test_a_decision_has_these_fields_and_no_others(api, intent):
    body = {"decision_type": "budget", "outcome": "cut", "reasoning": "too\ndear", "decided_by": "eve", "mood": "bad"}
    reply = api.post(f"{intent}/decisions", body)
    made = reply.json()
    assert set(made) == DECISION_FIELDS
    assert (made["id"], made["decision_maker_id"]) == (made["decision_id"], "eve")
    assert (made["decision_type"], made["outcome"], made["reasoning"]) == ("budget", "cut", "too\ndear")
    assert (made["message"], reply.headers["X-Ignored-Fields"]) == ("Decision recorded", "mood")
    assert f"/intents/{made['intent_id']}" == intent
    assert api.get(f"{intent}/decisions").json() == {"decisions": [made]}


def test_the_reasoning_may_be_called_a_rationale_and_the_caller_decides(api, intent):
    made = api.post(f"{intent}/decisions", {"decision_type": "d", "outcome": "o", "rationale": "because"}).json()
    assert (made["reasoning"], made["decision_maker_id"]) == ("because", "ada")
    logged = api.events(intent)[-1]
    assert (logged["event_type"], logged["payload"]["decision_id"]) == ("decision_recorded", made["id"])


def test_a_repeated_decision_is_made_once(api, intent):
    key, body = {"Idempotency-Key": intent}, {"decision_type": "d", "outcome": "o"}
    first = api.post(f"{intent}/decisions", body, headers=key).json()
    assert api.post(f"{intent}/decisions", body, headers=key).json() == first
    refused(api.post(f"{intent}/decisions", body | {"outcome": "p"}, headers=key), 422, "attempt_reused")
    assert api.get(f"{intent}/decisions").json() == {"decisions": [first]}


# Asking a person


def test_an_arbitration_has_these_fields_and_is_found_in_the_log(api, intent):
    body = {"reason": "who is right?", "context": {"a": [1]}, "requested_by": "eve", "mood": "bad"}
    reply = api.post(f"{intent}/arbitrate", body)
    asked = reply.json()
    assert set(asked) == ARBITRATION_FIELDS
    assert (asked["requester_id"], asked["reason"], asked["context"]) == ("eve", "who is right?", {"a": [1]})
    assert (asked["status"], asked["message"]) == ("pending", "Arbitration requested")
    assert reply.headers["X-Ignored-Fields"] == "mood"
    logged = api.events(intent)[-1]
    assert (logged["event_type"], logged["actor"]) == ("arbitration_requested", "eve")
    assert logged["payload"] == {"arbitration_id": asked["id"], "reason": "who is right?", "context": {"a": [1]}}


def test_a_person_is_asked_once(api, intent):
    key, body = {"Idempotency-Key": intent}, {"reason": "why"}
    first = api.post(f"{intent}/arbitrate", body, headers=key).json()
    assert api.post(f"{intent}/arbitrate", body, headers=key).json() == first
    refused(api.post(f"{intent}/arbitrate", {"reason": "other"}, headers=key), 422, "attempt_reused")
    assert [event["event_type"] for event in api.events(intent)] == ["intent_created", "arbitration_requested"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "governance", {}),
        ("GET", "governance", None),
        ("DELETE", "governance", None),
        ("POST", "decisions", {"decision_type": "d", "outcome": "o"}),
        ("GET", "decisions", None),
        ("POST", "arbitrate", {"reason": "why"}),
    ],
)
def test_what_is_not_there_cannot_be_governed(api, method, path, body):
    reply = api.send(method, f"/intents/nobody/{path}", body)
    assert refused(reply, 404, "not_found")["detail"] == "Intent not found"
