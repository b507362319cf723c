"""Ctrl-C while waiting, and cancellations while giving back."""

import asyncio

import msgspec
import pytest
from samples import AGENT, seen_now

from openintent import AsyncOpenIntentClient, OpenIntentClient
from openintent.client.calls import Call
from openintent.client.loop import blocks
from openintent.client.replies import Reply
from openintent.clock import boot_s


class Interrupted:
    """A transport in the middle of which the user presses Ctrl-C, or a handler of signals has enough."""

    def __init__(self, interrupt: type[BaseException]) -> None:
        self.sent: list[Call] = []
        self._interrupt = interrupt

    def exchange(self, call: Call) -> Reply:
        self.sent.append(call)
        if call.method == "POST":
            raise self._interrupt
        return Reply(200, b"{}", 0.0)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, TimeoutError, ZeroDivisionError])
def test_an_interrupted_wait_leaves_the_queue(interrupt):
    transport = Interrupted(interrupt)
    with OpenIntentClient(agent_id=AGENT) as client:
        client._transport = transport
        with pytest.raises(interrupt):
            client.acquire_lease("i1", wait_seconds=30)
    asked, given_up = transport.sent
    assert given_up.method == "DELETE"
    assert given_up.path.endswith(f"?attempt={asked.headers['Idempotency-Key']}")


class Hanging:
    """A transport to a server whose first answer to a release never comes."""

    def __init__(self) -> None:
        self.released = 0
        self.asked = asyncio.Event()

    async def exchange(self, call: Call) -> Reply:
        if call.method == "POST":
            return Reply(200, msgspec.json.encode(seen_now().view), boot_s())
        self.released += 1
        self.asked.set()
        if self.released == 1:
            await asyncio.Event().wait()
        return Reply(200, b'{"id": "L1", "status": "released"}', boot_s())

    async def close(self) -> None:
        pass


async def leave_a_block(client: AsyncOpenIntentClient) -> None:
    async with client.lease("i1"):
        pass


@pytest.mark.anyio
async def test_a_release_that_is_cancelled_under_way_is_sent_again():
    transport = Hanging()
    async with AsyncOpenIntentClient(agent_id=AGENT) as client:
        client._transport = transport
        task = asyncio.create_task(leave_a_block(client))
        await transport.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert transport.released == 2


@pytest.mark.anyio
async def test_nobody_waits_long_for_a_release_but_it_goes_on(monkeypatch):
    monkeypatch.setattr(blocks, "RELEASE_S_MAX", 0.05)
    transport = Hanging()
    async with AsyncOpenIntentClient(agent_id=AGENT) as client:
        client._transport = transport
        await leave_a_block(client)
    assert transport.released == 2
