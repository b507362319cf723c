"""A disk that fails: what cannot be stored is not acknowledged, and when the disk works again so does the server."""

import asyncio
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from failingdisk import Storage, fill, injected
from proving import Figures, size
from rawhttp import Answer, Connection
from serverprocess import ServerProcess
from straced import committer, hurry

pytestmark = pytest.mark.anyio

DISK_BYTES = 64 * 1_024 * 1_024
PATIENCE_S = 20.0
TOUCHED = re.compile(r"^(?:\d+ +)?(pwrite64|fdatasync)\(\d+<([^>]*)>", re.MULTILINE)  # what to which file, in a trace
IMPATIENCE_S = 1.0  # the server takes 10 s to answer that it cannot find out what became of a request


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Storage]:
    """No file of the process for the file may grow beyond one page (EFBIG)."""
    server = ServerProcess(tmp_path / "leases.db")

    def limit(size: int) -> None:
        process = committer(server)
        assert process is not None
        resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    yield Storage("file too large (EFBIG)", server, lambda: limit(4_096), lambda: limit(resource.RLIM_INFINITY), True)
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
        yield Storage("disk full (ENOSPC)", server, lambda: fill(ballast), lambda: ballast.unlink(missing_ok=True))
    finally:
        server.kill()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)  # its process dies a moment after the server


@pytest.fixture
def unsynced(tmp_path: Path) -> Iterator[Storage]:
    """Every sync fails (EIO)."""
    with injected(tmp_path, "every sync fails (EIO)", "inject=fdatasync,fsync:error=EIO") as storage:
        yield storage


@pytest.fixture
def unwritten(tmp_path: Path) -> Iterator[Storage]:
    """Every write fails (EIO)."""
    with injected(tmp_path, "every write fails (EIO)", "inject=pwrite64:error=EIO") as storage:
        yield storage


@pytest.fixture
def unsynced_in_a_hurry(unsynced: Storage) -> Storage:
    return replace(unsynced, name=f"{unsynced.name}, in a hurry", hurried=True)


@pytest.fixture
def unwritten_in_a_hurry(unwritten: Storage) -> Storage:
    return replace(unwritten, name=f"{unwritten.name}, in a hurry", hurried=True)


@pytest.fixture
def once_unsynced(tmp_path: Path) -> Iterator[Storage]:
    """One sync fails (EIO), and what it should have made durable may be so or not; the next one succeeds."""
    with injected(tmp_path, "one sync fails (EIO)", "inject=fdatasync:error=EIO:when=1") as storage:
        yield storage


@pytest.fixture
def once_unwritten(tmp_path: Path) -> Iterator[Storage]:
    """One write fails (EIO), in the middle of a commit."""
    with injected(tmp_path, "one write fails (EIO)", "inject=pwrite64:error=EIO:when=2") as storage:
        yield storage


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Storage]:
    """The process that has the file is killed, in the middle of whatever it does; the server is not."""
    server = ServerProcess(tmp_path / "leases.db")

    def kill() -> None:
        process = committer(server)
        assert process is not None
        os.kill(process, signal.SIGKILL)

    yield Storage("the process for the file is killed", server, kill, lambda: None)
    server.kill()


def started(request: pytest.FixtureRequest) -> Storage:
    """The storage that a parameter names, with a server."""
    found: Storage = request.getfixturevalue(request.param)
    found.server.start()
    return found


@pytest.fixture(
    params=["limited", "full", "unsynced", "unwritten", "unsynced_in_a_hurry", "unwritten_in_a_hurry"],
)
def storage(request: pytest.FixtureRequest) -> Storage:
    return started(request)


@dataclass
class Notes:
    """Custom events, each with its outcome: stored, surely not stored, or not known."""

    connection: Connection
    space: str = "s"
    stored: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    count: int = 0
    terms: list[int] = field(default_factory=lambda: [0])
    _failed: bool = False

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
        self._see_term(answer)
        return answer

    def _see_term(self, answer: Answer) -> None:
        """After a failure nothing is acknowledged in the term in which it happened."""
        if answer.ok and (self._failed or answer.mark[0] > self.terms[-1]):
            assert answer.mark[0] > self.terms[-1], "the server went on as if nothing had happened"
            self.terms.append(answer.mark[0])
        self._failed = answer.status in (503, 504) or (self._failed and not answer.ok)

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
            with suppress(TimeoutError):
                async with asyncio.timeout(IMPATIENCE_S):
                    await notes.write()
            in_a_row = in_a_row + 1 if await readiness(prober) == 503 else 0


async def failed(prober: Connection, *, term: int) -> None:
    """Until that term has ended: a file may have room left for a while after its disk has none."""
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await prober.call("GET", "/readyz")).ok and answer.body["term"] == term:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def ready_again(prober: Connection) -> int:
    """Until it serves; returns its term."""
    async with asyncio.timeout(PATIENCE_S):
        while not (answer := await prober.call("GET", "/readyz")).ok:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return int(answer.body["term"])


async def refusals(agent: Connection, lease: dict[str, Any], notes: Notes) -> dict[str, Answer]:
    """One of each kind, reads too: nobody can tell whether what is in memory is true."""
    heartbeat = {"leases": [{"id": lease["id"], "token": lease["token"]}]}
    return {
        "acquire": await agent.call("POST", "/spaces/s/leases", {"scope": "other"}),
        "renew": await agent.call("PATCH", f"/leases/{lease['id']}"),
        "heartbeat": await agent.call("POST", "/agents/a/heartbeat", heartbeat),
        "release": await agent.call("DELETE", f"/leases/{lease['id']}"),
        "write": await agent.call("POST", "/intents/i/state", {"state": {"n": 1}}, match="*"),
        "read": await agent.call("GET", "/intents/i"),
        "log": await agent.call("GET", "/spaces/s/events"),
        "ended lease": await agent.call("GET", "/leases/unknown"),
        "note": await notes.write(),
    }


async def check_resumed(agent: Connection, lease: dict[str, Any], *, failed_term: int) -> None:
    """A new term has all that the failed one had promised."""
    resumed_at = monotonic()
    now = await agent.call("GET", f"/leases/{lease['id']}")
    assert now.mark[0] > failed_term
    assert now.body["token"] == lease["token"]
    assert now.body["remaining_seconds"] >= 60.0 - (monotonic() - resumed_at) - 1.0
    assert (await agent.call("PATCH", f"/leases/{lease['id']}")).ok
    assert (await agent.call("GET", "/intents/i")).body["version"] == 1


def add_figures(figures: Figures, storage: Storage, writers: list[Notes], **more: int) -> None:
    counts = {kind: sum(len(getattr(notes, kind)) for notes in writers) for kind in ("stored", "refused", "unknown")}
    figures.add(
        storage.name,
        acknowledged=counts["stored"],
        refused=counts["refused"],
        without_an_answer=counts["unknown"],
        lost=0,
        acknowledged_in_a_failed_term=0,
        **more,
    )


@pytest.mark.slow
async def test_while_nothing_can_be_stored_nothing_is_acknowledged_and_afterwards_all_goes_on(
    storage: Storage, figures: Figures
):
    server = storage.server
    agent, prober = Connection(server.port, "a"), Connection(server.port, "prober")
    notes = Notes(Connection(server.port, "writer"))
    try:
        if storage.hurried:
            assert await hurry(prober)
        taken = await agent.call("POST", "/spaces/s/leases", {"scope": "build", "ttl_seconds": 60})
        assert (await agent.call("POST", "/intents", {"id": "i", "title": "i"})).ok
        for _ in range(20):
            assert (await notes.write()).ok
        assert await readiness(prober) == 200

        agent.close()  # an idle connection would be closed by the server meanwhile, and its next call be in doubt
        await fail_for_good(storage, notes, prober)
        refused = await refusals(agent, taken.body, notes)
        assert {name: answer.status for name, answer in refused.items()} == dict.fromkeys(refused, 503)
        assert (await prober.call("GET", "/livez")).ok

        storage.relieve()
        relieved_at = monotonic()
        await ready_again(prober)
        resumed_ms = round(1_000 * (monotonic() - relieved_at))
        await check_resumed(agent, taken.body, failed_term=taken.mark[0])
        await notes.check(prober)
        for _ in range(20):
            assert (await notes.write()).ok

        server.kill()
        server.start()
        prober.close()
        await notes.check(prober)
        add_figures(figures, storage, [notes], resumed_after_ms=resumed_ms)
    finally:
        for connection in (agent, prober, notes.connection):
            connection.close()


@pytest.fixture(params=["limited", "full", "once_unsynced", "once_unwritten", "killed"])
def shaky(request: pytest.FixtureRequest) -> Storage:
    return started(request)


FAILURES = size("disk_failures", 5)


@pytest.mark.slow
@pytest.mark.timeout(60 + 10 * FAILURES)
async def test_each_of_many_short_failures_ends_a_term_and_every_answer_is_true(shaky: Storage, figures: Figures):
    server = shaky.server
    prober = Connection(server.port, "prober")
    writers = [Notes(Connection(server.port, f"writer-{n}"), f"space-{n}") for n in range(8)]
    tasks = [asyncio.create_task(notes.write_on()) for notes in writers]
    try:
        for _ in range(FAILURES):
            term = await ready_again(prober)
            if shaky.hurried:
                assert await hurry(prober)
            shaky.squeeze()
            await failed(prober, term=term)
            shaky.relieve()
        await ready_again(prober)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends

        for notes in writers:
            await notes.check(prober)
        server.kill()
        server.start()
        prober.close()
        for notes in writers:
            await notes.check(prober)
        add_figures(figures, shaky, writers, failures=FAILURES)
    finally:
        for connection in (prober, *(notes.connection for notes in writers)):
            connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("hurried", [True, False], ids=["in a hurry", "on the spot"])
async def test_after_a_failed_sync_the_database_is_written_anew_before_anything_is_acknowledged(
    tmp_path: Path, hurried: bool
):
    """The system may say of a second sync that it succeeded, and have forgotten what the first one could not write."""
    log = tmp_path / "trace"
    with injected(tmp_path, "one sync fails", "inject=fdatasync:error=EIO:when=1", log) as storage:
        storage.server.start()
        notes = Notes(Connection(storage.server.port, "writer"))
        await notes.write()
        if hurried:
            assert await hurry(notes.connection)
        storage.squeeze()
        await notes.write()
        storage.relieve()
        notes.connection.close()
    database = str(storage.server.database)
    after = TOUCHED.findall(log.read_text(encoding="utf-8", errors="replace").partition("EIO")[2])
    synced = after.index(("fdatasync", database))
    assert ("pwrite64", database) in after[:synced]
    assert ("pwrite64", f"{database}-wal") not in after[:synced], "the new term began too soon"
    assert ("fdatasync", f"{database}-wal") in after[synced:], "there was no new term"
