"""Streams of both clients against a real server."""

import asyncio

import pytest
from serverprocess import ServerProcess
from tellers import heard, shut, take

from openintent import AsyncOpenIntentClient, NotFoundError, OpenIntentClient

pytestmark = pytest.mark.anyio

SOON_S = 10.0


@pytest.fixture(params=["sync", "async"])
async def reader(request, server_url):
    """A client of either kind whose streams are read."""
    client = (OpenIntentClient if request.param == "sync" else AsyncOpenIntentClient)(server_url, agent_id="reader")
    yield client
    await shut(client)


async def soon(stream):
    return await asyncio.wait_for(heard(stream), SOON_S)


async def test_an_intents_events_come_as_they_happen(reader, rival):
    intent = rival.create_intent("Plan")
    stream = reader.subscribe_intent(intent.id, after=0)
    assert (await soon(stream)).event_type == "intent_created"
    waiting = asyncio.ensure_future(heard(stream))
    logged = await asyncio.to_thread(rival.log_event, intent.id, "comment", {"text": "hello"})
    assert await asyncio.wait_for(waiting, SOON_S) == logged
    lease = rival.acquire_lease(intent.id, "build")
    rival.release_lease(lease)
    assert [(await soon(stream)).event_type for _ in range(2)] == ["lease_acquired", "lease_released"]
    await shut(stream)


async def test_from_now_on_nothing_old_is_told_and_nothing_new_missed(reader, rival):
    intent = rival.create_intent("Plan")
    stream = reader.subscribe_intent(intent.id)
    waiting = asyncio.ensure_future(heard(stream))
    while stream.cursor is None:
        await asyncio.to_thread(rival.get_intent, intent.id)
    logged = await asyncio.to_thread(rival.log_event, intent.id, "comment")
    assert await asyncio.wait_for(waiting, SOON_S) == logged
    await shut(stream)


async def test_an_unknown_intent_is_not_found(reader):
    with pytest.raises(NotFoundError):
        await soon(reader.subscribe_intent("nowhere"))
    with pytest.raises(NotFoundError):
        await soon(reader.subscribe_portfolio("nowhere"))


async def test_a_portfolio_tells_of_its_intents(reader, rival):
    portfolio, intent = rival.create_portfolio("Q3"), rival.create_intent("Plan")
    stream = reader.subscribe_portfolio(portfolio.id, after=0, types=["comment"])
    rival.add_intent_to_portfolio(portfolio.id, intent.id)
    logged = rival.log_event(intent.id, "comment")
    assert await soon(stream) == logged
    await shut(stream)


async def test_an_agent_is_told_its_open_assignments_first(reader, rival):
    agent = f"agent-{rival.create_intent('x').id}"
    before, after = rival.create_intent("Old", assign=agent), rival.create_intent("New")
    stream = reader.subscribe_agent(agent)
    first = await soon(stream)
    assert (first.event_type, first.intent_id, first.replayed, first.seq) == ("agent_assigned", before.id, True, 0)
    await asyncio.to_thread(rival.assign_agent, after.id, agent)
    second = await soon(stream)
    assert (second.event_type, second.intent_id, second.replayed) == ("agent_assigned", after.id, False)
    await shut(stream)


async def test_a_space_tells_who_lost_what_and_how_many_wait(reader, rival, sync_client):
    space = f"build-{sync_client.agent_id}"
    lease = rival.acquire_lease(space=space, scope="a", ttl_seconds=2)
    stream = reader.subscribe_space(space, types=["lease_queue", "lease_expired"])
    waiting = asyncio.ensure_future(heard(stream))
    while stream.cursor is None:
        await asyncio.to_thread(rival.get_leases, space=space)
    successor = asyncio.to_thread(sync_client.acquire_lease, space=space, scope="a", wait_seconds=SOON_S)
    acquiring = asyncio.ensure_future(successor)
    queue = await asyncio.wait_for(waiting, SOON_S)
    assert (queue.event_type, queue.seq, queue.payload["scope"]) == ("lease_queue", 0, "a")
    assert queue.payload["queue_length"] == 1
    while (lost := await soon(stream)).event_type == "lease_queue":
        pass  # nobody waits any more: that may be told first
    assert (lost.event_type, lost.payload["reason"]) == ("lease_released", "expired")
    assert lost.payload["token"] == lease.token
    assert (await acquiring).token > lease.token
    await shut(stream)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [OpenIntentClient, AsyncOpenIntentClient])
async def test_nothing_is_missed_or_repeated_over_crashes_of_the_server(kind, tmp_path):
    """Writers go on through three crashes; the reader hears each event of the log once, in its order."""
    server = ServerProcess(tmp_path / "leases.db")
    server.start()
    url = f"http://127.0.0.1:{server.port}"
    try:
        with OpenIntentClient(url, agent_id="writer") as writer:
            intent = writer.create_intent("Plan")
            client = kind(url, agent_id="reader")
            stream = client.subscribe_intent(intent.id, after=0)
            await heard(stream)
            logged, found = [], []
            for _ in range(3):
                logged += [await asyncio.to_thread(writer.log_event, intent.id, "comment") for _ in range(10)]
                found += await take(stream, 5)
                server.kill()
                server.start()
            logged += [await asyncio.to_thread(writer.log_event, intent.id, "comment") for _ in range(10)]
            found += await asyncio.wait_for(take(stream, len(logged) - len(found)), 30)
            assert found == logged
            assert found == list(writer.iter_events(intent.id, types="comment"))
            await shut(client)
    finally:
        server.kill()
