"""A handler whose lease is lost has stopped when the next one begins, also if it is a plain function; and what it
tells then counts no more.

Plain functions cannot be cancelled: their lease is not given back while they may still work under it.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from faultproxy import FaultProxy
from serverprocess import ServerProcess

from openintent import AsyncOpenIntentClient
from openintent.agents import Agent, AgentBase, on_assignment, running
from openintent.client.values import Intent
from openintent.clock import boot_s

pytestmark = [pytest.mark.anyio, pytest.mark.alone]

TTL_S = 1.5
LAST_ACT_S = 0.1  # less than what is between the moment when work must stop and the end of trust


class Slow(AgentBase):
    """Works until it is told to stop."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.began, self.never = asyncio.Event(), asyncio.Event()
        self.stopped_at = 0.0


@Agent("worker", lease_ttl=TTL_S)
class SlowAwaited(Slow):
    @on_assignment
    async def work_until_cancelled(self, _: Intent) -> None:
        self.began.set()
        try:
            await self.never.wait()
        finally:
            self.stopped_at = boot_s()


@Agent("worker", lease_ttl=TTL_S)
class SlowPlain(Slow):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._loop = asyncio.get_running_loop()

    @on_assignment
    def work_until_lost(self, _: Intent) -> None:
        self._loop.call_soon_threadsafe(self.began.set)
        self.work.lease.lost.wait()
        threading.Event().wait(LAST_ACT_S)  # what it had begun
        self.stopped_at = boot_s()
        self.work.check()


@Agent("worker", lease_ttl=TTL_S)
class Stubborn(Slow):
    @on_assignment
    async def work_and_have_a_result_all_the_same(self, _: Intent) -> dict[str, Any]:
        self.began.set()
        with suppress(asyncio.CancelledError):
            await self.never.wait()
        return {"began_at": 0.0}


@Agent("worker", lease_ttl=TTL_S)
class Quick(AgentBase):
    @on_assignment
    async def tell(self, _: Intent) -> dict[str, Any]:
        return {"began_at": boot_s()}


@pytest.fixture
async def proxy(server: ServerProcess) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(server.port)
    yield proxy
    await proxy.stop()


@pytest.mark.parametrize("kind", [SlowAwaited, SlowPlain])
async def test_whoever_lost_its_lease_has_stopped_when_the_next_one_begins(
    server: ServerProcess, proxy: FaultProxy, kind: type[Slow]
):
    url = f"http://127.0.0.1:{server.port}"
    cut_off, successor = kind(await proxy.start()), Quick(url)
    async with AsyncOpenIntentClient(url, agent_id="boss") as boss, running(cut_off):
        intent = await boss.create_intent("work", assign=["worker"])
        await cut_off.began.wait()
        proxy.answers.drops = True  # no renewal is confirmed; what is given back arrives
        async with running(successor):
            began_at = await result(boss, intent)
        proxy.heal()
    assert 0 < cut_off.stopped_at < began_at


async def test_a_result_that_comes_late_is_refused(server: ServerProcess, proxy: FaultProxy):
    url = f"http://127.0.0.1:{server.port}"
    cut_off, successor = Stubborn(await proxy.start()), Quick(url)
    async with AsyncOpenIntentClient(url, agent_id="boss") as boss:
        async with running(cut_off):
            intent = await boss.create_intent("work", assign=["worker"])
            await cut_off.began.wait()
            proxy.requests.may_pass.clear()  # its result stays on the way
            async with running(successor):
                began_at = await result(boss, intent)
            proxy.heal()  # and arrives now, before it says that it leaves
        assert (await boss.get_intent(intent.id)).state["began_at"] == began_at > 0


async def result(boss: AsyncOpenIntentClient, intent: Intent) -> float:
    """What the first handler that came to its end has told."""
    async for event in boss.subscribe_intent(intent.id, after=0, types="state_patched"):
        for patch in event.payload["patches"]:
            if patch["path"] == "began_at":
                return float(patch["value"])
    raise AssertionError("the stream ended")
