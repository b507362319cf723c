"""The deadlines of a connection, by a clock that the test moves."""

import asyncio

import pytest
from lane_words import arrive, request, settle

pytestmark = pytest.mark.anyio


async def test_a_request_must_be_complete_ten_seconds_after_its_first_byte(house, line):
    for byte in request("/hot/a")[:10]:
        arrive(line, bytes([byte]))
        house.wait(1)
    assert not line.transport.sent
    house.wait(1)
    assert line.transport.statuses() == [408]
    house.wait(3)
    assert line.transport.closed


async def test_a_body_that_does_not_come_ends_the_application_too(house, line):
    arrive(line, request("/slow/a", method="POST", body=b"xx")[:-1])
    await settle()
    house.wait(12)
    await settle()
    assert line.transport.statuses() == [408]
    assert house.asgi.gone == ["/slow/a"]


async def test_a_connection_that_says_nothing_is_closed(house, line):
    house.wait(10)
    assert not line.transport.closed
    house.wait(1)
    assert line.transport.closed
    assert line.transport.sent == b""


async def test_whoever_waits_for_us_has_no_deadline(house, line):
    arrive(line, request("/hot/a"))
    house.wait(500)
    house.office.answer(0)
    assert line.transport.statuses() == [200]


async def test_a_late_request_does_not_cost_the_answers_before_it(house, line):
    arrive(line, request("/hot/a") + b"GET /hot")
    house.wait(20)
    assert not line.transport.closed
    house.office.answer(0)
    assert line.transport.statuses() == [200, 408]


async def test_an_idle_connection_is_kept_for_a_while(house, line):
    for _ in range(3):
        arrive(line, request("/hot/a"))
        house.office.answer(-1)
        house.wait(75)
        assert not line.transport.closed
    house.wait(1)
    assert line.transport.closed
    assert line.transport.statuses() == [200] * 3


async def test_a_client_that_does_not_read_is_read_no_more_and_then_aborted(house, line):
    arrive(line, request("/hot/a"))
    line.pause_writing()
    assert line.transport.paused
    house.office.answer(0)
    assert line.transport.paused
    house.wait(14)
    line.resume_writing()
    assert not line.transport.paused
    line.pause_writing()
    house.wait(15)
    assert not line.transport.aborted
    house.wait(1)
    assert line.transport.aborted


async def test_an_answer_that_never_leaves_does_not_keep_a_closed_connection(house, line):
    arrive(line, request("/hot/a", "Connection: close"))
    house.office.answer(0)
    house.wait(16)
    assert line.transport.aborted


async def test_a_server_that_was_frozen_does_not_blame_its_clients(house, line):
    arrive(line, b"GET /hot")
    house.wait(2)
    house.now_s += 1_000
    house.wait(5)
    assert line.transport.sent == b""


async def test_the_sweep_goes_on_until_it_is_stopped(house, line, monkeypatch):
    monkeypatch.setattr("openintent.server.sweep.SWEEP_S", 0.0)
    looks = asyncio.Semaphore(0)
    line.phase = lambda: looks.release() or (_ for _ in ()).throw(ZeroDivisionError)
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    house.sweep.start()
    for _ in range(3):
        await looks.acquire()
    house.sweep.stop()
    await settle()
    assert looks.locked()
    assert len(failures) == 3
