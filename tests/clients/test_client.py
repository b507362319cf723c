"""Both clients against a real server: the same tests for each."""

import asyncio

import pytest

from openintent import (
    ConflictError,
    LeaseConflictError,
    LeaseLost,
    NotFoundError,
    StaleTokenError,
    Unavailable,
    ValidationError,
    WaitTimeout,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def intent(client):
    return await client.create_intent("Plan a trip", initial_state={"hotel": None})


@pytest.fixture
def other(make_client):
    return make_client()


# Intents


async def test_an_intent_is_created_and_read(client):
    made = await client.create_intent("Plan", "a trip", constraints={"budget": 5}, initial_state={"a": 1})
    found = await client.get_intent(made.id)
    assert found == made
    assert (found.title, found.description, found.state.get("a"), found.version) == ("Plan", "a trip", 1, made.version)
    assert found.created_at.tzinfo is not None


async def test_an_intent_with_a_chosen_id_is_created_once(client):
    made = await client.create_intent("Plan", id=f"trip-{client.agent_id}")
    again = await client.create_intent("Plan", id=made.id)
    assert again == made
    with pytest.raises(ConflictError):
        await client.create_intent("Another", id=made.id)


async def test_intents_are_listed(client, intent):
    assert intent.id in {found.id for found in await client.list_intents(limit=1_000)}


async def test_state_is_patched_by_keys_and_by_paths(client, intent):
    await client.patch_state(intent.id, {"hotel": {"name": "Ritz"}, "notes": []})
    await client.patch_state(intent.id, {"hotel/stars": 5})
    await client.patch_state(intent.id, [{"op": "append", "path": "notes", "value": "book it"}])
    after = await client.patch_state(intent.id, [{"op": "remove", "path": "/hotel/name"}])
    assert after.state == {"hotel": {"stars": 5}, "notes": ["book it"]}
    assert after.version == intent.version + 4


async def test_a_write_on_an_old_version_conflicts(client, intent):
    await client.patch_state(intent.id, {"a": 1}, expected_version=intent.version)
    with pytest.raises(ConflictError) as conflict:
        await client.patch_state(intent.id, {"a": 2}, expected_version=intent.version)
    assert conflict.value.current_version == intent.version + 1
    assert not isinstance(conflict.value, LeaseConflictError)
    after = await client.update_state(intent.id, intent.version + 1, {"a": 3})
    assert after.state["a"] == 3


async def test_the_status_is_set(client, intent):
    assert (await client.set_status(intent.id, intent.version, "active")).status == "active"
    assert (await client.set_status(intent.id, None, "completed", "done")).status == "completed"


async def test_events_are_logged_and_read(client, intent):
    logged = await client.log_event(intent.id, "comment", {"text": "hello"})
    assert logged.actor == client.agent_id
    oldest_first = await client.get_events(intent.id, order="asc")
    assert [event.seq for event in oldest_first] == sorted(event.seq for event in oldest_first)
    assert oldest_first[-1] == logged
    assert (await client.get_events(intent.id, limit=1))[0] == logged
    assert await client.get_events(intent.id, after=logged.seq) == []
    assert await client.get_events(intent.id, types=["comment"]) == [logged]


async def test_what_does_not_exist_is_not_found(client):
    with pytest.raises(NotFoundError):
        await client.get_intent("nowhere")
    with pytest.raises(NotFoundError):
        await client.renew_lease("nothing")


async def test_what_is_wrong_is_said(client, intent):
    with pytest.raises(ValidationError) as wrong:
        await client.acquire_lease(intent.id, ttl_seconds=0.001)
    assert wrong.value.errors


# Leases


async def test_a_lease_is_taken_renewed_and_given_back(client, intent):
    lease = await client.acquire_lease(intent.id, scope="research", ttl_seconds=60)
    assert (lease.intent_id, lease.space, lease.scope) == (intent.id, f"intent:{intent.id}", "research")
    assert (lease.agent_id, lease.status, lease.ttl_seconds) == (client.agent_id, "active", 60.0)
    assert 59.0 < lease.remaining < 60.0
    assert lease.expires_at.tzinfo is not None
    renewed = await client.renew_lease(intent.id, lease.id, ttl_seconds=120)
    assert renewed is lease
    assert 119.0 < lease.remaining < 120.0
    released = await client.release_lease(intent.id, lease.id)
    assert released.status == "released"
    assert not lease.is_active
    with pytest.raises(LeaseLost):
        lease.check()


async def test_every_spelling_works(client, intent):
    lease = await client.acquire_lease(intent_id=intent.id, scope="a", duration_seconds=30)
    await client.renew_lease(lease.id, ttl_seconds=30)
    await client.renew_lease(lease_id=lease.id, duration_seconds=30)
    await client.renew_lease(intent_id=intent.id, lease_id=lease.id)
    await client.renew_lease(lease)
    await client.release_lease(lease.id)
    assert (await client.release_lease(lease)).status == "released"
    assert (await client.release_lease(intent.id, lease_id=lease)).status == "released"


async def test_a_held_scope_names_its_holder(client, other, intent):
    await client.acquire_lease(intent.id, "a")
    with pytest.raises(LeaseConflictError) as conflict:
        await other.acquire_lease(intent.id, "a")
    assert isinstance(conflict.value, ConflictError)
    assert conflict.value.current_holder == client.agent_id
    assert conflict.value.existing_lease["scope"] == "a"
    await other.acquire_lease(intent.id, "b")


async def test_a_waiter_gets_what_is_given_back(client, other, intent):
    held = await client.acquire_lease(intent.id, "a")
    waiting = asyncio.create_task(other.acquire_lease(intent.id, "a", wait_seconds=20))
    while not any(waiter.waited_seconds > 0 for waiter in await client.get_queue(intent.id, "a")):
        pass
    await client.release_lease(held)
    lease = await waiting
    assert lease.token > held.token
    assert lease.waited_seconds > 0
    assert lease.remaining > 59.0


async def test_whoever_gives_up_leaves_the_queue(client, other, intent):
    await client.acquire_lease(intent.id, "a")
    with pytest.raises(WaitTimeout) as timeout:
        await other.acquire_lease(intent.id, "a", wait_seconds=0.2)
    assert isinstance(timeout.value, TimeoutError)
    assert await client.get_queue(intent.id) == []


async def test_a_plain_space_needs_no_intent(client, other):
    name = f"build {client.agent_id}"
    lease = await client.acquire_lease(space=name, scope="x86/**")
    assert (lease.intent_id, lease.space) == (None, f"space:{name}")
    with pytest.raises(LeaseConflictError):
        await other.acquire_lease(space=lease.space, scope="x86/debug")
    assert [found.id for found in await other.get_leases(space=name)] == [lease.id]
    await client.release_lease(lease)
    assert await other.get_leases(space=name) == []


async def test_leases_are_listed(client, other, intent):
    one = await client.acquire_lease(intent.id, "a", purpose="to test", metadata={"run": 1})
    two = await other.acquire_lease(intent.id, "b")
    found = {lease.id: lease for lease in await client.get_leases(intent.id)}
    assert found.keys() == {one.id, two.id}
    assert found[one.id] is one
    assert (one.purpose, one.metadata) == ("to test", {"run": 1})
    found[two.id].is_active  # noqa: B018  # of another's lease one may look, but not act on it
    with pytest.raises(LeaseLost):
        found[two.id].check()
    assert [lease.id for lease in await client.list_leases(agent_id=client.agent_id)] == [one.id]
    assert [lease.id for lease in await client.get_leases(intent.id, scope="b")] == [two.id]


async def test_an_ended_lease_tells_its_story(client, other, intent):
    lease = await client.acquire_lease(intent.id)
    revoked = await other.revoke_lease(lease.id, "maintenance")
    assert revoked.status == "revoked"
    found = await client.get_lease(lease.id)
    assert found.status == "revoked"
    assert [event.event_type for event in found.timeline][:1] == ["lease_acquired"]
    with pytest.raises(LeaseLost) as lost:
        await client.renew_lease(lease.id)
    assert lost.value.reason == "revoked"


async def test_a_token_is_live_until_its_lease_ends(client, intent):
    lease = await client.acquire_lease(intent.id, "a")
    assert await client.check_token(lease.space, "a", lease.token)
    assert not await client.check_token(lease.space, "a", lease.token - 1)
    await client.release_lease(lease)
    assert not await client.check_token(lease.space, "a", lease.token)


async def test_a_write_under_a_dead_lease_is_refused(client, intent):
    lease = await client.acquire_lease(intent.id, "a")
    await client.patch_state(intent.id, {"a": 1}, lease=lease)
    await client.release_lease(lease)
    for named in (lease, lease.token):
        with pytest.raises(StaleTokenError):
            await client.patch_state(intent.id, {"a": 2}, lease=named)
        with pytest.raises(StaleTokenError):
            await client.set_status(intent.id, None, "completed", lease=named)
    assert (await client.get_intent(intent.id)).status != "completed"


async def test_who_coordinates_more_than_the_intent_names_its_lease_to_write_there(client, other, intent):
    portfolio = await client.create_portfolio("Q3")
    await client.add_intent_to_portfolio(portfolio.id, intent.id)
    lead = await client.acquire_coordinator_lease(portfolio_id=portfolio.id)
    part = await client.create_child_intent(intent.id, "Chapter")
    for each in (intent, part):
        assert (await client.patch_state(each.id, {"a": 1}, lease=lead)).state["a"] == 1
        assert (await client.set_status(each.id, None, "active", lease=lead)).status == "active"
    await client.release_coordinator_lease(lead)
    successor = await other.acquire_coordinator_lease(portfolio_id=portfolio.id)
    with pytest.raises(StaleTokenError) as stale:
        await client.set_status(part.id, None, "completed", lease=lead)
    assert (stale.value.token, stale.value.live_token) == (lead.token, successor.token)


async def test_a_write_under_anothers_scope_is_refused(client, other, intent):
    await client.acquire_lease(intent.id, "hotel")
    with pytest.raises(LeaseConflictError):
        await other.patch_state(intent.id, {"hotel": "Ritz"})


async def test_a_checkpoint_reaches_the_next_holder(client, other, intent):
    lease = await client.acquire_lease(intent.id, "a")
    await client.report_progress(lease, checkpoint={"page": 7})
    await client.report_progress(lease.id)
    assert lease.checkpoint == {"page": 7}
    await client.release_lease(lease)
    assert (await other.acquire_lease(intent.id, "a")).checkpoint == {"page": 7}


async def test_a_heartbeat_renews_exactly_what_it_lists(client, other, intent):
    listed = await client.acquire_lease(intent.id, "a", ttl_seconds=60)
    revoked = await client.acquire_lease(intent.id, "b", ttl_seconds=60)
    await other.revoke_lease(revoked.id, "why not")
    answer = await client.agent_heartbeat(leases=[listed, revoked])
    assert [(row.id, row.verdict) for row in answer.leases] == [(listed.id, "renewed"), (revoked.id, "lost")]
    assert listed.is_active
    assert revoked.status == "revoked"
    assert (await client.agent_heartbeat(status="active")).leases == []


async def test_an_own_scope_is_given_back_only_if_asked(client, intent):
    lease = await client.acquire_lease(intent.id, "a")
    with pytest.raises(LeaseConflictError):
        await client.acquire_lease(intent.id, "a")
    assert await client.acquire_lease(intent.id, "a", reentrant=True) is lease


async def test_a_lease_that_ended_for_us_comes_back_with_a_new_token(client, intent):
    """The server still has it, but work was cancelled under its token."""
    lease = await client.acquire_lease(intent.id, "a")
    lease._hold.lose("trust_ended")
    again = await client.acquire_lease(intent.id, "a", reentrant=True)
    assert again.token > lease.token
    again.check()


async def test_a_bound_on_holding_is_kept(client, intent):
    lease = await client.acquire_lease(intent.id, "a", ttl_seconds=60, max_hold_seconds=2)
    assert lease.remaining < 2.0
    await client.renew_lease(lease)
    assert lease.remaining < 2.0


async def test_where_no_server_is_it_is_said(make_client, monkeypatch):
    monkeypatch.setattr("openintent.client.flows.UNREACHABLE_S_MAX", 0.0)
    alone = make_client(base_url="http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="no server could be reached"):
        await alone.get_intent("i1")


async def test_any_of_several_addresses_will_do(make_client, http_url):
    client = make_client(base_url=["http://127.0.0.1:9", http_url])
    assert (await client.create_intent("Plan")).title == "Plan"
    assert client.base_url == "http://127.0.0.1:9"
