"""Any address of a cluster works: what does not lead passes on what it is asked, and the answer back, and no more."""

import asyncio
import itertools
import json

import pytest
from cluster_words import (
    OK,
    TAKE,
    SharedMemory,
    cluster,
    connected,
    listening,
    pretended,
    raw,
    request_of,
    soon,
    started,
    until,
)
from key_words import make_key, write_keys
from rawhttp import Connection
from story import made_equal, play

from openintent.engines.base import Head
from openintent.errors import EngineUnavailable
from openintent.server.app import gate_of
from openintent.server.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}  # as the server runs; its connections are not quite those of asyncio


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    head = await soon(reader.readuntil(b"\r\n\r\n"))
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return int(head[9:12]), head, await soon(reader.readexactly(int(length or 0)))


# What is passed on


async def test_what_is_asked_of_any_server_is_decided_by_the_one_that_leads():
    async with cluster(3) as members:
        with connected(*members) as lines:
            taken = [await line.call("POST", "/spaces/s/leases", {"scope": f"s{n}"}) for n, line in enumerate(lines)]
            assert [each.body["token"] for each in taken] == [1, 2, 3]
            assert sorted(each.mark for each in taken) == [each.mark for each in taken]
            listed = [(await line.call("GET", "/leases")).body["leases"] for line in lines]
            assert [[lease["token"] for lease in each] for each in listed] == [[1, 2, 3]] * 3


async def test_a_refusal_of_the_leader_comes_back_as_it_is():
    async with cluster(2) as members:
        with connected(*members) as (leader, standby):
            await leader.call("POST", "/spaces/s/leases", TAKE)
            missing = await standby.call("GET", "/intents/none")
            assert (missing.status, missing.code) == (404, "not_found")
            again = await standby.call("POST", "/spaces/s/leases", TAKE)
            assert (again.status, again.code, again.mark[0]) == (409, "lease_held_by_you", 1)


async def test_a_large_body_passes_there_and_back():
    async with cluster(2) as members:
        with connected(*members) as (_, standby):
            large = {"text": "x" * 900_000}
            made = await standby.call("POST", "/intents", {"id": "i", "title": "t", "state": large})
            assert made.ok, made
            assert (await standby.call("GET", "/intents/i")).body["state"] == large


async def test_a_body_in_chunks_is_passed_on_whole():
    async with cluster(2) as members:
        reader, writer = await asyncio.open_connection("127.0.0.1", members[1].port)
        body = json.dumps(TAKE).encode()
        head = raw("POST", "/spaces/s/leases").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        writer.write(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        status, _, told = await answer(reader)
        assert (status, json.loads(told)["scope"]) == (200, "a")
        writer.close()


async def test_a_look_at_the_head_alone_has_no_body():
    async with cluster(2) as members:
        with connected(*members) as (leader, standby):
            await leader.call("POST", "/intents", {"id": "i", "title": "t"})
            wanted = len(json.dumps((await standby.call("GET", "/intents/i")).body, separators=(",", ":")))
        reader, writer = await asyncio.open_connection("127.0.0.1", members[1].port)
        writer.write(raw("HEAD", "/intents/i") + raw("GET", "/leases"))
        head = await soon(reader.readuntil(b"\r\n\r\n"))
        assert head.startswith(b"HTTP/1.1 200")
        assert b"content-length: %d\r\n" % wanted in head
        assert (await answer(reader))[0] == 200
        writer.close()


async def test_requests_on_one_connection_are_carried_out_in_their_order():
    async with cluster(2) as members:
        reader, writer = await asyncio.open_connection("127.0.0.1", members[1].port)
        asks = [raw("POST", f"/spaces/s{n}/leases", TAKE) for n in range(12)]
        writer.write(b"".join(asks))
        told = [await answer(reader) for _ in asks]
        tokens = [json.loads(body)["token"] for _, _, body in told]
        assert tokens == list(range(1, 13))
        writer.close()


async def test_they_are_so_also_if_the_way_there_is_not_the_same_for_all():
    served = []

    async def note(reader, writer):
        while True:
            served.append(await request_of(reader))
            writer.write(OK)

    async with pretended(note) as standby:
        connect = standby.forwarder._connected
        delays_s = itertools.cycle([0.05, 0.0, 0.02])

        async def unevenly():
            await asyncio.sleep(next(delays_s))
            return await connect()

        standby.forwarder._connected = unevenly
        reader, writer = await asyncio.open_connection("127.0.0.1", standby.port)
        writer.write(b"".join(raw("POST", f"/spaces/s{n}/leases", TAKE) for n in range(6)))
        for _ in range(6):
            await answer(reader)
        assert [each.split(b"/")[4] for each in served] == [b"s%d" % n for n in range(6)]
        writer.close()


async def test_every_operation_works_on_a_server_that_stands_by():
    async with cluster(1) as (alone,):
        wanted = made_equal(await asyncio.to_thread(play, alone.url))
    async with cluster(2) as (_, standby):
        told = made_equal(await asyncio.to_thread(play, standby.url))
    for own in ("is_ready", "get_version", "get_cluster"):  # these are about the one that is asked
        del told["answers"][own], wanted["answers"][own]
    assert told == wanted


# The gates


@pytest.fixture
def ring(tmp_path):
    """A key that two servers know, one that only the first knows, and the settings of both."""
    both, one = make_key("both"), make_key("one")
    write_keys(tmp_path / "first", both[1], one[1])
    write_keys(tmp_path / "second", both[1])
    return both[0], one[0], [gate_of(Settings(keys=str(tmp_path / name))) for name in ("first", "second")]


async def test_a_request_passes_both_gates(ring):
    both, one, gates = ring
    engine = SharedMemory()
    members = [await started(engine, name=f"m{n}", gate=gate) for n, gate in enumerate(reversed(gates))]
    leader, standby = members
    try:
        await until(lambda: leader.grantor.serving and standby.grantor.leader)
        told = {}
        for name, key in (("both", both), ("only the standby", one), ("none", None), ("wrong", "oi_x.y")):
            line = Connection(standby.port, "ada", api_key=key)
            reply = await line.call("GET", "/leases")
            told[name] = reply.status
            line.close()
        assert told == {"both": 200, "only the standby": 401, "none": 401, "wrong": 401}
    finally:
        for member in reversed(members):
            await member.stop()


# Whom it is passed on to


async def test_what_was_passed_on_once_goes_no_further():
    async with cluster(2) as members:
        reader, writer = await asyncio.open_connection("127.0.0.1", members[1].port)
        writer.write(raw("GET", "/leases", None, "X-Forwarded-By: http://127.0.0.1:1#x"))
        assert (await answer(reader))[0] == 503
        writer.close()


async def test_a_server_that_was_the_leader_before_its_restart_does_not_pass_on_to_itself():
    asked = []

    async def behave(reader, writer):
        asked.append(await request_of(reader))
        writer.write(OK)

    async with listening(behave) as url, cluster(1) as (member,):
        engine = member._engine
        head = await engine.head()
        await engine.commit(expect=head, head=Head(term=head.term + 1, member=f"{url}#run-before"), changes=[])
        again = await started(engine, name="run-now", url=url)
        try:
            await until(lambda: again.grantor.leader)
            with connected(again) as (line,):
                refused = await line.call("GET", "/leases")
            assert (refused.status, asked) == (503, [])
        finally:
            await again.stop()


async def test_while_nobody_leads_nothing_happened():
    async with pretended(lambda _reader, _writer: asyncio.sleep(0)) as standby:
        engine = standby._engine
        head = await engine.head()
        # Its port is closed as soon as nobody listens: here it is one where nobody ever did.
        await engine.commit(expect=head, head=Head(term=2, member="http://127.0.0.1:1#gone"), changes=[])
        await until(lambda: standby.grantor.leader.endswith("#gone"))
        with connected(standby) as (line,):
            refused = await line.call("POST", "/spaces/s/leases", TAKE)
        assert (refused.status, refused.code) == (503, "unavailable")
        assert refused.body["retry_after_seconds"] < 1, "a hand-over takes a fraction of a second"


async def test_after_a_hand_over_the_others_pass_on_to_the_next_leader():
    async with cluster(3) as members:
        first, *rest = members
        with connected(*rest) as lines:
            for line in lines:
                assert (await line.call("GET", "/leases")).ok
            await first.stop()
            await until(lambda: any(member.grantor.serving for member in rest))
            await until(lambda: len({member.grantor.leader for member in rest}) == 1)
            marks = [(await line.call("POST", f"/spaces/{n}/leases", TAKE)).mark for n, line in enumerate(lines)]
            assert [term for term, _ in marks] == [2, 2]


async def test_one_that_stands_by_passes_on_also_when_it_has_lost_the_engine():
    class Fragile(SharedMemory):
        lost = False

        async def changed(self, seen):
            while not self.lost:  # noqa: ASYNC110  # the test loses it
                await asyncio.sleep(0.01)
            raise EngineUnavailable("no way there")

        async def reopen(self):
            if self.lost:
                raise EngineUnavailable("no way there")

    engine = SharedMemory()
    leader = await started(engine, name="leader")
    await until(lambda: leader.grantor.serving)
    fragile = Fragile()
    fragile.__dict__.update({name: value for name, value in engine.__dict__.items() if name != "lost"})
    standby = await started(fragile, name="standby")
    try:
        await until(lambda: standby.grantor.leader)
        Fragile.lost = True
        with connected(standby) as (line,):
            assert (await line.call("POST", "/spaces/s/leases", TAKE)).ok
            assert (await line.call("GET", "/readyz")).body["role"] == "standby"
    finally:
        await standby.stop()
        await leader.stop()


# When the answer does not come


async def test_what_may_have_happened_is_said_to_be_unknown_and_a_look_is_not():
    async def hang_up(reader, writer):
        await request_of(reader)

    async with pretended(hang_up) as standby:
        with connected(standby) as (line,):
            assert (await line.call("POST", "/spaces/s/leases", TAKE)).status == 504
            assert (await line.call("GET", "/leases")).status == 503


@pytest.mark.parametrize(
    "nonsense",
    [b"HTTP/1.1 200 OK\r\ncontent-length: nine\r\n\r\n", b"HTTP/1.1 799 What\r\ncontent-length: 0\r\n\r\n", b"\0\0"],
)
async def test_an_answer_that_is_none_is_no_answer(nonsense):
    async def talk(reader, writer):
        await request_of(reader)
        writer.write(nonsense)
        await reader.read()

    async with pretended(talk) as standby:
        with connected(standby) as (line,):
            assert (await line.call("POST", "/spaces/s/leases", TAKE)).status == 504


async def test_a_stream_where_none_was_asked_for_is_no_answer():
    async def talk(reader, writer):
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await reader.read()

    async with pretended(talk) as standby:
        with connected(standby) as (line,):
            assert (await line.call("POST", "/spaces/s/leases", TAKE)).status == 504
            assert (await line.call("GET", "/intents/none")).status == 503


async def test_nobody_waits_for_a_leader_that_has_been_replaced():
    asked = asyncio.Event()

    async def freeze(reader, writer):
        await request_of(reader)
        asked.set()
        await reader.read()

    async with pretended(freeze) as standby:
        with connected(standby) as (line,):
            call = asyncio.ensure_future(line.call("POST", "/spaces/s/leases", TAKE))
            await soon(asked.wait())
            head = await standby._engine.head()
            await standby._engine.commit(expect=head, head=Head(term=2, member="http://127.0.0.1:1#next"), changes=[])
            assert (await soon(call)).status == 504


async def test_a_stream_of_a_leader_that_has_been_replaced_ends():
    async def freeze(reader, writer):
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"8\r\n: still\n\r\n")
        await reader.read()

    async with pretended(freeze) as standby:
        reader, writer = await asyncio.open_connection("127.0.0.1", standby.port)
        writer.write(raw("GET", "/subscribe/spaces/s"))
        await soon(reader.readuntil(b": still\n"))
        head = await standby._engine.head()
        await standby._engine.commit(expect=head, head=Head(term=2, member="http://127.0.0.1:1#next"), changes=[])
        assert b"0\r\n\r\n" in await soon(reader.read())
        writer.close()


async def test_a_line_on_which_something_came_unasked_is_not_used_again():
    served = []

    async def interrupt(reader, writer):
        while True:
            served.append(await request_of(reader))
            writer.write(OK)
            writer.write(b"HTTP/1.1 408 Too Late\r\ncontent-length: 0\r\n\r\n")

    async with pretended(interrupt) as standby:
        with connected(standby) as (line,):
            told = [(await line.call("GET", "/leases")).status for _ in range(3)]
        assert told == [200, 200, 200]
