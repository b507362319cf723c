"""A disk that hangs for some seconds: whoever writes waits for it, and no holder loses its lease by that."""

import asyncio
from pathlib import Path
from time import monotonic

import pytest
from rawhttp import Connection
from serverprocess import ServerProcess
from straced import born, require_strace, tracing

from openintent import OpenIntentClient
from openintent.core.timers import HURRY_MS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

HANGS_S = 6
HANGING = f"inject=fdatasync:delay_enter={HANGS_S * 1_000_000}:when=1"


@pytest.mark.parametrize(
    ("ttl_s", "by_itself"),
    [(5.0, False), (HURRY_MS / 1_000, True)],
    ids=["a short lease, which is renewed meanwhile", "the shortest for which the server waits for the disk"],
)
async def test_a_disk_that_hangs_costs_no_holder_its_lease(tmp_path: Path, ttl_s: float, by_itself: bool):
    require_strace()
    server = ServerProcess(tmp_path / "leases.db")
    server.start()
    writer = Connection(server.port, "writer")
    note = {"event_type": "note", "payload": {}}
    try:
        url = f"http://127.0.0.1:{server.port}"
        with OpenIntentClient(url, agent_id="holder") as client:
            block = client.lease(space="s", scope="held", ttl=ttl_s)
            held = await asyncio.to_thread(block.__enter__)
            log = tmp_path / "trace"
            with tracing(server.pid if by_itself else await born(server), log, "-e", HANGING):
                began = monotonic()
                assert (await writer.call("POST", "/spaces/s/events", note)).ok
                assert monotonic() - began >= HANGS_S
            assert "DELAYED" in log.read_text()
            held.check()
            await asyncio.to_thread(block.__exit__, None, None, None)
    finally:
        writer.close()
        server.kill()
