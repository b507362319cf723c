"""Those who wait in a line and those who read a stream, when the server that leads is killed: nobody is lost."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from failover_engines import RealEngine
from promises import events_of
from proving import Figures, size
from servercluster import Cluster, Roaming, RoamingReader

pytestmark = [pytest.mark.anyio, pytest.mark.alone]

WAITERS = size("failover_waiters", 12)
READERS = size("failover_readers", 6)
ROUND_S_MAX = 30.0
AT_ONCE = 50  # who come together: their order is what the queue says
TTL_S = 600  # longer than all of it takes: nobody renews here


async def granted(waiter: Roaming, key: str) -> Any:
    """Wait slice by slice, as the SDK does."""
    ask = {"scope": "build", "ttl_seconds": TTL_S, "wait_seconds": 20}
    while True:
        answer = await waiter.call("POST", "/spaces/s/leases", ask, key=key)
        if answer.ok:
            return answer.body
        assert answer.code == "wait_timeout", answer


async def present(watcher: Roaming, count: int) -> list[str]:
    """The queue, as soon as it has so many, all of them with an open request."""
    async with asyncio.timeout(ROUND_S_MAX + WAITERS / 10):
        while True:
            queue = (await watcher.call("GET", "/spaces/s/queue?scope=build")).body["waiters"]
            if sum(waiter["present"] for waiter in queue) == count:
                return [waiter["agent_id"] for waiter in queue]


@pytest.mark.timeout(120 + ROUND_S_MAX + WAITERS / 5)
async def test_those_who_wait_and_those_who_read_go_on_with_the_next_leader(
    cluster: Cluster, real_engine: RealEngine, figures: Figures
):
    boss = Roaming(cluster.ports, "boss")
    waiters = [Roaming(cluster.ports, f"waiter-{n}") for n in range(WAITERS)]
    readers = [
        RoamingReader(cluster.ports[n % 3 :] + cluster.ports[: n % 3], "/subscribe/spaces/s") for n in range(READERS)
    ]
    tasks = [asyncio.create_task(reader.stay()) for reader in readers]
    turns: dict[str, asyncio.Task[Any]] = {}
    try:
        held = (await boss.call("POST", "/spaces/s/leases", {"scope": "build", "ttl_seconds": TTL_S}, key="boss")).body
        for first in range(0, WAITERS, AT_ONCE):
            for waiter in waiters[first : first + AT_ONCE]:
                turns[waiter.agent] = asyncio.create_task(granted(waiter, f"key-{waiter.agent}"))
            order = await present(boss, len(turns))
        (await cluster.leader()).kill()
        for number in range(5):
            await note(boss, number)
        assert await present(boss, WAITERS) == order, "the order was not kept"
        tokens = await go_in_turn(boss, held["id"], sorted(waiters, key=lambda each: order.index(each.agent)), turns)
        assert tokens == sorted(tokens)
        await note(boss, 5)
        log = [event["seq"] async for event in events_of(boss, "spaces/s")]
        for reader in readers:
            await reader.until(lambda reader=reader: reader.cursor == log[-1])
            told = [each.id for each in reader.told if each.event != "lease_queue"]
            assert told == log, "an event was missed, or told twice"
    finally:
        for task in [*tasks, *turns.values()]:
            task.cancel()
        await asyncio.gather(*tasks, *turns.values(), return_exceptions=True)
        for each in (boss, *waiters):
            each.close()
    figures.add(
        f"those who wait and those who read, over a kill of the leader, on {real_engine.name}",
        waiters=WAITERS,
        waiters_lost=0,
        out_of_turn=0,
        readers=READERS,
        events=len(log),
        events_missed_or_told_twice=0,
    )


async def note(boss: Roaming, number: int) -> None:
    body = {"event_type": "note", "payload": {"n": number}}
    assert (await boss.call("POST", "/spaces/s/events", body, key=f"note-{number}")).ok


async def go_in_turn(
    boss: Roaming, lease_id: str, in_order: list[Roaming], turns: Mapping[str, asyncio.Task[Any]]
) -> list[int]:
    """One releases and the next is granted, to the last; the tokens of all."""
    tokens, holder = [], boss
    for waiter in in_order:
        assert (await holder.call("DELETE", f"/leases/{lease_id}", key=f"release-{len(tokens)}")).ok
        lease = await asyncio.wait_for(turns[waiter.agent], ROUND_S_MAX)
        assert sum(each.done() for each in turns.values()) == len(tokens) + 1
        tokens.append(lease["token"])
        lease_id, holder = lease["id"], waiter
    return tokens
