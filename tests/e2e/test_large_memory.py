"""A server that has much to remember remembers it in large pages."""

import asyncio
from pathlib import Path

import pytest
from rawhttp import Connect
from serverprocess import ServerProcess

from openintent.server.largepages import GROWTH_BYTES, LOOK_S, are_offered

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not are_offered(), reason="this system offers no large pages"),
]

STATE = {"notes": "x" * 900_000}


async def test_a_server_that_grows_gets_large_pages_while_it_serves(server: ServerProcess, connect: Connect):
    writer = connect("writer")
    assert large_bytes(server.pid) == 0
    for number in range(2 * GROWTH_BYTES // len(STATE["notes"])):
        answer = await writer.call("POST", "/intents", {"id": f"i-{number}", "title": "Large", "state": STATE})
        assert answer.ok
    async with asyncio.timeout(10 * LOOK_S):
        while large_bytes(server.pid) < GROWTH_BYTES // 2:
            assert (await writer.call("GET", "/intents/i-0")).body["state"] == STATE
    assert server.stop() == 0


def large_bytes(pid: int) -> int:
    sizes = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1_024 * int(sizes.partition("AnonHugePages:")[2].split()[0])
