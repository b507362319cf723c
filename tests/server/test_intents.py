"""Intents, their state, their status and their events over HTTP."""

import pytest
from desk_words import counter
from http_words import refused

INTENT_FIELDS = {
    "id": str,
    "title": str,
    "description": str,
    "created_by": str,
    "parent_id": type(None),
    "parent_intent_id": type(None),
    "depends_on": list,
    "constraints": dict,
    "state": dict,
    "status": str,
    "confidence": type(None),
    "version": int,
    "governance_policy": type(None),
    "created_at": str,
    "updated_at": str,
}
ANY = {"If-Match": "*"}


def patched(api, intent, *steps, **options):
    """Applies steps given as (op, path, value)."""
    names = ("op", "path", "value")
    body = {"patches": [dict(zip(names, step, strict=False)) for step in steps]}
    return api.patch(f"{intent}/state", body, **{"headers": ANY, **options})


def state_of(api, intent):
    return api.get(intent).json()["state"]


# Creating and reading


def test_an_intent_has_these_fields_and_no_others(api):
    intent = api.post("/intents", {"title": "Report"}).json()
    assert {field: type(value) for field, value in intent.items()} == INTENT_FIELDS
    assert (intent["title"], intent["description"], intent["status"], intent["version"]) == ("Report", "", "draft", 1)
    assert intent["created_by"] == "ada"
    assert api.get(f"/intents/{intent['id']}").json() == intent


def test_an_intent_is_created_as_it_was_asked_for(api, name):
    above, before = api.intent(), api.intent()
    asked = {
        "id": name,
        "title": "Report",
        "description": "of the\nquarter",
        "created_by": "eve",
        "parent_intent_id": above,
        "depends_on": [before],
        "constraints": ["cheap", {"fast": True}],
        "state": {"a": [1, 2.5, None, "x"]},
        "status": "active",
        "confidence": 80,
        "governance_policy": {"write_scope": "assigned_only", "allowed_agents": ["eve"]},
    }
    intent = api.post("/intents", asked).json()
    policy = intent["governance_policy"]
    assert {field: intent[field] for field in asked} == asked | {"governance_policy": policy}
    assert (intent["parent_id"], policy["write_scope"], policy["allowed_agents"]) == (above, "assigned_only", ["eve"])
    assert (policy["completion_mode"], policy["require_status_reason"]) == ("auto", False), "kept in full"


def test_the_state_may_be_called_initial_and_the_parent_just_parent(api):
    above = api.intent()
    intent = api.post("/intents", {"title": "t", "initial_state": {"a": 1}, "parent_id": above}).json()
    assert (intent["state"], intent["parent_intent_id"]) == ({"a": 1}, above)


def test_creating_a_chosen_id_again_returns_it_and_with_another_body_conflicts(api, name):
    body = {"id": name, "title": "t", "created_by": "eve"}
    assert api.post("/intents", body).json() == api.post("/intents", body).json()
    refused(api.post("/intents", body | {"title": "other"}), 409, "already_exists")


def test_a_chosen_id_may_be_long(api, name):
    chosen = name.ljust(128, "x")
    assert api.intent(id=chosen) == chosen
    assert api.lease(f"/intents/{chosen}")["intent_id"] == chosen


def test_what_an_intent_does_not_use_is_named(api):
    reply = api.post("/intents", {"title": "t", "colour": "red", "budget": 3})
    assert reply.headers["X-Ignored-Fields"] == "budget, colour"
    assert "X-Ignored-Fields" not in api.post("/intents", {"title": "t"}).headers


def test_intents_are_listed_in_pages_and_by_status(api):
    ids = [api.intent(status="suspended_awaiting_input", title=api.lane) for _ in range(3)]
    query = {"status": "suspended_awaiting_input", "limit": 2}
    seen, cursor = [], "0"
    while cursor is not None:
        page = api.get("/intents", params=query | {"after": cursor}).json()
        assert set(page) == {"intents", "next"}
        seen, cursor = seen + [intent["id"] for intent in page["intents"]], page["next"]
    assert seen[-3:] == ids
    assert api.get("/intents", params=query | {"offset": len(seen) - 1}).json()["intents"][0]["id"] == ids[-1]


# State


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_state_is_set_key_by_key_and_the_version_rises(api, intent, method):
    reply = api.send(method, f"{intent}/state", {"state": {"a": 1, "b": {"c": 2}}}, headers={"If-Match": "1"})
    assert (reply.json()["version"], reply.json()["state"]) == (2, {"a": 1, "b": {"c": 2}})
    assert api.get(intent).json() == reply.json()


def test_a_write_must_say_which_version_it_saw(api, intent):
    problem = refused(api.patch(f"{intent}/state", {"state": {"a": 1}}), 400, "if_match_required")
    assert problem["detail"] == "If-Match header required"
    refused(api.post(f"{intent}/status", {"status": "active"}), 400, "if_match_required")


@pytest.mark.parametrize("match", ["1", '"1"', "*"])
def test_a_version_may_be_quoted_and_a_star_is_any(api, intent, match):
    assert patched(api, intent, ("set", "a", 1), headers={"If-Match": match}).json()["version"] == 2


def test_a_write_to_another_version_conflicts_and_changes_nothing(api, intent):
    patched(api, intent, ("set", "a", 1))
    problem = refused(patched(api, intent, ("set", "a", 2), headers={"If-Match": "1"}), 409, "version_conflict")
    assert problem["current_version"] == 2
    assert state_of(api, intent) == {"a": 1}


@pytest.mark.parametrize("path", ["research/sources/web", "/research/sources/web"])
def test_a_nested_set_really_sticks(api, intent, path):
    patched(api, intent, ("set", "research", {"topic": "x"}))
    patched(api, intent, ("set", path, 7))
    assert state_of(api, intent) == {"research": {"topic": "x", "sources": {"web": 7}}}


def test_append_makes_a_list_and_remove_takes_away(api, intent):
    patched(api, intent, ("append", "log", "a"), ("append", "log", "b"), ("set", "old/part", 1))
    patched(api, intent, ("remove", "old/part"), ("remove", "log/0"))
    assert state_of(api, intent) == {"log": ["b"], "old": {}}


def test_a_null_is_a_value(api, intent):
    patched(api, intent, ("set", "a", None))
    assert state_of(api, intent) == {"a": None}


def test_slashes_and_tildes_in_names_are_escaped(api, intent):
    patched(api, intent, ("set", "a~1b/c~0d", 1))
    assert state_of(api, intent) == {"a/b": {"c~d": 1}}


@pytest.mark.parametrize(
    "bad",
    [
        ("add", "a", 1),
        ("set", "", 1),
        ("set", "/", 1),
        ("set", "a//b", 1),
        ("set", "number/deeper", 1),
        ("append", "number", 1),
        ("remove", "nothing"),
        ("set", "list/7", 1),
        ("set", "list/x", 1),
        ("set", "a"),
    ],
)
def test_one_bad_step_spoils_the_whole_change(api, intent, bad):
    patched(api, intent, ("set", "number", 5), ("set", "list", [1]))
    before = api.get(intent).json()
    refused(patched(api, intent, ("set", "good", 1), bad), 422, "invalid")
    assert api.get(intent).json() == before


@pytest.mark.parametrize("body", [{}, {"patches": []}, {"state": {}}, {"patches": [], "state": {"a": 1}}])
def test_a_change_must_change_something(api, intent, body):
    refused(api.patch(f"{intent}/state", body, headers=ANY), 422, "invalid")


@pytest.mark.parametrize(
    ("scope", "path", "status"),
    [
        ("*", "a", 409),
        ("a", "a", 409),
        ("a", "a/b", 200),  # a name without /** covers only itself
        ("a/**", "a/b", 409),
        ("a/b", "a", 409),  # writing above would overwrite it
        ("a/b", "a/c", 200),
        ("b", "a", 200),
        ("/a", "a", 409),  # a slash before it makes it no other path
        ("/a", "/a", 409),
        ("a", "/a", 409),
    ],
)
def test_nobody_writes_under_anothers_lease(api, intent, scope, path, status):
    api.lease(intent, scope=scope, agent="bob")
    reply = patched(api, intent, ("set", path, 1))
    assert reply.status_code == status
    if status == 409:
        assert refused(reply, 409, "lease_held")["current_holder"] == "bob"
        assert state_of(api, intent) == {}


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ([("set", "items/1", 9)], 409),
        ([("set", "items/01", 9)], 409),  # the same item
        ([("set", "items/001/deep", 9)], 200),  # a name without /** covers only itself
        ([("set", "items/0", 9)], 200),
        ([("set", "items/00", 9)], 200),
        ([("remove", "items/0", None)], 409),  # the others move
        ([("remove", "items/0", None), ("set", "items/0", 9)], 409),
        ([("set", "items/x", 9)], 422),
        ([("remove", "other", None)], 200),
        ([("set", "items/0/a/b", 9)], 422),
    ],
)
def test_nor_at_an_item_of_a_list_that_is_anothers(api, intent, steps, status):
    patched(api, intent, ("set", "items", ["x", {"deep": 1}, "z"]), ("set", "other", 1))
    before = state_of(api, intent)
    api.lease(intent, scope="items/1", agent="bob")
    assert patched(api, intent, *steps).status_code == status
    assert status == 200 or state_of(api, intent) == before


def test_the_holder_writes_under_its_lease_and_names_its_token(api, intent):
    lease = api.lease(intent)
    assert patched(api, intent, ("set", "a", 1)).status_code == 200
    assert (
        patched(api, intent, ("set", "a", 2), headers={**ANY, "X-Lease-Token": str(lease["token"])}).status_code == 200
    )
    body = {"state": {"a": 3}, "token": lease["token"]}
    assert api.post(f"{intent}/state", body, headers=ANY).json()["state"] == {"a": 3}


def test_a_write_with_a_stale_token_is_refused_and_told_the_live_one(api, intent):
    old = api.lease(intent, scope="s")
    api.delete(f"/leases/{old['id']}")
    live = api.lease(intent, scope="s", agent="bob")
    for headers, more in (({"X-Lease-Token": str(old["token"])}, {}), ({}, {"token": old["token"]})):
        reply = api.post(f"{intent}/state", {"state": {"other": 1}, **more}, headers=ANY | headers)
        problem = refused(reply, 409, "stale_token")
        assert (problem["token"], problem["live_token"]) == (old["token"], live["token"])
    stolen = patched(api, intent, ("set", "s", 1), headers={**ANY, "X-Lease-Token": str(live["token"])})
    refused(stolen, 409, "stale_token")
    assert state_of(api, intent) == {}


def test_the_coordinator_writes_by_its_token_until_another_has_taken_over(api, intent):
    part = api.post(f"{intent}/children", {"title": "Chapter"}).json()["id"]
    body = {"intent_id": intent.rpartition("/")[2], "ttl_seconds": 600}
    old = api.post("/coordinators", body).json()
    for where in (intent, f"/intents/{part}"):
        token = {"X-Lease-Token": str(old["token"])}
        assert patched(api, where, ("set", "a", 1), headers=ANY | token).json()["state"] == {"a": 1}
        assert api.post(f"{where}/status", {"status": "active"}, headers=ANY | token).json()["status"] == "active"
    api.delete(f"/coordinators/{old['id']}")
    live = api.post("/coordinators", body, agent="bob").json()
    for where in (intent, f"/intents/{part}"):
        problem = refused(patched(api, where, ("set", "a", 2), headers=ANY | token), 409, "stale_token")
        assert (problem["token"], problem["live_token"]) == (old["token"], live["token"])


# Status


@pytest.mark.parametrize("named", ["in the header", "in the body"])
def test_a_change_of_status_with_a_stale_token_is_refused_and_told_the_live_one(api, intent, named):
    def change(token):
        headers, more = ({"X-Lease-Token": str(token)}, {}) if named == "in the header" else ({}, {"token": token})
        return api.post(f"{intent}/status", {"status": "active", **more}, headers=ANY | headers)

    old = api.lease(intent, scope="s")
    assert change(old["token"]).json()["status"] == "active"
    api.delete(f"/leases/{old['id']}")
    live = api.lease(intent, scope="s", agent="bob")
    problem = refused(change(old["token"]), 409, "stale_token")
    assert (problem["token"], problem["live_token"]) == (old["token"], live["token"])
    refused(change(live["token"]), 409, "stale_token")
    assert api.get(intent).json()["version"] == 2


def test_the_status_changes_with_the_version(api, intent):
    reply = api.post(f"{intent}/status", {"status": "active", "reason": "begun"}, headers={"If-Match": "1"})
    assert (reply.json()["status"], reply.json()["version"]) == ("active", 2)
    changed = api.events(intent)[-1]
    assert changed["event_type"] == "status_changed"
    assert changed["payload"] == {"old_status": "draft", "new_status": "active", "reason": "begun"}
    refused(api.post(f"{intent}/status", {"status": "active"}, headers={"If-Match": "1"}), 409, "version_conflict")


@pytest.mark.parametrize("status", ["draft", "active", "blocked", "suspended_awaiting_input", "completed", "abandoned"])
def test_these_are_the_statuses(api, intent, status):
    assert api.post(f"{intent}/status", {"status": status}, headers=ANY).json()["status"] == status
    assert api.post("/intents", {"title": "t", "status": status}).json()["status"] == status


# Events


def test_events_are_a_plain_list_with_the_newest_first(api, intent):
    api.post(f"{intent}/events", {"event_type": "comment", "payload": {"text": "hello"}})
    events = api.get(f"{intent}/events").json()
    assert [event["event_type"] for event in events] == ["comment", "intent_created"]
    assert set(events[0]) == {"id", "seq", "intent_id", "space", "event_type", "actor", "payload", "created_at"}
    assert (events[0]["actor"], events[0]["payload"]) == ("ada", {"text": "hello"})


def test_events_can_be_read_onwards_from_where_one_stopped(api, intent):
    for number in range(5):
        api.post(f"{intent}/events", {"event_type": "comment", "payload": {"number": number}})
    first = api.events(intent, limit=3)
    rest = api.events(intent, after=first[-1]["seq"])
    assert [event["payload"].get("number") for event in first + rest] == [None, 0, 1, 2, 3, 4]
    assert [event["seq"] for event in first + rest] == sorted({event["seq"] for event in first + rest})


def test_events_can_be_chosen_by_type(api, intent):
    api.lease(intent)
    api.post(f"{intent}/events", {"event_type": "comment"})
    kinds = {
        query: [event["event_type"] for event in api.get(f"{intent}/events?{query}").json()]
        for query in ("types=comment", "types=comment,lease_acquired", "event_type=intent_created")
    }
    assert list(kinds.values()) == [["comment"], ["comment", "lease_acquired"], ["intent_created"]]


def test_the_story_of_an_intent_is_in_its_events_and_renewals_are_not(api, intent):
    lease = api.lease(intent)
    api.patch(f"/leases/{lease['id']}", {})
    api.post("/agents/ada/heartbeat", {"leases": [{"id": lease["id"], "token": lease["token"]}]})
    patched(api, intent, ("set", "a", 1))
    revoked = api.post(f"/leases/{lease['id']}/revoke", {"reason": "stuck"}, agent="operator").json()
    events = api.events(intent)
    assert [event["event_type"] for event in events] == [
        "intent_created",
        "lease_acquired",
        "state_patched",
        "lease_released",
    ]
    end = events[-1]
    assert (end["actor"], end["payload"]["reason"], end["payload"]["holder"]) == ("operator", "revoked", "ada")
    assert end["payload"]["token"] == revoked["token"]
    assert end["payload"]["note"] == "stuck"


def test_the_actor_of_an_event_is_the_caller_and_what_has_no_use_is_named(api, intent):
    body = {"event_type": "comment", "actor": "eve", "trace_id": "t", "parent_event_id": "p", "colour": "red"}
    reply = api.post(f"{intent}/events", body)
    assert reply.json()["actor"] == "ada"
    assert reply.headers["X-Ignored-Fields"] == "actor, colour, parent_event_id, trace_id"
    listed = api.get(f"{intent}/events", params={"since": "2026-01-01", "event_type": "comment"})
    assert listed.headers["X-Ignored-Fields"] == "since"


def test_an_event_that_is_logged_twice_under_one_key_is_one_event(api, intent):
    key, body = {"Idempotency-Key": intent}, {"event_type": "comment", "payload": {"n": 1}}
    first = api.post(f"{intent}/events", body, headers=key).json()
    assert api.post(f"{intent}/events", body, headers=key).json() == first
    refused(api.post(f"{intent}/events", {"event_type": "remark"}, headers=key), 422, "attempt_reused")
    assert api.events(intent)[1:] == [first]


@pytest.mark.anyio
async def test_a_repeat_that_comes_before_the_first_is_durable_is_the_same_event_too():
    async with counter() as desk:
        note = ("POST", "/spaces/s/events", {"event_type": "comment"})
        both = [desk.hand_in(*note, idempotency_key="k") for _ in range(2)]
        assert not both[0].answered.is_set(), "neither may leave yet"
        for asked in both:
            await asked.answered.wait()
        assert (both[0].status, both[0].payload) == (both[1].status, both[1].payload)
        assert both[0].status == 200


def test_a_plain_space_has_events_too(api, space):
    lease = api.lease(space)
    api.post(f"{space}/events", {"event_type": "comment"})
    assert [event["event_type"] for event in api.events(space)] == ["lease_acquired", "comment"]
    assert api.events(space)[0]["payload"]["lease_id"] == lease["id"]
