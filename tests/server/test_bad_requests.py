"""Requests that nobody should send (`bad_requests.jsonl`): each is refused with its own code and changes nothing.

In that file `<<x*600>>` stands for six hundred times x, and a header that is null is left out.
"""

import json
import re
from pathlib import Path

import pytest
from http_words import refused

from openintent.errors import BY_CODE

CASES = [json.loads(line) for line in (Path(__file__).parent / "bad_requests.jsonl").read_text("utf-8").splitlines()]
REPEATED = re.compile(r"<<(.*?)\*(\d+)>>", re.DOTALL)
MOVING = ("remaining_seconds", "expires_at")  # with time alone


def written_out(text: str) -> str:
    return REPEATED.sub(lambda found: found.group(1) * int(found.group(2)), text)


@pytest.fixture(scope="module")
def seen():
    """What was there after the last request: the next one finds the same."""
    return {}


@pytest.fixture(scope="module")
def lease(api):
    """What there is to be damaged: an intent with some state, and leases in it and in a plain space."""
    api.intent(id="target", state={"number": 5, "list": [1]}, created_by="holder")
    held = api.post("/intents/target/leases", {"scope": "held", "ttl_seconds": 600, "reentrant": True}, agent="holder")
    assert held.status_code == 200, held.text
    body = {"scope": "own", "ttl_seconds": 600, "reentrant": True}
    return api.post("/spaces/target/leases", body, agent="holder").json()["id"]


def everything(api):
    """All that the server knows, as far as time alone does not change it."""
    leases = api.get("/leases").json()["leases"]
    return {
        "intents": api.get("/intents").json(),
        "leases": [{key: value for key, value in lease.items() if key not in MOVING} for lease in leases],
        "events": [api.events("/intents/target"), api.events("/spaces/target")],
        "queue": api.get("/spaces/target/queue").json(),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_a_bad_request_is_refused_with_its_code_and_changes_nothing(api, lease, seen, case):
    headers = {"X-Agent-ID": "holder"} | case.get("headers", {})
    sent = {name: written_out(value).encode("latin-1") for name, value in headers.items() if value is not None}
    body = bytes.fromhex(case["hex"]) if "hex" in case else None
    if "body" in case:
        body = written_out(case["body"]).encode()
    before = seen.pop("last", None) or everything(api)
    path = written_out(case["path"]).replace("{lease}", lease)
    reply = api.send(case["method"], path, body, agent=None, headers=sent)
    problem = refused(reply, case["status"], case["code"])
    if reply.status_code == 422 and case["code"] == "invalid":
        assert all(set(fault) == {"loc", "msg", "type"} for fault in problem["detail"])
    seen["last"] = everything(api)
    assert seen["last"] == before


def test_there_are_enough_of_them_and_their_codes_are_known():
    assert len(CASES) >= 100
    assert {case["code"] for case in CASES} <= set(BY_CODE)
    assert {case["status"] // 100 for case in CASES} == {4}
