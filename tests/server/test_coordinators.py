"""Coordinator leases over HTTP."""

import threading

import pytest
from desk_words import counter
from http_words import Api, refused

FIELDS = {
    "id": str,
    "intent_id": str,
    "portfolio_id": type(None),
    "agent_id": str,
    "role": str,
    "supervisor_id": type(None),
    "coordinator_type": str,
    "scope": str,
    "status": str,
    "guardrails": type(None),
    "heartbeat_interval_seconds": float,
    "last_heartbeat": str,
    "granted_at": str,
    "expires_at": str,
    "version": int,
    "token": int,
    "ttl_seconds": float,
    "remaining_seconds": float,
    "waited_seconds": float,
    "space": str,
    "ended_reason": type(None),
    "lease_metadata": dict,
    "metadata": dict,
}


@pytest.fixture(params=["intent", "portfolio"])
def led(request, api):
    """What there is to be coordinated: the field that names it, and its path."""
    made = {"intent": ("/intents", {"title": "Report"}), "portfolio": ("/portfolios", {"name": "Quarter"})}
    id_ = api.post(*made[request.param]).json()["id"]
    return {f"{request.param}_id": id_}, f"/{request.param}s/{id_}"


def become(api, what, *, agent="ada", **fields):
    reply = api.post("/coordinators", {**what, **fields}, agent=agent)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_coordinator_has_these_fields_and_no_others(api):
    id_ = api.intent()
    made = become(api, {"intent_id": id_}, ttl_seconds=30)
    assert {field: type(value) for field, value in made.items()} == FIELDS
    assert (made["intent_id"], made["agent_id"], made["status"], made["scope"]) == (id_, "ada", "active", "intent")
    assert (made["role"], made["coordinator_type"]) == ("coordinator", "llm")
    assert made["space"] == f"coordinator:intent:{id_}"
    assert (made["ttl_seconds"], made["heartbeat_interval_seconds"]) == (30.0, 10.0)
    assert 29 < made["remaining_seconds"] <= 30


def test_a_coordinator_says_of_itself_what_it_was_asked_with(api, led):
    what, path = led
    said = {
        "agent_id": "eve",
        "role": "lead",
        "supervisor_id": "boss",
        "coordinator_type": "human",
        "guardrails": {"max": 3},
        "heartbeat_interval_seconds": 2.5,
        "metadata": {"zone": "a"},
    }
    reply = api.post("/coordinators", {**what, **said, "duration_seconds": 90, "colour": "red"})
    made = reply.json()
    assert {field: made[field] for field in said} == said
    assert (made["lease_metadata"], made["ttl_seconds"]) == ({"zone": "a"}, 90.0)
    assert reply.headers["X-Ignored-Fields"] == "colour"
    assert api.get(f"/coordinators/{made['id']}").json()["guardrails"] == {"max": 3}
    assert [each["id"] for each in api.get(f"{path}/coordinators").json()] == [made["id"]]


def test_there_is_one_at_a_time_and_the_second_is_told_who_it_is(api, led):
    what, path = led
    made = become(api, what)
    problem = refused(api.post("/coordinators", what, agent="bob"), 409, "lease_held")
    assert (problem["current_holder"], problem["existing_lease"]["id"]) == ("ada", made["id"])
    refused(api.post("/coordinators", what), 409, "lease_held_by_you")
    assert [each["agent_id"] for each in api.get(f"{path}/coordinators").json()] == ["ada"]


def test_coordinating_takes_nothing_from_those_who_do_the_work(api, intent):
    become(api, {"intent_id": intent.removeprefix("/intents/")})
    assert api.lease(intent, agent="bob")["scope"] == "*"
    assert [lease["agent_id"] for lease in api.get(f"{intent}/leases").json()["leases"]] == ["bob"]


@pytest.mark.parametrize(("method", "path"), [("POST", "/coordinators/{}/heartbeat"), ("PATCH", "/coordinators/{}")])
def test_a_coordinator_stays_by_its_heartbeats(api, led, method, path):
    made = become(api, led[0], ttl_seconds=30)
    kept = api.send(method, path.format(made["id"]), {"ttl_seconds": 60}).json()
    assert (kept["id"], kept["token"], kept["ttl_seconds"]) == (made["id"], made["token"], 60.0)
    assert kept["remaining_seconds"] > 50
    assert api.send(method, path.format(made["id"])).json()["ttl_seconds"] == 60.0
    refused(api.send(method, path.format(made["id"]), {}, agent="bob"), 404, "not_found")
    refused(api.send(method, path.format(made["id"]), {}, agent=None), 400, "agent_required")


def test_a_coordinator_gives_back_what_it_has_once_or_twice(api, led):
    made = become(api, led[0])
    refused(api.delete(f"/coordinators/{made['id']}", agent="bob"), 404, "not_found")
    for _ in range(2):
        ended = api.delete(f"/coordinators/{made['id']}").json()
        assert (ended["status"], ended["ended_reason"], ended["last_heartbeat"]) == ("completed", "released", None)
    lost = refused(api.post(f"/coordinators/{made['id']}/heartbeat"), 409, "lease_lost")
    assert (lost["reason"], lost["token"]) == ("released", made["token"])
    assert api.get(f"{led[1]}/coordinators").json() == []
    assert api.get(f"/coordinators/{made['id']}").json()["status"] == "completed"


def test_a_supervisor_replaces_its_coordinator(api, led):
    made = become(api, led[0], supervisor_id="boss")
    ended = api.delete(f"/coordinators/{made['id']}", agent="boss").json()
    assert (ended["status"], ended["ended_reason"]) == ("failed_over", "revoked")
    event = api.events(led[1])[-1]
    assert (event["event_type"], event["actor"], event["payload"]["note"]) == (
        "coordinator.replaced",
        "boss",
        "replaced by its supervisor",
    )
    assert become(api, led[0], agent="bob")["token"] > made["token"]


def test_a_lapse_is_a_failover_and_the_next_one_has_a_larger_token(api, led, name):
    agent = f"{api.lane}-{name}"
    made = become(api, led[0], agent=agent, ttl_seconds=0.2)
    taken = become(api, led[0], agent="bob", wait_seconds=15, colour="red")
    assert taken["token"] > made["token"]
    assert taken["waited_seconds"] > 0
    assert api.get(f"/coordinators/{made['id']}").json()["status"] == "failed_over"
    [failed] = [event for event in api.events(led[1]) if event["event_type"] == "coordinator.failed_over"]
    assert (failed["payload"]["lease_id"], failed["payload"]["reason"]) == (made["id"], "expired")
    assert api.events(f"/agents/{agent}") == [failed]


def test_who_waits_to_coordinate_can_be_seen_and_can_give_up(api, server_url, led):
    what, path = led
    become(api, what)
    key = {"Idempotency-Key": path}
    answers = []

    def wait():
        other = Api(server_url, api.lane)
        with other.http:
            answers.append(other.post("/coordinators", {**what, "wait_seconds": 15}, agent="bob", headers=key))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not (queue := api.get(f"{path}/coordinators/queue").json()["waiters"]):
        pass
    assert [(each["agent_id"], each["place"]) for each in queue] == [("bob", 1)]
    assert api.delete(f"{path}/coordinators", params={"attempt": path}, agent="bob").status_code == 200
    waiting.join()
    refused(answers[0], 409, "wait_timeout")


def test_only_coordinators_are_found_here(api, space):
    lease = api.lease(space)
    replies = [
        api.get(f"/coordinators/{lease['id']}"),
        api.post(f"/coordinators/{lease['id']}/heartbeat"),
        api.patch(f"/coordinators/{lease['id']}", {}),
        api.delete(f"/coordinators/{lease['id']}"),
        api.get("/coordinators/nothing"),
        api.patch("/coordinators/nothing", {}),
        api.delete("/coordinators/nothing"),
    ]
    assert {refused(reply, 404, "not_found")["detail"] for reply in replies} == {
        "Coordinator lease not found or not yours"
    }
    assert api.get(f"/leases/{lease['id']}").json()["status"] == "active"


def test_what_is_not_there_cannot_be_coordinated(api):
    for body, detail in (({"intent_id": "nobody"}, "Intent"), ({"portfolio_id": "nobody"}, "Portfolio")):
        assert refused(api.post("/coordinators", body), 404, "not_found")["detail"] == f"{detail} not found"
    refused(api.get("/intents/nobody/coordinators"), 404, "not_found")
    refused(api.post("/coordinators", {}), 422, "invalid")
    refused(api.post("/coordinators", {"intent_id": "a", "portfolio_id": "b"}), 422, "invalid")
    refused(api.post("/coordinators", {"intent_id": "a"}, agent=None), 400, "agent_required")


def test_coordinators_are_leases_and_are_listed_as_such_in_their_own_space_alone(api, intent):
    id_ = intent.removeprefix("/intents/")
    ended = [become(api, {"intent_id": id_}, supervisor_id="boss")["id"] for _ in range(1)]
    api.delete(f"/coordinators/{ended[0]}")
    ended.append(become(api, {"intent_id": id_}, supervisor_id="boss")["id"])
    api.delete(f"/coordinators/{ended[1]}", agent="boss")
    live = become(api, {"intent_id": id_})["id"]
    own = api.lease(intent)["id"]

    def listed(**query):
        return [lease["id"] for lease in api.get("/leases", params=query).json()["leases"]]

    space = f"coordinator:intent:{id_}"
    assert listed(space=space) == [live]
    assert listed(space=space, status="all") == [*ended, live]
    assert listed(space=f"intent:{id_}", status="all") == [own]
    story = api.get(f"/leases/{ended[1]}").json()
    assert [event["event_type"] for event in story["timeline"]] == ["lease_acquired", "coordinator.replaced"]


def test_a_heartbeat_of_the_agent_keeps_its_coordinators_too(api, led):
    made = become(api, led[0])
    beat = api.post("/agents/ada/heartbeat", {"leases": [{"id": made["id"], "token": made["token"]}]}).json()
    assert [verdict["verdict"] for verdict in beat["leases"]] == ["renewed"]


def test_a_lost_reply_can_be_asked_for_again(api, led):
    key = {"Idempotency-Key": led[1]}
    first = api.post("/coordinators", led[0], headers=key).json()
    again = api.post("/coordinators", led[0], headers=key).json()
    assert (again["id"], again["token"]) == (first["id"], first["token"])
    refused(api.post("/coordinators", {**led[0], "role": "other"}, headers=key), 422, "attempt_reused")
    api.delete(f"/coordinators/{first['id']}")
    refused(api.post("/coordinators", led[0], headers=key), 409, "lease_lost")


# What only the log still knows


@pytest.mark.anyio
async def test_an_end_that_memory_forgot_is_told_to_its_holder_and_to_nobody_else():
    async with counter(ended_kept_max=0) as desk:
        await desk.ask("POST", "/intents", {"id": "i1", "title": "t"})
        what, key = {"intent_id": "i1", "supervisor_id": "boss"}, {"idempotency_key": "k"}
        made = (await desk.ask("POST", "/coordinators", what, **key)).json()
        await desk.ask("DELETE", f"/coordinators/{made['id']}", agent="boss")
        await desk.forget()
        path = f"/coordinators/{made['id']}"
        assert (await desk.ask("GET", path, agent="bob")).json()["status"] == "failed_over"
        assert (await desk.ask("DELETE", path)).json()["ended_reason"] == "revoked"
        for asked in (
            await desk.ask("PATCH", path),
            await desk.ask("POST", f"{path}/heartbeat"),
            await desk.ask("POST", "/coordinators", what, **key),
        ):
            assert (asked.status, asked.json()["error"]["code"]) == (409, "lease_lost")
        for method in ("PATCH", "DELETE"):
            asked = await desk.ask(method, path, agent="bob")
            assert (asked.status, asked.json()["detail"]) == (404, "Coordinator lease not found or not yours")


@pytest.mark.anyio
async def test_a_plain_lease_that_memory_forgot_is_not_found_here_either():
    async with counter(ended_kept_max=0) as desk:
        lease = (await desk.ask("POST", "/spaces/s/leases", {})).json()
        await desk.ask("DELETE", f"/leases/{lease['id']}")
        await desk.forget()
        for method in ("GET", "PATCH", "DELETE"):
            asked = await desk.ask(method, f"/coordinators/{lease['id']}")
            assert (asked.status, asked.json()["error"]["code"]) == (404, "not_found")
