"""Those who wait for a leader through another server, or read from it; and what becomes of them when somebody goes."""

import asyncio

import pytest
from cluster_words import OK, TAKE, cluster, connected, pretended, raw, request_of, soon, until
from rawhttp import Connection

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}  # as the server runs; its connections are not quite those of asyncio


async def test_a_waiter_that_hangs_up_loses_its_place_over_there():
    async with cluster(2) as members:
        leader, standby = members
        with connected(leader, standby, leader) as (holder, waiter, watcher):
            await holder.call("POST", "/spaces/s/leases", TAKE)
            waiter.agent = "eve"
            waiting = asyncio.ensure_future(waiter.call("POST", "/spaces/s/leases", {**TAKE, "wait_seconds": 100}))

            async def queue() -> int:
                return len((await watcher.call("GET", "/spaces/s/queue")).body["waiters"])

            while not await queue():
                pass
            waiter.close()
            assert (await waiting).unknown
            async with asyncio.timeout(10):
                while await queue():
                    pass


async def test_who_goes_away_before_the_leader_is_reached_asks_for_nothing():
    asked = []
    reached = asyncio.Event()

    async def note(reader, writer):
        asked.append(await request_of(reader))
        writer.write(OK)
        await reader.read()

    async with pretended(note) as standby:
        connect = standby.forwarder._connected

        async def slowly():
            reached.set()
            await asyncio.sleep(0.05)
            return await connect()

        standby.forwarder._connected = slowly
        line = Connection(standby.port, "ada")
        call = asyncio.ensure_future(line.call("POST", "/spaces/s/leases", {**TAKE, "wait_seconds": 100}))
        await soon(reached.wait())
        line.close()
        await call
        await asyncio.sleep(0.1)  # twice as long as it would take
        assert asked == []


async def test_a_stop_tells_those_who_wait_over_there_in_time():
    async with cluster(2) as members:
        leader, standby = members
        with connected(leader, standby) as (holder, waiter):
            await holder.call("POST", "/spaces/s/leases", TAKE)
            waiter.agent = "eve"
            waiting = asyncio.ensure_future(waiter.call("POST", "/spaces/s/leases", {**TAKE, "wait_seconds": 100}))
            await until(lambda: leader.grantor.books.requests)
            await standby.stop()
            assert (await waiting).status == 504, "cut off, and not told"


async def test_a_stop_ends_a_stream_that_is_passed_on():
    async with cluster(2) as members:
        reader, writer = await asyncio.open_connection("127.0.0.1", members[1].port)
        writer.write(raw("GET", "/subscribe/spaces/s"))
        await soon(reader.readuntil(b"\n\n"))
        await members[1].stop()
        assert (await soon(reader.read())).endswith(b"0\r\n\r\n")
        writer.close()


async def test_a_reader_that_goes_away_ends_its_stream_over_there():
    async with cluster(2) as members:
        leader, standby = members
        reader, writer = await asyncio.open_connection("127.0.0.1", standby.port)
        writer.write(raw("GET", "/subscribe/spaces/s"))
        await soon(reader.readuntil(b"\n\n"))
        assert len(leader._service.streams._open) == 1
        writer.close()
        await until(lambda: not leader._service.streams._open)
