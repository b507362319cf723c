"""Ctrl-C while waiting."""

import pytest
from samples import AGENT

from openintent import OpenIntentClient
from openintent.client.calls import Call
from openintent.client.replies import Reply


class Interrupted:
    """A transport in the middle of which the user presses Ctrl-C."""

    def __init__(self) -> None:
        self.sent: list[Call] = []

    def exchange(self, call: Call) -> Reply:
        self.sent.append(call)
        if call.method == "POST":
            raise KeyboardInterrupt
        return Reply(200, b"{}", 0.0)

    def close(self) -> None:
        pass


def test_an_interrupted_wait_leaves_the_queue():
    transport = Interrupted()
    with OpenIntentClient(agent_id=AGENT) as client:
        client._transport = transport
        with pytest.raises(KeyboardInterrupt):
            client.acquire_lease("i1", wait_seconds=30)
    asked, given_up = transport.sent
    assert given_up.method == "DELETE"
    assert given_up.path.endswith(f"?attempt={asked.headers['Idempotency-Key']}")
