"""Under several times the load that can be served, holders keep what they hold and acquires are told to come back."""

import asyncio
import json
import sys
from pathlib import Path
from time import monotonic

import pytest
from rawhttp import Connect, Connection
from serverprocess import ServerProcess

from openintent import OpenIntentClient

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.alone, pytest.mark.busy]

HOLDERS = 200
TTL_S = 6.0
STORM_S = 8.0
RIDERS = 3_000


class Holder:
    """As the SDK does it: a heartbeat at a third of the ttl, and trust counted from when the last one was sent."""

    def __init__(self, line: Connection, number: int) -> None:
        self.line = line
        self.agent = f"holder-{number}"
        self.spare_s = TTL_S  # the least that was ever left of the lease when it was renewed
        self.lost = False

    async def acquire(self) -> None:
        self.sent_at = monotonic()
        body = {"agent_id": self.agent, "scope": self.agent, "ttl_seconds": TTL_S}
        self.lease = (await self.line.call("POST", "/spaces/held/leases", body)).body

    async def keep(self, stop: asyncio.Event) -> None:
        held = {"leases": [{"id": self.lease["id"], "token": self.lease["token"]}]}
        while not stop.is_set() and not self.lost:
            sent_at = monotonic()
            answer = await self.line.call("POST", f"/agents/{self.agent}/heartbeat", held)
            self.spare_s = min(self.spare_s, self.sent_at + TTL_S - monotonic())
            self.lost = not answer.ok or answer.body["leases"][0]["verdict"] != "renewed" or self.spare_s <= 0
            self.sent_at = sent_at
            try:
                await asyncio.wait_for(stop.wait(), TTL_S / 3)
            except TimeoutError:
                continue


async def bystander(line: Connection, stop: asyncio.Event) -> list[int]:
    """Somebody who has work to do meanwhile: reads, writes, renewals by name, releases."""
    seen = []
    while not stop.is_set():
        seen.append((await line.call("GET", "/intents/job")).status)
        seen.append((await line.call("PATCH", "/intents/job/state", {"state": {"at": len(seen)}}, match="*")).status)
    return seen


async def storm(server: ServerProcess) -> dict[str, int]:
    command = [sys.executable, str(Path(__file__).with_name("storm.py")), str(server.port), str(RIDERS), str(STORM_S)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    counted: dict[str, int] = json.loads(said)
    return counted


@pytest.mark.timeout(120)
async def test_a_storm_of_acquires_costs_no_holder_its_lease(server: ServerProcess, connect: Connect):
    holders = [Holder(connect(f"holder-{number}"), number) for number in range(HOLDERS)]
    worker = connect("worker")
    await worker.call("POST", "/intents", {"id": "job", "title": "Job"})
    await asyncio.gather(*(holder.acquire() for holder in holders))
    with OpenIntentClient(f"http://127.0.0.1:{server.port}", agent_id="sdk") as sdk:
        kept = await asyncio.to_thread(sdk.acquire_lease, "job", "sdk", ttl_seconds=TTL_S)
        stop = asyncio.Event()
        keeping = [asyncio.create_task(holder.keep(stop)) for holder in holders]
        working = asyncio.create_task(bystander(worker, stop))
        counted = await storm(server)
        stop.set()
        await asyncio.gather(*keeping)
        served = await working
        assert kept
    assert [holder.agent for holder in holders if holder.lost] == []
    assert set(counted) == {"200", "429"}
    assert counted["429"] > 1_000
    assert len(served) > 20
    assert served.count(200) > 0.9 * len(served)
    await all_is_normal_again(server, connect("late"))


async def all_is_normal_again(server: ServerProcess, line: Connection) -> None:
    asked_until = monotonic() + 10
    while (answer := await line.call("POST", "/spaces/after/leases", {"scope": str(monotonic())})).status == 429:
        assert monotonic() < asked_until
    assert answer.ok
    held = await line.call("GET", "/spaces/held/leases")
    assert len(held.body["leases"]) == HOLDERS
    assert "overload began" in server.log.read_text()
    while (log := server.log.read_text()).count("overload began") > log.count("overload ended"):
        assert (await line.call("GET", "/readyz")).ok
        assert monotonic() < asked_until
    assert " ERROR " not in log
