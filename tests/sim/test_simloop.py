"""Processes in virtual time: who runs when, and who never again."""

import asyncio
import gc
import logging
from asyncio import events

import pytest
import simulate
from simloop import CALLBACKS_MAX, Scheduler, SimLoop


@pytest.fixture
def scheduler():
    yield Scheduler()
    events._set_running_loop(None)


@pytest.fixture
def loop(scheduler):
    return SimLoop(scheduler, origin=1_000.0, rate=2.0)


@pytest.fixture
def seen():
    return []


def test_timers_ring_by_the_clock_of_their_process(scheduler, loop, seen):
    loop.call_later(3.0, lambda: seen.append((scheduler.now, loop.time(), loop.time_ms())))
    loop.call_at(1_001.0, lambda: seen.append(scheduler.now))
    scheduler.run_until(10.0)
    assert seen == [0.5, (1.5, 1_003.0, 1_003_000)]


def test_a_cancelled_timer_does_not_ring(scheduler, loop, seen):
    loop.call_later(1.0, seen.append, "cancelled").cancel()
    loop.call_later(1.0, seen.append, "rang")
    scheduler.run_until(10.0)
    assert seen == ["rang"]


def test_a_frozen_process_first_deals_with_what_came_from_outside_and_then_with_its_timers(scheduler, loop, seen):
    loop.freeze(5.0)
    loop.call_later(2.0, seen.append, "timer")
    loop.call_later(4.0, seen.append, "later timer")
    scheduler.at(3.0, loop.post, lambda: seen.append(f"message at {scheduler.now}"))
    scheduler.run_until(4.9)
    assert seen == []
    scheduler.run_until(6.0)
    assert seen == ["message at 5.0", "timer", "later timer"]


def test_a_frozen_process_may_be_frozen_for_longer(scheduler, loop, seen):
    loop.freeze(1.0)
    loop.call_soon(seen.append, "ran")
    scheduler.at(0.9, loop.freeze, 2.0)
    scheduler.run_until(2.5)
    assert seen == []
    scheduler.run_until(3.0)
    assert seen == ["ran"]


def test_what_reaches_a_process_is_dealt_with_at_once_with_all_that_follows(scheduler, loop, seen):
    loop.post(loop.call_soon, loop.call_soon, seen.append, "third")
    assert seen == ["third"]


def test_the_dead_do_nothing_more(scheduler, loop, seen):
    async def work():
        try:
            await asyncio.sleep(1.0)
        finally:
            seen.append("finally")

    def die():
        loop.call_soon(seen.append, "waiting when it died")
        loop.kill()
        loop.call_soon(seen.append, "asked for in its last moment")

    loop.call_soon(loop.create_task, work())
    loop.call_later(0.5, die)
    loop.call_later(2.0, seen.append, "timer")
    scheduler.at(3.0, loop.post, seen.append, "message")
    scheduler.run_until(10.0)
    loop.call_soon(seen.append, "asked for after its death")
    scheduler.run_until(20.0)
    gc.collect()
    assert seen == []
    loop.forget()
    gc.collect()
    assert seen == ["finally"]


def test_a_process_that_never_comes_to_rest_is_a_failure(scheduler, loop, seen):
    def again():
        seen.append(1)
        loop.call_soon(again)

    loop.call_soon(again)
    with pytest.raises(AssertionError, match="rest"):
        scheduler.run_until(1.0)
    assert len(seen) == CALLBACKS_MAX


def test_an_exception_in_a_callback_is_kept_for_the_judge(scheduler, loop, seen):
    loop.call_soon(lambda: 1 / 0)
    loop.call_soon(seen.append, "the next one")
    scheduler.run_until(1.0)
    assert isinstance(loop.failures[0]["exception"], ZeroDivisionError)
    assert seen == ["the next one"]


def test_histories_that_are_over_do_not_pile_up(monkeypatch, caplog):
    """Ten thousand of them have to fit into the memory of one process."""
    caplog.set_level(logging.CRITICAL, "openintent.grantor")  # what is logged keeps what failed
    monkeypatch.setattr(simulate, "CHUNK", 1)
    things = [len(gc.get_objects()) + gc.get_freeze_count() for _ in simulate.run_many(0, 20)]
    assert max(things) < things[0] + 6_000  # a history has about 4,000; some need a second collection
