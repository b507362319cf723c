"""The examples of the OpenIntent documents about leases, state and conflicts run against our server, word for word.

The documents are not ours to ship: `OPENINTENT_DOCS` names the folder that has them. Of an example only the server's
address is replaced, and it is given only what it presumes: an intent, its id, clients, and the name `ConflictError`
where another example has imported it. The second half says the same in our own words and needs no folder.

The examples with agents, and the workflow, are in test_documents_agents.py.
"""

from datetime import datetime
from types import SimpleNamespace

import pytest
from documents import ADDRESS, example
from http_words import running_server

from openintent import OpenIntentClient
from openintent.exceptions import ConflictError


@pytest.fixture(scope="module")
def url():
    with running_server() as url:
        yield url


@pytest.fixture(params=[None, "dev-user-key"], ids=["without key", "with key"])
def key(request):
    return request.param


@pytest.fixture
def clients(url, key):
    """Two agents and a bystander, each with its own client."""
    made = {name: OpenIntentClient(base_url=url, api_key=key, agent_id=name) for name in ("worker-1", "rival", "third")}
    yield SimpleNamespace(one=made["worker-1"], rival=made["rival"], third=made["third"])
    for client in made.values():
        client.close()


@pytest.fixture
def intent(clients):
    return clients.third.create_intent("Write a report", initial_state={"progress": 0})


@pytest.fixture
def run(url, capsys):
    """Runs an example with what it presumes; gives its variables and what it printed."""
    opened = []

    def execute(text: str, **presumed):
        variables = dict(presumed)
        exec(text.replace(ADDRESS, url), variables)  # noqa: S102  # running the documents is the point
        if variables.get("client") is not presumed.get("client"):
            opened.append(variables["client"])
        return SimpleNamespace(**variables), capsys.readouterr().out

    yield execute
    for client in opened:
        client.close()


# Word for word


def test_the_example_of_acquiring_a_lease_on_a_scope(run, clients, intent):
    seen, printed = run(example('scope="data_processing"'), intent=intent)
    assert printed == f"Lease {seen.lease.id} acquired, expires at {seen.lease.expires_at}\n"
    (held,) = clients.third.get_leases(intent.id)
    assert (held.id, held.scope, held.agent_id, held.ttl_seconds) == (seen.lease.id, "data_processing", "worker-1", 120)


def test_the_example_of_renewing_a_lease(run, clients, intent):
    seen, printed = run(example("# Manual renewal"), client=clients.one, intent=intent)
    assert printed == f"New expiry: {seen.renewed.expires_at}\n"
    assert (seen.renewed.id, seen.renewed.token) == (seen.lease.id, seen.lease.token)
    assert seen.renewed.remaining > 55


def test_the_example_of_handling_a_conflict(run, clients, intent):
    held = clients.rival.acquire_lease(intent.id, scope="research")
    text = example("Another agent holds this lease")
    seen, printed = run(text, client=clients.one, intent=intent)
    assert printed == "Another agent holds this lease — waiting...\n"
    assert not hasattr(seen, "lease")
    clients.rival.release_lease(held.id)
    seen, printed = run(text, client=clients.one, intent=intent)
    assert (seen.lease.scope, seen.lease.agent_id, printed) == ("research", "worker-1", "")


def test_the_example_of_listing_leases(run, clients, intent):
    research = clients.one.acquire_lease(intent.id, scope="research", ttl_seconds=60)
    write = clients.rival.acquire_lease(intent.id, scope="write", ttl_seconds=60)
    seen, printed = run(example("# Get all leases for an intent"), client=clients.third, intent=intent)
    assert [lease.id for lease in seen.leases] == [research.id, write.id]
    lines = printed.splitlines()
    assert lines[0].startswith("Scope: research, Agent: worker-1, Status: active, Expires: ")
    assert lines[1].startswith("Scope: write, Agent: rival, Status: active, Expires: ")


def test_the_example_of_a_lease_from_beginning_to_end(run, clients, intent):
    seen, printed = run(example("# Release when done"), intent_id=intent.id)
    first, second = printed.splitlines()
    assert first == f"Lease ID: {seen.lease.id}"
    assert datetime.fromisoformat(second.removeprefix("Expires: ")) <= seen.lease.expires_at  # renewed after that
    assert clients.third.get_intent(intent.id).state.get("status") == "in_progress"
    assert clients.third.get_leases(intent.id) == []
    (ended,) = clients.third.get_leases(intent.id, status="all")
    assert (ended.id, ended.scope, ended.status) == (seen.lease.id, "*", "released")


def test_the_example_of_contention(run, clients, intent):
    presumed = {"client_a": clients.one, "client_b": clients.rival, "ConflictError": ConflictError}
    seen, printed = run(example("# Agent A acquires the lease"), intent=intent, **presumed)
    assert printed == "Intent already leased by worker-1\n"
    assert seen.lease_a.agent_id == "worker-1"
    assert not hasattr(seen, "lease_b")


def test_the_example_of_optimistic_concurrency(run, clients, intent):
    text = example("# Retry with fresh version")
    run(text, client=clients.one, intent_id=intent.id, ConflictError=ConflictError)
    after = clients.third.get_intent(intent.id)
    assert (after.state.get("progress"), after.version) == (50, intent.version + 1)


def test_the_example_of_optimistic_concurrency_when_another_was_faster(run, clients, intent):
    """Between the example's reading and its writing another agent writes: it must notice, read again and succeed."""
    client, met = clients.one, []

    class Hurried:
        """The same client; the first time somebody reads, the rival writes at once."""

        def get_intent(self, intent_id):
            found = client.get_intent(intent_id)
            if not met:
                clients.rival.patch_state(intent_id, {"note": "mine"}, expected_version=found.version)
            return found

        def patch_state(self, *args, **options):
            try:
                return client.patch_state(*args, **options)
            except ConflictError as conflict:
                met.append(conflict)
                raise

    presumed = {"client": Hurried(), "ConflictError": ConflictError}
    run(example("# Retry with fresh version"), intent_id=intent.id, **presumed)
    assert [conflict.current_version for conflict in met] == [intent.version + 1]
    assert dict(clients.third.get_intent(intent.id).state) == {"progress": 50, "note": "mine"}


def test_the_example_of_coordinating(run, clients):
    portfolio = clients.third.create_portfolio("Q3")
    seen, _ = run(example("acquire_coordinator_lease("), client=clients.one, portfolio=portfolio)
    lease = seen.coord_lease
    assert (lease.portfolio_id, lease.agent_id, lease.ttl_seconds) == (portfolio.id, "worker-1", 600)
    (held,) = clients.third.list_coordinator_leases(portfolio.id)
    assert (held.id, held.token) == (lease.id, lease.token)
    with pytest.raises(ConflictError) as conflict:
        run(example("acquire_coordinator_lease("), client=clients.rival, portfolio=portfolio)
    assert conflict.value.current_holder == "worker-1"


# In our own words


def test_one_agent_at_a_time_holds_a_scope(clients, intent):
    lease = clients.one.acquire_lease(intent_id=intent.id, scope="editing", ttl_seconds=30)
    with pytest.raises(ConflictError) as conflict:
        clients.rival.acquire_lease(intent_id=intent.id, scope="editing", ttl_seconds=30)
    assert conflict.value.current_holder == "worker-1"
    clients.one.release_lease(intent.id, lease.id)
    assert clients.rival.acquire_lease(intent_id=intent.id, scope="editing").agent_id == "rival"


def test_scopes_part_the_work_and_a_lease_on_the_whole_intent_takes_it_all(clients, intent):
    leases = [client.acquire_lease(intent.id, scope=client.agent_id) for client in (clients.one, clients.rival)]
    with pytest.raises(ConflictError):
        clients.third.acquire_lease(intent.id)
    for client, lease in zip((clients.one, clients.rival), leases, strict=True):
        client.release_lease(lease.id)
    assert clients.third.acquire_lease(intent.id).scope == "*"
    with pytest.raises(ConflictError):
        clients.one.acquire_lease(intent.id, scope="anything")


def test_a_renewed_lease_is_the_same_lease_and_ends_later(clients, intent):
    lease = clients.one.acquire_lease(intent.id, ttl_seconds=10)
    granted_until = lease.expires_at
    renewed = clients.one.renew_lease(lease.id, ttl_seconds=100)
    assert (renewed.id, renewed.token) == (lease.id, lease.token)
    assert renewed.expires_at > granted_until


def test_the_lifecycle_has_four_statuses(clients, intent):
    client = clients.one
    released, revoked = (client.acquire_lease(intent.id, scope=scope) for scope in ("a", "b"))
    client.release_lease(released.id)
    clients.third.revoke_lease(revoked.id, reason="governance")
    client.acquire_lease(intent.id, scope="c", ttl_seconds=0.1)
    clients.rival.acquire_lease(intent.id, scope="c", wait_seconds=5)
    statuses = [(lease.scope, lease.status) for lease in client.get_leases(intent.id, status="all")]
    assert statuses == [("a", "released"), ("b", "revoked"), ("c", "expired"), ("c", "active")]


def test_a_write_under_anothers_lease_or_to_an_old_version_is_a_conflict(clients, intent):
    lease = clients.one.acquire_lease(intent.id)
    with pytest.raises(ConflictError) as held:
        clients.rival.patch_state(intent.id, {"progress": 1})
    assert held.value.current_holder == "worker-1"
    written = clients.one.patch_state(intent.id, {"progress": 1})
    clients.one.release_lease(lease.id)
    with pytest.raises(ConflictError) as old:
        clients.rival.patch_state(intent.id, {"progress": 2}, expected_version=intent.version)
    assert old.value.current_version == written.version
    assert clients.rival.patch_state(intent.id, {"progress": 2}, expected_version=written.version).version == 3
