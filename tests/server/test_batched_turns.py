"""When the parts of a batch are decided and its answer leaves; who waits, who has gone, what fails, who leads."""

import asyncio
import json

import pytest
from batch_words import part, statuses, take
from cluster_words import cluster, connected, raw, request_of, soon, until
from cluster_words import pretended as standby_of
from desk_words import Asked, counter

from openintent.engines.memory import MemoryEngine
from openintent.server.exchange import NOWHERE
from openintent.server.hotlane import HOT_BODY_MAX
from openintent.server.overload import BUSY_MIN, Overload
from openintent.server.routes import batches


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}  # as the server runs; its connections are not quite those of asyncio


# Time


@pytest.mark.anyio
async def test_a_part_that_waits_leaves_the_queue_when_the_client_goes():
    async with counter() as desk:
        await desk.ask("POST", "/spaces/s/leases", {"scope": "a"}, agent="eve")
        waits = [take("/spaces/s", "a", wait_seconds=100), take("/spaces/s", "a", wait_seconds=100, priority=1)]
        batch = desk.hand_in("POST", "/batch", {"requests": [*waits, take("/spaces/s", "b")]})
        assert len(desk.service.grantor.books.requests) == 2
        batch.gone()
        assert not desk.service.grantor.books.requests
        await asyncio.sleep(0.05)
        assert (batch.answered.is_set(), batch.parts) == (False, ())


@pytest.mark.anyio
async def test_a_client_on_either_lane_that_goes_is_waited_for_no_longer():
    async with cluster(1) as (server,):
        with connected(server) as (holder,):
            await holder.call("POST", "/spaces/s/leases", {"scope": "a"})
            waits = [take("/spaces/s", "a", wait_seconds=100)]
            large = take("/spaces/s", "b", metadata={"x": "x" * HOT_BODY_MAX})
            for parts in (waits, [*waits, large]):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(raw("POST", "/batch", {"requests": parts}).replace(b"ID: ada", b"ID: bob"))
                await until(lambda: len(server.grantor.books.requests) == 1)
                writer.close()
                await until(lambda: not server.grantor.books.requests)


class Held(MemoryEngine):
    """An engine whose commits take as long as the test says."""

    def __init__(self):
        super().__init__()
        self.may_commit = asyncio.Event()
        self.may_commit.set()
        self.commits = 0

    async def commit(self, **what):
        self.commits += 1
        await self.may_commit.wait()
        await super().commit(**what)


@pytest.fixture
async def slow(monkeypatch, anyio_backend):
    """A desk whose engine commits nothing more until the test says so, and a lease that is durable."""
    monkeypatch.setattr("desk_words.MemoryEngine", Held)
    async with counter() as desk:
        kept = (await desk.ask("POST", "/spaces/s/leases", {"scope": "kept"})).json()["id"]
        engine = desk.service.grantor._engine
        engine.may_commit.clear()
        yield desk, engine, part("PATCH", f"/leases/{kept}", {"ttl_seconds": 20})
        engine.may_commit.set()


@pytest.mark.anyio
async def test_a_batch_is_one_commit(slow):
    desk, engine, _ = slow
    before = engine.commits
    batch = desk.hand_in("POST", "/batch", {"requests": [take("/spaces/s", f"s{n}") for n in range(50)]})
    engine.may_commit.set()
    await soon(batch.answered.wait())
    assert statuses(batch.json()["answers"]) == [200] * 50
    assert engine.commits == before + 1


@pytest.mark.anyio
async def test_a_batch_is_answered_when_all_of_it_is_durable_and_not_when_most_of_it_is(slow):
    desk, engine, renewal = slow  # which depends on nothing that is not durable
    parts = [part("GET", "/nothing/there"), renewal, take("/spaces/s", "a"), renewal]
    batch = desk.hand_in("POST", "/batch", {"requests": parts})
    await asyncio.sleep(0.05)
    assert not batch.answered.is_set()
    engine.may_commit.set()
    await soon(batch.answered.wait())
    assert statuses(batch.json()["answers"]) == [404, 200, 200, 200]


@pytest.mark.anyio
async def test_the_place_of_a_batch_is_that_of_its_last_decision():
    async with counter() as desk:
        parts = [take("/spaces/s", "a"), take("/spaces/s", "b"), part("GET", "/nothing/there")]
        many = desk.hand_in("POST", "/batch", {"requests": parts})
        last = desk.service.grantor.books.rev
        await soon(many.answered.wait())
        assert (many.place.term, many.place.rev) == (1, last)
        none = await desk.ask("POST", "/batch", {"requests": [part("GET", "/nothing/there")]})
        assert none.place is NOWHERE


@pytest.mark.anyio
async def test_in_a_turn_the_parts_stand_where_their_batch_stood():
    async with counter() as desk:
        body = json.dumps({"requests": [take("/spaces/s", "b"), take("/spaces/s", "c")]}).encode()
        headers = {b"x-agent-id": b"ada"}
        asked = [
            Asked(desk.service, "POST", "/api/v1/spaces/s/leases", "", headers, b'{"scope": "a"}'),
            Asked(desk.service, "POST", "/api/v1/batch", "", headers, body),
            Asked(desk.service, "POST", "/api/v1/spaces/s/leases", "", headers, b'{"scope": "d"}'),
        ]
        looks, look = [], desk.service.grantor.look
        desk.service.grantor.look = lambda: looks.append(look())
        desk.service.dispatch_all(asked)
        assert len(looks) == 1  # all of them are decided at one moment
        for each in asked:
            await soon(each.answered.wait())
        first, batch, last = [each.json() for each in asked]
        inner = [answer["body"]["token"] for answer in batch["answers"]]
        assert [first["token"], *inner, last["token"]] == [1, 2, 3, 4]
        assert not desk.service._gathering


# When something fails


@pytest.mark.anyio
async def test_a_bug_of_ours_in_one_part_is_a_500_in_its_place(monkeypatch, caplog):
    async with counter() as desk:
        monkeypatch.setattr(desk.service.beats, "read", lambda *_: 1 / 0)
        beat = part("POST", "/agents/ada/heartbeat", {})
        batch = await desk.ask("POST", "/batch", {"requests": [take("/spaces/s", "a"), beat, take("/spaces/s", "b")]})
        assert statuses(batch.json()["answers"]) == [200, 500, 200]


@pytest.mark.anyio
async def test_a_server_that_is_behind_refuses_part_by_part():
    async with counter() as desk:
        lease = (await desk.ask("POST", "/spaces/s/leases", {"scope": "kept"})).json()["id"]
        now_s = 0.0
        desk.service.overload = overload = Overload(clock_s=lambda: now_s)
        overload.look()
        overload.asked, now_s = BUSY_MIN, 0.5  # so late that nothing new is begun
        parts = [take("/spaces/s", "a"), part("PATCH", f"/leases/{lease}"), part("GET", "/intents/none")]
        batch = await desk.ask("POST", "/batch", {"requests": parts})
        assert statuses(batch.json()["answers"]) == [429, 200, 404]
        assert overload.asked == BUSY_MIN + 4


@pytest.mark.anyio
async def test_what_a_part_depends_on_is_said_in_its_place_when_the_server_stops():
    async with counter() as desk:
        await desk.ask("POST", "/spaces/s/leases", {"scope": "a"}, agent="eve")
        parts = [take("/spaces/s", "a", wait_seconds=100), take("/spaces/s", "b")]
        batch = desk.hand_in("POST", "/batch", {"requests": parts})
        await asyncio.sleep(0.05)
        desk.service.grantor.hang_up()
        await soon(batch.answered.wait())
        assert statuses(batch.json()["answers"]) == [503, 200]


# Several servers


@pytest.mark.anyio
async def test_a_server_that_does_not_lead_passes_a_batch_on():
    async with cluster(2) as members:
        with connected(*members) as (leader, standby):
            told = await standby.call(
                "POST", "/batch", {"requests": [take("/spaces/s", "a"), part("GET", "/intents/none")]}
            )
            assert statuses(told.body["answers"]) == [200, 404]
            listed = (await leader.call("GET", "/spaces/s/leases")).body["leases"]
            assert [lease["id"] for lease in listed] == [told.body["answers"][0]["body"]["id"]]
            assert told.mark[0] == 1


@pytest.mark.anyio
async def test_a_batch_is_passed_on_whole_and_once():
    asked = []

    async def note(reader, writer):
        while True:
            asked.append(await request_of(reader))
            writer.write(
                b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{"answers":[]}'
            )

    async with standby_of(note) as standby:
        with connected(standby) as (line,):
            body = {"requests": [take("/spaces/s", f"s{n}") for n in range(3)]}
            assert (await line.call("POST", "/batch", body)).body == {"answers": []}
    assert [each.split(b" HTTP/")[0] for each in asked] == [b"POST /api/v1/batch"]
    assert json.loads(asked[0].partition(b"\r\n\r\n")[2]) == body


@pytest.mark.anyio
async def test_a_part_of_which_we_learn_too_late_that_another_leads_is_refused_and_not_passed_on(monkeypatch):
    async with cluster(2) as members:
        standby = members[1]
        monkeypatch.setattr(type(standby.grantor), "leads", property(lambda _: True))
        with connected(standby) as (line,):
            told = await line.call(
                "POST", "/batch", {"requests": [take("/spaces/s", "a"), part("GET", "/intents/none")]}
            )
            assert statuses(told.body["answers"]) == [503, 503]


def test_every_part_that_is_answered_is_counted_once():
    class Shown(Asked):
        def write(self):
            pass

    class Service:
        encode = staticmethod(lambda view: json.dumps(len(view.answers)).encode())

    whole = Shown(None, "POST", "/api/v1/batch", "", {}, answered=None)
    batch = batches.Batch(Service, whole)
    one, two = whole.parts = [batch.part(batches.PartBody("GET", path)) for path in ("/x", "/y")]
    one.conclude_at_once(404, b"{}")
    one.conclude_at_once(500, b"{}")
    assert not whole.done
    two.conclude_at_once(200, b"{}")
    assert (whole.done, whole.payload, whole.status) == (True, b"2", 200)
