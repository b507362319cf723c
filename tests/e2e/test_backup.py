"""A copy made under load, and brought back: tokens, terms and event numbers never fall, whatever else is left."""

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from promises import Agent
from proving import Figures
from rawhttp import Connect, Connection
from serverprocess import ServerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# Every answer during a copy comes within this, on any machine. The figure to read is the one that is added.
ANSWER_S_MAX = 2.0
WORK_S_MAX = 20.0


async def command(*words: object) -> dict[str, Any]:
    """The command line beside the load; what it prints as JSON."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openintent.cli", *map(str, words), "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    told: dict[str, Any] = json.loads(out)
    return told


class Marks:
    """The largest of everything that a server has ever said."""

    def __init__(self) -> None:
        self.token = self.seq = self.term = 0

    def see(self, agents: list[Agent]) -> None:
        for agent in agents:
            for op in agent.done:
                self.token, self.term = max(self.token, op.token), max(self.term, op.mark[0])
            self.seq = max([self.seq, *(seq for seq, _ in agent.notes)])

    async def see_grant(self, agent: Connection, scope: str) -> None:
        """One more grant and one more event, which must be above all that came before."""
        answer = await agent.call("POST", "/spaces/after/leases", {"scope": scope, "ttl_seconds": 60})
        assert answer.ok, answer
        assert answer.body["token"] > self.token, "a token came twice"
        assert answer.mark[0] > self.term
        note = await agent.call("POST", "/spaces/after/events", {"event_type": "note", "payload": {}})
        assert note.body["seq"] > self.seq, "a reader with the old cursor would miss this"
        resumed = (await agent.call("GET", f"/spaces/after/events?order=asc&types=note&after={self.seq}")).body
        assert note.body["seq"] in [event["seq"] for event in resumed]
        self.token, self.seq = answer.body["token"], note.body["seq"]


async def more_grants(agents: list[Agent], count: int) -> None:
    """Until the agents, at work, were granted that many more leases."""
    wanted = count + sum(op.token > 0 for agent in agents for op in agent.done)
    async with asyncio.timeout(WORK_S_MAX):
        while True:
            if sum(op.token > 0 for agent in agents for op in agent.done) >= wanted:
                return
            await asyncio.sleep(0.02)


def progress_of(agents: list[Agent]) -> list[tuple[int, int]]:
    return [(agent.version, len(agent.notes)) for agent in agents]


async def check_instant(
    reader: Connection, agents: list[Agent], *, before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    """That each agent's work is there up to one point between the beginning and the end of the copy, and no further."""
    for agent, (version_min, notes_min), (version_max, notes_max) in zip(agents, before, after, strict=True):
        intent = (await reader.call("GET", f"/intents/{agent.name}")).body
        assert version_min <= intent["version"] <= version_max + 1
        assert intent["state"] == {"n": intent["version"]}
        path = f"/spaces/{agent.name}/events?types=note&order=asc&limit=1000"
        logged = [(event["seq"], event["payload"]["n"]) for event in (await reader.call("GET", path)).body]
        assert notes_min <= len(logged) <= notes_max + 1
        assert logged[:notes_max] == agent.notes[: min(len(logged), notes_max)]


def lose(database: Path, what: list[str]) -> None:
    for ending in what:
        database.with_name(database.name + ending).unlink(missing_ok=True)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize(
    "lost",
    [
        pytest.param([], id="nothing-lost"),
        pytest.param([".lock"], id="lock-file-lost"),
        pytest.param(["", "-wal", "-shm", ".lock"], id="all-lost"),
    ],
)
async def test_after_a_restore_tokens_go_on_above_all_and_the_rest_is_that_of_the_copy(
    server: ServerProcess, connect: Connect, tmp_path: Path, lost: list[str], end: str, figures: Figures
):
    engine, copy, marks = f"sqlite:///{server.database}", tmp_path / "copy", Marks()
    keeper = connect("keeper")
    kept = (await keeper.call("POST", "/spaces/k/leases", {"scope": "kept", "ttl_seconds": 600})).body
    agents = [Agent(f"agent-{n}", connect(f"agent-{n}"), random.Random(n)) for n in range(6)]
    await asyncio.gather(*(agent.create() for agent in agents))
    work = [asyncio.create_task(agent.work()) for agent in agents]
    await more_grants(agents, 30)

    before = progress_of(agents)
    told = await command("backup", copy, "--engine", engine)
    after = progress_of(agents)
    await keeper.call("DELETE", f"/leases/{kept['id']}")  # after the copy: it is to be live again
    await more_grants(agents, 30)
    server.stop() if end == "stop" else server.kill()
    await asyncio.gather(*work)
    marks.see(agents)
    assert marks.token > told["token"], "too little happened after the copy"

    for again in range(2):
        lose(server.database, lost)
        await command("restore", copy, "--engine", engine, "--force")
        server.start()
        await check_instant(connect("reader"), agents, before=before, after=after)
        live = (await connect("reader").call("GET", "/leases?agent_id=keeper")).body["leases"]
        assert [(lease["id"], lease["token"]) for lease in live] == [(kept["id"], kept["token"])]
        for n in range(3):
            await marks.see_grant(connect("late"), f"part-{n}")
        marks.term = int((await connect("reader").call("GET", "/leases")).headers["x-term"])
        server.stop() if again == 0 else server.kill()
    figures.add(
        "an older copy brought back",
        server_ended_by=end,
        files_lost_before=len(lost),
        restores=2,
        acknowledged=sum(len(agent.done) for agent in agents),
        tokens_that_came_twice=0,
        event_numbers_that_came_twice=0,
    )


@pytest.mark.timeout(120)
async def test_a_copy_under_load_ends_and_does_not_hold_the_server_up(
    server: ServerProcess, connect: Connect, tmp_path: Path, figures: Figures
):
    agents = [Agent(f"agent-{n}", connect(f"agent-{n}"), random.Random(n)) for n in range(16)]
    await asyncio.gather(*(agent.create() for agent in agents))
    work = [asyncio.create_task(agent.work()) for agent in agents]
    await more_grants(agents, 30)
    done_before = [len(agent.done) for agent in agents]
    for n in range(5):
        await command("backup", tmp_path / f"copy-{n}", "--engine", f"sqlite:///{server.database}")
    during = [op for agent, start in zip(agents, done_before, strict=True) for op in agent.done[start:]]
    server.kill()
    await asyncio.gather(*work)
    longest_s = max(op.answered - op.called for op in during)
    figures.add("copies under load", copies=5, answers=len(during), answer_ms_max=round(1_000 * longest_s))
    assert len(during) > 100
    assert longest_s < ANSWER_S_MAX
