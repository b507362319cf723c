"""How intents are related over HTTP, and how one is deleted."""

import pytest
from http_words import refused

KINDS = ["children", "descendants", "ancestors", "dependencies", "dependents", "ready", "blocked"]


@pytest.fixture
def family(api):
    """A whole, its two parts, and the part of a part; the second part waits for the first."""
    top = api.intent(title="top")
    left = api.intent(title="left", parent_intent_id=top)
    right = api.intent(title="right", parent_id=top, depends_on=[left])
    leaf = api.post(f"/intents/{left}/children", {"title": "leaf"}).json()["id"]
    return {"top": top, "left": left, "right": right, "leaf": leaf}


def relatives(api, intent_id, kind):
    answer = api.get(f"/intents/{intent_id}/{kind}").json()
    assert list(answer) == [kind]
    return [each["title"] for each in answer[kind]]


def test_everybody_finds_his_relatives(api, family):
    assert relatives(api, family["top"], "children") == ["left", "right"]
    assert relatives(api, family["top"], "descendants") == ["left", "right", "leaf"]
    assert relatives(api, family["leaf"], "ancestors") == ["left", "top"]
    assert relatives(api, family["right"], "dependencies") == ["left"]
    assert relatives(api, family["left"], "dependents") == ["right"]
    assert relatives(api, family["top"], "ready") == ["left"]
    assert relatives(api, family["top"], "blocked") == ["right"]
    left = api.get(f"/intents/{family['left']}").json()
    assert api.get(f"/intents/{family['right']}/dependencies").json() == {"dependencies": [left]}


@pytest.mark.parametrize("kind", KINDS)
def test_relatives_of_nobody_are_not_found_and_of_a_loner_are_none(api, intent, kind):
    assert refused(api.get(f"/intents/nobody/{kind}"), 404, "not_found")["detail"] == "Intent not found"
    assert api.get(f"{intent}/{kind}").json() == {kind: []}


def test_relatives_can_be_read_in_pages(api, family):
    page = api.get(f"/intents/{family['top']}/descendants", params={"limit": 2})
    assert ([each["title"] for each in page.json()["descendants"]], page.headers["X-Next-Offset"]) == (
        ["left", "right"],
        "2",
    )
    rest = api.get(f"/intents/{family['top']}/descendants", params={"limit": 2, "offset": 2, "since": "x"})
    assert [each["title"] for each in rest.json()["descendants"]] == ["leaf"]
    assert "X-Next-Offset" not in rest.headers
    assert rest.headers["X-Ignored-Fields"] == "since"


def test_a_part_is_created_like_any_intent(api, intent, name):
    id_ = f"{api.lane}-{name}"
    body = {"title": "part", "id": id_, "state": {"a": 1}, "colour": "red"}
    reply = api.post(f"{intent}/children", body)
    made = reply.json()
    assert (made["id"], made["parent_id"], made["state"]) == (id_, intent.removeprefix("/intents/"), {"a": 1})
    assert reply.headers["X-Ignored-Fields"] == "colour"
    assert api.post(f"{intent}/children", body).json() == made
    refused(api.post(f"/intents/{api.intent()}/children", body), 409, "already_exists")


def test_a_part_of_nobody_is_not_found(api):
    problem = refused(api.post("/intents/nobody/children", {"title": "part"}), 404, "not_found")
    assert problem["detail"] == "Intent not found"


def test_a_part_cannot_have_two_wholes(api, intent):
    other = api.intent()
    refused(api.post(f"{intent}/children", {"title": "t", "parent_intent_id": other}), 422, "invalid")
    refused(api.post("/intents", {"title": "t", "parent_id": "a", "parent_intent_id": "b"}), 422, "invalid")
    same = {"title": "t", "parent_intent_id": intent.removeprefix("/intents/")}
    assert api.post(f"{intent}/children", same).status_code == 200


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [
        ("parent_intent_id", "nobody", "parent_intent_id"),
        ("parent_id", "nobody", "parent_intent_id"),
        ("depends_on", ["nobody"], "depends_on"),
    ],
)
def test_a_relative_that_does_not_exist_is_named(api, field, value, where):
    problem = refused(api.post("/intents", {"title": "t", field: value}), 422, "invalid")
    assert [fault["loc"] for fault in problem["detail"]] == [["body", where]]
    assert "'nobody'" in problem["message"]


# Dependencies


def test_a_dependency_comes_and_goes_with_a_new_version(api, intent):
    other = api.intent()
    reply = api.post(f"{intent}/dependencies", {"dependency_id": other, "why": "x"}, headers={"If-Match": "1"})
    assert (reply.json()["depends_on"], reply.json()["version"]) == ([other], 2)
    assert reply.headers["X-Ignored-Fields"] == "why"
    assert api.post(f"{intent}/dependencies", {"dependency_id": other}).json()["version"] == 2
    gone = api.delete(f"{intent}/dependencies/{other}", headers={"If-Match": "2"})
    assert (gone.json()["depends_on"], gone.json()["version"]) == ([], 3)
    problem = refused(api.delete(f"{intent}/dependencies/{other}"), 404, "not_found")
    assert problem["detail"] == "The intent does not depend on that one"
    kinds = [event["event_type"] for event in api.events(intent)]
    assert kinds == ["intent_created", "dependency_added", "dependency_removed"]


def test_a_dependency_that_does_not_fit_is_refused_and_changes_nothing(api, intent):
    other = api.intent(depends_on=[intent.removeprefix("/intents/")])
    for wrong, kind in (("nobody", "unknown"), (other, "circular"), (intent.removeprefix("/intents/"), "circular")):
        problem = refused(api.post(f"{intent}/dependencies", {"dependency_id": wrong}), 422, "invalid")
        [fault] = problem["detail"]
        assert (fault["loc"], fault["type"]) == (["body", "dependency_id"], kind)
    body = {"dependency_id": api.intent()}
    conflict = refused(api.post(f"{intent}/dependencies", body, headers={"If-Match": "9"}), 409, "version_conflict")
    assert conflict["current_version"] == 1
    assert api.get(intent).json()["depends_on"] == []


def test_nothing_depends_on_anything_in_what_is_not_there(api, intent):
    id_ = intent.removeprefix("/intents/")
    for reply in (
        api.post("/intents/nobody/dependencies", {"dependency_id": id_}),
        api.delete(f"/intents/nobody/dependencies/{id_}"),
    ):
        assert refused(reply, 404, "not_found")["detail"] == "Intent not found"


# Deleting


def test_a_deleted_intent_is_gone_with_all_that_hung_on_it(api, intent, name):
    portfolio = api.post("/portfolios", {"name": "p"}).json()["id"]
    api.post(f"/portfolios/{portfolio}/intents", {"intent_id": intent.removeprefix("/intents/")})
    agent = f"{api.lane}-{name}"
    api.post(f"{intent}/agents", {"agent_id": agent})
    assert api.delete(intent).json() == {"message": "Intent deleted"}
    for path in ("", "/events", "/leases", "/agents", "/decisions", "/governance", "/portfolios", "/coordinators"):
        refused(api.get(intent + path), 404, "not_found")
    refused(api.post(f"{intent}/leases", {}), 404, "not_found")
    refused(api.delete(intent), 404, "not_found")
    assert api.get(f"/portfolios/{portfolio}/intents").json()["intents"] == []
    assert api.get(f"/agents/{agent}/assignments").json() == {"assignments": []}
    assert [event["event_type"] for event in api.events(f"/agents/{agent}")] == ["agent_assigned", "agent_unassigned"]


def test_deleting_is_refused_while_others_rely_on_it(api, family, intent):
    lease = api.lease(intent)
    coordinated = api.intent()
    api.post("/coordinators", {"intent_id": coordinated})
    for path in (f"/intents/{family['top']}", f"/intents/{family['left']}", intent, f"/intents/{coordinated}"):
        refused(api.delete(path), 409, "intent_in_use")
        assert api.get(path).status_code == 200
    api.delete(f"/leases/{lease['id']}")
    assert api.delete(intent).status_code == 200


def test_an_intent_can_be_made_anew_under_its_old_name(api, name):
    id_ = f"{api.lane}-{name}"
    old = api.lease(f"/intents/{api.intent(id=id_, title='first')}")
    api.delete(f"/leases/{old['id']}")
    api.delete(f"/intents/{id_}")
    made = api.post("/intents", {"id": id_, "title": "second"}).json()
    assert (made["title"], made["version"], made["state"]) == ("second", 1, {})
    assert api.lease(f"/intents/{id_}")["token"] > old["token"]
