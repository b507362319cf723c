"""Being asked for, as a holder learns of it: from its own heartbeats, with a real server."""

import asyncio
import threading

import pytest

from openintent import AsyncOpenIntentClient, Lease, LeaseConflictError, WaitTimeout

pytestmark = pytest.mark.alone  # short leases in real time

PATIENCE_S = 10.0


@pytest.fixture
def intent(rival):
    return rival.create_intent("Plan a trip")


def press(rival, intent) -> LeaseConflictError:
    with pytest.raises(LeaseConflictError) as refused:
        rival.acquire_lease(intent.id, "a", priority=1, preempt=True, purpose="incident 7")
    return refused.value


class Told:
    """A callback that counts, and whoever waits for it."""

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.threads: list[str] = []
        self.came = threading.Event()

    def __call__(self, lease: Lease) -> None:
        self.leases.append(lease)
        self.threads.append(threading.current_thread().name)
        self.came.set()


def test_a_thread_is_told_once_on_a_thread_of_its_own_and_may_give_it_back(sync_client, rival, intent):
    told = Told()
    with sync_client.lease(intent.id, "a", ttl=1.2, on_preempt=told) as lease:
        assert not lease.preempt_asked
        refused = press(rival, intent)
        assert 5 < refused.retry_after <= 10  # the grace, which is longer than the ttl
        assert told.came.wait(PATIENCE_S)
        assert lease.preempt_asked
        assert not lease.lost.wait(1.0)  # it lives on, and more heartbeats say the same
        lease.check()
    assert told.leases == [lease]
    assert told.threads == ["openintent-callback"]
    assert rival.acquire_lease(intent.id, "a").token > lease.token


@pytest.mark.anyio
async def test_a_task_is_told_and_not_cancelled(server_url, rival, intent, anyio_backend):
    told = Told()
    async with AsyncOpenIntentClient(server_url) as client, client.lease(intent.id, "a", 1.2, on_preempt=told) as lease:
        await asyncio.to_thread(press, rival, intent)
        assert await asyncio.to_thread(told.came.wait, PATIENCE_S)
        lease.check()
    assert told.leases == [lease]


@pytest.mark.anyio
async def test_whoever_renews_by_hand_sees_it_too(client, rival, intent):
    lease = await client.acquire_lease(intent.id, "a", ttl_seconds=60)
    press(rival, intent)
    renewed = await client.renew_lease(lease.id, ttl_seconds=3_600)
    assert renewed.preempt_asked
    assert 0 < renewed.remaining <= 60
    assert rival.get_leases(intent.id)[0].preempt_asked


@pytest.mark.anyio
async def test_a_heartbeat_by_hand_tells_by_whom(client, rival, intent):
    lease = await client.acquire_lease(intent.id, "a", ttl_seconds=60)
    press(rival, intent)
    [verdict] = (await client.agent_heartbeat(leases=[lease])).leases
    assert (verdict.verdict, verdict.reason) == ("preempt_asked", "rival: incident 7")
    assert lease.preempt_asked
    assert lease.is_active


@pytest.mark.anyio
async def test_the_one_who_asks_may_wait(client, rival, intent):
    with rival.lease(intent.id, "a", ttl=60) as held:
        with pytest.raises(WaitTimeout):
            await client.acquire_lease(intent.id, "a", priority=1, preempt=True, wait_seconds=0.2)
        assert rival.get_lease(held.id).preempt_asked
