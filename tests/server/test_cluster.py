"""What a server says of itself and the others: who leads, who stands by, and who was heard of."""

import asyncio

import pytest
from cluster_words import SharedMemory, cluster, connected, pretended, soon, started, until

from openintent.engines.base import Head
from openintent.server import cluster as module
from openintent.server.cluster import FORGET_S, MEMBERS_MAX, Cluster
from openintent.server.forwarding import BY, TO
from openintent.server.settings import BadSettings, load

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}  # as the server runs; its connections are not quite those of asyncio


async def shown(line):
    return (await line.call("GET", "/cluster")).body


async def ready(line):
    answer = await line.call("GET", "/readyz")
    return answer.status, answer.body["status"], answer.body["role"], answer.body["term"]


async def test_everybody_tells_of_all(monkeypatch):
    monkeypatch.setattr(module, "NOTICE_S", 0.01)
    async with cluster(3) as members:
        with connected(*members) as lines:
            async with asyncio.timeout(10):
                while len((await shown(lines[0]))["members"]) < 3:
                    pass
            told = [await shown(line) for line in lines]
            urls = [member.url for member in members]
            assert [(each["url"], each["role"], each["leader"], each["term"]) for each in told] == [
                (urls[0], "grantor", urls[0], 1),
                (urls[1], "standby", urls[0], 1),
                (urls[2], "standby", urls[0], 1),
            ]
            for each in told:
                assert [(one["url"], one["role"]) for one in each["members"]] == [
                    (urls[0], "grantor"),
                    *((url, "standby") for url in sorted(urls[1:])),
                ]
                assert all(0 <= one["heard_seconds_ago"] < 10 for one in each["members"])
            assert told[0]["engine"]["shared"] is True


async def test_one_that_stands_by_is_ready_as_long_as_it_knows_who_leads():
    async with cluster(2) as members:
        leader, standby = members
        with connected(leader, standby) as (first, second):
            assert await ready(first) == (200, "ready", "grantor", 1)
            assert await ready(second) == (200, "ready", "standby", 1)
        head = await standby._engine.head()
        await standby._engine.commit(expect=head, head=Head(term=2, member="http://x#gone", farewell=True), changes=[])
        await until(lambda: standby.grantor.serving)
        with connected(standby) as (second,):
            assert await ready(second) == (200, "ready", "grantor", 3)


async def test_one_that_knows_of_no_leader_is_not_ready():
    engine = SharedMemory()
    await engine.commit(expect=Head(), head=Head(term=1, member="http://127.0.0.1:1#x"), changes=[])
    member = await started(engine, name="now", url="http://127.0.0.1:1")  # it was itself, before it was restarted
    try:
        await until(lambda: member.grantor.newest_term == 1)
        with connected(member) as (line,):
            assert await ready(line) == (503, "not ready", "standby", 1)
            assert (await shown(line))["leader"] is None
    finally:
        await member.stop()


async def test_a_leader_whose_trust_has_ended_is_not_ready():
    async with cluster(1) as (member,):
        member.grantor._leadership.until_ms = 0
        with connected(member) as (line,):
            assert await ready(line) == (503, "not ready", "standby", 1)


async def test_one_that_cannot_ask_the_leader_tells_what_it_knows():
    async def refuse(reader, writer):
        await reader.read(1)

    async with pretended(refuse) as standby:
        with connected(standby) as (line,):
            told = await soon(shown(line))
        assert sorted((each["role"], each["heard_seconds_ago"]) for each in told["members"]) == [
            ("grantor", None),
            ("standby", 0.0),
        ]


# Who is heard


class Alone:
    leads = True
    leader = ""
    newest_term = 1
    guarantees = SharedMemory.guarantees


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def known(clock):
    return Cluster(Alone(), member="http://10.0.0.1:8000#secret", clock_s=lambda: clock[0])


def others(known):
    return [each.url for each in known.view().members][1:]


def look(member, to="http://10.0.0.1:8000#secret"):
    return {BY: member.encode(), TO: to.encode()}


async def test_only_who_knows_this_run_by_its_name_is_heard(known):
    known.hear({})
    known.hear({BY: b"http://10.0.0.2:8000#a"})
    known.hear(look("http://10.0.0.2:8000#a", to="http://10.0.0.1:8000#guess"))
    known.hear(look("http://10.0.0.2:8000"))
    known.hear(look("javascript:alert(1)#a"))
    assert others(known) == []
    known.hear(look("http://10.0.0.2:8000#a"))
    assert others(known) == ["http://10.0.0.2:8000"]


async def test_who_is_not_heard_of_is_forgotten(known, clock):
    known.hear(look("http://10.0.0.2:8000#a"))
    clock[0] = FORGET_S - 1
    assert known.view().members[1].heard_seconds_ago == FORGET_S - 1
    clock[0] = FORGET_S
    assert others(known) == []


async def test_there_is_a_bound_and_who_is_known_stays_known(known):
    for number in range(MEMBERS_MAX + 5):
        known.hear(look(f"http://10.0.1.{number}:8000#a"))
    known.hear(look("http://10.0.1.0:8000#b"))
    assert len(others(known)) == MEMBERS_MAX


# Settings


def test_a_server_on_all_addresses_must_say_where_the_others_reach_it():
    flags = {"host": "::", "engine": "postgresql://db/x", "behind_tls": True}
    with pytest.raises(BadSettings, match="advertise: is needed"):
        load(flags, env={}, to_serve=False)
    assert load({**flags, "advertise": "http://10.0.0.7:8000"}, env={}, to_serve=False).advertise
    assert load({**flags, "engine": "sqlite:///x.db"}, env={}, to_serve=False).advertise is None


@pytest.mark.parametrize(
    "address", ["10.0.0.7:8000", "https://a:1", "http://a:1/path", "http://a b", "http://a\r\nx: y"]
)
def test_an_advertised_address_is_a_plain_one(address):
    with pytest.raises(BadSettings, match="advertise: must be an address"):
        load({"advertise": address}, env={})
