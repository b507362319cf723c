"""Leases over HTTP: shapes, conflicts, renewing, ending, looking, in intents and in plain spaces."""

import pytest
from http_words import refused

LEASE_FIELDS = {
    "id": str,
    "intent_id": str,
    "space": str,
    "agent_id": str,
    "scope": str,
    "mode": str,
    "status": str,
    "token": int,
    "ttl_seconds": float,
    "remaining_seconds": float,
    "expires_at": str,
    "acquired_at": str,
    "created_at": str,
    "released_at": type(None),
    "ended_reason": type(None),
    "waited_seconds": float,
    "max_hold_seconds": type(None),
    "progress_seconds": type(None),
    "cooldown_seconds": float,
    "checkpoint": type(None),
    "metadata": dict,
    "purpose": type(None),
    "preempt_asked": bool,
}


def test_a_lease_has_these_fields_and_no_others(api, intent):
    lease = api.lease(intent, scope="research")
    assert {field: type(value) for field, value in lease.items()} == LEASE_FIELDS
    assert lease["space"] == f"intent:{lease['intent_id']}"
    shown = (lease["agent_id"], lease["scope"], lease["mode"], lease["status"], lease["ttl_seconds"])
    assert shown == ("ada", "research", "exclusive", "active", 60.0)
    assert lease["remaining_seconds"] == 60.0


def test_a_lease_says_what_it_was_asked_for(api, space):
    asked = {
        "scope": "a/**",
        "ttl_seconds": 30,
        "purpose": "nightly",
        "metadata": {"run": 7},
        "max_hold_seconds": 300,
        "progress_seconds": 100.5,
        "cooldown_seconds": 2,
        "agent_id": "eve",
    }
    lease = api.lease(space, **asked)
    assert {field: lease[field] for field in asked} == asked
    assert lease["intent_id"] is None


def test_the_ttl_may_be_called_a_duration(api, space):
    assert api.lease(space, duration_seconds=12.5)["ttl_seconds"] == 12.5
    refused(api.post(f"{space}/leases", {"ttl_seconds": 5, "duration_seconds": 5}), 422, "invalid")


def test_a_lease_needs_an_agent(api, space):
    problem = refused(api.post(f"{space}/leases", {}, agent=None), 400, "agent_required")
    assert problem["detail"] == "X-Agent-ID header required"


def test_a_held_scope_is_refused_with_all_that_one_needs_to_go_on(api, intent):
    lease = api.lease(intent, scope="research", ttl_seconds=30)
    problem = refused(api.post(f"{intent}/leases", {"scope": "research"}, agent="bob"), 409, "lease_held")
    assert set(problem) == {
        *("error", "detail", "message", "current_holder", "existing_lease", "retry_after_seconds", "queue_length"),
    }
    assert problem["detail"] == "Lease already held for this scope"
    assert problem["current_holder"] == "ada"
    assert problem["existing_lease"] == lease | {"remaining_seconds": problem["retry_after_seconds"]}
    assert 10 < problem["retry_after_seconds"] <= 30
    assert problem["queue_length"] == 0
    assert "'research'" in problem["message"]


@pytest.mark.parametrize(
    ("held", "asked", "status"),
    [("*", "x", 409), ("x", "*", 409), ("a/**", "a/b/c", 409), ("a", "a/**", 409), ("a", "b", 200), ("a/b", "a", 200)],
)
def test_scopes_that_overlap_exclude_each_other(api, space, held, asked, status):
    api.lease(space, scope=held)
    assert api.post(f"{space}/leases", {"scope": asked}, agent="bob").status_code == status


def test_ones_own_scope_is_refused_too_unless_one_asks_for_it_again(api, space):
    lease = api.lease(space)
    refused(api.post(f"{space}/leases", {}), 409, "lease_held_by_you")
    assert api.lease(space, reentrant=True)["token"] == lease["token"]


def test_tokens_only_rise(api, space):
    tokens = []
    for scope in "abc":
        lease = api.lease(space, scope=scope)
        tokens.append(lease["token"])
        api.delete(f"/leases/{lease['id']}")
    assert tokens == sorted(set(tokens))


# Renewing


@pytest.mark.parametrize("path", ["{space}/leases/{id}", "/leases/{id}"])
def test_a_renewal_gives_the_ttl_anew_or_another_one(api, space, path):
    lease = api.lease(space, ttl_seconds=30)
    path = path.format(space=space, id=lease["id"])
    assert api.patch(path).json()["ttl_seconds"] == 30
    assert api.patch(path, {}).json()["ttl_seconds"] == 30
    renewed = api.patch(path, {"duration_seconds": 90}).json()
    assert (renewed["ttl_seconds"], renewed["remaining_seconds"], renewed["token"]) == (90, 90, lease["token"])


def test_a_renewal_never_shortens_what_was_promised(api, space):
    lease = api.lease(space, ttl_seconds=60)
    assert api.patch(f"/leases/{lease['id']}", {"ttl_seconds": 1}).json()["remaining_seconds"] > 30


def test_what_is_not_yours_is_not_found(api, space):
    lease = api.lease(space)
    replies = [
        api.patch(f"/leases/{lease['id']}", {}, agent="bob"),
        api.patch(f"{space}/leases/{lease['id']}", {}, agent="bob"),
        api.delete(f"/leases/{lease['id']}", agent="bob"),
        api.post(f"/leases/{lease['id']}/progress", {}, agent="bob"),
        api.patch("/leases/unknown", {}),
        api.delete("/leases/unknown"),
        api.patch(f"/spaces/other/leases/{lease['id']}", {}),
        api.delete(f"/spaces/other/leases/{lease['id']}"),
        api.get(f"/spaces/other/leases/{lease['id']}"),
        api.get("/leases/unknown"),
    ]
    details = {refused(reply, 404, "not_found")["detail"] for reply in replies}
    assert details == {"Lease not found or not owned by you"}
    assert api.get(f"/leases/{lease['id']}").json()["status"] == "active"


def test_a_renewal_of_an_ended_lease_says_how_and_when_it_ended(api, space):
    lease = api.lease(space)
    api.post(f"/leases/{lease['id']}/revoke", {"reason": "maintenance"}, agent="operator")
    problem = refused(api.patch(f"/leases/{lease['id']}", {}), 409, "lease_lost")
    assert (problem["reason"], problem["token"]) == ("revoked", lease["token"])
    assert problem["ended_at"] == problem["existing_lease"]["released_at"]
    assert "maintenance" in problem["message"]


@pytest.mark.parametrize("path", ["/leases/{}", "/spaces/{}/leases/{}", "/intents/{}/leases/{}"])
def test_a_name_may_look_like_our_own_patterns(api, path, name):
    """They are for whoever reads the description; a name is a name."""
    for method in (api.get, api.delete):
        refused(method(path), 404, "not_found")
    assert api.post("/spaces/{}/leases", {"scope": name}).json()["space"] == "space:{}"


# Ending


@pytest.mark.parametrize("path", ["{space}/leases/{id}", "/leases/{id}"])
def test_releasing_twice_is_the_same_as_once(api, space, path):
    lease = api.lease(space)
    path = path.format(space=space, id=lease["id"])
    first, second = api.delete(path), api.delete(path)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()
    assert first.json()["message"] == "Lease released"
    assert api.lease(space, agent="bob")["agent_id"] == "bob"


@pytest.mark.parametrize("path", ["{space}/leases/{id}/revoke", "/leases/{id}/revoke"])
def test_an_operator_can_revoke_with_a_reason(api, space, path):
    lease = api.lease(space)
    path = path.format(space=space, id=lease["id"])
    refused(api.post(path, {}, agent="operator"), 422, "invalid")
    revoked = api.post(path, {"reason": "stuck"}, agent="operator").json()
    assert (revoked["status"], revoked["remaining_seconds"], revoked["id"]) == ("revoked", 0.0, lease["id"])
    refused(api.post(path, {"reason": "stuck"}), 409, "lease_lost")


def test_a_lease_lapses_by_itself_and_the_log_says_so(api, intent):
    lease = api.lease(intent, scope="short", ttl_seconds=0.1)
    api.lease(intent, scope="short", agent="bob", wait_seconds=5)
    ended = next(event for event in api.events(intent) if event["event_type"] == "lease_released")
    payload = ended["payload"]
    assert {key: payload[key] for key in ("reason", "scope", "token", "holder", "lease_id")} == {
        "reason": "expired",
        "scope": "short",
        "token": lease["token"],
        "holder": "ada",
        "lease_id": lease["id"],
    }
    assert refused(api.patch(f"/leases/{lease['id']}", {}), 409, "lease_lost")["reason"] == "expired"


def test_a_lease_ends_when_it_was_held_long_enough(api, space):
    lease = api.lease(space, ttl_seconds=60, max_hold_seconds=0.1)
    assert lease["remaining_seconds"] == 0.1
    api.lease(space, agent="bob", wait_seconds=5)
    assert refused(api.patch(f"/leases/{lease['id']}", {}), 409, "lease_lost")["reason"] == "max_hold"


def test_a_scope_stays_closed_for_a_while_after_a_lapse_that_asked_for_it(api, space):
    lease = api.lease(space, cooldown_seconds=20)
    api.post(f"/leases/{lease['id']}/revoke", {"reason": "broken"})
    problem = refused(api.post(f"{space}/leases", {}, agent="bob"), 409, "lease_cooldown")
    assert 0 < problem["retry_after_seconds"] <= 20
    assert problem["detail"] == "Lease already held for this scope"


def test_the_next_holder_finds_the_note_of_the_last(api, space):
    lease = api.lease(space)
    noted = api.post(f"{space}/leases/{lease['id']}/progress", {"checkpoint": {"page": 3}}).json()
    assert noted["checkpoint"] == {"page": 3}
    assert api.post(f"/leases/{lease['id']}/progress", {}).json()["checkpoint"] == {"page": 3}
    api.delete(f"/leases/{lease['id']}")
    assert api.lease(space, agent="bob")["checkpoint"] == {"page": 3}


# Looking


def test_a_list_has_the_live_leases_unless_asked_for_all(api, intent):
    ended, live = api.lease(intent, scope="a"), api.lease(intent, scope="b", agent="bob")
    api.delete(f"/leases/{ended['id']}")
    listed = api.get(f"{intent}/leases").json()
    assert [lease["id"] for lease in listed["leases"]] == [live["id"]]
    assert listed["leases"][0].keys() == live.keys()
    everything = api.get(f"{intent}/leases", params={"status": "all"}).json()["leases"]
    assert [(lease["id"], lease["status"]) for lease in everything] == [
        (ended["id"], "released"),
        (live["id"], "active"),
    ]


def test_a_list_of_all_has_the_live_ones_however_many_have_ended_since(api, intent):
    live = api.lease(intent, scope="held for long")
    for _ in range(3):
        ended = api.lease(intent, scope="short")
        api.delete(f"/leases/{ended['id']}")
    shown = api.get(f"{intent}/leases", params={"status": "all", "limit": 2}).json()["leases"]
    assert [lease["id"] for lease in shown] == [live["id"], ended["id"]]


def test_the_pages_of_a_list_of_all_have_every_live_one(api, intent):
    live = [api.lease(intent, scope=f"held {n}")["id"] for n in range(5)]
    api.delete(f"/leases/{api.lease(intent, scope='short')['id']}")
    pages, after = [], 0
    while after is not None:
        page = api.get(f"{intent}/leases", params={"status": "all", "limit": 2, "after": after}).json()
        pages.append([lease["id"] for lease in page["leases"] if lease["status"] == "active"])
        after = page["next"]
    assert pages == [live[:2], live[2:4], live[4:]]


def test_a_narrowed_list_of_all_finds_what_ended_long_before_others_did(api, intent):
    wanted = api.lease(intent, scope="wanted", agent="bob")
    api.delete(f"/leases/{wanted['id']}", agent="bob")
    for _ in range(3):
        other = api.lease(intent, scope="short")
        api.delete(f"/leases/{other['id']}")
    for narrowed in ({"scope": "wanted"}, {"agent_id": "bob"}):
        shown = api.get(f"{intent}/leases", params={"status": "all", "limit": 2, **narrowed}).json()["leases"]
        assert [lease["id"] for lease in shown] == [wanted["id"]]


def test_a_list_can_be_narrowed_by_scope_and_agent(api, space):
    for scope, agent in (("a", "ada"), ("b", "ada"), ("c", "bob")):
        lease = api.lease(space, scope=scope, agent=agent)
    api.delete(f"/leases/{lease['id']}", agent="bob")
    listed = {
        str(query): [lease["scope"] for lease in api.get(f"{space}/leases", params=query).json()["leases"]]
        for query in ({"scope": "a"}, {"agent_id": "ada"}, {"agent_id": "bob"}, {"agent_id": "bob", "status": "all"})
    }
    assert list(listed.values()) == [["a"], ["a", "b"], [], ["c"]]


def test_one_lease_is_shown_with_its_timeline_also_when_it_has_ended(api, intent):
    lease = api.lease(intent)
    api.delete(f"/leases/{lease['id']}")
    for path in (f"/leases/{lease['id']}", f"{intent}/leases/{lease['id']}"):
        story = api.get(path).json()
        assert (story["status"], story["ended_reason"], story["remaining_seconds"]) == ("released", "released", 0.0)
        assert story["released_at"] == story["expires_at"]
        assert [event["event_type"] for event in story["timeline"]] == ["lease_acquired", "lease_released"]
        assert "reason" not in story["timeline"][0]["payload"]


def test_all_leases_are_listed_in_pages(api, space, name):
    ids = [api.lease(space, scope=scope)["id"] for scope in "abc"]
    query = {"space": f"space:{name}", "limit": 2}
    first = api.get("/leases", params=query).json()
    rest = api.get("/leases", params=query | {"after": first["next"]}).json()
    assert [lease["id"] for lease in first["leases"] + rest["leases"]] == ids
    assert rest["next"] is None
    refused(api.get("/leases", params={"status": "all"}), 422, "not_offered")


# Heartbeats


def status_of(api, lease):
    return api.get(f"/leases/{lease['id']}").json()["status"]


def test_a_heartbeat_renews_exactly_what_it_lists(api, space):
    listed, forgotten = (api.lease(space, scope=scope, ttl_seconds=0.8) for scope in "ab")
    body = {"leases": [{"id": listed["id"], "token": listed["token"]}]}
    while status_of(api, forgotten) == "active":
        rows = api.post("/agents/ada/heartbeat", body).json()["leases"]
        assert rows == [{"id": listed["id"], "verdict": "renewed", "remaining_seconds": 0.8, "reason": None}]
    assert status_of(api, listed) == "active"


@pytest.mark.parametrize("body", [None, {}, {"leases": None}, {"leases": []}, {"status": "active", "current_load": 1}])
def test_a_heartbeat_without_a_list_renews_nothing(api, space, body):
    lease = api.lease(space, ttl_seconds=0.1)
    while status_of(api, lease) == "active":
        assert api.post("/agents/ada/heartbeat", body).json()["leases"] == []


def test_a_heartbeat_says_when_the_next_one_is_due(api, space):
    lease = api.lease(space, ttl_seconds=6)
    reply = api.post("/agents/ada/heartbeat", {"leases": [{"id": lease["id"], "token": lease["token"]}]}).json()
    times = {"server_timestamp", "next_heartbeat_at", "next_heartbeat_seconds"}
    assert set(reply) == {"status", "leases", "agent_status", *times}
    assert (reply["status"], reply["next_heartbeat_seconds"], reply["agent_status"]) == ("ok", 2.0, None)
    assert reply["server_timestamp"] < reply["next_heartbeat_at"]


def test_a_heartbeat_says_what_is_lost_and_why(api, space):
    revoked, other = api.lease(space, scope="a"), api.lease(space, scope="c")
    foreign = api.lease(space, scope="b", agent="bob")
    api.post(f"/leases/{revoked['id']}/revoke", {"reason": "stuck"})
    held = [(revoked["id"], revoked["token"]), (foreign["id"], foreign["token"]), (other["id"], other["token"] + 1)]
    body = {"leases": [{"id": lease, "token": token} for lease, token in [*held, ("nothing", 1)]]}
    verdicts = api.post("/agents/ada/heartbeat", body).json()["leases"]
    assert [(row["verdict"], row["reason"]) for row in verdicts] == [
        ("lost", "revoked"),
        ("lost", "unknown"),
        ("lost", "unknown"),
        ("lost", "unknown"),
    ]


# Names, spaces and guards


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("a%2Fb", "a/b"),
        ("%C3%A9t%C3%A9", "été"),
        ("100%25", "100%"),
        ("%2e%2e", ".."),
        ("a%252Fb", "a%2Fb"),
    ],
)
def test_names_in_paths_are_percent_decoded_once(api, raw, meant):
    lease = api.lease(f"/spaces/{raw}-{api.lane}")
    assert lease["space"] == f"space:{meant}-{api.lane}"
    assert api.get(f"/spaces/{raw}-{api.lane}/leases/{lease['id']}").status_code == 200


@pytest.mark.parametrize("scope", ["été", "日本語", "🚀/launch", "a b", "a:b?c#d%20e", "<script>", "x" * 512])
def test_a_scope_may_be_any_printable_text(api, space, scope):
    assert api.lease(space, scope=scope)["scope"] == scope
    assert len(api.get(f"{space}/leases", params={"scope": scope}).json()["leases"]) == 1


def test_a_space_and_an_intent_of_one_name_are_apart(api, name):
    api.intent(id=name)
    api.lease(f"/intents/{name}")
    assert api.lease(f"/spaces/{name}", agent="bob")["space"] == f"space:{name}"


def test_a_resource_can_ask_whether_a_token_is_the_live_one(api, space, name):
    lease = api.lease(space, scope="s")
    asked = {"space": f"space:{name}", "scope": "s", "token": lease["token"]}
    assert api.post("/guard/check", asked, agent=None).json() == {"valid": True, "live_token": lease["token"]}
    old = api.post("/guard/check", asked | {"token": lease["token"] - 1}).json()
    assert old == {"valid": False, "live_token": lease["token"]}
    api.delete(f"/leases/{lease['id']}")
    assert api.post("/guard/check", asked).json() == {"valid": False, "live_token": None}
