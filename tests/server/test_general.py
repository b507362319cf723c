"""What holds for every call: paths, headers, dates, and errors that are always JSON."""

import json
import math
import re
from datetime import UTC, datetime, timedelta

import pytest
from http_words import Api, refused

from openintent.server.routes import ROUTES

DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


def test_v1_is_an_alias_of_api_v1(api, name):
    api.post("/intents", {"title": "t", "id": name}, base="/v1")
    assert api.get(f"/intents/{name}").json() == api.get(f"/intents/{name}", base="/v1").json()
    assert api.lease(f"/intents/{name}")["intent_id"] == name


def test_dates_are_naive_utc_with_microseconds(api, intent):
    lease = api.lease(intent)
    dates = [lease["expires_at"], lease["acquired_at"], lease["created_at"], api.get(intent).json()["created_at"]]
    assert [date for date in dates if not DATE.fullmatch(date)] == []
    today = datetime.now(UTC).replace(tzinfo=None)
    assert abs(datetime.fromisoformat(lease["created_at"]) - today) < timedelta(seconds=30)
    granted, end = (datetime.fromisoformat(lease[field]) for field in ("acquired_at", "expires_at"))
    assert abs((end - granted).total_seconds() - lease["ttl_seconds"]) < 1


def test_every_command_has_its_own_place_in_the_order_of_a_term(api, intent):
    replies = [
        api.get(intent),
        api.post(f"{intent}/leases", {}),
        api.post(f"{intent}/leases", {}, agent="bob"),
        api.patch(f"{intent}/state", {"state": {"a": 1}}, headers={"If-Match": "7"}),
        api.get(f"{intent}/leases"),
        api.post("/agents/ada/heartbeat", {}),
    ]
    places = [int(reply.headers["X-Rev"]) for reply in replies]
    assert places == sorted(set(places))
    assert {reply.headers["X-Term"] for reply in replies} == {"1"}


def test_every_answer_has_a_number_of_its_own(api):
    replies = [api.get("/livez"), api.get("/nowhere"), api.get("/leases"), api.post("/guard/check", b"!")]
    assert len({reply.headers["X-Request-ID"] for reply in replies}) == len(replies)


def test_retry_after_is_whole_seconds_rounded_up_and_the_body_has_the_exact_number(api, space):
    api.lease(space, ttl_seconds=60.5)
    reply = api.post(f"{space}/leases", {}, agent="bob")
    seconds = refused(reply, 409, "lease_held")["retry_after_seconds"]
    assert 30 < seconds <= 60.5
    assert reply.headers["Retry-After"] == str(math.ceil(seconds))


def test_retry_after_is_never_zero(api, space):
    api.lease(space, ttl_seconds=0.9)
    assert api.post(f"{space}/leases", {}, agent="bob").headers["Retry-After"] == "1"


# Errors


def test_an_unknown_path_is_not_found_in_json(api):
    assert refused(api.get("/nothing/here"), 404, "not_found")["detail"] == "Not Found"
    refused(api.get("/intents/", base="/api/v1"), 404, "not_found")
    refused(api.get("", base="/api/v2/intents"), 404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_a_wrong_method_is_answered_with_the_right_ones(api, method):
    reply = api.send(method, "/intents")
    refused(reply, 405, "method_not_allowed")
    assert reply.headers["Allow"] == "GET, POST"


def test_a_head_is_a_get_without_its_body(api, intent):
    reply = api.send("HEAD", intent)
    assert (reply.status_code, reply.content) == (200, b"")


def test_an_unknown_intent_is_not_found_whatever_is_asked_of_it(api):
    replies = [
        api.get("/intents/nobody"),
        api.post("/intents/nobody/state", {"state": {"a": 1}}, headers={"If-Match": "*"}),
        api.post("/intents/nobody/status", {"status": "active"}, headers={"If-Match": "*"}),
        api.get("/intents/nobody/events"),
        api.post("/intents/nobody/events", {"event_type": "comment"}),
        api.post("/intents/nobody/leases", {}),
        api.get("/intents/nobody/leases"),
        api.get("/intents/nobody/leases", params={"status": "all"}),
        api.get("/intents/nobody/queue"),
    ]
    assert {refused(reply, 404, "not_found")["detail"] for reply in replies} == {"Intent not found"}


def test_a_body_that_nobody_needs_is_too_large(api, intent):
    body = json.dumps({"state": {"a": "x" * 1_200_000}}).encode()
    refused(api.patch(f"{intent}/state", body, headers={"If-Match": "*"}), 413, "body_too_large")
    assert api.get(intent).json()["version"] == 1


def test_a_state_that_grows_too_large_is_refused_and_stays_as_it_was(api, intent):
    big = {"state": {"a": "x" * 600_000}}
    assert api.patch(f"{intent}/state", big, headers={"If-Match": "1"}).status_code == 200
    more = {"state": {"b": "x" * 600_000}}
    refused(api.patch(f"{intent}/state", more, headers={"If-Match": "2"}), 422, "state_too_large")
    assert list(api.get(intent).json()["state"]) == ["a"]


def test_headers_beyond_measure_are_refused(api):
    refused(api.get("/leases", headers={"X-Filler": "x" * 100_000}), 431, "headers_too_large")


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "text/plain", "text/json; charset=utf-8", "multipart/form-data", "json", ""],
)
def test_a_body_that_says_it_is_not_json_is_refused_with_a_hint(api, space, kind):
    reply = api.post(f"{space}/leases", {}, headers={"Content-Type": kind})
    assert "application/json" in refused(reply, 415, "unsupported_media_type")["error"]["hint"]


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/problem+json"]
)
def test_a_body_that_says_it_is_json_is_read(api, space, kind):
    assert api.post(f"{space}/leases", {}, headers={"Content-Type": kind}).status_code == 200


def test_a_body_that_does_not_say_what_it_is_is_read_as_json(api, space):
    sent = {"content": b'{"scope": "s"}', "headers": {"X-Agent-ID": "ada"}}
    reply = api.http.request("POST", f"/api/v1{space}/leases", **sent)
    assert reply.json()["scope"] == "s"


def test_a_missing_body_counts_as_an_empty_object(api, space):
    assert api.post(f"{space}/leases").json()["scope"] == "*"
    refused(api.post("/intents"), 422, "invalid")


def test_all_that_is_wrong_is_said_at_once(api, space):
    body = {"ttl_second": 5, "ttl_seconds": "60", "priority": True, "metadata": [], "scope": "fine"}
    problem = refused(api.post(f"{space}/leases", body), 422, "invalid")
    assert {tuple(fault["loc"]) for fault in problem["detail"]} == {
        ("body", "ttl_second"),
        ("body", "ttl_seconds"),
        ("body", "priority"),
        ("body", "metadata"),
    }
    assert all(set(fault) == {"loc", "msg", "type"} for fault in problem["detail"])
    assert "ttl_second: no such field" in problem["message"]


def test_values_out_of_range_are_said_at_once_too(api, space):
    body = {"ttl_seconds": 0, "wait_seconds": 301, "scope": "", "priority": 10**7, "agent_id": "", "mode": "odd"}
    problem = refused(api.post(f"{space}/leases", body), 422, "invalid")
    assert {fault["loc"][1] for fault in problem["detail"]} == set(body)


def test_every_bad_patch_is_named(api, intent):
    steps = [{"op": "set", "path": "a"}, {"op": "add", "path": ""}, {"op": "remove", "path": "a//b"}]
    problem = refused(api.patch(f"{intent}/state", {"patches": steps}, headers={"If-Match": "*"}), 422, "invalid")
    assert [fault["loc"][2:] for fault in problem["detail"]] == [
        [0, "value"],
        [1, "op"],
        [1, "path"],
        [1, "value"],
        [2, "path"],
    ]


@pytest.mark.parametrize(
    "path", ["{space}/leases", "/agents/ada/heartbeat", "{intent}/state", "{intent}/status", "/guard/check"]
)
def test_an_unknown_field_is_refused_and_named(api, intent, space, path):
    path = path.format(space=space, intent=intent)
    problem = refused(api.post(path, {"colour": "red"}, headers={"If-Match": "*"}), 422, "invalid")
    assert ["body", "colour"] in [fault["loc"] for fault in problem["detail"]]


@pytest.mark.parametrize("body", [{"scopes": ["a", "b"]}, {"mode": "shared"}, {"permits": 2}])
def test_what_is_not_offered_yet_is_said_to_be_so(api, space, body):
    problem = refused(api.post(f"{space}/leases", body), 422, "not_offered")
    assert problem["detail"][0]["loc"] == ["body", next(iter(body))]
    assert api.get(f"{space}/leases").json()["leases"] == []


# Every call that compares versions, with a body that would do.
COMPARING = {
    ("PATCH", "intents/{}/state"): {"state": {"lease": 2}},
    ("POST", "intents/{}/state"): {"patches": [{"op": "set", "path": "lease", "value": "release"}]},
    ("POST", "intents/{}/status"): {"status": "active", "reason": "lease"},
    ("PUT", "intents/{}/governance"): {"allowed_agents": ["release-manager", "ada"]},
    ("DELETE", "intents/{}/governance"): None,
    ("POST", "intents/{}/dependencies"): {"dependency_id": "release-1"},
    ("DELETE", "intents/{}/dependencies/{}"): None,
    ("DELETE", "intents/{}"): None,
}


@pytest.fixture(scope="module")
def release(api):
    """Intents whose every word has the letters in it."""
    words = {"title": "please release", "state": {"lease": 1}}
    for id_, more in (("release-0", {}), ("release-1", {}), ("release-2", {"depends_on": ["release-0"]})):
        api.post("/intents", {"id": id_, **words, **more})
    return "release-2"


def test_these_are_all_the_calls_that_compare_versions():
    comparing = {(each.method, each.pattern) for each in ROUTES if "If-Match" in each.needs + each.reads}
    assert comparing == set(COMPARING)


@pytest.mark.parametrize(("method", "pattern"), COMPARING)
def test_a_conflict_of_versions_never_says_lease(api, release, method, pattern):
    path = pattern.replace("{}", release, 1).replace("{}", "release-0")
    headers = {"If-Match": "9", "Idempotency-Key": "release", "X-Request-ID": "lease"}
    reply = api.send(method, f"/{path}", COMPARING[method, pattern], agent="lease-holder", headers=headers)
    problem = refused(reply, 409, "version_conflict")
    assert (problem["detail"], problem["current_version"]) == ("Version conflict", 1)
    assert "lease" not in reply.text.lower()


def test_other_conflicts_that_are_not_over_a_lease_do_not_say_lease_either(api, release):
    whole = f"release-{api.lane}"
    api.post("/intents", {"id": whole, "title": "lease"})
    api.post(f"/intents/{whole}/children", {"id": f"{whole}-child", "title": "lease", "depends_on": ["release-0"]})
    held = api.lease(f"/intents/{whole}-child", scope="lease", agent="lease-holder")
    in_use = [api.delete(f"/intents/{id_}") for id_ in (whole, f"{whole}-child", "release-0")]
    api.delete(f"/leases/{held['id']}", agent="lease-holder")
    closed = api.lease(f"/intents/{whole}-child", scope="lease", cooldown_seconds=60)
    api.post(f"/leases/{closed['id']}/revoke", {"reason": "lease"})
    in_use.append(api.delete(f"/intents/{whole}-child"))
    assert len({refused(reply, 409, "intent_in_use")["message"] for reply in in_use}) == 4
    exists = api.post("/intents", {"id": whole, "title": "other lease"})
    refused(exists, 409, "already_exists")
    assert [reply.text for reply in [*in_use, exists] if "lease" in reply.text.lower()] == []


def test_a_conflict_over_a_lease_always_says_lease(api, intent):
    held = api.lease(intent, ttl_seconds=60)
    state = {"state": {"a": 1}}
    api.delete(f"/leases/{held['id']}")
    api.lease(intent, agent="eve")
    replies = [
        api.post(f"{intent}/leases", {}),
        api.post(f"{intent}/leases", {}, agent="eve"),
        api.post(f"{intent}/leases", {"wait_seconds": 0.01}),
        api.patch(f"{intent}/leases/{held['id']}", {}),
        api.patch(f"{intent}/state", state, headers={"If-Match": "*"}),
        api.patch(f"{intent}/state", state | {"token": held["token"]}, headers={"If-Match": "*"}),
    ]
    assert [reply.status_code for reply in replies] == [409] * 6
    assert [reply.text for reply in replies if "lease" not in reply.text.lower()] == []


# The server itself


@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "any"}, {"Authorization": "Bearer any"}])
def test_without_configured_keys_any_key_or_none_is_accepted(api, space, headers):
    assert api.post(f"{space}/leases", {}, headers=headers).status_code == 200


def test_the_server_says_that_it_lives_and_serves_and_what_it_is(api):
    assert api.get("/livez", base="", agent=None).json() == {"status": "alive"}
    assert api.get("/readyz", base="", agent=None).json() == {
        "status": "ready",
        "role": "grantor",
        "term": 1,
    }
    version = api.get("/version", base="", agent=None).json()
    assert (version["name"], version["term"]) == ("openintent-leases", 1)


def test_a_browser_gets_a_page_that_loads_nothing(api):
    page = api.get("/", base="")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert f"curl -X POST {api.http.address}/api/v1/spaces/default/leases" in page.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.evil.example:8000"},
        {"Host": "localhost.evil.example"},
        {"Host": "[::1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
    ],
)
def test_a_page_from_elsewhere_is_turned_away(api, space, headers):
    refused(api.post(f"{space}/leases", {}, headers=headers), 403, "forbidden")
    assert api.get(f"{space}/leases").json()["leases"] == []


@pytest.mark.parametrize(
    "headers",
    [{"Host": "localhost"}, {"Host": "LOCALHOST:1"}, {"Host": "[::1]:8000"}, {"Origin": "http://localhost:3000"}],
)
def test_whoever_is_on_this_machine_is_served(api, headers):
    assert api.get("/leases", headers=headers).status_code == 200


# Lanes

SAME_IN_BOTH_LANES = [
    ("POST", "/spaces/both/leases", b'{"scope": "a", "ttl_seconds": 600}'),
    ("POST", "/spaces/both/leases", b'{"scope": "a", "ttl_seconds": "600"}'),
    ("POST", "/spaces/both/leases", b"[]"),
    ("PATCH", "/leases/nothing", b"{}"),
    ("DELETE", "/spaces/both/leases/nothing", None),
    ("GET", "/intents/nothing", None),
    ("POST", "/intents/nothing/state", b'{"state": {"a": 1}}'),
    ("POST", "/agents/ada/heartbeat", b'{"leases": [{"id": "x", "token": 1}]}'),
    ("POST", "/guard/check", b'{"space": "space:both", "scope": "b", "token": 1}'),
    ("POST", "/spaces/%zz/leases", b"{}"),
]
CHANGING = {"id", "token", "expires_at", "acquired_at", "created_at", "server_timestamp", "next_heartbeat_at"}


@pytest.mark.parametrize(("method", "path", "body"), SAME_IN_BOTH_LANES)
def test_both_lanes_answer_alike(server_url, method, path, body):
    seen = []
    for lane in ("hot", "asgi"):
        api = Api(server_url, lane)
        with api.http:
            reply = api.send(method, path, body)
            seen.append((reply.status_code, sorted(reply.headers), _steady(reply.json())))
            if "id" in reply.json():
                api.delete(f"/leases/{reply.json()['id']}")
    assert seen[0] == seen[1]


def _steady(answer):
    return {key: value for key, value in answer.items() if key not in CHANGING}
