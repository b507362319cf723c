"""Draining: nothing new is taken, what runs may end within its time, and what cannot is put back for others."""

import asyncio
import signal
import threading

import pytest
from fleetwords import SOON_S, own, soon

from openintent import AsyncOpenIntentClient
from openintent.agents import Agent, on_assignment, on_drain, on_lease_available, run_agents_async, runner, running

pytestmark = pytest.mark.anyio


async def status_of(stage, agent_id):
    return (await stage.boss.get_agent_record(agent_id)).status


async def test_an_agent_is_in_the_registry_while_it_runs(stage, name, server_url):
    @Agent(name, base_url=server_url, role="r", capabilities=["search"], capacity=4, metadata={"zone": "b"})
    class Worker: ...

    async with running(Worker) as (worker,):
        found = await stage.boss.get_agent_record(worker.agent_id)
        assert (found.status, found.name, found.role_id, found.capabilities) == ("active", name, "r", ["search"])
        assert found.metadata["zone"] == "b"
    assert await status_of(stage, worker.agent_id) == "deregistered"


@pytest.mark.parametrize("how", ["stop", "registry"])
async def test_a_drained_agent_finishes_what_runs_takes_nothing_new_and_leaves(stage, agent, how):
    drained, may_end = asyncio.Event(), asyncio.Event()

    @agent(heartbeat_seconds=0.1)
    class Worker:
        @on_assignment
        async def handle(self, intent):
            await soon(may_end.wait())
            return {"finished": True}

        @on_drain
        async def draining(self):
            drained.set()

    worker = Worker()
    run = asyncio.create_task(worker.run_async())
    intent = await stage.assigned()
    await stage.until_status(intent, "running")
    if how == "stop":
        threading.Thread(target=worker.stop).start()
    else:
        await stage.boss.agents.drain(worker.agent_id)
    await soon(drained.wait())
    late = await stage.assigned()
    assert await status_of(stage, worker.agent_id) == "draining"
    may_end.set()
    await soon(run)
    assert own((await stage.boss.get_intent(intent.id)).state) == {"finished": True}
    assert (await stage.boss.get_intent(late.id)).state == {}
    assert await status_of(stage, worker.agent_id) == "deregistered"
    assert await stage.boss.list_leases(agent_id=worker.agent_id) == []


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_what_does_not_end_in_time_is_put_back_and_that_is_no_failure(stage, agent, kind):
    """An async handler is cancelled; a plain one sees it when it looks."""

    class Worker:
        def begin(self):
            return (self.work.checkpoint or {"part": 0})["part"]

    @agent(drain_seconds=0.1)
    class Async(Worker):
        @on_assignment
        async def handle(self, intent):
            part = self.begin()
            if part == 0:
                await self.checkpoint({"part": 1})
                await asyncio.sleep(SOON_S)
            return {"part": part, "attempt": self.work.attempt}

    @agent(drain_seconds=0.1)
    class Plain(Worker):
        @on_assignment
        def handle(self, intent):
            part = self.begin()
            if part == 0:
                self.checkpoint({"part": 1})
                assert self.work.unwanted.wait(SOON_S)
                self.work.check()
            return {"part": part, "attempt": self.work.attempt}

    chosen = Async if kind == "async" else Plain
    async with running(chosen):
        intent = await stage.assigned()
        await stage.until_event(intent, lambda event: event.event_type == "task.progress")
    left = await stage.boss.get_intent(intent.id)
    assert (stage.record(left).status, stage.record(left).failed) == ("open", 0)
    async with running(chosen):
        done = await stage.until_status(intent, "done")
    assert own(done.state) == {"part": 1, "attempt": 2}
    assert stage.record(done).failures == ()


async def test_a_claim_that_is_under_way_may_end_and_no_other_begins(stage, agent):
    claimed, may_end, ended = asyncio.Event(), asyncio.Event(), []

    @agent(capacity=2)
    class Claimer:
        @on_lease_available("part")
        async def claim(self, intent, scope):
            claimed.set()
            async with self.lease(intent.id, scope):
                await soon(may_end.wait())
                ended.append(intent.id)

    async with running(Claimer) as (claimer,):
        first, second = await stage.assigned(), await stage.assigned()
        await stage.boss.release_lease(await stage.boss.acquire_lease(first.id, "part"))
        await soon(claimed.wait())
        claimer.stop()
        await until_draining(stage, claimer)
        await stage.boss.release_lease(await stage.boss.acquire_lease(second.id, "part"))
        await asyncio.sleep(0.3)  # more than the time within which it would be told
        may_end.set()
    assert ended == [first.id]


async def until_draining(stage, agent):
    async with asyncio.timeout(SOON_S):
        while await status_of(stage, agent.agent_id) != "draining":
            pass


async def test_a_handler_for_draining_that_hangs_keeps_nobody(agent, stage):
    @agent(drain_seconds=0.1)
    class Worker:
        @on_drain
        async def hang(self):
            await asyncio.sleep(SOON_S)

    async with running(Worker) as (worker,):
        pass
    assert await status_of(stage, worker.agent_id) == "deregistered"


async def test_an_agent_that_is_cancelled_puts_back_what_it_does(stage, agent):
    @agent()
    class Worker:
        @on_assignment
        async def handle(self, intent):
            await asyncio.sleep(SOON_S)

    run = asyncio.create_task(run_agents_async(Worker))
    intent = await stage.assigned()
    await stage.until_status(intent, "running")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(run)
    assert stage.record(await stage.boss.get_intent(intent.id)).status == "open"
    assert await stage.holder(intent) is None


async def test_an_agent_that_the_registry_forgot_comes_back(stage, agent):
    @agent(heartbeat_seconds=0.1)
    class Worker: ...

    async with running(Worker) as (worker,):
        before = (await stage.boss.get_agent_record(worker.agent_id)).last_heartbeat_at
        async with asyncio.timeout(SOON_S):
            while (await stage.boss.get_agent_record(worker.agent_id)).last_heartbeat_at == before:
                pass


async def test_an_agent_without_a_server_starts_and_can_be_stopped(name, caplog, monkeypatch):
    monkeypatch.setattr(runner, "WORD_S_MAX", 0.1)

    @Agent(name, base_url="http://127.0.0.1:9")
    class Worker:
        @on_assignment
        async def handle(self, intent): ...

    async with running(Worker):
        pass
    assert "agent not registered" in caplog.text


# As a process


@pytest.mark.slow
async def test_sigterm_drains_a_process(stage, start, name):
    program = await start(name, drain_seconds=SOON_S)
    intent = await stage.assigned(initial_state={"goal": 20})
    await program.heard("counted", count=3)
    program.send(signal.SIGTERM)
    await program.heard("draining")
    await program.heard("left")
    assert await program.ended() == 0
    assert (await stage.boss.get_intent(intent.id)).state["count"] == 20
    assert await status_of(stage, program.agent_id) == "deregistered"


@pytest.mark.slow
async def test_a_second_signal_ends_a_process_at_once_and_another_goes_on(stage, start, name):
    program = await start(name, drain_seconds=60)
    intent = await stage.assigned(initial_state={"goal": 100_000})
    await program.heard("counted", count=3)
    program.send(signal.SIGTERM)
    await program.heard("draining")
    program.send(signal.SIGINT)
    await program.heard("left")
    assert await program.ended() == 0
    left = stage.record(await stage.boss.get_intent(intent.id))
    assert (left.status, left.failed) == ("open", 0)
    second = await start(name)
    assert (await second.heard("begun"))["count"] >= 3


@pytest.mark.alone
@pytest.mark.slow
async def test_a_plain_handler_that_never_ends_keeps_no_process(stage, start, name, server_url):
    program = await start(name, drain_seconds=0.1, lease_ttl=1.5)
    intent = await stage.assigned(initial_state={"kind": "plain", "deaf": True})
    await program.heard("begun")
    program.send(signal.SIGTERM)
    assert await program.ended() == 0
    async with AsyncOpenIntentClient(server_url, agent_id="next") as other:  # it was not given back: it lapses
        await other.acquire_lease(intent.id, stage.scope, wait_seconds=SOON_S)
