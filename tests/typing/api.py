"""Never run: type checkers must accept it. This is how the public names are used."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_type

from openintent import (
    AsyncOpenIntentClient,
    ConflictError,
    Event,
    Intent,
    Lease,
    LeaseConflictError,
    LeaseLost,
    OpenIntentClient,
    Released,
    TokenCheck,
    Unavailable,
    Waiter,
)


def sync() -> None:
    with OpenIntentClient(["http://a", "http://b"], api_key="k", agent_id="worker-1", timeout=5) as client:
        intent = client.create_intent("Plan", constraints={"budget": 1}, initial_state={"a": 1}, assign="worker-2")
        assert_type(intent, Intent)
        assert_type(intent.state, dict[str, Any])
        assert_type(intent.created_at, datetime)
        assert_type(client.patch_state(intent.id, {"a": 1}, expected_version=intent.version), Intent)
        assert_type(client.patch_state(intent.id, [{"op": "remove", "path": "a"}]), Intent)
        assert_type(client.get_events(intent.id, limit=5), list[Event])
        leases(client, intent)


def leases(client: OpenIntentClient, intent: Intent) -> None:
    lease = client.acquire_lease(intent.id, "a", 60, wait_seconds=5, priority=1, reentrant=True, metadata={"run": 1})
    assert_type(lease, Lease)
    assert_type(lease.token, int)
    assert_type(lease.remaining, float)
    assert_type(lease.expires_at, datetime)
    assert_type(lease.metadata, Mapping[str, Any])
    assert_type(lease.lost.wait(1.0), bool)
    assert_type(client.renew_lease(lease.id, ttl_seconds=120), Lease)
    assert_type(client.renew_lease(intent.id, lease.id), Lease)
    assert_type(client.release_lease(lease), Released)
    assert_type(client.get_leases(space="build"), list[Lease])
    assert_type(client.get_queue(intent.id), list[Waiter])
    assert_type(client.check_token("build", "a", 7), TokenCheck)
    with client.lease(intent.id, scope="a", ttl=30, on_lost=lambda lost: lost.token) as kept:
        assert_type(kept, Lease)
        kept.check()


def errors(client: OpenIntentClient) -> None:
    try:
        client.acquire_lease(space="build", duration_seconds=5)
    except LeaseConflictError as held:
        assert_type(held.retry_after, float | None)
        assert_type(held.queue_length, int)
    except ConflictError as conflict:
        assert_type(conflict.current_holder, str | None)
    except LeaseLost as lost:
        assert_type(lost.reason, str | None)
    except Unavailable as later:
        assert_type(later.retry_after, float | None)


async def asynchronous() -> None:
    async with AsyncOpenIntentClient(agent_id="worker-1") as client:
        intent = await client.create_intent("Plan")
        assert_type(intent, Intent)
        async with client.lease(intent.id, "a", ttl_seconds=30, wait_seconds=10) as lease:
            assert_type(lease, Lease)
            assert_type(await client.patch_state(intent.id, {"a": lease.token}), Intent)
        assert_type(await client.acquire_lease(space="build"), Lease)
