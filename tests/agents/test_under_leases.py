"""The lease of an assignment: what is written under it, and what becomes of the work when it is lost."""

import asyncio
import threading
from time import monotonic

import pytest
from fleetwords import SOON_S, own, soon
from proving import size

from openintent import LeaseLost, StaleTokenError
from openintent.agents import Retry, on_assignment, on_lease_lost, running
from openintent.agents.record import LAPSED
from openintent.client.keeper import Keeper

pytestmark = pytest.mark.anyio


class Lost:
    """What an agent was told about a loss, for a class to derive from."""

    @on_lease_lost
    async def lost(self, intent, reason):
        self.told.put_nowait((intent.id, reason))


@pytest.fixture
def told():
    return asyncio.Queue()


@pytest.fixture
def deaf(monkeypatch):
    """Agents to whom the log comes late: that a lease is gone, they hear from a refusal, or from a heartbeat."""
    monkeypatch.setattr(Keeper, "heard_of", lambda *_: None)


# The handler's own leases


async def test_a_handler_takes_leases_of_its_own_in_both_kinds(stage, agent):
    def worker(handler):
        return agent(lease_ttl=7)(type("Worker", (), {"handle": on_assignment(handler)}))

    async def awaited(self, intent):
        async with self.lease(intent.id, "*") as whole, self.lease(intent.id, "a/b", ttl=3) as part:
            await self.patch_state(intent.id, {"async": [whole.ttl_seconds, part.ttl_seconds]})
            with pytest.raises(RuntimeError, match="async with"), self.lease(intent.id, "c"):
                pass

    def plain(self, intent):
        with self.lease(intent.id, "*") as whole, self.lease(intent.id, "a/b", duration_seconds=3) as part:
            self.patch_state(intent.id, {"plain": [whole.ttl_seconds, part.ttl_seconds]})

    for handler in (awaited, plain):
        async with running(worker(handler)):
            intent = await stage.assigned()
            done = await stage.until_status(intent, "done", "parked", "open")
            done = await stage.until_status(intent, "done")
        assert list(own(done.state).values()) == [[7, 3]]
        assert stage.record(done).failed == 0


# Writing under it


@pytest.mark.usefixtures("deaf")
async def test_a_late_write_of_an_async_handler_is_refused_and_its_result_does_not_land(stage, agent, told):
    working, revoked, refused = asyncio.Event(), asyncio.Event(), []

    @agent()
    class Worker(Lost):
        @on_assignment
        async def handle(self, intent):
            if self.work.attempt > 1:
                return {"second": True}
            await self.patch_state(intent.id, {"in time": True})
            working.set()
            await soon(revoked.wait())
            with pytest.raises(StaleTokenError) as late:
                await self.patch_state(intent.id, {"late": True})
            refused.append((late.value.token, self.work.lease.token))
            return {"late": True}

    Worker.told = told
    async with running(Worker):
        await revoked_in_the_middle(stage, working.wait(), revoked.set, told)
    ((named, mine),) = refused
    assert named == mine


@pytest.mark.usefixtures("deaf")
async def test_a_late_write_of_a_plain_handler_is_refused_and_its_result_does_not_land(stage, agent, told):
    working, revoked, refused = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    @agent()
    class Worker(Lost):
        @on_assignment
        def handle(self, intent):
            if self.work.attempt > 1:
                return {"second": True}
            self.patch_state(intent.id, {"in time": True})
            loop.call_soon_threadsafe(working.set)
            assert revoked.wait(SOON_S)
            with pytest.raises(StaleTokenError) as late:
                self.patch_state(intent.id, {"late": True})
            refused.append((late.value.token, self.work.lease.token))
            return {"late": True}

    Worker.told = told
    async with running(Worker):
        await revoked_in_the_middle(stage, working.wait(), revoked.set, told)
    ((named, mine),) = refused
    assert named == mine


async def revoked_in_the_middle(stage, working, let_it_go_on, told):
    """The ttl is long: that the lease is gone, the agent hears from the refusal first."""
    intent = await stage.assigned()
    await soon(working)
    await stage.boss.revoke_lease((await stage.holder(intent)).id, "enough")
    let_it_go_on()
    assert await soon(told.get()) == (intent.id, "revoked")
    done = await stage.until_status(intent, "done")
    assert own(done.state) == {"in time": True, "second": True}
    assert [failure.error for failure in stage.record(done).failures] == [LAPSED]


async def test_losing_the_lease_cancels_an_async_handler(stage, agent, told):
    cancelled = []

    @agent(lease_ttl=0.6)
    class Worker(Lost):
        @on_assignment
        async def handle(self, intent):
            if self.work.attempt > 1:
                return
            try:
                await asyncio.sleep(SOON_S)
            except asyncio.CancelledError:
                cancelled.append(intent.id)
                raise

    Worker.told = told
    async with running(Worker):
        intent = await stage.assigned()
        await stage.until_status(intent, "running")
        await stage.boss.revoke_lease((await stage.holder(intent)).id, "enough")
        assert await soon(told.get()) == (intent.id, "revoked")
        await stage.until_status(intent, "done")
    assert cancelled == [intent.id]


async def test_a_handler_whose_lease_is_revoked_is_cancelled_without_waiting_for_a_heartbeat(stage, agent, told):
    @agent(lease_ttl=20 * SOON_S)  # so a heartbeat is far away
    class Worker(Lost):
        @on_assignment
        async def handle(self, intent):
            if self.work.attempt == 1:
                async with self.lease(intent.id, "part"):
                    await asyncio.sleep(20 * SOON_S)

    Worker.told = told
    async with running(Worker):
        intent = await stage.assigned()
        await stage.until_event(
            intent, lambda event: event.event_type == "lease_acquired" and event.payload["scope"] == "part"
        )
        await stage.boss.revoke_lease((await stage.holder(intent)).id, "enough")
        assert await soon(told.get()) == (intent.id, "revoked")
        await stage.until_status(intent, "done")


async def test_a_plain_handler_sees_that_the_lease_is_lost(stage, agent, told):
    seen = []

    @agent(lease_ttl=0.6)
    class Worker(Lost):
        @on_assignment
        def handle(self, intent):
            if self.work.attempt > 1:
                return
            assert self.work.lease.lost.wait(SOON_S)
            with pytest.raises(LeaseLost) as lost:
                self.work.check()
            seen.append(lost.value.reason)

    Worker.told = told
    async with running(Worker):
        intent = await stage.assigned()
        await stage.until_status(intent, "running")
        await stage.boss.revoke_lease((await stage.holder(intent)).id, "enough")
        assert await soon(told.get()) == (intent.id, "revoked")
        await stage.until_status(intent, "done")
    assert seen == ["revoked"]


async def test_a_lease_of_the_handlers_own_that_is_lost_is_a_failure_like_any_other(stage, agent, told):
    @agent(retry=Retry(max_attempts=2, base_delay_seconds=0.01))
    class Worker(Lost):
        @on_assignment
        async def handle(self, intent):
            if self.work.attempt == 1:
                async with self.lease(intent.id, "part", ttl=0.6):
                    await asyncio.sleep(SOON_S)

    Worker.told = told
    async with running(Worker):
        intent = await stage.assigned()
        await stage.until_event(
            intent, lambda event: event.event_type == "lease_acquired" and event.payload["scope"] == "part"
        )
        await stage.boss.revoke_lease((await stage.holder(intent, "part")).id, "enough")
        done = await stage.until_status(intent, "done")
    assert [failure.error for failure in stage.record(done).failures] == ["LeaseLost"]
    assert told.empty()


# Being called off


@pytest.mark.parametrize("how", ["unassigned", "abandoned", "completed"])
async def test_work_that_nobody_wants_any_more_is_cancelled(stage, agent, how, told):
    cancelled = asyncio.Event()

    @agent()
    class Worker(Lost):
        @on_assignment
        async def handle(self, intent):
            try:
                await asyncio.sleep(SOON_S)
            except asyncio.CancelledError:
                cancelled.set()
                raise

    Worker.told = told
    async with running(Worker):
        intent = await stage.assigned()
        await stage.until_status(intent, "running")
        if how == "unassigned":
            await stage.boss.unassign_agent(intent.id, stage.name)
        else:
            await stage.boss.set_status(intent.id, None, how)
        await soon(cancelled.wait())
        await stage.until_released(intent)
    left = stage.record(await stage.boss.get_intent(intent.id))
    assert (left.status, left.failed) == ("open", 0)
    assert told.empty()


async def test_a_plain_handler_keeps_the_lease_until_it_has_seen_that_it_is_called_off(stage, agent):
    """Nobody can stop a thread. If another could begin meanwhile, two would work on one assignment."""
    working, may_look, seen = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    @agent()
    class Worker:
        @on_assignment
        def handle(self, intent):
            if seen:
                return {"second": True}
            loop.call_soon_threadsafe(working.set)
            assert may_look.wait(SOON_S)
            assert self.work.unwanted.wait(SOON_S)
            seen.append(self.work.lease.is_active)
            self.work.check()
            return {"first": True}

    async with running(Worker):
        intent = await stage.assigned()
        await soon(working.wait())
        await stage.boss.unassign_agent(intent.id, stage.name)
        await stage.boss.assign_agent(intent.id, stage.name)
        lease = await stage.holder(intent)
        may_look.set()
        done = await stage.until_status(intent, "done")
    assert own(done.state) == {"second": True}
    assert seen == [True]
    assert stage.record(done).token > lease.token


# One at a time


async def test_of_several_instances_one_works_at_a_time(stage, agent):
    at_work, done = {}, []

    @agent(capacity=2)
    class Worker:
        @on_assignment
        async def handle(self, intent):
            assert at_work.setdefault(intent.id, self.agent_id) == self.agent_id
            await asyncio.sleep(0.02)
            del at_work[intent.id]
            done.append(intent.id)

    async with running(Worker, Worker, Worker):
        intents = [await stage.assigned() for _ in range(10)]
        for intent in intents:
            assert stage.record(await stage.until_status(intent, "done")).attempt == 1
    assert sorted(done) == sorted(intent.id for intent in intents)


# Keeping it


@pytest.mark.alone
@pytest.mark.slow
async def test_a_handler_that_works_twenty_times_its_ttl_keeps_the_lease(stage, agent, told, figures):
    ttl_s, times = 0.4, size("ttls_worked", 20)

    @agent(lease_ttl=ttl_s)
    class Worker(Lost):
        @on_assignment
        async def handle(self, intent):
            for _ in range(times):
                await asyncio.sleep(ttl_s)
                self.work.check()
            return {"token": self.work.lease.token}

    Worker.told = told
    async with running(Worker):
        intent = await stage.assigned()
        async with asyncio.timeout(SOON_S + times * ttl_s):
            done = await stage.until_status(intent, "done")
    assert (stage.record(done).attempt, stage.record(done).token) == (1, done.state["token"])
    assert told.empty()
    figures.add("a handler that works far longer than its ttl", ttl_seconds=ttl_s, times_its_ttl=times, leases_lost=0)


@pytest.mark.alone
async def test_a_handler_that_blocks_its_event_loop_for_nine_tenths_of_its_ttl_keeps_the_lease(stage, agent, told):
    ttl_s = 1.0

    @agent(lease_ttl=ttl_s)
    class Worker(Lost):
        @on_assignment
        async def handle(self, intent):
            until = monotonic() + 0.9 * ttl_s
            while monotonic() < until:
                pass
            self.work.check()
            await asyncio.sleep(0.2 * ttl_s)
            return {"ok": True}

    Worker.told = told
    async with running(Worker):
        intent = await stage.assigned()
        done = await stage.until_status(intent, "done")
    assert (stage.record(done).attempt, own(done.state)) == (1, {"ok": True})
    assert told.empty()


async def test_without_heartbeats_the_lease_has_its_ttl_and_the_work_is_stopped_in_time(stage, agent, told):
    stopped = []

    @agent(lease_ttl=0.5, auto_heartbeat=False, retry=Retry(max_attempts=2))
    class Worker(Lost):
        @on_assignment
        async def handle(self, intent):
            if self.work.attempt > 1:
                return {"second": True}
            try:
                await asyncio.sleep(SOON_S)
            except asyncio.CancelledError:
                stopped.append((await stage.holder(intent)).token == self.work.lease.token)
                raise

    Worker.told = told
    async with running(Worker):
        intent = await stage.assigned()
        assert (await soon(told.get()))[0] == intent.id
        done = await stage.until_status(intent, "done")
    assert stopped == [True]  # the server still had it as ours
    assert own(done.state) == {"second": True}
