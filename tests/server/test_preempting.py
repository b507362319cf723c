"""Preemption over HTTP: who is told what, and what is shown of it afterwards."""

from http_words import refused

PRESS = {"priority": 1, "preempt": True, "purpose": "incident 7"}


def beat(api, lease):
    listed = [{"id": lease["id"], "token": lease["token"]}]
    return api.post(f"/agents/{lease['agent_id']}/heartbeat", {"leases": listed}).json()["leases"]


def test_the_holder_is_told_by_whom_and_how_long_it_has(api, space):
    lease = api.lease(space, ttl_seconds=60)
    assert lease["preempt_asked"] is False
    problem = refused(api.post(f"{space}/leases", PRESS, agent="ops"), 409, "lease_held")
    assert problem["current_holder"] == "ada"
    assert problem["existing_lease"]["preempt_asked"] is True
    assert 50 < problem["retry_after_seconds"] <= 60
    [verdict] = beat(api, lease)
    assert 50 < verdict.pop("remaining_seconds") <= problem["retry_after_seconds"]
    assert verdict == {"id": lease["id"], "verdict": "preempt_asked", "reason": "ops: incident 7"}


def test_a_renewal_shows_what_is_left(api, space):
    lease = api.lease(space, ttl_seconds=30)
    refused(api.post(f"{space}/leases", PRESS, agent="ops"), 409, "lease_held")
    renewed = api.patch(f"/leases/{lease['id']}", {"ttl_seconds": 3600}).json()
    assert renewed["preempt_asked"] is True
    assert 20 < renewed["remaining_seconds"] <= 30


def test_the_time_to_come_back_is_that_of_the_grace_where_less_was_promised(api, space):
    api.lease(space, ttl_seconds=1)
    problem = refused(api.post(f"{space}/leases", PRESS, agent="ops"), 409, "lease_held")
    assert 5 < problem["retry_after_seconds"] <= 10


def test_without_a_higher_priority_nobody_is_asked_for_anything(api, space):
    lease = api.lease(space, priority=1)
    problem = refused(api.post(f"{space}/leases", PRESS, agent="ops"), 409, "lease_held")
    assert problem["existing_lease"]["preempt_asked"] is False
    assert beat(api, lease) == [
        {"id": lease["id"], "verdict": "renewed", "remaining_seconds": 60.0, "reason": None},
    ]


def test_the_same_heartbeat_is_answered_anew_once_the_lease_is_asked_for(api, space):
    lease = api.lease(space)
    assert [verdict["verdict"] for _ in range(2) for verdict in beat(api, lease)] == ["renewed", "renewed"]
    api.post(f"{space}/leases", PRESS, agent="ops")
    assert [verdict["verdict"] for verdict in beat(api, lease)] == ["preempt_asked"]


def test_the_one_who_asked_goes_first_and_the_log_says_why_the_other_ended(api, intent):
    lease = api.lease(intent, ttl_seconds=0.3, max_hold_seconds=0.3)
    taken = api.lease(intent, agent="ops", wait_seconds=5, **PRESS)
    assert taken["token"] > lease["token"]
    lost = refused(api.patch(f"/leases/{lease['id']}", {}), 409, "lease_lost")
    assert (lost["reason"], lost["existing_lease"]["status"]) == ("preempted", "expired")
    assert [verdict["reason"] for verdict in beat(api, lease)] == ["preempted"]
    [ended] = [each for each in api.get(f"{intent}/events").json() if each["event_type"] == "lease_released"]
    assert (ended["payload"]["reason"], ended["payload"]["cause"]) == ("preempted", "preempted")
    assert api.get(f"/leases/{lease['id']}").json()["preempt_asked"] is True


def test_a_release_before_the_end_is_a_plain_one(api, space):
    lease = api.lease(space)
    api.post(f"{space}/leases", PRESS, agent="ops")
    released = api.delete(f"/leases/{lease['id']}").json()
    assert (released["status"], released["ended_reason"]) == ("released", "released")
    assert api.lease(space, agent="ops", **PRESS)["agent_id"] == "ops"
