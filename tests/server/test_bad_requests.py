"""Requests that nobody should send (`bad_requests.jsonl`): each is refused with its own code and changes nothing.

In that file `<<x*600>>` stands for six hundred times x, `{lease}` and `{coordinator}` for two leases that there are,
`{ended}` for one that there was, and a header that is null is left out.
"""

import json
import re
from pathlib import Path

import pytest
from http_words import refused

from openintent.errors import BY_CODE
from openintent.server.routes import ROUTER, ROUTES
from openintent.server.routing import Match

CASES = [json.loads(line) for line in (Path(__file__).parent / "bad_requests.jsonl").read_text("utf-8").splitlines()]
REPEATED = re.compile(r"<<(.*?)\*(\d+)>>", re.DOTALL)
EVERY = 16
MOVING = ("remaining_seconds", "expires_at")  # with time alone


def written_out(text: str) -> str:
    return REPEATED.sub(lambda found: found.group(1) * int(found.group(2)), text)


def made(api, path, body, **headers):
    reply = api.post(path, body, agent="holder", headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.fixture(scope="module")
def leases(api):
    """What there is to be damaged: an intent with some state, leases in it, and all that hangs on it."""
    for id_ in ("other", "third"):
        made(api, "/intents", {"id": id_, "title": id_, "created_by": "holder"})
    state = {"number": 5, "list": [1]}
    whole = {"id": "target", "title": "Report", "state": state, "created_by": "holder", "depends_on": ["other"]}
    made(api, "/intents", whole)
    policy = {"allowed_agents": ["holder"]}
    made(api, "/intents", {"id": "governed", "title": "g", "created_by": "holder", "governance_policy": policy})
    made(api, "/portfolios", {"id": "target", "name": "Target"})
    made(api, "/portfolios/target/intents", {"intent_id": "target"})
    made(api, "/agents/register", {"agent_id": "holder"})
    made(api, "/intents/target/agents", {"agent_id": "holder"})
    decision = {"decision_type": "completion", "outcome": "rejected"}
    made(api, "/intents/target/decisions", decision, **{"Idempotency-Key": "used"})
    made(api, "/intents/target/leases", {"scope": "held", "ttl_seconds": 600, "reentrant": True})
    lead = {"intent_id": "target", "ttl_seconds": 600}
    ended = made(api, "/spaces/target/leases", {"scope": "ended"})["id"]
    assert api.delete(f"/leases/{ended}", agent="holder").status_code == 200
    return {
        "{ended}": ended,
        "{lease}": made(api, "/spaces/target/leases", {"scope": "own", "ttl_seconds": 600, "reentrant": True})["id"],
        "{coordinator}": made(api, "/coordinators", lead, **{"Idempotency-Key": "lead"})["id"],
    }


LISTS = ("/intents", "/portfolios", "/agents", "/intents/target/agents", "/intents/target/decisions")
LISTS += ("/portfolios/target/intents", "/spaces/target/queue", "/intents/target/coordinators/queue")
LOGS = (
    "/intents/target",
    "/intents/other",
    "/intents/governed",
    "/spaces/target",
    "/portfolios/target",
    "/agents/holder",
)


def everything(api):
    """All that the server knows, as far as time alone does not change it."""
    leases = api.get("/leases").json()["leases"]
    return {
        "leases": [{key: value for key, value in lease.items() if key not in MOVING} for lease in leases],
        "lists": [api.get(path).json() for path in LISTS],
        "logs": [api.events(path) for path in LOGS],
    }


class Watch:
    """Looks at everything, but not after every request: that takes a dozen others. What changes it stays changed."""

    def __init__(self, api):
        self._api = api
        self._before = everything(api)
        self._since = []

    def look(self, what, *, every):
        self._since.append(what)
        if len(self._since) >= every:
            now, since = everything(self._api), self._since
            assert now == self._before, f"changed by one of {since}"
            self._since = []


@pytest.fixture(scope="module")
def watch(api, leases):
    """What there is stays as it is, to the end."""
    watching = Watch(api)
    yield watching
    watching.look("nothing", every=1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_a_bad_request_is_refused_with_its_code_and_changes_nothing(api, leases, watch, case):
    headers = {"X-Agent-ID": "holder"} | case.get("headers", {})
    sent = {name: written_out(value).encode("latin-1") for name, value in headers.items() if value is not None}
    body = bytes.fromhex(case["hex"]) if "hex" in case else None
    if "body" in case:
        body = written_out(case["body"]).encode()
    path = re.sub(r"{\w+}", lambda found: leases[found.group()], written_out(case["path"]))
    reply = api.send(case["method"], path, body, agent=None, headers=sent)
    problem = refused(reply, case["status"], case["code"])
    if reply.status_code == 422 and case["code"] == "invalid":
        assert all(set(fault) == {"loc", "msg", "type"} for fault in problem["detail"])
    watch.look(case["what"], every=EVERY)


def test_there_are_enough_of_them_and_their_codes_are_known():
    assert len(CASES) >= 700
    assert len({case["what"] for case in CASES}) == len(CASES)
    assert {case["code"] for case in CASES} <= set(BY_CODE)
    assert {case["status"] // 100 for case in CASES} == {4}


def test_there_are_some_for_every_route_that_reads_a_body_or_a_query():
    paths = [(case["method"], written_out(case["path"]).partition("?")[0]) for case in CASES]
    found = [ROUTER.find(method, f"/api/v1{path}") for method, path in paths]
    tried = {(match.route.method, match.route.pattern) for match in found if isinstance(match, Match)}
    needed = {(route.method, route.pattern) for route in ROUTES if route.body is not None or route.query is not None}
    assert sorted(needed - tried) == []
