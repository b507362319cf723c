"""Waiting for a lease over HTTP, and requests that are sent again under one Idempotency-Key."""

import socket

import pytest
from http_words import refused

KEY = "Idempotency-Key"


@pytest.fixture
def key(name):
    return f"attempt-{name}"


def again(api, path, body, key, **options):
    return api.post(path, body, headers={KEY: key, **options.pop("headers", {})}, **options)


def test_a_wait_without_a_grant_ends_with_a_place_in_the_queue(api, space):
    api.lease(space)
    reply = api.post(f"{space}/leases", {"wait_seconds": 0.05}, agent="bob")
    problem = refused(reply, 409, "wait_timeout")
    assert problem["place"] == 1
    assert isinstance(problem["ticket"], str)
    assert 0.04 < problem["waited_seconds"] < 5
    assert (problem["current_holder"], problem["detail"]) == ("ada", "Lease already held for this scope")
    assert int(reply.headers["Retry-After"]) >= problem["retry_after_seconds"]


def test_whoever_waits_is_granted_as_soon_as_the_scope_is_free(api, space):
    api.lease(space, ttl_seconds=1)
    lease = api.lease(space, agent="bob", wait_seconds=10)
    assert 0 < lease["waited_seconds"] < 5
    assert lease["remaining_seconds"] == lease["ttl_seconds"]


def test_a_wait_that_need_not_wait_is_granted_at_once(api, space):
    assert api.lease(space, wait_seconds=300)["waited_seconds"] == 0.0


def test_the_queue_shows_who_waits_in_order_of_priority_then_arrival(api, space, key):
    api.lease(space, scope="s")
    for agent, priority in (("bob", 0), ("cem", 5), ("dan", 0)):
        body = {"scope": "s", "wait_seconds": 0.02, "priority": priority}
        refused(again(api, f"{space}/leases", body, key, agent=agent), 409, "wait_timeout")
    waiters = api.get(f"{space}/queue", params={"scope": "s"}).json()["waiters"]
    assert [(waiter["place"], waiter["agent_id"], waiter["priority"]) for waiter in waiters] == [
        (1, "cem", 5),
        (2, "bob", 0),
        (3, "dan", 0),
    ]
    assert set(waiters[0]) == {"ticket", "agent_id", "scope", "place", "priority", "waited_seconds", "present"}
    assert api.get(f"{space}/queue", params={"scope": "other"}).json() == {"waiters": []}
    held = refused(api.post(f"{space}/leases", {"scope": "s"}, agent="eve"), 409, "lease_held")
    assert held["queue_length"] == 3


def test_the_same_key_keeps_the_place_and_the_ticket_becomes_the_lease(api, space, key):
    held = api.lease(space)
    body = {"wait_seconds": 0.02}
    first = refused(again(api, f"{space}/leases", body, key, agent="bob"), 409, "wait_timeout")
    refused(again(api, f"{space}/leases", body, key, agent="cem"), 409, "wait_timeout")
    second = refused(again(api, f"{space}/leases", {"wait_seconds": 0.01}, key, agent="bob"), 409, "wait_timeout")
    assert (second["place"], second["ticket"]) == (1, first["ticket"])
    api.delete(f"/leases/{held['id']}")
    granted = again(api, f"{space}/leases", body, key, agent="bob").json()
    assert (granted["id"], granted["agent_id"]) == (first["ticket"], "bob")


def test_without_a_key_the_end_of_the_wait_leaves_the_queue(api, space):
    api.lease(space)
    refused(api.post(f"{space}/leases", {"wait_seconds": 0.02}, agent="bob"), 409, "wait_timeout")
    assert api.get(f"{space}/queue").json() == {"waiters": []}


def test_without_a_key_a_lost_connection_leaves_the_queue(api, space):
    api.lease(space)
    head, body = (
        f"POST /api/v1{space}/leases HTTP/1.1\r\nHost: localhost\r\nX-Agent-ID: bob\r\n",
        '{"wait_seconds": 30}',
    )
    framed = f"Content-Length: {len(body)}\r\n\r\n{body}"
    if api.lane == "asgi":
        framed = f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(api.url.rpartition(":")[2]))) as connection:
        connection.sendall((head + framed).encode())
        while not waiters(api, space):
            pass
    while waiters(api, space):
        pass


def waiters(api, space):
    return api.get(f"{space}/queue").json()["waiters"]


@pytest.mark.parametrize("family", ["spaces", "intents"])
def test_an_attempt_that_is_given_up_leaves_the_queue(api, name, family, key):
    api.intent(id=name)
    path = f"/{family}/{name}"
    api.lease(path)
    refused(again(api, f"{path}/leases", {"wait_seconds": 0.02}, key, agent="bob"), 409, "wait_timeout")
    assert api.delete(f"{path}/leases", params={"attempt": key}, agent="bob").status_code == 200
    assert api.get(f"{path}/queue").json() == {"waiters": []}


def test_an_attempt_that_is_given_up_releases_what_it_was_granted(api, space, key):
    lease = again(api, f"{space}/leases", {}, key).json()
    refused(api.delete(f"{space}/leases", params={"attempt": key}, agent="bob"), 404, "not_found")
    assert api.delete(f"{space}/leases", params={"attempt": key}).status_code == 200
    assert api.get(f"/leases/{lease['id']}").json()["status"] == "released"


def test_giving_up_needs_to_say_which_attempt(api, space):
    refused(api.delete(f"{space}/leases"), 400, "bad_request")
    refused(api.delete(f"{space}/leases", params={"attempt": "never-made"}), 404, "not_found")


# One attempt acts once


def test_an_acquire_that_is_repeated_gives_the_same_lease_and_the_present_time(api, space, key):
    first = again(api, f"{space}/leases", {"ttl_seconds": 30}, key).json()
    second = again(api, f"{space}/leases", {"ttl_seconds": 30}, key).json()
    assert (second["id"], second["token"]) == (first["id"], first["token"])
    assert second["remaining_seconds"] <= first["remaining_seconds"]
    assert len(api.get(f"{space}/leases").json()["leases"]) == 1


def test_an_attempt_may_wait_longer_than_at_first(api, space, key):
    first = again(api, f"{space}/leases", {"wait_seconds": 0}, key).json()
    assert again(api, f"{space}/leases", {"wait_seconds": 3}, key).json()["id"] == first["id"]


def test_an_attempt_whose_lease_has_ended_is_told_so_and_gets_no_other(api, space, key):
    lease = again(api, f"{space}/leases", {}, key).json()
    api.delete(f"/leases/{lease['id']}")
    problem = refused(again(api, f"{space}/leases", {}, key), 409, "lease_lost")
    assert (problem["reason"], problem["token"]) == ("released", lease["token"])
    assert api.get(f"{space}/leases").json()["leases"] == []


def test_a_refused_attempt_may_be_made_again(api, space, key):
    held = api.lease(space, agent="bob")
    refused(again(api, f"{space}/leases", {}, key), 409, "lease_held")
    api.delete(f"/leases/{held['id']}", agent="bob")
    assert again(api, f"{space}/leases", {}, key).status_code == 200


def test_two_agents_may_use_one_key(api, space, key):
    tokens = {
        again(api, f"{space}/leases", {"scope": agent}, key, agent=agent).json()["token"] for agent in ("ada", "bob")
    }
    assert len(tokens) == 2


def test_a_key_that_was_used_for_something_else_is_refused(api, space, intent, key):
    unmatched = {"If-Match": "*"}
    assert again(api, f"{space}/leases", {"scope": "a"}, key).status_code == 200
    replies = [
        again(api, f"{space}/leases", {"scope": "b"}, key),
        again(api, f"{space}/leases", {"scope": "a", "ttl_seconds": 5}, key),
        again(api, "/intents", {"title": "t"}, key),
        again(api, f"{intent}/state", {"state": {"a": 1}}, key, headers=unmatched),
        again(api, f"{intent}/status", {"status": "active"}, key, headers=unmatched),
        again(api, f"{intent}/events", {"event_type": "comment"}, key),
    ]
    assert [refused(reply, 422, "attempt_reused")["error"]["code"] for reply in replies]
    assert api.get(intent).json()["version"] == 1


def test_an_intent_that_is_created_again_under_its_key_is_the_same(api, name):
    first, second = (again(api, "/intents", {"title": "t"}, name).json() for _ in range(2))
    assert first == second
    refused(again(api, "/intents", {"title": "other"}, name), 422, "attempt_reused")


def test_a_state_that_is_written_again_under_its_key_is_written_once(api, intent, key):
    body = {"patches": [{"op": "append", "path": "log", "value": "line"}]}
    versions = [again(api, f"{intent}/state", body, key, headers={"If-Match": "1"}).json()["version"] for _ in range(2)]
    assert versions == [2, 2]
    assert api.get(intent).json()["state"] == {"log": ["line"]}


def test_an_event_that_is_logged_again_under_its_key_is_logged_once(api, intent, key):
    first, second = (again(api, f"{intent}/events", {"event_type": "comment"}, key).json() for _ in range(2))
    assert first == second
    assert len(api.events(intent, types="comment")) == 1


def test_a_key_means_nothing_to_renewals_heartbeats_and_reads(api, space, key):
    lease = again(api, f"{space}/leases", {}, key).json()
    key = {KEY: key}
    assert api.patch(f"/leases/{lease['id']}", {"ttl_seconds": 99}, headers=key).json()["ttl_seconds"] == 99
    assert api.post("/agents/ada/heartbeat", {}, headers=key).status_code == 200
    assert api.get(f"/leases/{lease['id']}", headers=key).status_code == 200


def test_an_empty_key_is_refused_because_it_protects_nobody(api, space):
    refused(again(api, f"{space}/leases", {}, ""), 422, "invalid")
