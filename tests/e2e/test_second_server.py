"""One database, one server: the second one is told who the first one is, and does no harm."""

import asyncio
import subprocess

import pytest
from proving import Figures, size
from rawhttp import Connect
from serverprocess import ServerProcess

pytestmark = pytest.mark.anyio

SECONDS = size("second_servers", 1)


async def test_a_second_server_on_the_same_file_is_refused_in_one_line_and_the_first_goes_on(
    server: ServerProcess, connect: Connect, figures: Figures
):
    agent = connect("first")
    lease = (await agent.call("POST", "/spaces/s/leases", {"scope": "build", "ttl_seconds": 30})).body

    for _ in range(SECONDS):
        refused = await asyncio.to_thread(
            subprocess.run,
            ServerProcess(server.database).command,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        what, *hint = (refused.stdout + refused.stderr).strip().splitlines()
        assert refused.returncode == 1, what
        assert f"pid {server.pid}" in what
        assert f"http://127.0.0.1:{server.port}" in what
        assert len(hint) <= 1, hint
        renewed = await agent.call("PATCH", f"/leases/{lease['id']}")
        assert renewed.ok
        assert renewed.body["token"] == lease["token"]
    figures.add("a second server on the same file", starts=SECONDS, refused=SECONDS, leases_lost=0)
