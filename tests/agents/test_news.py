"""What agents are told: changes of the state, events, completions, and that a scope is free."""

import asyncio
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from faultproxy import FaultProxy
from fleetwords import SOON_S, own, soon

from openintent import AsyncOpenIntentClient
from openintent.agents import (
    Agent,
    on_assignment,
    on_complete,
    on_event,
    on_lease_available,
    on_state_change,
    running,
)

pytestmark = pytest.mark.anyio

QUIET_S = 0.5  # more than the time within which an agent is told that a scope is free


@pytest.fixture
def told():
    return asyncio.Queue()


async def test_changes_of_the_keys_are_told_with_what_was_and_what_is(stage, agent, told):
    @agent()
    class Watcher:
        @on_state_change(["budget", "plan"])
        async def some(self, intent, old_state, new_state):
            told.put_nowait(("some", old_state.get("plan"), new_state.get("plan")))

        @on_state_change()
        def any(self, intent, _old, new_state):
            told.put_nowait(("any", sorted(own(new_state))))

        @on_assignment
        async def handle(self, intent):
            await self.patch_state(intent.id, {"budget": "our own is no news"})

    async with running(Watcher):
        intent = await stage.assigned()
        await stage.until_status(intent, "done")
        await stage.boss.patch_state(intent.id, {"other": 1})
        assert await soon(told.get()) == ("any", ["budget", "other"])
        for changes, old, new in (
            ({"budget": 1}, None, None),
            ({"plan": {}}, None, {}),
            ({"plan/deep": 3, "budget": 2}, {}, {"deep": 3}),
        ):
            await stage.boss.patch_state(intent.id, changes)
            assert await soon(told.get()) == ("some", old, new)
            assert (await soon(told.get()))[0] == "any"
    assert told.empty()


async def test_events_are_told_by_their_type(stage, agent, told):
    @agent()
    class Watcher:
        @on_event("comment")
        @on_event("status_changed")
        async def heard(self, intent, event):
            told.put_nowait((intent.id, event.event_type, event.payload.get("message")))

    async with running(Watcher):
        intent = await stage.assigned()
        await stage.boss.log_event(intent.id, "decision", {"message": "not this"})
        await stage.boss.log_event(intent.id, "comment", {"message": "this"})
        await stage.boss.set_status(intent.id, None, "active")
        assert await soon(told.get()) == (intent.id, "comment", "this")
        assert await soon(told.get()) == (intent.id, "status_changed", None)
    assert told.empty()


async def test_a_handler_that_awaits_what_is_cancelled_ends_no_agent(stage, agent, told):
    @agent()
    class Watcher:
        @on_event("comment")
        async def heard(self, intent, event):
            told.put_nowait(event.payload["message"])
            task = asyncio.create_task(asyncio.Event().wait())
            task.cancel()
            await task

    async with running(Watcher):
        intent = await stage.assigned()
        for message in ("first", "second"):
            await stage.boss.log_event(intent.id, "comment", {"message": message})
            assert await soon(told.get()) == message


async def test_completions_are_told_also_of_what_is_only_watched(stage, name, server_url, told):
    watched = await stage.boss.create_intent("Watched")
    portfolio = await stage.boss.create_portfolio("All")
    member = await stage.boss.create_intent("Member")
    await stage.boss.add_intent_to_portfolio(portfolio.id, member.id)

    @Agent(name, base_url=server_url, intents=[watched.id, member.id], portfolios=[portfolio.id])
    class Watcher:
        @on_complete
        def completed(self, intent):
            told.put_nowait(intent.id)

    async with running(Watcher) as (watcher,):
        assigned = await stage.assigned()
        await streaming(watcher, 4)
        for intent in (watched, member, assigned):
            await stage.boss.set_status(intent.id, None, "active")
            await stage.boss.set_status(intent.id, None, "completed")
        assert {await soon(told.get()) for _ in range(3)} == {watched.id, member.id, assigned.id}
        await asyncio.sleep(QUIET_S / 5)
    assert told.empty()  # the member is heard of on two streams, and told once


async def streaming(agent, count):
    """Until so many of its streams are there."""
    async with asyncio.timeout(SOON_S):
        while sum(stream.cursor is not None for stream in agent.async_client._streams) < count:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.01)


# What became free


def claimer(agent, told):
    @agent()
    class Claimer:
        @on_lease_available("research")
        async def free(self, intent, scope):
            told.put_nowait((self.agent_id, intent.id, scope))

    return Claimer


@pytest.mark.parametrize("how", ["released", "expired", "revoked"])
async def test_it_is_told_once_that_a_scope_is_free_however_that_came(stage, agent, told, how):
    async with running(claimer(agent, told)) as (one,):
        intent = await stage.assigned()
        lease = await stage.boss.acquire_lease(intent.id, "research", ttl_seconds=0.3 if how == "expired" else 60)
        await stage.boss.acquire_lease(intent.id, "another", ttl_seconds=0.3)
        if how == "released":
            await stage.boss.release_lease(lease)
        elif how == "revoked":
            await stage.boss.revoke_lease(lease.id, "enough")
        assert await soon(told.get()) == (one.agent_id, intent.id, "research")
        await asyncio.sleep(QUIET_S)
    assert told.empty()


async def test_each_agent_is_told_of_each_hand_over_once_and_not_of_its_own(stage, agent, told, name, server_url):
    mine = claimer(agent, told)
    others = claimer(lambda: Agent(f"{name}-b", base_url=server_url), told)
    async with running(mine, others) as (one, other):
        intent = await stage.assigned(name, f"{name}-b")
        for _ in range(2):
            await stage.boss.release_lease(await stage.boss.acquire_lease(intent.id, "research"))
            assert {(await soon(told.get()))[0] for _ in range(2)} == {one.agent_id, other.agent_id}
        await one.async_client.release_lease(await one.async_client.acquire_lease(intent.id, "research"))
        assert (await soon(told.get()))[0] == other.agent_id
        await asyncio.sleep(QUIET_S)
    assert told.empty()


async def test_what_went_to_whoever_waited_for_it_is_not_told(stage, agent, told, server_url):
    async with running(claimer(agent, told)), AsyncOpenIntentClient(server_url, agent_id="rival") as rival:
        intent = await stage.assigned()
        first = await stage.boss.acquire_lease(intent.id, "research")
        waiting = asyncio.create_task(rival.acquire_lease(intent.id, "research", wait_seconds=SOON_S))
        await queued(stage.boss, intent)
        await stage.boss.release_lease(first)
        second = await soon(waiting)
        await asyncio.sleep(QUIET_S)
        assert told.empty()
        await rival.release_lease(second)
        await soon(told.get())


async def queued(boss, intent):
    """Until somebody waits for a scope of it."""
    async with asyncio.timeout(SOON_S):
        while not await boss.get_queue(intent.id, "research"):
            pass


async def test_what_a_claim_returns_lands_in_the_state(stage, agent):
    @agent()
    class Claimer:
        @on_lease_available("research")
        async def claim(self, intent, scope):
            async with self.lease(intent.id, scope):
                return {"findings": f"of {intent.description}"}

    async with running(Claimer, Claimer):  # both are told; whoever comes second has a conflict, or does it again
        intent = await stage.assigned()
        await stage.boss.release_lease(await stage.boss.acquire_lease(intent.id, "research"))
        found = await stage.until(intent, lambda found: found.state)
    assert found.state == {"findings": "of of it"}


@asynccontextmanager
async def proxied(server_url):
    proxy = FaultProxy(urlsplit(server_url).port)
    url = await proxy.start()
    try:
        yield proxy, url
    finally:
        await proxy.stop()


async def test_what_became_free_while_the_stream_was_cut_is_told_once(stage, name, server_url, told):
    async with proxied(server_url) as (proxy, url):
        async with running(claimer(lambda: Agent(name, base_url=url), told)) as (one,):
            intent = await stage.assigned()
            lease = await stage.boss.acquire_lease(intent.id, "research")
            await streaming(one, 1)
            proxy.cut()
            await stage.boss.release_lease(lease)
            proxy.heal()  # the connection lost bytes: it is reset, and the agent comes back
            proxy.reset()
            assert await soon(told.get()) == (one.agent_id, intent.id, "research")
            await asyncio.sleep(QUIET_S)
        assert told.empty()


async def test_an_agent_that_hears_of_what_it_works_on_idles(stage, agent, told):
    """It is on its agenda then, and due all the while."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    @agent(capacity=2)
    class Worker:
        @on_assignment
        async def handle(self, intent):
            begun.set()
            await soon(may_end.wait())
            return {"attempt": self.work.attempt}

        @on_event("status_changed")
        async def heard(self, intent, event):
            told.put_nowait(event)

    async with running(Worker):
        intent = await stage.assigned()
        await soon(begun.wait())
        await stage.boss.set_status(intent.id, None, "active")
        await soon(told.get())
        turns = await turns_of_the_loop(0.3)
        may_end.set()
        done = await stage.until_status(intent, "done")
    assert own(done.state) == {"attempt": 1}
    assert turns < 300


async def turns_of_the_loop(seconds):
    """How often the loop turns in so long; one that is busy with nothing does so tens of thousands of times."""
    loop, turns = asyncio.get_running_loop(), 0
    select = loop._selector.select

    def counted(timeout=None):
        nonlocal turns
        turns += 1
        return select(timeout)

    loop._selector.select = counted
    try:
        await asyncio.sleep(seconds)
    finally:
        loop._selector.select = select
    return turns
