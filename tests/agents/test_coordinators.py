"""Coordinators: one leads, the others stand by; whoever led before can write no more."""

import asyncio
import signal
from time import monotonic

import pytest
from fleetwords import SOON_S, soon

from openintent.agents import Coordinator, on_all_complete, on_assignment, on_complete, on_lead, on_lease_lost, running

pytestmark = pytest.mark.anyio

TTL_S = 1.0
# For a machine that is busy with other tests; what was measured stands in the figures.
SLACK_S = 5.0


@pytest.fixture
async def portfolio(stage):
    return await stage.boss.create_portfolio("All")


@pytest.fixture
async def member(stage, portfolio):
    intent = await stage.boss.create_intent("Part", initial_state={})
    await stage.boss.add_intent_to_portfolio(portfolio.id, intent.id)
    return intent


async def counts(stage, intent):
    """What was counted, in the order of the log."""
    patches = [change for event in await every_event(stage, intent) for change in event.payload["patches"]]
    return [change["value"] for change in patches if change["path"] == "count"]


async def every_event(stage, intent):
    return [event async for event in stage.boss.iter_events(intent.id, types="state_patched")]


@pytest.mark.alone
@pytest.mark.slow
async def test_when_the_leader_is_killed_the_standby_leads_and_nothing_is_done_twice(
    stage, start, name, portfolio, member, figures
):
    settings = {"portfolio_id": portfolio.id, "lease_ttl": TTL_S, "counts_in": member.id}
    first = await start(name, **settings)
    led = await first.heard("leads")
    second = await start(name, **settings)
    await standby(stage, portfolio)
    await first.heard("counted", count=5)
    killed_at = monotonic()
    first.send(signal.SIGKILL)
    leads = await second.heard("leads")
    took_s = monotonic() - killed_at
    counted = await second.heard("counted")
    assert took_s < TTL_S + 1 + SLACK_S
    assert leads["token"] > led["token"]
    assert counted["count"] > 5
    numbers = await counts(stage, member)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(await stage.boss.get_decisions(member.id)) == 1
    figures.add("kill -9 of a coordinator", ttl_seconds=TTL_S, seconds_until_the_standby_leads=round(took_s, 2))


async def standby(stage, portfolio):
    """Until somebody waits to lead."""
    async with asyncio.timeout(SOON_S):
        while not await stage.boss.get_queue(space=f"coordinator:portfolio:{portfolio.id}"):
            pass


@pytest.mark.alone
@pytest.mark.slow
async def test_a_leader_that_was_frozen_is_cancelled_and_its_writes_are_refused(
    stage, start, name, portfolio, member, figures
):
    settings = {"portfolio_id": portfolio.id, "lease_ttl": TTL_S, "counts_in": member.id}
    first = await start(name, **settings)
    led = await first.heard("leads")
    second = await start(name, **settings)
    await standby(stage, portfolio)
    await first.heard("counted", count=3)
    first.send(signal.SIGSTOP)
    leads = await second.heard("leads")
    await second.heard("counted")
    first.send(signal.SIGCONT)
    cancelled, refused, _ = await first.heard_all("cancelled", "refused", "lost")
    assert (refused["token"], refused["live"]) == (led["token"], leads["token"])
    assert "late" not in (await stage.boss.get_intent(member.id)).state
    second.send(signal.SIGTERM)
    again = await first.heard("leads")
    assert again["token"] > leads["token"]
    numbers = await counts(stage, member)
    assert numbers == list(range(1, len(numbers) + 1))
    assert cancelled
    figures.add("a coordinator frozen beyond its ttl", late_writes_accepted=0, done_twice=0)


async def test_a_coordinator_that_leaves_makes_room_at_once(stage, name, server_url, member):
    led = asyncio.Queue()

    @Coordinator(name, intent_id=member.id, base_url=server_url)
    class Lead:
        @on_lead
        async def lead(self, lease):
            led.put_nowait((self.agent_id, lease.token))
            assert self.leading is lease
            await self.record_decision(member.id, "plan", "go", "first things first")
            await self.patch_state(member.id, {"by": self.agent_id})
            await asyncio.sleep(SOON_S)

    async with running(Lead) as (one,):
        first = await soon(led.get())
        async with running(Lead) as (other,):
            one.stop()
            second = await soon(led.get())
            await stage.until(member, lambda found: found.state.get("by") == other.agent_id)
    assert (first[0], second[0]) == (one.agent_id, other.agent_id)
    assert second[1] > first[1]
    assert one.leading is other.leading is None
    assert [decision.outcome for decision in await stage.boss.get_decisions(member.id)] == ["go", "go"]


async def test_a_coordinator_whose_lease_is_revoked_is_cancelled_and_told(stage, name, server_url, portfolio, member):
    told = asyncio.Queue()

    @Coordinator(name, portfolio_id=portfolio.id, base_url=server_url, lease_ttl=0.6)
    class Lead:
        @on_lead
        async def first(self, lease):
            try:
                await asyncio.sleep(SOON_S)
            except asyncio.CancelledError:
                told.put_nowait("cancelled")
                raise

        @on_lead
        async def second(self, lease):
            told.put_nowait(lease.token)  # beside the other, not after it

        @on_lease_lost
        async def lost(self, intent, reason):
            told.put_nowait((intent, reason))

    async with running(Lead):
        token = await soon(told.get())
        (lease,) = await stage.boss.list_coordinator_leases(portfolio.id)
        await stage.boss.revoke_lease(lease.id, "a coup")
        assert await soon(told.get()) == "cancelled"
        assert await soon(told.get()) == (None, "revoked")
        assert await soon(told.get()) > token


async def test_a_coordinator_whose_lease_is_revoked_waits_for_no_heartbeat(stage, name, server_url, portfolio, member):
    told = asyncio.Queue()

    @Coordinator(name, portfolio_id=portfolio.id, base_url=server_url, lease_ttl=20 * SOON_S)
    class Lead:
        @on_all_complete
        async def listens(self, portfolio_id):
            told.put_nowait(portfolio_id)

        @on_lease_lost
        async def lost(self, intent, reason):
            told.put_nowait(reason)

    await stage.boss.set_status(member.id, None, "completed")
    async with running(Lead):
        assert await soon(told.get()) == portfolio.id, "it is told so when its stream is there"
        (lease,) = await stage.boss.list_coordinator_leases(portfolio.id)
        await stage.boss.revoke_lease(lease.id, "a coup")
        assert await soon(told.get()) == "revoked"


async def test_it_is_told_when_all_is_complete_by_whoever_leads(stage, name, server_url, portfolio, member):
    told = asyncio.Queue()

    @Coordinator(name, portfolio_id=portfolio.id, base_url=server_url)
    class Lead:
        @on_complete
        async def one(self, intent):
            told.put_nowait(intent.id)

        @on_all_complete
        def all(self, portfolio_id):
            told.put_nowait(portfolio_id)

    other = await stage.boss.create_intent("Other part")
    await stage.boss.add_intent_to_portfolio(portfolio.id, other.id)
    async with running(Lead) as (lead,):
        await leading(lead, portfolio)
        await stage.boss.set_status(member.id, None, "completed")
        assert await soon(told.get()) == member.id
        await stage.boss.set_status(other.id, None, "completed")
        assert {await soon(told.get()), await soon(told.get())} == {other.id, portfolio.id}
    assert told.empty()
    async with running(Lead):  # the one before may have died before it was told
        assert await soon(told.get()) == portfolio.id
        await stage.boss.set_status(other.id, None, "active")
        await stage.boss.set_status(other.id, None, "completed")
        assert {await soon(told.get()), await soon(told.get())} == {other.id, portfolio.id}
    assert told.empty()


async def leading(agent, portfolio):
    """Until it leads, and hears what happens in the portfolio: its stream begins a little after its lease."""
    async with asyncio.timeout(SOON_S):
        while agent.leading is None or not hears(agent, f"portfolio:{portfolio.id}"):  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)


def hears(agent, space):
    streams = [stream._pump.buffer.following for stream in agent.async_client._streams]
    return any(stream._space == space and stream.cursor is not None for stream in streams)


async def test_a_coordinator_works_on_assignments_too_whether_it_leads_or_not(stage, name, server_url, portfolio):
    @Coordinator(name, portfolio_id=portfolio.id, base_url=server_url)
    class Lead:
        @on_assignment
        async def handle(self, intent):
            return {"done": True}

    async with stage.boss.coordinate(portfolio.id), running(Lead) as (lead,):
        done = await stage.until_status(await stage.assigned(), "done")
        assert lead.leading is None
    assert done.state["done"]
