"""Many at once: one winner, no lost update, and tokens that only rise, whatever happens to the server and its file."""

import asyncio
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from everyengine import on_every_durable_engine, on_every_engine
from proving import Figures, size
from rawhttp import Connect, Connection
from serverprocess import ServerProcess

pytestmark = pytest.mark.anyio

RACERS = 32
RACES = size("races", 60)
RACE_S_MAX = 0.5  # of the time for one, on a busy machine
INCREMENTS = size("increments", 600)
INCREMENT_S_MAX = 0.1


@on_every_engine
@pytest.mark.timeout(60 + RACE_S_MAX * RACES)
async def test_of_32_racers_for_one_scope_exactly_one_wins_in_each_round(
    server: ServerProcess, connect: Connect, figures: Figures
):
    racers = [connect(f"racer-{n}") for n in range(RACERS)]
    ask = {"scope": "build", "ttl_seconds": 60}
    tokens = [0]
    for _ in range(RACES):
        answers = await asyncio.gather(*(racer.call("POST", "/spaces/race/leases", ask) for racer in racers))
        [winner] = [n for n, answer in enumerate(answers) if answer.ok]
        lost = [answer for answer in answers if not answer.ok]
        assert {answer.code for answer in lost} == {"lease_held"}
        assert {answer.body["current_holder"] for answer in lost} == {f"racer-{winner}"}
        tokens.append(answers[winner].body["token"])
        released = await racers[winner].call("DELETE", f"/leases/{answers[winner].body['id']}")
        assert released.ok
    assert all(earlier < later for earlier, later in pairwise(tokens))
    figures.add("races for one scope", engine=server.engine_name, rounds=RACES, racers=RACERS, more_than_one_winner=0)


class Counter:
    """What all incrementers share: how many increments are still to be made, and which versions were acknowledged."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.versions: list[int] = []
        self.conflicts = 0


async def increment(agent: Connection, name: str, counter: Counter) -> int:
    """Compare and set, again and again; returns how many times this one succeeded."""
    version, mine = 1, 0
    while counter.left > 0:
        # The first version is 1 and holds 0. The writer's own tally beside it would show an overwritten update.
        patches = [
            {"op": "set", "path": "n", "value": version},
            {"op": "set", "path": f"tally/{name}", "value": mine + 1},
        ]
        answer = await agent.call("POST", "/intents/counter/state", {"patches": patches}, match=version)
        if answer.ok:
            assert answer.body["version"] == version + 1
            counter.left -= 1
            counter.versions.append(version + 1)
            version, mine = version + 1, mine + 1
        else:
            assert answer.code == "version_conflict", answer
            counter.conflicts += 1
            version = answer.body["current_version"]
    return mine


@on_every_engine
@pytest.mark.slow
@pytest.mark.timeout(60 + INCREMENT_S_MAX * INCREMENTS)
async def test_of_many_concurrent_increments_by_compare_and_set_none_is_lost(
    server: ServerProcess, connect: Connect, figures: Figures
):
    body = {"id": "counter", "title": "counter", "state": {"n": 0, "tally": {}}}
    assert (await connect("first").call("POST", "/intents", body)).ok

    counter = Counter(INCREMENTS)
    names = [f"w{n}" for n in range(RACERS)]
    counts = await asyncio.gather(*(increment(connect(name), name, counter) for name in names))

    # Whoever was under way when the last one was counted finished, too.
    made = sum(counts)
    final = (await connect("reader").call("GET", "/intents/counter")).body
    lost = made - final["state"]["n"]
    seen = {"made": made, "conflicts": counter.conflicts, "lost": lost, "connections": RACERS}
    figures.add("increments by compare and set", engine=server.engine_name, **seen)
    assert made >= INCREMENTS
    assert sorted(counter.versions) == list(range(2, made + 2))
    assert final["version"] == made + 1
    assert final["state"]["n"] == made
    assert final["state"]["tally"] == {name: count for name, count in zip(names, counts, strict=True) if count}


class Tokens:
    """Grants on some scopes; every token must be larger than all before."""

    def __init__(self, agent: Connection) -> None:
        self._agent = agent
        self.newest = 0

    async def grant(self, *, times: int) -> None:
        for n in range(times):
            answer = await self._agent.call("POST", "/spaces/s/leases", {"scope": f"part-{n}", "ttl_seconds": 60})
            assert answer.ok, answer
            assert answer.body["token"] > self.newest
            self.newest = answer.body["token"]
            released = await self._agent.call("DELETE", f"/leases/{answer.body['id']}")
            assert released.ok


@on_every_durable_engine
async def test_tokens_rise_over_a_kill_and_over_a_clean_stop(server: ServerProcess, connect: Connect):
    agent = connect("a")
    tokens = Tokens(agent)
    for end in (server.kill, server.stop, server.kill, server.kill, server.stop, server.stop):
        await tokens.grant(times=20)
        agent.close()
        end()
        server.start()
    await tokens.grant(times=20)


def copy_database(source: Path, target: Path) -> None:
    """The database as somebody copies it by hand: its log with it if there is one, and no other file."""
    shutil.copy(source, target)
    wal = source.with_name(source.name + "-wal")
    for suffix in ("-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    if wal.exists():
        shutil.copy(wal, target.with_name(target.name + "-wal"))


@pytest.mark.parametrize("copied_after", ["kill", "stop"])
@pytest.mark.parametrize("put_back_after", ["kill", "stop"])
async def test_tokens_rise_over_an_older_database_file_that_is_put_back_by_hand(
    copied_after: str, put_back_after: str, server: ServerProcess, connect: Connect, tmp_path: Path
):
    agent = connect("a")
    tokens = Tokens(agent)
    copy = tmp_path / "copy.db"

    await tokens.grant(times=20)
    agent.close()
    getattr(server, copied_after)()
    copy_database(server.database, copy)
    for _ in range(2):
        server.start()
        await tokens.grant(times=50)
        agent.close()
        getattr(server, put_back_after)()
        copy_database(copy, server.database)
    server.start()
    assert "is older than it was" in server.log.read_text()
    await tokens.grant(times=20)
