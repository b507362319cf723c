"""Portfolios, agents, relatives and rules, with both clients: the same tests for each."""

import pytest

from openintent import (
    AsyncOpenIntentClient,
    ConflictError,
    LeaseConflictError,
    NotFoundError,
    PermissionError_,
    ValidationError,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def intent(client):
    return await client.create_intent("Plan a trip")


async def test_a_server_says_what_it_is(client):
    found = await client.discover()
    assert (found.name, found.api_base_url) == ("openintent-leases", "/api/v1")
    assert {"leasing", "portfolios", "subscriptions"} <= set(found.capabilities)


# Intents


async def test_who_is_named_when_an_intent_is_made_is_assigned(client):
    made = await client.create_intent("Plan", assign=["ada", "bob"])
    assert [each.agent_id for each in await client.list_assigned_agents(made.id)] == ["ada", "bob"]
    assert made.id in {each.intent_id for each in await client.get_assignments("ada")}


async def test_a_deleted_intent_is_gone_and_one_in_use_is_not_deleted(client, intent):
    lease = await client.acquire_lease(intent.id)
    with pytest.raises(ConflictError):
        await client.delete_intent(intent.id)
    await client.release_lease(lease)
    await client.delete_intent(intent.id)
    with pytest.raises(NotFoundError):
        await client.get_intent(intent.id)
    with pytest.raises(NotFoundError):
        await client.delete_intent(intent.id)


async def test_lists_have_all_their_pages(client, monkeypatch):
    made = [(await client.create_intent(f"Page {number}", status="blocked")).id for number in range(5)]
    for module in ("sync", "awaited"):
        monkeypatch.setattr(f"openintent.client.{module}.intents.PAGE_MAX", 2)
    listed = [found.id for found in await client.list_intents("blocked")]
    assert [each for each in listed if each in made] == made
    assert len(await client.list_intents("blocked", limit=3)) == 3


async def test_parts_of_an_intent(client, intent):
    first = await client.create_child_intent(intent.id, "Book a hotel", assign="ada")
    second = await client.create_child_intent(intent.id, "Pack", depends_on=[first.id])
    below = await client.create_child_intent(first.id, "Compare prices")
    assert first.parent_intent_id == intent.id
    assert [each.id for each in await client.get_children(intent.id)] == [first.id, second.id]
    assert [each.id for each in await client.get_descendants(intent.id)] == [first.id, second.id, below.id]
    assert [each.id for each in await client.get_ancestors(below.id)] == [first.id, intent.id]
    assert [each.id for each in await client.get_ready_intents(intent.id)] == [first.id]
    assert [each.id for each in await client.get_blocked_intents(intent.id)] == [second.id]
    assert [each.agent_id for each in await client.list_assigned_agents(first.id)] == ["ada"]


async def test_dependencies_come_and_go(client, intent):
    other = await client.create_intent("Save money")
    waiting = await client.add_dependency(intent.id, other.id, expected_version=intent.version)
    assert waiting.depends_on == [other.id]
    assert [each.id for each in await client.get_dependencies(intent.id)] == [other.id]
    assert [each.id for each in await client.get_dependents(other.id)] == [intent.id]
    with pytest.raises(ValidationError):
        await client.add_dependency(other.id, intent.id)
    with pytest.raises(ConflictError):
        await client.remove_dependency(intent.id, other.id, expected_version=intent.version)
    assert (await client.remove_dependency(intent.id, other.id)).depends_on == []


# Governance


async def test_a_policy_is_in_force_until_it_is_removed(client, make_client, intent):
    ruled = await client.set_governance_policy(intent.id, write_scope="assigned_only", require_status_reason=True)
    assert ruled.governance_policy["write_scope"] == "assigned_only"
    policy = await client.get_governance_policy(intent.id)
    assert policy.effective_policy["completion_mode"] == "auto"
    with pytest.raises(PermissionError_):
        await make_client().patch_state(intent.id, {"a": 1})
    await client.remove_governance_policy(intent.id, expected_version=ruled.version)
    assert (await client.get_governance_policy(intent.id)).governance_policy == {}
    assert (await make_client().patch_state(intent.id, {"a": 1})).state == {"a": 1}


async def test_rules_that_there_are_not_are_refused(client, intent):
    with pytest.raises(TypeError, match="a policy has no write_scopes"):
        await client.set_governance_policy(intent.id, write_scopes="any")


async def test_decisions_are_recorded_and_questions_asked(client, intent):
    decision = await client.record_decision(intent.id, "approval", "yes", rationale="it is cheap")
    assert (decision.decided_by, decision.outcome, decision.reasoning) == (client.agent_id, "yes", "it is cheap")
    assert await client.get_decisions(intent.id) == [decision]
    assert decision.created_at.tzinfo is not None
    asked = await client.request_arbitration(intent.id, "two hotels, one budget", {"hotels": 2})
    assert (asked.requester_id, asked.status, asked.context) == (client.agent_id, "pending", {"hotels": 2})


# Portfolios


async def test_a_portfolio_has_intents(client, intent):
    portfolio = await client.create_portfolio("Q3", "what is to be done", metadata={"floor": 2}, governance={"a": 1})
    assert (portfolio.name, portfolio.metadata, portfolio.governance_policy) == ("Q3", {"floor": 2}, {"a": 1})
    assert await client.get_portfolio(portfolio.id) == portfolio
    await client.add_intent_to_portfolio(portfolio.id, intent.id)
    member = await client.add_intent_to_portfolio(portfolio.id, intent.id, role="primary", priority=3)
    assert (member.intent_id, member.role, member.priority) == (intent.id, "primary", 3)
    inside = await client.get_portfolio_intents(portfolio.id)
    assert ([each.id for each in inside], inside.memberships, len(inside)) == ([intent.id], [member], 1)
    assert (inside.aggregate_status.total, inside.aggregate_status.completion_percentage) == (1, 0)
    assert await client.get_intent_portfolios(intent.id) == [portfolio]
    await client.remove_intent_from_portfolio(portfolio.id, intent.id)
    assert len(await client.get_portfolio_intents(portfolio.id)) == 0
    with pytest.raises(NotFoundError):
        await client.remove_intent_from_portfolio(portfolio.id, intent.id)


async def test_portfolios_are_listed_page_by_page(client, monkeypatch):
    for module in ("sync", "awaited"):
        monkeypatch.setattr(f"openintent.client.{module}.portfolios.PAGE_MAX", 2)
    me = client.agent_id
    made = [(await client.create_portfolio(f"P{number}", created_by=me)).id for number in range(5)]
    assert [each.id for each in await client.list_portfolios(me)] == made
    assert [each.id for each in await client.list_portfolios(me, limit=2, offset=1)] == made[1:3]


async def test_a_portfolio_is_completed(client):
    portfolio = await client.create_portfolio("Q3")
    assert (await client.update_portfolio_status(portfolio.id, "completed")).status == "completed"
    with pytest.raises(ValidationError):
        await client.update_portfolio_status(portfolio.id, "half")


# Agents


async def test_an_agent_is_registered_marked_and_taken_off(client):
    record = await client.register_agent(capabilities=["nlp"], role_id="researcher", capacity=3, metadata={"v": 1})
    assert (record.agent_id, record.status, record.role_id) == (client.agent_id, "active", "researcher")
    assert (record.capacity.max_concurrent_tasks, record.capabilities) == (3, ["nlp"])
    assert (await client.agent_heartbeat(current_load=2)).agent_status == "active"
    found = await client.get_agent_record()
    assert found.current_load == 2
    assert found.last_heartbeat.tzinfo is not None
    assert client.agent_id in {each.agent_id for each in await client.list_agents(role_id="researcher")}
    assert (await client.update_agent_status(client.agent_id, "draining")).status == "draining"
    assert (await client.deregister_agent()).status == "deregistered"
    assert client.agent_id not in {each.agent_id for each in await client.list_agents()}


async def test_agents_are_listed_page_by_page(client, monkeypatch):
    for module in ("sync", "awaited"):
        monkeypatch.setattr(f"openintent.client.{module}.agents.PAGE_MAX", 2)
    role = f"pool-{client.agent_id}"
    made = [f"{role}-{number}" for number in range(5)]
    for agent_id in made:
        await client.register_agent(agent_id, role_id=role)
    assert [each.agent_id for each in await client.list_agents(role_id=role)] == made


async def test_assignments(client, intent):
    given = await client.assign_agent(intent.id, role="lead")
    assert (given.agent_id, given.role, given.intent_title) == (client.agent_id, "lead", "Plan a trip")
    assert await client.get_assignments() == [given]
    assert await client.list_assigned_agents(intent.id) == [given]
    await client.unassign_agent(intent.id)
    assert await client.get_assignments() == []


async def test_agents_under_the_documents_names(server_url):
    async with AsyncOpenIntentClient(server_url, agent_id="documented") as client:
        registration = await client.agents.register(
            agent_id="documented", role_id="researcher", capabilities=["nlp"], capacity=5, metadata={"version": "2.1"}
        )
        assert (registration.agent_id, registration.status) == ("documented", "active")
        assert (await client.agents.heartbeat(agent_id="documented", status="active", current_load=3)).status == "ok"
        assert (await client.agents.get_status(agent_id="documented")).current_load == 3
        assert "documented" in {each.agent_id for each in await client.agents.list(role_id="researcher")}
        assert (await client.agents.drain(agent_id="documented")).status == "draining"
        assert (await client.agents.deregister(agent_id="documented")).status == "deregistered"
        assert (await client.agents.get("documented")).status == "deregistered"


def test_agents_under_the_documents_names_without_a_loop(sync_client):
    assert sync_client.agents.register(capacity=2).capacity.max_concurrent_tasks == 2
    assert sync_client.agents.heartbeat().agent_status == "active"
    assert sync_client.agents.drain().status == "draining"
    assert sync_client.agents.get_status().status == "draining"


# Going through


def test_going_through_asks_page_by_page(sync_client, monkeypatch):
    for subject in ("intents", "portfolios", "agents", "events"):
        monkeypatch.setattr(f"openintent.client.sync.{subject}.PAGE_MAX", 2)
    me = sync_client.agent_id
    intents = [sync_client.create_intent(f"I{number}", status="active").id for number in range(5)]
    portfolios = [sync_client.create_portfolio(f"P{number}", created_by=me).id for number in range(5)]
    for number in range(5):
        sync_client.register_agent(f"{me}-{number}", role_id=me)
    logged = [sync_client.log_event(None, "comment", {"n": number}, space=me) for number in range(5)]
    assert [found.id for found in sync_client.iter_intents("active") if found.id in intents] == intents
    assert [found.id for found in sync_client.iter_portfolios(me)] == portfolios
    assert [found.agent_id for found in sync_client.iter_agents(role_id=me)] == [f"{me}-{n}" for n in range(5)]
    assert list(sync_client.iter_events(space=me)) == logged
    assert list(sync_client.iter_events(space=me, after=logged[2].seq, types=["comment"])) == logged[3:]


async def test_going_through_in_a_loop(server_url, monkeypatch):
    monkeypatch.setattr("openintent.client.awaited.events.PAGE_MAX", 2)
    async with AsyncOpenIntentClient(server_url) as client:
        logged = [await client.log_event(None, "comment", {"n": n}, space=client.agent_id) for n in range(5)]
        assert [event async for event in client.iter_events(space=client.agent_id)] == logged
        portfolio = await client.create_portfolio("P", created_by=client.agent_id)
        assert [found async for found in client.iter_portfolios(client.agent_id)] == [portfolio]


# Events


async def test_every_place_has_a_log(client, intent):
    portfolio = await client.create_portfolio("Q3")
    space = f"build-{client.agent_id}"
    places = [{"space": space}, {"portfolio_id": portfolio.id}, {"agent_id": client.agent_id}]
    for place in places:
        logged = await client.log_event(None, "comment", {"text": "hello"}, **place)
        assert await client.get_events(**place, types="comment") == [logged]
    with pytest.raises(TypeError, match="name one of"):
        await client.get_events(intent.id, space=space)


# Spellings


async def test_what_there_is_not_is_said(client):
    with pytest.raises(TypeError, match="a portfolio has no colour"):
        await client.create_portfolio("Q3", colour="red")
    with pytest.raises(TypeError, match="mean the same"):
        await client.create_portfolio("Q3", governance={}, governance_policy={})
    with pytest.raises(TypeError, match="an agent has no colour"):
        await client.register_agent(colour="red")
    with pytest.raises(TypeError, match="either portfolio_id or intent_id"):
        await client.acquire_coordinator_lease()


# Coordinators


@pytest.fixture
async def portfolio(client):
    return await client.create_portfolio("Q3")


async def test_one_at_a_time_coordinates_a_portfolio(client, make_client, portfolio):
    lease = await client.acquire_coordinator_lease(
        portfolio_id=portfolio.id, ttl_seconds=60, role="lead", guardrails={"budget": 5}, metadata={"run": 1}
    )
    assert (lease.portfolio_id, lease.intent_id, lease.role) == (portfolio.id, None, "lead")
    assert (lease.guardrails, lease.metadata, lease.ttl_seconds) == ({"budget": 5}, {"run": 1}, 60.0)
    assert 59.0 < lease.remaining < 60.0
    other = make_client()
    with pytest.raises(LeaseConflictError) as held:
        await other.acquire_coordinator_lease(portfolio_id=portfolio.id)
    assert held.value.current_holder == client.agent_id
    (seen,) = await other.list_coordinator_leases(portfolio.id)
    assert (seen.id, seen.agent_id, seen.role) == (lease.id, client.agent_id, "lead")
    assert (await client.release_coordinator_lease(lease)).status == "released"
    assert not lease.is_active
    successor = await other.acquire_coordinator_lease(portfolio_id=portfolio.id)
    assert successor.token > lease.token


async def test_a_coordinators_lease_is_a_lease_like_any_other(client, make_client, intent):
    lease = await client.acquire_coordinator_lease(intent_id=intent.id, ttl_seconds=30)
    assert lease.space == f"coordinator:intent:{intent.id}"
    assert await client.renew_lease(lease.id, ttl_seconds=90) is lease
    assert await client.coordinator_heartbeat(lease, ttl_seconds=120) is lease
    assert lease.remaining > 110
    assert (await client.agent_heartbeat(leases=[lease])).leases[0].verdict == "renewed"
    assert [each.id for each in await client.get_leases(space=lease.space)] == [lease.id]
    assert (await client.get_lease(lease.id)).timeline[0].event_type == "lease_acquired"
    assert await client.get_queue(space=lease.space) == []
    assert await client.check_token(lease.space, "*", lease.token)
    seen = await make_client().get_coordinator_lease(lease.id)
    assert (seen.intent_id, seen.role, seen.status) == (intent.id, "coordinator", "active")
    assert (await client.release_lease(lease)).status == "released"
    assert (await make_client().get_coordinator_lease(lease.id)).status == "released"


async def test_the_work_on_an_intent_is_not_in_the_way_of_its_coordinator(client, make_client, intent):
    await make_client().acquire_lease(intent.id)
    assert (await client.acquire_coordinator_lease(intent_id=intent.id)).is_active


async def test_a_supervisor_takes_it_away(client, make_client, portfolio):
    supervisor = make_client(agent_id=f"boss-of-{client.agent_id}")
    lease = await client.acquire_coordinator_lease(portfolio.id, supervisor_id=supervisor.agent_id)
    assert (await supervisor.release_coordinator_lease(lease.id)).status == "revoked"
    assert (await client.get_coordinator_lease(lease.id)).status == "revoked"


async def test_an_agent_is_made_the_coordinator(client, make_client, portfolio):
    other = make_client(agent_id=f"deputy-of-{client.agent_id}")
    made = await client.create_coordinator_lease(other.agent_id, portfolio_id=portfolio.id, coordinator_type="human")
    assert (made.agent_id, made.coordinator_type) == (other.agent_id, "human")
    assert (await other.coordinator_heartbeat(made.id)).is_active
