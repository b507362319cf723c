"""A server on SQLite, its ledger moved to each engine, and a server there: holders, readers and agents go on."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from commandline import OPENINTENT, CommandLine, environment
from engine_words import commit

from openintent import Lease, OpenIntentClient
from openintent.engines import open_engine

pytestmark = pytest.mark.slow  # each starts two servers

cli = CommandLine()
TTL_S = 120.0


@contextmanager
def serving(engine: str, *, leader_ttl_s: int = 1) -> Iterator[OpenIntentClient]:
    command = [*OPENINTENT, "serve", "--port", "0", "--engine", engine, "--log-level", "error"]
    with subprocess.Popen(
        command, env=environment(OPENINTENT_LEADER_TTL_SECONDS=str(leader_ttl_s)), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            with OpenIntentClient(url, agent_id="a") as client:
                yield client
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lease, list[str]]:
    """What was exported, the lease that is alive in it, and the ids of all events."""
    folder = tmp_path_factory.mktemp("moved")
    engine, file = f"sqlite:///{folder}/leases.db", folder / "ledger.jsonl"
    with serving(engine) as client:
        client.register_agent("a", capabilities=["x"])
        client.create_intent("one", id="one", initial_state={"n": 1})
        client.patch_state("one", {"n": 2})
        lease = client.acquire_lease("one", "build", ttl_seconds=TTL_S)
        client.release_lease(client.acquire_lease("one", "test").id)
        events = [event.id for event in client.get_events("one")]
        refused = cli("export", file, "--engine", engine)
        assert refused.code == 1
        assert "stop that server first" in refused.err
    done = cli("export", file, "--engine", engine, "--json")
    assert (done.code, done.json["leases"], done.json["intents"]) == (0, 1, 1), done.err
    return file, lease, events


def test_holders_readers_and_agents_go_on_where_they_were_moved_to(kept_url, moved):
    file, lease, events = moved
    done = cli("import", file, "--engine", kept_url, "--json")
    assert done.code == 0, done.err
    with serving(kept_url) as client:
        found = client.get_lease(lease.id)
        assert (found.is_active, found.token, found.agent_id) == (True, lease.token, "a")
        assert TTL_S - 20 < found.remaining_seconds <= TTL_S
        assert client.renew_lease(lease.id).is_active
        assert client.get_intent("one").state == {"n": 2}
        assert [event.id for event in client.get_events("one")] == events
        assert [agent.agent_id for agent in client.list_agents()] == ["a"]
        fresh = client.acquire_lease("one", "test")
    assert fresh.token > done.json["next_token_above"] > 1_000_000 * lease.token


def test_who_moves_a_ledger_is_asked_nothing_by_a_server_that_stands_by(servers):
    url = servers.fresh_url("redis")

    async def begun() -> None:
        engine = open_engine(url)
        await commit(engine, term=3, member="import")
        await engine.close()

    asyncio.run(begun())
    with serving(url, leader_ttl_s=60) as client:
        told = httpx2.get(f"{client.base_url}/api/v1/cluster").json()
        answer = httpx2.post(f"{client.base_url}/api/v1/intents", json={"title": "one"}, headers={"X-Agent-ID": "a"})
    assert (told["leader"], answer.status_code) == (None, 503)


def test_a_server_on_the_new_engine_is_not_exported_from_while_it_lives(kept_url, moved, tmp_path):
    file, _, _ = moved
    assert cli("import", file, "--engine", kept_url).code == 0
    with serving(kept_url):
        refused = cli("export", tmp_path / "again", "--engine", kept_url)
    assert (refused.code, (tmp_path / "again").exists()) == (1, False)
    assert "stop that server first" in refused.err
