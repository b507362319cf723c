"""A disk that fails: what cannot be stored is not acknowledged, and when the disk works again so does the server."""

import asyncio
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from rawhttp import Answer, Connection
from serverprocess import ServerProcess

pytestmark = pytest.mark.anyio

DISK_BYTES = 64 * 1_024 * 1_024
PATIENCE_S = 20.0


@dataclass
class Storage:
    """Where a server keeps its file, and how to make every write there fail."""

    server: ServerProcess
    squeeze: Callable[[], None]
    relieve: Callable[[], None]


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Storage]:
    """No file of the server may grow beyond one page (EFBIG)."""
    server = ServerProcess(tmp_path / "leases.db")

    def limit(size: int) -> None:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    yield Storage(server, lambda: limit(4_096), lambda: limit(resource.RLIM_INFINITY))
    server.kill()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Storage]:
    """A small file system of its own, without a free block (ENOSPC)."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("mounting a file system is not allowed here")
    server = ServerProcess(disk / "leases.db", log=tmp_path / "server.log")
    ballast = disk / "ballast"
    try:
        yield Storage(server, lambda: fill(ballast), lambda: ballast.unlink(missing_ok=True))
    finally:
        server.kill()
        subprocess.run(["umount", str(disk)], check=True)


def fill(ballast: Path) -> None:
    """Take every free block there is. What the server gives back later must be taken again."""
    with ballast.open("ab", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4_096))
            except OSError:
                return


@pytest.fixture
def unsynced(tmp_path: Path) -> Iterator[Storage]:
    """Every 25th sync of the database fails (EIO), and what it should have made durable may be so or not."""
    if shutil.which("strace") is None:
        pytest.skip("making a sync fail needs strace")
    server = ServerProcess(tmp_path / "leases.db")
    inject = "inject=fdatasync:error=EIO:when=40+25"
    server.wrapper = ["strace", "-D", "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync", "-e", inject]
    yield Storage(server, lambda: None, lambda: None)
    server.kill()


@pytest.fixture(params=["limited", "full"])
def storage(request: pytest.FixtureRequest) -> Storage:
    found: Storage = request.getfixturevalue(request.param)
    found.server.start()
    return found


@dataclass
class Notes:
    """Custom events, each with its outcome: stored, surely not stored, or not known."""

    connection: Connection
    space: str = "s"
    stored: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    count: int = 0

    async def write(self) -> Answer:
        self.count += 1
        n = self.count
        body = {"event_type": "note", "payload": {"n": n, "padding": "x" * 500}}
        self.unknown.add(n)
        answer = await self.connection.call("POST", f"/spaces/{self.space}/events", body, key=f"note-{n}")
        assert answer.status in (0, 200, 503, 504), answer
        if not answer.unknown:
            self.unknown.remove(n)
            (self.stored if answer.ok else self.refused).add(n)
        return answer

    async def write_on(self) -> None:
        """Until cancelled."""
        while True:
            await self.write()

    async def check(self, reader: Connection) -> None:
        """The log has all that was acknowledged, once, and nothing that was refused."""
        logged: list[int] = []
        after = 0
        while True:
            path = f"/spaces/{self.space}/events?types=note&order=asc&limit=1000&after={after}"
            page = await read(reader, path)
            if not page:
                break
            logged += [event["payload"]["n"] for event in page]
            after = page[-1]["seq"]
        assert len(set(logged)) == len(logged)
        assert self.stored <= set(logged)
        assert self.refused & set(logged) == set()


async def read(reader: Connection, path: str) -> Any:
    """What is there, from a server that may just be between two terms."""
    async with asyncio.timeout(PATIENCE_S):
        while not (answer := await reader.call("GET", path)).ok:
            assert answer.status in (0, 503), answer
            await asyncio.sleep(0.05)
        return answer.body


async def readiness(prober: Connection) -> int:
    return (await prober.call("GET", "/readyz")).status


async def fail_for_good(storage: Storage, notes: Notes, prober: Connection) -> None:
    """Until the server has given up: it may free some space by itself and go on for a while, so take that, too."""
    async with asyncio.timeout(PATIENCE_S):
        in_a_row = 0
        while in_a_row < 20:
            storage.squeeze()
            await notes.write()
            in_a_row = in_a_row + 1 if await readiness(prober) == 503 else 0


async def ready_again(prober: Connection, *, term: int = 0) -> None:
    """Until it serves, in this term or a later one."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await prober.call("GET", "/readyz")
            if answer.ok and answer.body["term"] >= term:
                return
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_while_nothing_can_be_stored_nothing_is_acknowledged_and_afterwards_all_goes_on(storage: Storage):
    server = storage.server
    agent, prober = Connection(server.port, "a"), Connection(server.port, "prober")
    notes = Notes(Connection(server.port, "writer"))
    try:
        taken = await agent.call("POST", "/spaces/s/leases", {"scope": "build", "ttl_seconds": 60})
        lease, failed_term = taken.body, taken.mark[0]
        assert (await agent.call("POST", "/intents", {"id": "i", "title": "i"})).ok
        for _ in range(20):
            assert (await notes.write()).ok
        assert await readiness(prober) == 200

        agent.close()  # an idle connection would be closed by the server meanwhile, and its next call be in doubt
        await fail_for_good(storage, notes, prober)
        refused = {
            "acquire": await agent.call("POST", "/spaces/s/leases", {"scope": "other"}),
            "renew": await agent.call("PATCH", f"/leases/{lease['id']}"),
            "heartbeat": await agent.call("POST", "/agents/a/heartbeat", {"leases": [{"id": lease["id"], "token": 1}]}),
            "release": await agent.call("DELETE", f"/leases/{lease['id']}"),
            "write": await agent.call("POST", "/intents/i/state", {"state": {"n": 1}}, match="*"),
            "read": await agent.call("GET", "/intents/i"),
            "log": await agent.call("GET", "/spaces/s/events"),
            "ended lease": await agent.call("GET", "/leases/unknown"),
            "note": await notes.write(),
        }
        assert {name: answer.status for name, answer in refused.items()} == dict.fromkeys(refused, 503)
        assert (await prober.call("GET", "/livez")).ok

        storage.relieve()
        await ready_again(prober)
        freed_at = monotonic()
        now = await agent.call("GET", f"/leases/{lease['id']}")
        assert now.mark[0] > failed_term
        assert now.body["token"] == lease["token"]
        assert now.body["remaining_seconds"] >= 60.0 - (monotonic() - freed_at) - 1.0
        assert (await agent.call("PATCH", f"/leases/{lease['id']}")).ok
        assert (await agent.call("GET", "/intents/i")).body["version"] == 1
        await notes.check(prober)
        for _ in range(20):
            assert (await notes.write()).ok

        server.kill()
        server.start()
        prober.close()
        await notes.check(prober)
    finally:
        for connection in (agent, prober, notes.connection):
            connection.close()


@pytest.fixture(params=["limited", "full", "unsynced"])
def shaky(request: pytest.FixtureRequest) -> Storage:
    found: Storage = request.getfixturevalue(request.param)
    found.server.start()
    return found


@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_each_of_many_short_failures_ends_a_term_and_every_answer_is_true(shaky: Storage):
    server = shaky.server
    prober = Connection(server.port, "prober")
    writers = [Notes(Connection(server.port, f"writer-{n}"), f"space-{n}") for n in range(8)]
    tasks = [asyncio.create_task(notes.write_on()) for notes in writers]
    try:
        first_term = (await prober.call("GET", "/readyz")).body["term"]
        for failure in range(1, 6):
            shaky.squeeze()
            await asyncio.sleep(0.3)
            shaky.relieve()
            await ready_again(prober, term=first_term + failure)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        counts = [sum(len(getattr(notes, kind)) for notes in writers) for kind in ("stored", "refused", "unknown")]
        print("notes stored {}, refused {}, unknown {}".format(*counts))  # noqa: T201
        for notes in writers:
            await notes.check(prober)
        server.kill()
        server.wrapper = []
        server.start()
        prober.close()
        for notes in writers:
            await notes.check(prober)
    finally:
        for connection in (prober, *(notes.connection for notes in writers)):
            connection.close()
