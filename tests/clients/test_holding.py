"""Working under a lease with a real server: kept alive, lost in time, given back whatever happens."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable

import pytest
from smallserver import serving

from openintent import AsyncOpenIntentClient, Intent, Lease, LeaseLost, OpenIntentClient, StaleTokenError
from openintent.clock import boot_s

pytestmark = pytest.mark.alone  # short leases in real time

PATIENCE_S = 10.0
TTL_S = 1.8


@pytest.fixture
def intent(rival):
    return rival.create_intent("Plan a trip")


@pytest.fixture
async def async_client(server_url, anyio_backend):
    async with AsyncOpenIntentClient(server_url) as client:
        yield client


def held(rival: OpenIntentClient, intent) -> list[str]:
    return [lease.scope for lease in rival.get_leases(intent.id)]


def under(client: OpenIntentClient, intent, body: Callable[[Lease], object], ttl: float = TTL_S) -> None:
    with client.lease(intent.id, "a", ttl=ttl) as lease:
        body(lease)


# Threads


def test_a_block_keeps_its_lease_alive_and_gives_it_back(sync_client, rival, intent):
    with sync_client.lease(intent.id, "a", ttl=1.0) as lease:
        assert not lease.lost.wait(1.5)
        assert held(rival, intent) == ["a"]
        assert lease.is_active
    assert held(rival, intent) == []


def test_an_exception_gives_it_back_too(sync_client, rival, intent):
    def fail(_: Lease) -> None:
        raise KeyError("the body's own")

    with pytest.raises(KeyError):
        under(sync_client, intent, fail)
    assert held(rival, intent) == []


def test_a_revocation_reaches_the_thread_and_its_callback(sync_client, rival, intent):
    called = threading.Event()

    def body(lease: Lease) -> None:
        rival.revoke_lease(lease.id, "maintenance")
        assert lease.lost.wait(PATIENCE_S)
        assert called.wait(PATIENCE_S)
        with pytest.raises(LeaseLost):
            lease.check()

    def work() -> None:
        with sync_client.lease(intent.id, "a", ttl=TTL_S, on_lost=lambda _: called.set()) as lease:
            body(lease)

    with pytest.raises(LeaseLost) as lost:
        work()
    assert lost.value.reason == "revoked"


def done(client: OpenIntentClient, intent: Intent) -> Intent:
    return client.set_status(intent.id, None, "completed")


def test_writes_in_the_block_name_its_token(sync_client, rival, intent):
    def body(lease: Lease) -> None:
        sync_client.patch_state(intent.id, {"a": 1})
        rival.revoke_lease(lease.id, "maintenance")
        for write in (lambda: sync_client.patch_state(intent.id, {"a": 2}), lambda: done(sync_client, intent)):
            with pytest.raises(StaleTokenError) as stale:
                write()
            assert stale.value.token == lease.token
        assert lease.lost.wait(PATIENCE_S)

    with pytest.raises(LeaseLost):
        under(sync_client, intent, body)
    sync_client.patch_state(intent.id, {"a": 3})
    assert done(sync_client, intent).status == "completed"


def test_a_reentrant_lease_is_given_back_by_the_last(sync_client, rival, intent):
    with sync_client.lease(intent.id, "a", reentrant=True) as outer:
        with sync_client.lease(intent.id, "a", reentrant=True) as inner:
            assert inner is outer
        outer.check()
        assert held(rival, intent) == ["a"]
    assert held(rival, intent) == []


def test_many_leases_are_kept_by_one_thread(sync_client, rival, intent):
    blocks = [sync_client.lease(intent.id, f"s{n}", ttl=1.0) for n in range(20)]
    leases = [block.__enter__() for block in blocks]
    assert not leases[0].lost.wait(1.5)
    assert len(held(rival, intent)) == 20
    keepers = [thread for thread in threading.enumerate() if thread.name == "openintent-keeper"]
    assert len(keepers) == 1
    for block in blocks:
        block.__exit__(None, None, None)
    assert held(rival, intent) == []


def test_work_stops_before_the_server_can_grant_to_another():
    """The server stands still: no renewal, no answer. By its clock the lease has not even ended when the work has."""
    with serving() as (url, process), OpenIntentClient(url) as client:
        intent = client.create_intent("Plan a trip")
        asked_at = boot_s()
        stopped: list[float] = []
        at_risk = threading.Event()

        def work() -> None:
            with client.lease(intent.id, ttl=2.4, on_at_risk=lambda _: at_risk.set()) as lease:
                os.kill(process.pid, signal.SIGSTOP)
                assert lease.lost.wait(PATIENCE_S)
                stopped.append(boot_s())

        with pytest.raises(LeaseLost) as lost:
            work()
        assert lost.value.reason == "trust_ended"
        assert at_risk.is_set()
        assert stopped[0] - asked_at < 2.4
        os.kill(process.pid, signal.SIGCONT)


def test_a_forked_child_inherits_no_lease(sync_client, rival, intent):
    """It may not act under its parent's lease, cannot give it back, and is another agent."""
    with sync_client.lease(intent.id, "a") as lease:
        child = os.fork()
        if child == 0:
            os._exit(_child_faults(sync_client, lease))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        lease.check()
        assert held(rival, intent) == ["a"]
        sync_client.patch_state(intent.id, {"a": 1})


def _child_faults(client: OpenIntentClient, lease: Lease) -> int:
    """Bits of what is wrong, as an exit code."""
    faults = 0 if lease.lost.is_set() and not lease.is_active else 1
    faults |= 0 if client.release_lease(lease).status == "active" else 2
    faults |= 0 if client.agent_id != lease.agent_id else 4
    try:
        client.patch_state(lease.intent_id, {"child": True})
        faults |= 8
    except LeaseLost:
        pass
    faults |= 0 if client.get_intent(lease.intent_id).state == {} else 16
    return faults


def test_a_closed_client_keeps_nothing(server_url, rival, intent):
    client = OpenIntentClient(server_url)

    def work() -> None:
        with client.lease(intent.id, "a") as lease:
            client.close()
            assert lease.lost.is_set()

    with pytest.raises(LeaseLost) as lost:
        work()
    assert lost.value.reason == "client_closed"


def test_a_revocation_that_nobody_had_heard_of_is_told_at_the_end(sync_client, rival, intent):
    """The next heartbeat would have told, but the body was quicker."""
    with pytest.raises(LeaseLost) as lost:
        under(sync_client, intent, lambda lease: rival.revoke_lease(lease.id, "maintenance"), ttl=60)
    assert lost.value.reason == "revoked"


# Tasks


@pytest.mark.anyio
async def test_a_revocation_that_no_task_had_heard_of_is_told_at_the_end(async_client, rival, intent):
    async def work() -> None:
        async with async_client.lease(intent.id, "a") as lease:
            rival.revoke_lease(lease.id, "maintenance")

    with pytest.raises(LeaseLost):
        await work()


@pytest.mark.anyio
async def test_a_blocked_loop_kills_no_lease(async_client, rival, intent):
    async with async_client.lease(intent.id, "a", ttl=1.0) as lease:
        threading.Event().wait(1.5)  # blocking the loop is the point
        lease.check()
        assert held(rival, intent) == ["a"]
    assert held(rival, intent) == []


@pytest.mark.anyio
async def test_a_revocation_cancels_the_task_as_a_loss(async_client, rival, intent):
    async def work() -> None:
        async with async_client.lease(intent.id, "a", ttl=TTL_S) as lease:
            rival.revoke_lease(lease.id, "maintenance")
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost) as lost:
        await asyncio.wait_for(work(), PATIENCE_S)
    assert lost.value.reason == "revoked"


@pytest.mark.anyio
async def test_a_cancelled_wait_leaves_neither_place_nor_lease(async_client, rival, intent):
    with rival.lease(intent.id, "a"):
        waiting = asyncio.create_task(async_client.acquire_lease(intent.id, "a", wait_seconds=30))
        while not await asyncio.to_thread(rival.get_queue, intent.id):
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert rival.get_queue(intent.id) == []
    assert held(rival, intent) == []


@pytest.mark.anyio
async def test_a_release_survives_a_double_cancellation(async_client, rival, intent):
    entered = asyncio.Event()

    async def work() -> None:
        async with async_client.lease(intent.id, "a"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await async_client.close()
    assert held(rival, intent) == []


@pytest.mark.anyio
async def test_writes_of_a_task_name_the_token_of_its_own_block(async_client, rival, intent):
    async def write(scope: str) -> int | None:
        async with async_client.lease(intent.id, scope) as lease:
            await asyncio.sleep(0)
            assert async_client._holder.token_for(intent.id, None) == lease.token
            await async_client.patch_state(intent.id, {scope: lease.token})
            return lease.token

    tokens = await asyncio.gather(*(write(f"s{n}") for n in range(10)))
    assert sorted(rival.get_intent(intent.id).state.values()) == sorted(tokens)


@pytest.mark.anyio
async def test_a_reentrant_lease_of_tasks_is_given_back_by_the_last(async_client, rival, intent):
    async def enter(times: int) -> None:
        for _ in range(times):
            async with async_client.lease(intent.id, "a", reentrant=True) as lease:
                await asyncio.sleep(0)
                lease.check()

    await asyncio.gather(*(enter(10) for _ in range(4)))
    assert held(rival, intent) == []
