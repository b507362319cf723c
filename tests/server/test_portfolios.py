"""Portfolios over HTTP."""

import pytest
from http_words import refused

PORTFOLIO_FIELDS = {
    "id": str,
    "name": str,
    "description": str,
    "created_by": str,
    "status": str,
    "governance_policy": dict,
    "metadata": dict,
    "created_at": str,
    "updated_at": str,
    "createdAt": str,
    "updatedAt": str,
}
MEMBER_FIELDS = {
    "id": str,
    "membership_id": str,
    "portfolio_id": str,
    "intent_id": str,
    "role": str,
    "priority": int,
    "added_at": str,
    "message": str,
}


@pytest.fixture
def portfolio(api, name):
    """The path of a portfolio that no other test uses."""
    reply = api.post("/portfolios", {"name": "Quarter", "id": f"p-{api.lane}-{name}"})
    assert reply.status_code == 200, reply.text
    return f"/portfolios/{reply.json()['id']}"


def add(api, portfolio, intent, **fields):
    reply = api.post(f"{portfolio}/intents", {"intent_id": intent, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()


def shape(answer):
    return {field: type(value) for field, value in answer.items()}


# The portfolio itself


def test_a_portfolio_has_these_fields_and_no_others(api):
    made = api.post("/portfolios", {"name": "Quarter"}).json()
    assert shape(made) == PORTFOLIO_FIELDS
    assert (made["name"], made["description"], made["status"], made["created_by"]) == ("Quarter", "", "active", "ada")
    assert (made["created_at"], made["updated_at"]) == (made["createdAt"], made["updatedAt"])
    assert api.get(f"/portfolios/{made['id']}").json() == made


def test_a_portfolio_is_created_as_it_was_asked_for(api, name):
    asked = {
        "id": f"{api.lane}-{name}",
        "name": "Quarter",
        "created_by": "eve",
        "description": "of the\nyear",
        "governance_policy": {"anything": [1]},
        "metadata": {"k": {"n": 1}},
    }
    made = api.post("/portfolios", asked).json()
    assert {field: made[field] for field in asked} == asked
    assert api.post("/portfolios", asked).json() == made
    refused(api.post("/portfolios", asked | {"metadata": {}}), 409, "already_exists")
    assert api.get(f"/portfolios/{asked['id']}").json() == made


def test_a_repeated_creation_makes_one_portfolio(api, name):
    key = {"Idempotency-Key": f"{api.lane}-{name}"}
    first = api.post("/portfolios", {"name": "Quarter"}, headers=key).json()
    assert api.post("/portfolios", {"name": "Quarter"}, headers=key).json() == first
    refused(
        api.post("/portfolios", {"name": "Quarter", "governance_policy": {"a": 1}}, headers=key), 422, "attempt_reused"
    )


def test_what_a_portfolio_does_not_use_is_named(api, portfolio):
    assert api.post("/portfolios", {"name": "n", "colour": 1}).headers["X-Ignored-Fields"] == "colour"
    reply = api.patch(f"{portfolio}/status", {"status": "active", "why": 1})
    assert (reply.status_code, reply.headers["X-Ignored-Fields"]) == (200, "why")


def test_portfolios_are_a_plain_list_that_can_be_read_in_pages(api, name):
    who = f"{api.lane}-{name}"
    ids = [api.post("/portfolios", {"name": str(number), "created_by": who}).json()["id"] for number in range(3)]
    query = {"created_by": who, "limit": 2}
    first = api.get("/portfolios", params=query)
    assert [each["id"] for each in first.json()] == ids[:2]
    assert first.headers["X-Next-Offset"] == "2"
    rest = api.get("/portfolios", params=query | {"offset": 2})
    assert [each["id"] for each in rest.json()] == ids[2:]
    assert "X-Next-Offset" not in rest.headers
    assert api.get("/portfolios", params={"created_by": "nobody"}).json() == []


@pytest.mark.parametrize("status", ["active", "completed", "abandoned"])
def test_these_are_the_statuses_of_a_portfolio(api, portfolio, status):
    assert api.patch(f"{portfolio}/status", {"status": status}).json()["status"] == status
    assert api.get(portfolio).json()["status"] == status
    changed = api.events(portfolio)[-1]
    assert (changed["event_type"], changed["payload"]["new_status"]) == ("status_changed", status)


# Members


def test_a_membership_has_these_fields_and_no_others(api, portfolio):
    intent = api.intent()
    member = add(api, portfolio, intent)
    assert shape(member) == MEMBER_FIELDS
    assert (member["id"], member["intent_id"]) == (member["membership_id"], intent)
    assert (member["role"], member["priority"], member["message"]) == ("member", 0, "Intent added to portfolio")
    assert f"/portfolios/{member['portfolio_id']}" == portfolio


@pytest.mark.parametrize("role", ["primary", "member", "dependency"])
def test_adding_again_is_the_same_membership_with_its_new_role(api, portfolio, role):
    intent = api.intent()
    first = add(api, portfolio, intent)
    again = add(api, portfolio, intent, role=role, priority=-3)
    assert again == first | {"role": role, "priority": -3}


def test_the_intents_of_a_portfolio_are_shown_with_how_far_they_are(api, portfolio):
    ids = [api.intent(status=status) for status in ("completed", "active", "completed")]
    for number, intent in enumerate(ids):
        add(api, portfolio, intent, priority=number)
    shown = api.get(f"{portfolio}/intents").json()
    assert set(shown) == {"intents", "memberships", "aggregate_status"}
    assert [each["id"] for each in shown["intents"]] == ids[::-1]
    assert [each["intent_id"] for each in shown["memberships"]] == ids[::-1]
    expected = {"total": 3, "by_status": {"completed": 2, "active": 1}, "completion_percentage": 67}
    assert shown["aggregate_status"] == expected
    assert shown["intents"][0] == api.get(f"/intents/{ids[2]}").json()


def test_a_page_of_the_members_still_says_how_far_all_are(api, portfolio):
    ids = [api.intent() for _ in range(3)]
    for number, intent in enumerate(ids):
        add(api, portfolio, intent, priority=-number)
    page = api.get(f"{portfolio}/intents", params={"limit": 2, "offset": 1})
    assert [each["id"] for each in page.json()["intents"]] == ids[1:]
    assert "X-Next-Offset" not in page.headers
    page = api.get(f"{portfolio}/intents", params={"limit": 2})
    assert (page.headers["X-Next-Offset"], page.json()["aggregate_status"]["total"]) == ("2", 3)


def test_an_empty_portfolio_is_nothing_of_nothing(api, portfolio):
    nothing = {"total": 0, "by_status": {}, "completion_percentage": 0}
    assert api.get(f"{portfolio}/intents").json() == {"intents": [], "memberships": [], "aggregate_status": nothing}


def test_an_intent_knows_its_portfolios_until_it_is_removed(api, portfolio, intent):
    add(api, portfolio, intent.removeprefix("/intents/"))
    assert api.get(f"{intent}/portfolios").json() == [api.get(portfolio).json()]
    assert api.get(f"{intent}/portfolios", params={"created_by": "nobody"}).json() == []
    gone = api.delete(f"{portfolio}{intent}")
    assert gone.json() == {"message": "Intent removed from portfolio"}
    assert api.get(f"{intent}/portfolios").json() == []
    refused(api.delete(f"{portfolio}{intent}"), 404, "not_found")


def test_who_came_and_went_stands_in_both_logs_with_the_intent_it_is_about(api, portfolio, intent):
    id_ = intent.removeprefix("/intents/")
    add(api, portfolio, id_)
    api.delete(f"{portfolio}{intent}")
    both = ["added_to_portfolio", "removed_from_portfolio"]
    here, there = api.events(portfolio), api.events(intent)
    assert [event["event_type"] for event in here] == ["portfolio_created", *both]
    assert [event["event_type"] for event in there] == ["intent_created", *both]
    assert here[1:] == there[1:]
    assert [event["intent_id"] for event in here] == [None, id_, id_]


def test_a_portfolio_has_a_log_of_its_own(api, portfolio):
    assert api.post(f"{portfolio}/events", {"event_type": "comment"}).json()["space"] == f"portfolio:{portfolio[12:]}"
    assert [event["event_type"] for event in api.events(portfolio)] == ["portfolio_created", "comment"]


def test_what_is_not_there_is_not_found(api, portfolio, intent):
    id_ = intent.removeprefix("/intents/")
    replies = [
        api.get("/portfolios/nobody"),
        api.patch("/portfolios/nobody/status", {"status": "active"}),
        api.get("/portfolios/nobody/intents"),
        api.post("/portfolios/nobody/intents", {"intent_id": id_}),
        api.delete(f"/portfolios/nobody/intents/{id_}"),
        api.get("/portfolios/nobody/events"),
        api.post("/portfolios/nobody/events", {"event_type": "comment"}),
        api.get("/portfolios/nobody/coordinators"),
    ]
    assert {refused(reply, 404, "not_found")["detail"] for reply in replies} == {"Portfolio not found"}
    replies = [
        api.post(f"{portfolio}/intents", {"intent_id": "nobody"}),
        api.delete(f"{portfolio}/intents/nobody"),
        api.get("/intents/nobody/portfolios"),
    ]
    assert {refused(reply, 404, "not_found")["detail"] for reply in replies} == {"Intent not found"}
