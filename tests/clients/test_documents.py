"""The documents' own snippets, as they stand there; only the server's address is another."""

import pytest

from openintent import OpenIntentClient
from openintent.exceptions import ConflictError

ADDRESS = "http://localhost:8000"

ACQUIRE = """
from openintent import OpenIntentClient

client = OpenIntentClient(
    base_url="http://localhost:8000",
    api_key="dev-user-key",
    agent_id="worker-1"
)

# Acquire a lease on a specific scope
lease = client.acquire_lease(
    intent_id=intent.id,
    scope="data_processing",
    ttl_seconds=120  # Lease expires after 2 minutes
)

print(f"Lease {lease.id} acquired, expires at {lease.expires_at}")
"""

RENEW = """
# Manual renewal
lease = client.acquire_lease(intent.id, scope="analysis", ttl_seconds=60)

# ... do some work ...

# Extend the lease
renewed = client.renew_lease(intent.id, lease.id, ttl_seconds=60)
print(f"New expiry: {renewed.expires_at}")
"""

CONFLICT = """
from openintent.exceptions import ConflictError

try:
    lease = client.acquire_lease(intent.id, scope="research", ttl_seconds=60)
except ConflictError:
    print("Another agent holds this lease — waiting...")
"""

LIST = """
# Get all leases for an intent
leases = client.get_leases(intent.id)

for lease in leases:
    print(f"Scope: {lease.scope}, Agent: {lease.agent_id}, "
          f"Status: {lease.status}, Expires: {lease.expires_at}")
"""

IMPERATIVE = """
from openintent import OpenIntentClient

client = OpenIntentClient(
    base_url="http://localhost:8000",
    agent_id="worker-1"
)

intent = client.get_intent(intent_id)

# Acquire a lease (exclusive access for 120 seconds)
lease = client.acquire_lease(
    intent_id=intent.id,
    ttl_seconds=120
)

print(f"Lease ID: {lease.id}")
print(f"Expires: {lease.expires_at}")

# Do work while holding the lease...
client.patch_state(intent.id, {"status": "in_progress"})

# Renew if you need more time
client.renew_lease(lease.id, ttl_seconds=120)

# Release when done
client.release_lease(lease.id)
"""

CONTENTION = """
# Agent A acquires the lease
lease_a = client_a.acquire_lease(intent_id=intent.id, ttl_seconds=60)

# Agent B tries — gets rejected
try:
    lease_b = client_b.acquire_lease(intent_id=intent.id, ttl_seconds=60)
except ConflictError as e:
    print(f"Intent already leased by {e.current_holder}")
    # Wait or pick another intent
"""

OPTIMISTIC = """
# Fetch current version
intent = client.get_intent(intent_id)

# Update with version check
try:
    client.patch_state(
        intent.id,
        {"progress": 50},
        expected_version=intent.version
    )
except ConflictError:
    # Another agent modified the intent
    intent = client.get_intent(intent_id)  # Re-fetch
    client.patch_state(
        intent.id,
        {"progress": 50},
        expected_version=intent.version  # Retry with fresh version
    )
"""

COORDINATE = """
# Only one coordinator can manage a portfolio at a time
coord_lease = client.acquire_coordinator_lease(
    portfolio_id=portfolio.id,
    ttl_seconds=600
)

# If the coordinator crashes, the lease expires and
# another coordinator can take over (failover)
"""


@pytest.fixture
def run(server_url):
    """Runs a snippet, and closes the clients that it made."""
    made: list[dict] = []

    def run_snippet(snippet: str, **names: object) -> dict:
        made.append(dict(names))
        exec(snippet.replace(ADDRESS, server_url), made[-1])  # noqa: S102  # the documents' code, as it stands
        return made[-1]

    yield run_snippet
    for names in made:
        if isinstance(names.get("client"), OpenIntentClient):
            names["client"].close()


@pytest.fixture
def intent(rival):
    return rival.create_intent("Plan a trip")


def test_acquiring(run, intent, capsys):
    run(ACQUIRE, intent=intent)
    assert "acquired, expires at 2" in capsys.readouterr().out


def test_renewing(run, intent, sync_client, capsys):
    run(RENEW, client=sync_client, intent=intent)
    assert "New expiry: 2" in capsys.readouterr().out


def test_a_conflict(run, intent, sync_client, rival, capsys):
    rival.acquire_lease(intent.id, "research")
    run(CONFLICT, client=sync_client, intent=intent)
    assert "waiting" in capsys.readouterr().out


def test_listing(run, intent, sync_client, rival, capsys):
    rival.acquire_lease(intent.id, "research")
    run(LIST, client=sync_client, intent=intent)
    assert "Scope: research, Agent: rival, Status: active" in capsys.readouterr().out


def test_the_whole_life_of_a_lease(run, intent, rival):
    run(IMPERATIVE, intent_id=intent.id)
    assert rival.get_intent(intent.id).state == {"status": "in_progress"}
    assert rival.get_leases(intent.id) == []


def test_contention(run, intent, sync_client, rival, capsys):
    run(CONTENTION, client_a=rival, client_b=sync_client, intent=intent, ConflictError=ConflictError)
    assert "already leased by rival" in capsys.readouterr().out


def test_optimistic_writes(run, intent, sync_client, rival):
    run(OPTIMISTIC, client=sync_client, intent_id=intent.id, ConflictError=ConflictError)
    assert rival.get_intent(intent.id).state == {"progress": 50}


def test_coordinating(run, sync_client, rival):
    portfolio = rival.create_portfolio("Q3")
    lease = run(COORDINATE, client=sync_client, portfolio=portfolio)["coord_lease"]
    assert (lease.portfolio_id, lease.ttl_seconds) == (portfolio.id, 600)
    with pytest.raises(ConflictError) as conflict:
        run(COORDINATE, client=rival, portfolio=portfolio)
    assert conflict.value.current_holder == sync_client.agent_id
