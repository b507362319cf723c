"""Never run: type checkers must accept it. This is how the public names are used."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, assert_type

from openintent import (
    AgentRecord,
    Assignment,
    AsyncOpenIntentClient,
    ConflictError,
    CoordinatorLease,
    Decision,
    Event,
    EventsGone,
    Heartbeat,
    Intent,
    Lease,
    LeaseConflictError,
    LeaseLost,
    OpenIntentClient,
    OpenIntentError,
    Portfolio,
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
    assert_type(client.acquire_leases(intent.id, ["a", "b"], 60, priority=1), list[Lease | OpenIntentError])
    assert_type(client.release_leases([lease, "id"]), list[OpenIntentError | None])
    assert_type(client.get_leases(space="build"), list[Lease])
    assert_type(client.get_queue(intent.id), list[Waiter])
    assert_type(client.check_token("build", "a", 7), TokenCheck)
    with client.lease(intent.id, scope="a", ttl=30, on_lost=lambda lost: lost.token) as kept:
        assert_type(kept, Lease)
        kept.check()


def coordinators(client: OpenIntentClient, portfolio: Portfolio) -> None:
    lease = client.acquire_coordinator_lease(portfolio_id=portfolio.id, ttl_seconds=600, role="lead", wait_seconds=5)
    assert_type(lease, CoordinatorLease)
    assert_type(lease.portfolio_id, str | None)
    assert_type(client.coordinator_heartbeat(lease), CoordinatorLease)
    assert_type(client.list_coordinator_leases(intent_id="i"), list[CoordinatorLease])
    assert_type(client.release_coordinator_lease(lease.id), Released)
    with client.coordinate(portfolio.id, on_lost=lambda lost: lost.token) as kept:
        assert_type(kept, CoordinatorLease)


def subjects(client: OpenIntentClient, intent: Intent) -> None:
    portfolio = client.create_portfolio("Q3", metadata={"floor": 2}, id="q3")
    assert_type(portfolio, Portfolio)
    client.add_intent_to_portfolio(portfolio.id, intent.id, role="primary", priority=1)
    assert_type(list(client.get_portfolio_intents(portfolio.id)), list[Intent])
    assert_type(list(client.iter_portfolios()), list[Portfolio])
    assert_type(client.register_agent(capabilities=["nlp"], capacity=5), AgentRecord)
    assert_type(client.agents.register("a", role_id="writer").last_heartbeat, datetime | None)
    assert_type(client.assign_agent(intent.id, "a"), Assignment)
    assert_type(client.get_children(intent.id), list[Intent])
    assert_type(client.set_governance_policy(intent.id, write_scope="assigned_only"), Intent)
    assert_type(client.record_decision(intent.id, "approval", "yes"), Decision)
    assert_type(client.delete_intent(intent.id), None)


def streams(client: OpenIntentClient, intent: Intent) -> None:
    with client.subscribe_intent(intent.id, after=0, types=["comment"], on_gap="skip") as stream:
        assert_type(stream.cursor, int | None)
        for event in stream:
            assert_type(event, Event)
            assert_type(event.seq, int)
    try:
        next(client.subscribe_space("build", after=7))
    except EventsGone as gone:
        assert_type(gone.oldest, int | None)


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
        async with client.coordinate(portfolio_id="q3") as lead:
            assert_type(lead, CoordinatorLease)
        async for event in client.subscribe_agent():
            assert_type(event, Event)
        assert_type([found async for found in client.iter_intents()], list[Intent])
        assert_type(await client.agents.heartbeat(current_load=3), Heartbeat)
