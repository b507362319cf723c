"""Many requests in one: each is carried out as it would be by itself, in order, and answered so."""

import json
import re

import pytest
from batch_words import part, statuses, take
from http_words import refused, running_server
from key_words import Caller, callers

from openintent.model import Limits
from openintent.server.hotlane import HOT_BODY_MAX

MOST = Limits().requests_per_batch_max
VARYING = re.compile(
    r'"[0-9a-f]{24}"|"\d{4}-\d\d-\d\dT[\d:.]+"|token":\d+|_seconds":[\d.]+|\b\d+\.\d s\b|(same|batch)-[\w-]+'
)


def sent(api, *parts, **options):
    reply = api.post("/batch", {"requests": list(parts)}, **options)
    assert reply.status_code == 200, reply.text
    answers = reply.json()["answers"]
    assert len(answers) == len(parts)
    return answers


# What becomes of each


def test_parts_are_carried_out_and_answered_in_the_order_of_the_list(api, space, intent):
    held = sent(api, *(take(space, f"s{n}") for n in range(20)))
    tokens = [answer["body"]["token"] for answer in held]
    assert tokens == sorted(tokens)
    assert [answer["body"]["scope"] for answer in held] == [f"s{n}" for n in range(20)]
    lease = held[0]["body"]
    check = {"space": lease["space"], "scope": "s0", "token": lease["token"]}
    answers = sent(
        api,
        part("POST", "/guard/check", check),
        part("PATCH", f"/leases/{lease['id']}", {"ttl_seconds": 90}),
        part("DELETE", f"/leases/{lease['id']}"),
        part("POST", "/guard/check", check),
        take(space, "s0"),
        part("PATCH", f"{intent}/state", {"state": {"a": 1}}, if_match="1"),
        part("GET", intent),
        part("POST", f"{intent}/state", {"state": {"a": 2}}, if_match="2"),
        part("GET", intent),
    )
    assert statuses(answers) == [200] * 9
    told = [answer["body"] for answer in answers]
    assert (told[0]["valid"], told[3]["valid"]) == (True, False)
    assert (told[1]["remaining_seconds"], told[2]["status"]) == (90.0, "released")
    assert told[4]["token"] > tokens[-1]
    assert [each["state"]["a"] for each in told[5:]] == [1, 1, 2, 2]


def test_an_answer_shows_no_more_of_intents_than_it_may_and_the_others_get_theirs(api, space, intent):
    large = {"state": {"text": "x" * 1_000_000}}
    assert api.post(f"{intent}/state", large, headers={"If-Match": "1"}).status_code == 200
    answers = sent(api, *[part("GET", intent)] * 5, take(space, "a"), part("GET", "/intents/none"))
    assert statuses(answers) == [200] * 4 + [422, 200, 404]
    assert "too large together" in answers[4]["body"]["error"]["message"]


def test_what_a_batch_puts_into_an_intent_counts_in_all_its_later_answers(api, intent):
    large = {"state": {"text": "x" * 1_000_000}}
    answers = sent(api, part("PATCH", f"{intent}/state", large, if_match="*"), *[part("GET", intent)] * 5)
    assert statuses(answers) == [200] * 4 + [422] * 2


def test_what_a_batch_puts_in_the_place_of_something_else_does_not_add_up(api, intent):
    same = part("PATCH", f"{intent}/state", {"state": {"text": "x" * 2_000}}, if_match="*")
    answers = sent(api, *[same] * 200, part("GET", intent))
    assert statuses(answers) == [200] * 201
    assert answers[-1]["body"]["version"] == 201


def test_what_an_intent_has_besides_its_state_counts_as_well(api, name):
    others = [f"{name}-{'o' * 100}-{n}" for n in range(600)]
    for other in others:
        api.post("/intents", {"id": other, "title": "T"})
    api.post("/intents", {"id": name, "title": "T", "depends_on": others, "description": "d" * 10_000})
    answers = sent(api, *[part("GET", f"/intents/{name}")] * 100)
    assert 422 in statuses(answers)


def test_a_refused_part_costs_the_others_nothing(api, space):
    api.lease(space, agent="eve", scope="held")
    answers = sent(
        api, take(space, "a"), take(space, "held"), take(space, ""), part("GET", "/intents/none"), take(space, "b")
    )
    assert statuses(answers) == [200, 409, 422, 404, 200]
    assert {lease["scope"] for lease in api.get(f"{space}/leases").json()["leases"]} == {"held", "a", "b"}


def every_kind(api, where):
    """A request of every kind that a batch may have, and of every refusal, each as a part."""
    api.post("/intents", {"id": where, "title": "Report", "state": {"a": 1}})
    space = f"/spaces/{where}"
    lease = api.lease(space, scope="held", ttl_seconds=600)["id"]
    ended = api.lease(space, scope="ended")["id"]
    api.delete(f"/leases/{ended}")
    foreign = api.lease(space, agent="eve", scope="eve")["id"]
    return [
        take(space, "new", ttl_seconds=600),
        take(f"/intents/{where}", "new", ttl_seconds=600),
        take(space, "attempted", attempt=f"{where}-1"),
        take(space, "other", attempt=f"{where}-1"),
        take(space, "attempted", attempt=""),
        take(space, "held"),
        take(space, "eve"),
        take(space, "eve", wait_seconds=0.02),
        take(space, "x", ttl_seconds=-1, mode="shared"),
        take(space, "x", ttl_seconds=0, priority="high"),
        part("POST", f"{space}/leases", {"scope": "x", "agent_id": "b\nb"}),
        part("PATCH", f"/leases/{lease}", {"ttl_seconds": 700}),
        part("PATCH", f"{space}/leases/{lease}"),
        part("PATCH", f"/leases/{ended}"),
        part("PATCH", f"/leases/{foreign}"),
        part("PATCH", "/leases/none", {}),
        part("POST", f"/leases/{lease}/progress", {"checkpoint": {"page": 1}}),
        part("POST", "/agents/ada/heartbeat", {"leases": [{"id": lease, "token": 1}]}),
        part("POST", "/agents/ada/heartbeat", {"leases": 7}),
        part("POST", "/guard/check", {"space": f"space:{where}", "scope": "held", "token": 1}),
        part("PATCH", f"/intents/{where}/state", {"state": {"b": [1, 2.5, "x", None]}}, if_match="1"),
        part("PATCH", f"/intents/{where}/state", {"state": {"b": 2}}, if_match="1"),
        part("PATCH", f"/intents/{where}/state", {"state": {"b": 2}}),
        part("PATCH", f"/intents/{where}/state", {"state": {"b": 2}}, if_match="one"),
        part("POST", f"/intents/{where}/state", {"patches": [{"op": "set", "path": "c", "value": 3}]}, if_match="*"),
        part("GET", f"/intents/{where}"),
        part("GET", "/intents/none"),
        part("GET", "/intents/%ff"),
        part("GET", "/nothing/there"),
        part("PUT", f"{space}/leases", {}),
        part("DELETE", f"/leases/{lease}"),
        part("DELETE", f"/leases/{lease}"),
        part("DELETE", f"/leases/{foreign}"),
    ]


def by_itself(api, asked):
    keys = {"attempt": "Idempotency-Key", "if_match": "If-Match"}
    headers = {header: asked[name] for name, header in keys.items() if name in asked}
    body = json.dumps(asked["body"]).encode() if "body" in asked else None
    reply = api.send(asked["method"], asked["path"].removeprefix("/api/v1"), body, headers=headers)
    return reply.status_code, VARYING.sub("", reply.text)


def test_a_part_is_answered_what_it_would_be_by_itself(api, name):
    alone = [by_itself(api, asked) for asked in every_kind(api, f"same-{name}")]
    parts = every_kind(api, f"batch-{name}")
    reply = api.post("/batch", {"requests": parts})
    told = [
        (each["status"], VARYING.sub("", json.dumps(each["body"], separators=(",", ":"), ensure_ascii=False)))
        for each in reply.json()["answers"]
    ]
    assert told == alone
    assert {status for status, _ in told} == {200, 400, 404, 405, 409, 422}


def test_both_names_of_the_api_are_one(api, space):
    old = {**take(space, "a"), "path": f"/v1{space}/leases"}
    reply = api.post("/batch", {"requests": [old]}, base="/v1")
    assert statuses(reply.json()["answers"]) == [200]


# What can be no part


def test_what_is_not_small_and_quick_is_refused_in_its_place(api, space, intent):
    lease = api.lease(space, scope="kept")["id"]
    unfit = [
        part("POST", "/batch", {"requests": [take(space, "inner")]}),
        part("POST", "/intents", {"title": "Report"}),
        part("GET", "/leases"),
        part("DELETE", f"{space}/leases"),
        part("POST", f"/leases/{lease}/revoke", {"reason": "why not"}),
        part("GET", f"{intent}/subscribe"),
        {"method": "GET", "path": "/livez"},
    ]
    before, first, *answers, last = sent(api, part("GET", intent), take(space, "a"), *unfit, take(space, "b"))
    assert statuses([before, first, last]) == [200] * 3
    assert [(answer["status"], answer["body"]["error"]["code"]) for answer in answers] == [(422, "not_offered")] * 7
    assert {each["scope"] for each in api.get(f"{space}/leases").json()["leases"]} == {"kept", "a", "b"}


@pytest.mark.parametrize("mark", ["?a=1", "?", "#a"])
def test_a_query_is_refused_and_not_taken_for_part_of_a_name(api, intent, mark):
    ((answer),) = sent(api, part("GET", f"{intent}{mark}"))
    assert (answer["status"], answer["body"]["error"]["code"]) == (422, "invalid")


@pytest.mark.parametrize("count", [0, MOST + 1])
def test_more_parts_than_there_may_be_are_refused_and_nothing_happens(api, space, count):
    problem = refused(api.post("/batch", {"requests": [take(space, f"s{n}") for n in range(count)]}), 422, "invalid")
    assert problem["detail"][0]["loc"] == ["body", "requests"]
    assert api.get(f"{space}/leases").json()["leases"] == []


def test_as_many_as_there_may_be_are_carried_out(api, space):
    assert statuses(sent(api, *(take(space, f"s{n}") for n in range(MOST)))) == [200] * MOST


def test_a_large_batch_goes_by_the_ordinary_lane(api, space):
    parts = [take(space, f"s{n}", metadata={"text": "x" * 10_000}) for n in range(20)]
    assert len(json.dumps(parts)) > HOT_BODY_MAX
    assert statuses(sent(api, *parts)) == [200] * 20


def test_a_malformed_part_spoils_the_whole_and_all_that_is_wrong_is_said(api, space):
    good = take(space, "a")
    wrong = {"requests": [good, {**good, "header": {}}], "atomic": True}
    problem = refused(api.post("/batch", wrong), 422, "invalid")
    assert [fault["loc"] for fault in problem["detail"]] == [["body", "requests"], ["body", "atomic"]]
    assert api.get(f"{space}/leases").json()["leases"] == []


@pytest.mark.parametrize("inner", ['{"scope": "a", "scope": "b"}', '{"priority": 18446744073709551616}', "7", "null"])
def test_what_is_wrong_within_a_body_is_found_by_the_part_that_has_it(api, space, inner):
    good, bad = json.dumps(take(space, "good")), json.dumps(take(space, "bad")).replace('{"scope": "bad"}', inner)
    reply = api.post("/batch", f'{{"requests": [{bad}, {good}]}}'.encode())
    assert statuses(reply.json()["answers"]) == [422, 200]


# Attempts


def test_a_repeated_attempt_does_not_act_twice(api, space, name):
    parts = [take(space, f"s{n}", attempt=f"{name}-{n}") for n in range(3)]
    first, second = sent(api, *parts), sent(api, *parts, take(space, "s3"))
    assert [each["body"]["id"] for each in first] == [each["body"]["id"] for each in second[:3]]
    assert len(api.get(f"{space}/leases").json()["leases"]) == 4
    twice = sent(api, take(space, "t", attempt=f"{name}-t"), take(space, "t", attempt=f"{name}-t"))
    assert twice[0]["body"]["id"] == twice[1]["body"]["id"]


def test_the_attempt_and_the_version_of_the_whole_are_nobody_s(api, space, intent, name):
    headers = {"Idempotency-Key": name, "If-Match": "1"}
    change = part("PATCH", f"{intent}/state", {"state": {"a": 1}})
    answers = sent(api, take(space, "a"), take(space, "b"), change, headers=headers)
    assert statuses(answers) == [200, 200, 400]


# Time


def test_a_part_that_waits_delays_the_answer_and_nothing_else(api, space):
    api.lease(space, agent="eve", scope="a", ttl_seconds=0.3)
    waiting, other = sent(api, take(space, "a", wait_seconds=10), take(space, "b"))
    assert 0.1 < waiting["body"]["waited_seconds"] < 5
    assert (other["status"], other["body"]["waited_seconds"]) == (200, 0.0)


# Keys


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    file = tmp_path_factory.mktemp("batches") / "keys"
    shown = callers(file)
    with running_server("--keys", str(file)) as url:
        yield url, shown


def keyed(locked, kind, *parts, agent="ada"):
    url, shown = locked
    caller = Caller(url, "hot", shown[kind])
    reply = caller.send("POST", "/api/v1/batch", {"requests": list(parts)}, agent=agent)
    caller.http.close()
    return reply


def test_a_key_that_is_bound_acts_as_nobody_else_in_any_part(locked, name):
    space = f"/spaces/{name}"
    parts = [
        take(space, "a"),
        take(space, "b", agent_id="eve"),
        part("POST", "/agents/eve/heartbeat", {}),
        part("POST", "/agents/ada/heartbeat", {}),
    ]
    assert statuses(keyed(locked, "bound", *parts).json()["answers"]) == [200, 403, 403, 200]
    assert statuses(keyed(locked, "bound", *parts, agent="eve").json()["answers"]) == [403, 403, 403, 200]
    foreign = part(
        "DELETE",
        f"/leases/{keyed(locked, 'operator', take(space, 'c'), agent='eve').json()['answers'][0]['body']['id']}",
    )
    assert statuses(keyed(locked, "bound", foreign).json()["answers"]) == [404]


def test_a_key_that_is_not_good_gets_no_batch_at_all(locked, space):
    for kind in ("none", "garbage", "revoked", "expired"):
        assert keyed(locked, kind, take(space, "a")).status_code == 401
