"""A stop is soon over, whatever the clients do."""

import asyncio
import socket

import pytest
from rawhttp import Connect
from serverprocess import ServerProcess

pytestmark = pytest.mark.anyio

LIST = b"GET /api/v1/intents?limit=100 HTTP/1.1\r\nhost: 127.0.0.1\r\nx-agent-id: deaf\r\n\r\n"


async def test_clients_that_do_not_read_their_answers_cannot_hold_up_a_stop(server: ServerProcess, connect: Connect):
    ann = connect("ann")
    for number in range(8):
        made = await ann.call("POST", "/intents", {"title": "large", "id": f"i{number}", "state": {"a": "x" * 900_000}})
        assert made.ok
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(LIST * 3)
        assert deaf.recv(1) == b"H"  # it has begun to answer, and cannot go on
        assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()


async def test_waiters_are_told_to_ask_elsewhere_and_the_stop_waits_for_nobody(server: ServerProcess, connect: Connect):
    holder, waiter = connect("holder"), connect("waiter")
    await holder.call("POST", "/spaces/s/leases", {"scope": "x", "ttl_seconds": 60})
    waiting = asyncio.create_task(waiter.call("POST", "/spaces/s/leases", {"scope": "x", "wait_seconds": 60}, key="k"))
    while not (await holder.call("GET", "/spaces/s/queue")).body["waiters"]:
        pass
    stopped = asyncio.create_task(asyncio.to_thread(server.stop))
    answer = await waiting
    assert (answer.status, answer.code) == (503, "unavailable")
    assert await stopped == 0
