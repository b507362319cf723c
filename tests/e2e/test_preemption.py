"""kill -9 of the server, after a lease was asked for: it has the same end as before, and its holder the same word."""

import pytest
from rawhttp import Connect
from serverprocess import ServerProcess

pytestmark = pytest.mark.anyio

LEASES = "/spaces/s/leases"
PRESS = {"priority": 1, "preempt": True}


async def test_a_lease_that_was_asked_for_is_still_that_after_a_kill(server: ServerProcess, connect: Connect):
    ann, ops = connect("ann"), connect("ops")
    lease = (await ann.call("POST", LEASES, {"ttl_seconds": 30})).body
    refused = await ops.call("POST", LEASES, PRESS)
    assert (refused.code, refused.body["current_holder"]) == ("lease_held", "ann")
    server.kill()
    server.start()

    ann = connect("ann")
    listed = {"leases": [{"id": lease["id"], "token": lease["token"]}]}
    [verdict] = (await ann.call("POST", "/agents/ann/heartbeat", listed)).body["leases"]
    assert (verdict["verdict"], verdict["reason"]) == ("preempt_asked", "ops")
    renewed = (await ann.call("PATCH", f"/leases/{lease['id']}", {"ttl_seconds": 3600})).body
    assert 0 < renewed["remaining_seconds"] <= verdict["remaining_seconds"] <= refused.body["retry_after_seconds"]
