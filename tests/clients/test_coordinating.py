"""Coordinating: kept alive like any other lease, and waited for like any other."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

from openintent import (
    AsyncOpenIntentClient,
    ConflictError,
    LeaseLost,
    OpenIntentClient,
    StaleTokenError,
    WaitTimeout,
)

SOON_S = 10.0


@pytest.fixture
def portfolio(rival):
    return rival.create_portfolio("Q3")


def test_a_block_keeps_it_and_gives_it_back(sync_client, rival, portfolio):
    with sync_client.coordinate(portfolio_id=portfolio.id, ttl_seconds=0.6, role="lead") as lease:
        assert (lease.portfolio_id, lease.role) == (portfolio.id, "lead")
        with pytest.raises(WaitTimeout) as waited:
            rival.acquire_coordinator_lease(portfolio_id=portfolio.id, wait_seconds=1.5)
        assert waited.value.current_holder == sync_client.agent_id
        lease.check()
    assert rival.list_coordinator_leases(portfolio.id) == []


def test_a_block_whose_lease_was_revoked_is_lost(sync_client, rival, portfolio):
    lost = threading.Event()
    with (
        pytest.raises(LeaseLost),
        sync_client.coordinate(portfolio.id, ttl_seconds=0.6, on_lost=lambda _: lost.set()) as lease,
    ):
        rival.revoke_lease(lease.id, "a coup")
        assert lost.wait(SOON_S)


@pytest.mark.anyio
async def test_a_task_that_coordinates_is_cancelled_when_it_may_no_longer(server_url, rival, portfolio):
    async with AsyncOpenIntentClient(server_url) as client:
        with pytest.raises(LeaseLost):
            async with client.coordinate(portfolio_id=portfolio.id, ttl_seconds=0.6) as lease:
                await asyncio.to_thread(rival.revoke_lease, lease.id, "a coup")
                await asyncio.sleep(SOON_S)


def test_writes_to_what_is_coordinated_name_the_coordinators_token(sync_client, rival):
    intent = rival.create_intent("Report")
    with pytest.raises(LeaseLost), sync_client.coordinate(intent_id=intent.id) as lead:
        with sync_client.lease(intent.id, "plan") as inner:
            assert sync_client._holder.token_for(intent.id, None) == inner.token
        assert sync_client._holder.token_for(intent.id, None) == lead.token
        assert sync_client._holder.token_for("another", None) is None
        sync_client.patch_state(intent.id, {"plan": 1})
        rival.revoke_lease(lead.id, "a coup")
        successor = rival.acquire_coordinator_lease(intent_id=intent.id)
        for write in (
            lambda: sync_client.patch_state(intent.id, {"plan": 2}),
            lambda: sync_client.set_status(intent.id, None, "completed"),
        ):
            with pytest.raises(StaleTokenError) as stale:
                write()
            assert (stale.value.token, stale.value.live_token) == (lead.token, successor.token)
    assert sync_client.set_status(intent.id, None, "completed").state == {"plan": 1}


@pytest.mark.anyio
async def test_writes_of_a_task_to_what_it_coordinates_name_its_token(server_url, rival):
    intent = rival.create_intent("Report")
    async with AsyncOpenIntentClient(server_url) as client, client.coordinate(intent_id=intent.id) as lead:
        assert client._holder.token_for(intent.id, None) == lead.token
        assert (await client.set_status(intent.id, None, "active")).status == "active"
        assert await asyncio.to_thread(client._holder.token_for, intent.id, None) == lead.token


def test_whoever_waits_is_next(sync_client, rival, portfolio):
    lease = rival.acquire_coordinator_lease(portfolio.id, ttl_seconds=30)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(sync_client.acquire_coordinator_lease, portfolio.id, wait_seconds=SOON_S)
        while not rival.get_queue(space=lease.space):
            pass
        rival.release_coordinator_lease(lease)
        assert waiting.result(SOON_S).token > lease.token


def test_whoever_gives_up_leaves_no_place_behind(server_url, rival, portfolio):
    lease = rival.acquire_coordinator_lease(portfolio.id, ttl_seconds=30)
    with OpenIntentClient(server_url) as client, pytest.raises(WaitTimeout):
        client.acquire_coordinator_lease(portfolio.id, wait_seconds=0.2)
    assert rival.get_queue(space=lease.space) == []


LEADER = """
import sys
from openintent import OpenIntentClient

client = OpenIntentClient(sys.argv[1], agent_id="leader")
with client.coordinate(portfolio_id=sys.argv[2], ttl_seconds=float(sys.argv[3])) as lease:
    print(lease.token, flush=True)
    sys.stdin.read()
"""
TTL_S = 1.0
TAKEOVER_S_MAX = 0.1  # after the ttl


@pytest.mark.alone
def test_when_the_coordinator_is_killed_the_next_one_leads_within_its_ttl(http_url):
    with OpenIntentClient(http_url, agent_id="next") as client:
        portfolio = client.create_portfolio("Q3")
        command = [sys.executable, "-c", LEADER, http_url, portfolio.id, str(TTL_S)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as leader:
            token = int(leader.stdout.readline())
            with pytest.raises(ConflictError) as refused:
                client.acquire_coordinator_lease(portfolio_id=portfolio.id)
            assert refused.value.current_holder == "leader"
            with ThreadPoolExecutor() as threads:
                waiting = threads.submit(_lead, client, portfolio.id)
                while not client.get_queue(space=f"coordinator:portfolio:{portfolio.id}"):
                    pass
                killed_at = monotonic()
                leader.kill()
                lease, led_at = waiting.result(SOON_S)
        assert lease.token > token
        assert led_at - killed_at < TTL_S + TAKEOVER_S_MAX


def _lead(client, portfolio_id):
    lease = client.acquire_coordinator_lease(portfolio_id=portfolio_id, wait_seconds=SOON_S)
    return lease, monotonic()
