"""Requests that arrive in one turn of the loop: they share its stages, and nothing else."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import house_words
import pytest
from lane_words import arrive, request, settle

# On a connection


@pytest.fixture
def lines(house):
    """Two connections whose next request will be like the one before."""
    lines = [house.connect(), house.connect()]
    for line in lines:
        arrive(line, request("/hot/first"))
        house.office.answer(-1)
    house.office.asked.clear()
    return lines


@pytest.mark.anyio
async def test_requests_are_carried_out_in_the_order_of_their_arrival_when_all_were_read(house, lines):
    one, two = lines
    two.data_received(request("/hot/a"))
    one.data_received(request("/hot/b"))
    assert house.office.paths() == []
    await settle()
    assert house.office.paths() == ["/hot/a", "/hot/b"]


@pytest.mark.anyio
@pytest.mark.parametrize("behind", [request("/hot/b"), request("/hot/b") * 2, request("/hot/b", "X-New: 1")])
async def test_a_request_does_not_overtake_the_one_before_it_on_its_connection(house, lines, behind):
    lines[0].data_received(request("/hot/a"))
    lines[0].data_received(behind)
    await settle()
    assert house.office.paths() == ["/hot/a"] + ["/hot/b"] * behind.count(b"/hot/b")


@pytest.mark.anyio
async def test_who_hangs_up_before_the_end_of_the_turn_has_asked_for_nothing(house, lines):
    one, two = lines
    one.data_received(request("/hot/a"))
    two.data_received(request("/hot/b"))
    one.connection_lost(None)
    await settle()
    assert house.office.paths() == ["/hot/b"]


# In the ledger


@pytest.fixture
def server() -> Iterator[house_words.House]:
    server = house_words.House()
    yield server
    server.close()


def raw(method: str, path: str, agent: str, body: object = None) -> bytes:
    said = b"" if body is None else json.dumps(body).encode()
    return request(f"/api/v1{path}", f"X-Agent-ID: {agent}", "Content-Type: application/json", method=method, body=said)


def together(server: house_words.House, *requests: bytes) -> list[tuple[int, dict[str, object], int]]:
    """The status, the body and the place among all commands of each, after a turn in which all of them came."""

    async def asked() -> list[house_words.Line]:
        connections = [await _familiar(server, each) for each in requests]
        for (connection, _), each in zip(connections, requests, strict=True):
            connection.data_received(each)
        assert not any(line.sent for _, line in connections)
        for _, line in connections:
            await asyncio.wait_for(line.over.wait(), house_words.ANSWER_S_MAX)
        return [line for _, line in connections]

    return [(*line.answer(), _rev(line)) for line in server.runner.run(asked())]


async def _familiar(server: house_words.House, wanted: bytes) -> tuple[Any, house_words.Line]:
    """A connection on which the like has been asked before, about another scope and about nobody's lease."""
    connection, line = server.connect()
    connection.data_received(re.sub(rb"leases/\w+", b"leases/nobody", wanted.replace(b'"a"', b'"z"')))
    await asyncio.wait_for(line.over.wait(), house_words.ANSWER_S_MAX)
    line.sent = b""
    line.over.clear()
    return connection, line


def _rev(line: house_words.Line) -> int:
    found = re.search(rb"x-rev: (\d+)", line.sent)
    return int(found[1]) if found else 0


def test_the_first_of_two_who_want_the_same_gets_it_and_the_other_is_told_whose_it_is(server: house_words.House):
    path = "/spaces/jobs/leases"
    first, second = together(server, raw("POST", path, "ada", {"scope": "a"}), raw("POST", path, "bob", {"scope": "a"}))
    assert (first[0], second[0]) == (200, 409)
    assert "ada" in str(second[1])
    assert first[2] < second[2]


def test_each_is_shown_what_was_so_after_its_own_command_and_not_what_others_made_of_it(server: house_words.House):
    lease = server.made("/spaces/jobs/leases", {"scope": "a", "ttl_seconds": 100})
    path, agent = f"/spaces/jobs/leases/{lease}", house_words.AGENT
    renewed, released, late = together(
        server, raw("PATCH", path, agent, {"ttl_seconds": 200}), raw("DELETE", path, agent), raw("PATCH", path, agent)
    )
    assert (renewed[0], renewed[1]["status"], renewed[1]["remaining_seconds"]) == (200, "active", 200.0)
    assert (released[0], released[1]["status"]) == (200, "released")
    assert late[0] == 409
    assert renewed[2] < released[2] < late[2]


def test_one_that_cannot_be_understood_costs_the_others_nothing(server: house_words.House):
    path = "/spaces/jobs/leases"
    good, bad = raw("POST", path, "ada", {"scope": "a"}), raw("POST", path, "bob", {"scope": 1})
    wrong, right = together(server, bad, good)
    assert (wrong[0], right[0]) == (422, 200)


def test_an_answer_that_cannot_be_sent_costs_the_others_nothing_in_this_turn_or_the_next(
    server: house_words.House, caplog: pytest.LogCaptureFixture
):
    path = "/spaces/jobs/leases"
    bad, good = raw("POST", path, "bob", {"scope": 1}), raw("POST", path, "ada", {"scope": "a"})

    async def asked() -> bytes:
        (broken, wire), (connection, line) = await _familiar(server, bad), await _familiar(server, good)
        wire.write = _fails
        broken.data_received(bad)
        connection.data_received(good)
        await asyncio.wait_for(line.over.wait(), house_words.ANSWER_S_MAX)
        return line.sent

    assert b"200 OK" in server.runner.run(asked())
    assert together(server, raw("POST", path, "ada", {"scope": "a"}))[0][0] == 409
    assert "answer lost" in caplog.text


def _fails(_data: bytes) -> None:
    raise OSError("nobody there")
