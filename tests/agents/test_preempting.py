"""An agent whose assignment somebody of a higher priority asks for."""

import asyncio
import threading

import pytest
from fleetwords import SOON_S, own, soon

from openintent import LeaseConflictError
from openintent.agents import on_assignment, on_preempt, running

pytestmark = pytest.mark.anyio


async def press(stage, intent) -> None:
    """Ask for the lease of the assignment, as soon as it is worked on."""
    await stage.until_status(intent, "running")
    with pytest.raises(LeaseConflictError):
        await stage.boss.acquire_lease(intent.id, stage.scope, priority=1, preempt=True)


async def test_an_async_handler_may_save_its_work_and_end(stage, agent):
    told = []

    @agent(lease_ttl=0.9)
    class Worker:
        @on_assignment
        async def handle(self, intent):
            self.asked = asyncio.Event()
            await soon(self.asked.wait())
            return {"checkpoint": self.work.checkpoint, "asked": self.work.lease.preempt_asked}

        @on_preempt
        async def leave(self, intent, lease):
            told.append((intent.id, lease.id, lease is self.work.lease))
            await self.checkpoint({"page": 7})
            self.asked.set()

    async with running(Worker):
        intent = await stage.assigned()
        await press(stage, intent)
        done = await stage.until_status(intent, "done")
        ended = await stage.until_released(intent)
    assert own(done.state) == {"checkpoint": {"page": 7}, "asked": True}
    assert told == [(intent.id, ended.payload["lease_id"], True)]
    assert ended.payload["reason"] == "released"


async def test_a_plain_handler_is_told_beside_its_work(stage, agent):
    @agent(lease_ttl=0.9)
    class Worker:
        @on_assignment
        def handle(self, intent):
            self.asked = threading.Event()
            assert self.asked.wait(SOON_S)
            return {"checkpoint": self.work.checkpoint}

        @on_preempt
        def leave(self):
            self.checkpoint(7)
            self.asked.set()

    async with running(Worker):
        intent = await stage.assigned()
        await press(stage, intent)
        done = await stage.until_status(intent, "done")
    assert own(done.state) == {"checkpoint": 7}


async def test_whoever_is_told_of_it_ends_with_the_handler(stage, agent):
    ended = asyncio.Event()

    @agent(lease_ttl=0.9)
    class Worker:
        @on_assignment
        async def handle(self, intent):
            self.asked = asyncio.Event()
            await soon(self.asked.wait())

        @on_preempt
        async def leave(self):
            self.asked.set()
            try:
                await asyncio.sleep(SOON_S)
            except asyncio.CancelledError:
                ended.set()
                raise

    async with running(Worker):
        intent = await stage.assigned()
        await press(stage, intent)
        await stage.until_status(intent, "done")
        await soon(ended.wait())
