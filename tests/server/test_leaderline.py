"""Connections from a server that stands by to the one that leads."""

import pytest
from cluster_words import OK, cluster, connected, pretended, request_of

pytestmark = pytest.mark.anyio

TAKEN = 3


async def lines_used(answer: bytes) -> int:
    """On how many connections the leader was asked, one request after the other."""
    used = set()

    async def serve(reader, writer):
        while await request_of(reader):
            used.add(writer)
            writer.write(answer)

    async with pretended(serve) as standby:
        with connected(standby) as (line,):
            assert [(await line.call("GET", "/leases")).status for _ in range(TAKEN)] == [200] * TAKEN
    return len(used)


async def test_one_line_serves_all_that_is_passed_on_one_after_the_other():
    assert await lines_used(OK) == 1


async def test_a_line_that_the_leader_wants_to_close_is_not_used_again():
    assert await lines_used(OK.replace(b"x-term", b"connection: close\r\nx-term")) == TAKEN


async def test_a_line_to_a_real_leader_is_used_again():
    async with cluster(2) as (_leader, standby):
        with connected(standby) as (line,):
            for number in range(TAKEN):
                assert (await line.call("POST", "/spaces/s/leases", {"scope": f"s{number}"})).ok
            assert len(standby.forwarder._idle) == 1
