"""A client that asks for it is told where the leader is, in place of being answered in its name."""

import asyncio

import pytest
from cluster_words import OK, TAKE, cluster, connected, pretended, raw, request_of, soon, until
from key_words import make_key, write_keys

from openintent.engines.base import Head
from openintent.server.app import gate_of
from openintent.server.forwarding import prefers_redirect
from openintent.server.settings import Settings

pytestmark = pytest.mark.anyio

PREFER = "Prefer: redirect"


@pytest.fixture
def anyio_backend():
    return "asyncio", {"use_uvloop": True}


async def told(port: int, *requests: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """Status, headers and body of each answer, all on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(requests))
    answers = []
    for _ in requests:
        first, *lines = (await soon(reader.readuntil(b"\r\n\r\n"))).decode().strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        answers.append((int(first[9:12]), headers, await soon(reader.readexactly(int(headers["content-length"])))))
    writer.close()
    return answers


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/spaces/s/leases", TAKE),  # the hot lane
        ("GET", "/leases?space=space%3As&limit=5", None),
        ("GET", "/subscribe/spaces/s?after=0", None),  # a stream
    ],
)
async def test_whoever_prefers_to_be_redirected_is_told_where_the_leader_is(method, target, body):
    async with cluster(2) as (leader, standby):
        ((status, headers, _),) = await told(standby.port, raw(method, target, body, PREFER))
        assert status == 307
        assert headers["location"] == f"{leader.url}/api/v1{target}".lower()
        assert headers["cache-control"] == "no-store", "it may be another one the next moment"
        assert headers["preference-applied"] == "redirect"
        with connected(leader) as (line,):
            assert (await line.call("GET", "/leases")).body["leases"] == [], "it was not passed on as well"


async def test_the_leader_itself_redirects_nobody():
    async with cluster(2) as (leader, _):
        ((status, headers, _),) = await told(leader.port, raw("POST", "/spaces/s/leases", TAKE, PREFER))
        assert (status, "location" in headers) == (200, False)


async def test_a_redirect_keeps_its_turn_among_the_answers_of_a_connection():
    async with cluster(2) as (_, standby):
        asks = [raw("POST", f"/spaces/s{n}/leases", TAKE, *([PREFER] if n % 2 else [])) for n in range(6)]
        assert [status for status, _, _ in await told(standby.port, *asks)] == [200, 307] * 3


async def test_while_nobody_leads_there_is_nowhere_to_redirect_to():
    async with pretended(lambda _reader, _writer: asyncio.sleep(0)) as standby:
        head = await standby._engine.head()
        # One that moves a ledger leads, and has no address.
        await standby._engine.commit(expect=head, head=Head(term=2, member="mover:1"), changes=[])
        await until(lambda: standby.grantor.leader == "mover:1")
        asked = raw("GET", "/leases", None, PREFER)
        ((status, headers, _),) = await told(standby.port, asked)
        assert (status, "location" in headers) == (503, False)
        standby.forwarder.takes = lambda _: True  # as if the leader had gone since somebody looked
        ((status, headers, _),) = await told(standby.port, asked)
        assert (status, "location" in headers) == (503, False)


async def test_nobody_is_told_an_address_before_it_has_shown_a_key(tmp_path):
    good, record = make_key("good")
    write_keys(tmp_path / "keys", record)
    async with cluster(2, gate=gate_of(Settings(keys=str(tmp_path / "keys")))) as (_, standby):
        asks = [raw("GET", "/leases", None, PREFER, f"X-API-Key: {key}") for key in (good, "oi_x.y")]
        first, second = await told(standby.port, *asks)
        assert (first[0], second[0], "location" in second[1]) == (307, 401, False)


@pytest.mark.parametrize(
    ("preference", "wanted"),
    [
        (b"redirect", True),
        (b"Redirect", True),
        (b"respond-async, redirect;soon, wait=10", True),
        (b"redirection", False),
        (b"return=minimal; redirect", False),
        (b"", False),
    ],
)
def test_a_preference_is_one_of_several_words(preference, wanted):
    assert prefers_redirect({b"prefer": preference}) == wanted
    assert not prefers_redirect({})


async def test_another_preference_is_passed_on_like_any_header():
    asked = []

    async def note(reader, writer):
        asked.append(await request_of(reader))
        writer.write(OK)
        await reader.read()

    async with pretended(note) as standby:
        ((status, _, _),) = await told(standby.port, raw("GET", "/leases", None, "Prefer: return=minimal"))
        assert status == 200
        assert b"prefer: return=minimal\r\n" in asked[0]
