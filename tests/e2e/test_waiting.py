"""The queue: who waits gets its turn, in order, in time, once; and who has gone costs nobody anything."""

import asyncio
import signal
import statistics
from time import monotonic
from typing import Any

import pytest
from proving import Figures, size
from rawhttp import Answer, Connect, Connection
from serverprocess import ServerProcess

pytestmark = pytest.mark.anyio

TAKEOVERS = size("takeovers", 5)  # of each of five scopes

PATH = "/spaces/s/leases"


async def acquired(agent: Connection, scope: str = "build", *, ttl: float = 30.0) -> dict[str, Any]:
    answer = await agent.call("POST", PATH, {"scope": scope, "ttl_seconds": ttl})
    assert answer.ok, answer
    return dict(answer.body)


def waiting(
    agent: Connection, scope: str = "build", *, ttl: float = 30.0, wait: float = 20.0, key: str | None = None
) -> asyncio.Task[Answer]:
    ask = {"scope": scope, "ttl_seconds": ttl, "wait_seconds": wait}
    return asyncio.create_task(agent.call("POST", PATH, ask, key=key))


async def released(agent: Connection, lease_id: str) -> None:
    answer = await agent.call("DELETE", f"/leases/{lease_id}")
    assert answer.ok, answer


async def queue_until(watcher: Connection, wanted: list[tuple[str, bool]]) -> None:
    """Until these agents are in the queue, in this order, each with an open request or without."""
    async with asyncio.timeout(10):
        while True:
            queue = (await watcher.call("GET", "/spaces/s/queue?scope=build")).body["waiters"]
            if [(waiter["agent_id"], waiter["present"]) for waiter in queue] == wanted:
                return


# In time


async def takeover(connect: Connect, scope: str, *, ttl_s: float, rounds: int) -> list[float]:
    """A holder that falls silent, and one who waits: by how much the scope came later than the ttl, each time."""
    holder, waiter = connect(f"holder-{scope}"), connect(f"waiter-{scope}")
    late_s = []
    for _ in range(rounds):
        sent = monotonic()
        await acquired(holder, scope, ttl=ttl_s)
        answer = await waiting(waiter, scope)
        late_s.append(monotonic() - sent - ttl_s)
        assert answer.ok, answer
        await released(waiter, answer.body["id"])
    return late_s


@pytest.mark.slow
@pytest.mark.alone
async def test_a_waiter_gets_the_scope_of_a_silent_holder_after_its_ttl_and_within_50_ms(
    connect: Connect, figures: Figures
):
    pairs = [takeover(connect, f"part-{n}", ttl_s=0.5, rounds=TAKEOVERS) for n in range(5)]
    late_ms = sorted(1_000 * late_s for lates in await asyncio.gather(*pairs) for late_s in lates)
    p50_ms, p99_ms = statistics.median(late_ms), late_ms[len(late_ms) * 98 // 100]
    took = {"p50_ms": round(p50_ms, 1), "p99_ms": round(p99_ms, 1), "max_ms": round(late_ms[-1], 1)}
    figures.add("takeover from a silent holder, beyond its ttl", takeovers=len(late_ms), **took)
    assert len(late_ms) == 5 * TAKEOVERS
    assert late_ms[0] > -1.0, "before the ttl was over"  # ledger time is in whole milliseconds
    assert p50_ms < 50.0
    assert p99_ms < 500.0  # the machine may be busy with other things; the figure to read is the one above


# In order


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_thousand_waiters_go_in_the_order_of_their_coming_and_each_release_wakes_exactly_one(connect: Connect):
    count = 1_000
    holder, watcher = connect("holder"), connect("watcher")
    lease = await acquired(holder)
    agents, tasks = [], []
    for n in range(count):
        agents.append(connect(f"waiter-{n}"))
        tasks.append(waiting(agents[-1]))
        await queue_length_until(watcher, n + 1)

    tokens = [lease["token"]]
    await released(holder, lease["id"])
    for n in range(count):
        answer = await tasks[n]
        assert answer.ok, answer
        # Only those who have had their turn have an answer: a second wake-up would be one too many here or later.
        assert sum(task.done() for task in tasks) == n + 1
        tokens.append(answer.body["token"])
        await released(agents[n], answer.body["id"])
    assert tokens == sorted(set(tokens))
    assert (await watcher.call("GET", "/spaces/s/queue?scope=build")).body["waiters"] == []


async def queue_length_until(watcher: Connection, length: int) -> None:
    async with asyncio.timeout(10):
        while True:
            refused = await watcher.call("POST", PATH, {"scope": "build"})
            assert refused.status == 409
            if refused.body["queue_length"] == length:
                return


# Those who have gone


@pytest.mark.parametrize("key", [None, "attempt-of-gone"])
async def test_a_waiter_that_hung_up_is_skipped_at_once(key: str | None, connect: Connect):
    holder, gone, next_one, watcher = (connect(name) for name in ("holder", "gone", "next", "watcher"))
    lease = await acquired(holder)
    hung_up = waiting(gone, key=key)
    await queue_until(watcher, [("gone", True)])
    waiter = waiting(next_one)
    await queue_until(watcher, [("gone", True), ("next", True)])

    gone.close()
    assert (await hung_up).unknown
    # With an attempt it keeps its place for a while, but not those behind it from going first.
    await queue_until(watcher, [("next", True)] if key is None else [("gone", False), ("next", True)])
    await released(holder, lease["id"])

    answer = await waiter
    assert answer.ok, answer
    assert answer.body["token"] == lease["token"] + 1, "somebody was granted in between"


async def test_a_waiter_that_reconnects_with_its_attempt_keeps_its_rank(connect: Connect):
    holder, first, second, watcher = (connect(name) for name in ("holder", "first", "second", "watcher"))
    lease = await acquired(holder)
    cut = waiting(first, key="attempt-of-first")
    await queue_until(watcher, [("first", True)])
    behind = waiting(second, key="attempt-of-second")
    await queue_until(watcher, [("first", True), ("second", True)])

    first.close()
    assert (await cut).unknown
    await queue_until(watcher, [("first", False), ("second", True)])
    again = waiting(first, key="attempt-of-first")
    await queue_until(watcher, [("first", True), ("second", True)])
    await released(holder, lease["id"])

    granted = await again
    assert granted.ok, granted
    assert not behind.done()
    await released(first, granted.body["id"])
    assert (await behind).body["token"] > granted.body["token"]


async def test_a_waiter_that_was_passed_while_it_was_away_is_the_next_one(connect: Connect):
    names = ("holder", "first", "second", "third", "watcher")
    holder, first, second, third, watcher = (connect(name) for name in names)
    lease = await acquired(holder)
    cut = waiting(first, key="attempt-of-first")
    await queue_until(watcher, [("first", True)])
    passing = waiting(second)
    await queue_until(watcher, [("first", True), ("second", True)])
    behind = waiting(third)
    await queue_until(watcher, [("first", True), ("second", True), ("third", True)])
    first.close()
    await cut
    await queue_until(watcher, [("first", False), ("second", True), ("third", True)])

    await released(holder, lease["id"])
    passed = await passing
    back = waiting(first, key="attempt-of-first")
    await queue_until(watcher, [("first", True), ("third", True)])
    await released(second, passed.body["id"])

    assert (await back).ok
    assert not behind.done()


async def test_a_waiter_keeps_its_rank_over_a_kill_of_the_server(server: ServerProcess, connect: Connect):
    holder, first, second, watcher = (connect(name) for name in ("holder", "first", "second", "watcher"))
    lease = await acquired(holder)
    before = [waiting(first, key="attempt-of-first")]
    await queue_until(watcher, [("first", True)])
    before.append(waiting(second, key="attempt-of-second"))
    await queue_until(watcher, [("first", True), ("second", True)])

    server.kill()
    assert [answer.unknown for answer in await asyncio.gather(*before)] == [True, True]
    for agent in (holder, watcher):
        agent.close()
    server.start()
    behind = waiting(second, key="attempt-of-second")
    await queue_until(watcher, [("first", False), ("second", True)])
    in_front = waiting(first, key="attempt-of-first")
    await queue_until(watcher, [("first", True), ("second", True)])
    await released(holder, lease["id"])

    assert (await in_front).ok
    assert not behind.done()


# What the waiter gets


async def test_who_waited_longer_than_its_ttl_gets_a_lease_that_is_whole(connect: Connect):
    holder, waiter, watcher = connect("holder"), connect("waiter"), connect("watcher")
    lease = await acquired(holder)
    task = waiting(waiter, ttl=0.5)
    await queue_until(watcher, [("waiter", True)])
    await asyncio.sleep(1.0)  # twice the ttl that was asked for
    await released(holder, lease["id"])

    granted = (await task).body
    assert granted["waited_seconds"] >= 1.0
    assert granted["remaining_seconds"] == 0.5
    renewed = await waiter.call("PATCH", f"/leases/{granted['id']}", {"ttl_seconds": 30})
    assert renewed.ok, renewed
    assert renewed.body["token"] == granted["token"]
    assert renewed.body["remaining_seconds"] == 30.0


async def test_a_server_that_was_frozen_for_longer_than_a_ttl_has_not_ended_the_lease(
    server: ServerProcess, connect: Connect
):
    holder = connect("holder")
    lease = await acquired(holder, ttl=2.0)
    server.signal(signal.SIGSTOP)
    await asyncio.sleep(3.0)
    server.signal(signal.SIGCONT)
    renewed = await holder.call("PATCH", f"/leases/{lease['id']}")
    assert renewed.ok, renewed
