"""The registry of agents, and assignments, over HTTP."""

import pytest
from http_words import refused

AGENT_FIELDS = {
    "id": str,
    "agent_id": str,
    "status": str,
    "role_id": type(None),
    "name": type(None),
    "capabilities": list,
    "capacity": dict,
    "endpoint": type(None),
    "heartbeat_config": dict,
    "drain_timeout_seconds": type(None),
    "metadata": dict,
    "registered_at": str,
    "last_heartbeat_at": str,
    "version": int,
}
ASSIGNMENT_FIELDS = {
    "id": str,
    "intent_id": str,
    "agent_id": str,
    "role": str,
    "assigned_by": str,
    "assigned_at": str,
    "intent_title": str,
    "intent_status": str,
    "message": str,
}


@pytest.fixture
def agent(api, name):
    """The name of an agent that no other test uses."""
    return f"agent-{api.lane}-{name}"


def register(api, agent, **fields):
    reply = api.post("/agents/register", {"agent_id": agent, **fields}, agent=agent)
    assert reply.status_code == 200, reply.text
    return reply.json()


def shape(answer):
    return {field: type(value) for field, value in answer.items()}


# The registry


def test_an_agent_whose_name_is_a_word_of_a_path_is_one_like_any_other(api, space):
    register(api, "register")
    lease = api.lease(space, agent="register")
    held = {"leases": [{"id": lease["id"], "token": lease["token"]}]}
    for _ in range(3):  # also when it is known from before
        answer = api.post("/agents/register/heartbeat", held, agent="register")
        assert [each["verdict"] for each in answer.json()["leases"]] == ["renewed"]
    assert api.get("/agents/register/record").json()["agent_id"] == "register"
    assert api.delete("/agents/register", agent="register").json()["status"] == "deregistered"
    answer = api.send("PUT", "/agents/register")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, POST")


def test_an_agent_has_these_fields_and_no_others(api, agent):
    seen = register(api, agent)
    assert shape(seen) == AGENT_FIELDS
    assert (seen["id"], seen["agent_id"], seen["status"], seen["version"]) == (agent, agent, "active", 1)
    assert seen["capacity"] == {"max_concurrent_tasks": 5, "current_load": 0}
    assert seen["heartbeat_config"] == {
        "interval_seconds": 30.0,
        "unhealthy_after_seconds": 60.0,
        "dead_after_seconds": 150.0,
    }
    assert api.get(f"/agents/{agent}/record").json() == seen


def test_an_agent_is_registered_as_it_said_and_again_brings_it_up_to_date(api, agent):
    said = {
        "role_id": "writer",
        "name": "Ann",
        "capabilities": ["text", "code"],
        "capacity": {"max_concurrent_tasks": 9, "current_load": 2},
        "endpoint": "https://agent.example/",
        "heartbeat_config": {"interval_seconds": 2.0, "unhealthy_after_seconds": 3.5, "dead_after_seconds": 11.0},
        "drain_timeout_seconds": 12.5,
        "metadata": {"zone": "a"},
    }
    first = register(api, agent, **said)
    assert {field: first[field] for field in said} == said
    again = register(api, agent, heartbeat_config={"interval_seconds": 2})
    assert (again["version"], again["registered_at"], again["name"]) == (2, first["registered_at"], None)
    assert again["heartbeat_config"]["unhealthy_after_seconds"] == 4.0
    assert again["heartbeat_config"]["dead_after_seconds"] == 10.0


def test_what_the_registry_does_not_use_is_named(api, agent):
    body = {"agent_id": agent, "supports": ["x"], "team": "t"}
    assert api.post("/agents/register", body).headers["X-Ignored-Fields"] == "supports, team"


def test_agents_are_a_plain_list_by_status_and_role(api, name):
    role = f"role-{api.lane}-{name}"
    names = [f"{role}-{number}" for number in range(3)]
    for each in names:
        register(api, each, role_id=role)
    api.patch(f"/agents/{names[1]}/status", {"status": "draining"})
    api.delete(f"/agents/{names[2]}")

    def listed(**query):
        return [each["agent_id"] for each in api.get("/agents", params={"role_id": role, **query}).json()]

    assert listed() == names[:2]
    assert listed(status="draining") == [names[1]]
    assert listed(status="deregistered") == [names[2]]
    assert listed(offset=1) == [names[1]]
    assert api.get("/agents", params={"role_id": role, "limit": 1}).headers["X-Next-Offset"] == "1"


@pytest.mark.parametrize("status", ["active", "draining", "unhealthy", "dead", "deregistered"])
def test_these_are_the_statuses_and_each_change_is_in_the_agents_own_log(api, agent, status):
    register(api, agent)
    seen = api.patch(f"/agents/{agent}/status", {"status": status}).json()
    assert seen["status"] == status
    kinds = [event["event_type"] for event in api.events(f"/agents/{agent}")]
    changed = [] if status == "active" else ["agent.dead" if status == "dead" else "agent.status_changed"]
    assert kinds == ["agent.registered", *changed]


def test_leaving_the_registry_is_a_mark_that_is_kept(api, agent):
    register(api, agent)
    assert api.delete(f"/agents/{agent}").json()["status"] == "deregistered"
    assert api.delete(f"/agents/{agent}").json()["version"] == 2
    assert api.get(f"/agents/{agent}/record").json()["status"] == "deregistered"
    assert register(api, agent)["status"] == "active"


def test_a_heartbeat_says_how_the_registry_sees_the_agent(api, agent):
    assert api.post(f"/agents/{agent}/heartbeat", {}).json()["agent_status"] is None
    register(api, agent, heartbeat_config={"interval_seconds": 5})
    beat = api.post(f"/agents/{agent}/heartbeat", {"current_load": 3, "status": "active"}).json()
    assert (beat["agent_status"], beat["next_heartbeat_seconds"]) == ("active", 5.0)
    assert api.get(f"/agents/{agent}/record").json()["capacity"]["current_load"] == 3
    api.post(f"/agents/{agent}/heartbeat", {"tasks_in_progress": ["a", "b"]})
    assert api.get(f"/agents/{agent}/record").json()["capacity"]["current_load"] == 2
    api.post(f"/agents/{agent}/heartbeat", {"tasks_in_progress": 7})
    assert api.get(f"/agents/{agent}/record").json()["capacity"]["current_load"] == 7
    api.patch(f"/agents/{agent}/status", {"status": "dead"})
    assert api.post(f"/agents/{agent}/heartbeat", {}).json()["agent_status"] == "active"


def test_a_mark_ends_no_lease(api, agent, space):
    lease = api.lease(space, agent=agent)
    register(api, agent)
    for status in ("dead", "deregistered"):
        api.patch(f"/agents/{agent}/status", {"status": status})
    beat = api.post(f"/agents/{agent}/heartbeat", {"leases": [{"id": lease["id"], "token": lease["token"]}]}).json()
    assert [verdict["verdict"] for verdict in beat["leases"]] == ["renewed"]


def test_whoever_loses_a_lease_finds_that_in_his_own_log(api, agent, space):
    lease = api.lease(space, agent=agent)
    api.post(f"/leases/{lease['id']}/revoke", {"reason": "stuck"}, agent="operator")
    [event] = api.events(f"/agents/{agent}")
    assert (event["event_type"], event["payload"]["lease_id"], event["payload"]["note"]) == (
        "lease_released",
        lease["id"],
        "stuck",
    )
    assert event in api.events(space)


def test_an_agent_that_nobody_registered_is_not_found(api):
    replies = [
        api.get("/agents/nobody/record"),
        api.patch("/agents/nobody/status", {"status": "active"}),
        api.delete("/agents/nobody"),
    ]
    assert {refused(reply, 404, "not_found")["detail"] for reply in replies} == {"Agent not found"}
    assert api.get("/agents/nobody/assignments").json() == {"assignments": []}
    assert api.get("/agents/nobody/events").json() == []


# Assignments


def test_an_assignment_has_these_fields_and_no_others(api, intent, agent):
    made = api.post(f"{intent}/agents", {"agent_id": agent}).json()
    assert shape(made) == ASSIGNMENT_FIELDS
    assert (made["agent_id"], made["role"], made["assigned_by"]) == (agent, "worker", "ada")
    assert (made["intent_title"], made["intent_status"], made["message"]) == ("Report", "draft", "Agent assigned")
    assert f"/intents/{made['intent_id']}" == intent
    assert api.get(f"{intent}/agents").json() == {"agents": [made]}
    assert api.get(f"/agents/{agent}/assignments").json() == {"assignments": [made]}


def test_assigning_again_is_the_same_and_another_role_changes_it(api, intent, agent):
    first = api.post(f"{intent}/agents", {"agent_id": agent, "note": 1})
    assert first.headers["X-Ignored-Fields"] == "note"
    assert api.post(f"{intent}/agents", {"agent_id": agent}, agent="bob").json() == first.json()
    assert api.post(f"{intent}/agents", {"agent_id": agent, "role": "lead"}).json()["role"] == "lead"
    assert len(api.get(f"{intent}/agents").json()["agents"]) == 1


def test_without_a_name_one_assigns_oneself(api, intent, agent):
    assert api.post(f"{intent}/agents", {}, agent=agent).json()["agent_id"] == agent
    refused(api.post(f"{intent}/agents", {}, agent=None), 400, "agent_required")


def test_only_open_assignments_are_listed_for_an_agent(api, intent, agent):
    api.post(f"{intent}/agents", {"agent_id": agent})
    api.post(f"{intent}/status", {"status": "completed"}, headers={"If-Match": "*"})
    assert api.get(f"/agents/{agent}/assignments").json() == {"assignments": []}
    assert api.get(f"{intent}/agents").json()["agents"][0]["intent_status"] == "completed"


def test_unassigning_is_done_once_and_both_logs_tell_of_it(api, intent, agent):
    api.post(f"{intent}/agents", {"agent_id": agent})
    assert api.delete(f"{intent}/agents/{agent}").json() == {"message": "Agent unassigned"}
    problem = refused(api.delete(f"{intent}/agents/{agent}"), 404, "not_found")
    assert problem["detail"] == "The agent is not assigned to this intent"
    assert api.get(f"{intent}/agents").json() == {"agents": []}
    both = ["agent_assigned", "agent_unassigned"]
    assert [event["event_type"] for event in api.events(f"/agents/{agent}")] == both
    assert [event["event_type"] for event in api.events(intent)] == ["intent_created", *both]


def test_nobody_works_on_what_is_not_there(api, agent):
    replies = [
        api.post("/intents/nobody/agents", {"agent_id": agent}),
        api.get("/intents/nobody/agents"),
        api.delete(f"/intents/nobody/agents/{agent}"),
    ]
    assert {refused(reply, 404, "not_found")["detail"] for reply in replies} == {"Intent not found"}
