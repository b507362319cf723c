"""What OpenIntent's clients look for: where things are, what is offered, which limits there are."""

import msgspec
import pytest

from openintent.model import Limits
from openintent.server.routes import ROUTER
from openintent.server.routing import Match


def found(api):
    return api.get("/.well-known/openintent.json", base="", agent=None).json()


def test_the_discovery_says_where_things_are(api):
    shown = found(api)
    assert set(shown) == {
        "name",
        "version",
        "protocolVersion",
        "apiBaseUrl",
        "openApiUrl",
        "rfcUrls",
        "endpoints",
        "capabilities",
    }
    assert (shown["name"], shown["apiBaseUrl"]) == ("openintent-leases", "/api/v1")
    assert shown["version"] == api.get("/version", base="", agent=None).json()["version"]


def test_whatever_the_discovery_names_is_there(api):
    shown = found(api)
    assert api.get(shown["openApiUrl"], base="", agent=None).status_code == 200
    for name, path in shown["endpoints"].items():
        assert path.endswith(f"/{name}")
        # A path without a method of its own says which ones it has.
        reply = api.get(path, base="")
        assert reply.status_code == (405 if name == "coordinators" else 200), path


# For each capability a route that offers it: what nobody can call must not be named.
OFFERED = {
    "intents": ("POST", "intents"),
    "intent-graphs": ("GET", "intents/i/descendants"),
    "events": ("POST", "intents/i/events"),
    "state-patches": ("PATCH", "intents/i/state"),
    "optimistic-concurrency": ("PATCH", "intents/i/state"),
    "leasing": ("POST", "intents/i/leases"),
    "fencing-tokens": ("POST", "guard/check"),
    "lease-queues": ("GET", "intents/i/queue"),
    "coordinators": ("POST", "coordinators"),
    "portfolios": ("POST", "portfolios"),
    "agent-registry": ("POST", "agents/register"),
    "assignments": ("POST", "intents/i/agents"),
    "governance": ("PUT", "intents/i/governance"),
    "governance-enforcement": ("PUT", "intents/i/governance"),
    "arbitration": ("POST", "intents/i/arbitrate"),
    "decisions": ("POST", "intents/i/decisions"),
    "subscriptions": ("GET", "subscribe/intents/i"),
}


def test_every_capability_is_one_that_can_be_called(api):
    shown = found(api)["capabilities"]
    assert set(shown) == set(OFFERED)
    for method, path in OFFERED.values():
        assert isinstance(ROUTER.find(method, f"/api/v1/{path}"), Match), path


@pytest.mark.parametrize("base", ["/api/v1", "/v1"])
def test_the_limits_can_be_read_instead_of_being_run_into(api, base):
    shown = api.get("/server/config", base=base).json()
    assert set(shown) == {"protocol_version", "suspension", "limits"}
    assert shown["protocol_version"] == found(api)["protocolVersion"]
    assert shown["limits"] == msgspec.to_builtins(Limits())
