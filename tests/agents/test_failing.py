"""Assignments whose handler fails: tried again after a delay, then parked for a person; and what is done stays done."""

import asyncio
import sys
from datetime import timedelta

import pytest
from fleetwords import Stage, own, soon

from openintent import OutcomeUnknown
from openintent.agents import Agent, Retry, on_assignment, on_handoff, on_retry, runner, running
from openintent.agents import record as records

pytestmark = pytest.mark.anyio


async def test_a_handler_that_raises_is_tried_again_after_the_declared_delay(stage, agent):
    retries = []

    @agent(retry=Retry(max_attempts=3, backoff="linear", base_delay_seconds=0.2))
    class Worker:
        @on_assignment
        async def handle(self, intent):
            if self.work.attempt < 3:
                raise KeyError(f"no {self.work.attempt}")
            return {"attempt": self.work.attempt}

        @on_retry
        async def again(self, intent, attempt, last_error):
            retries.append((attempt, last_error.error, last_error.message))

    async with running(Worker, Worker):  # both wait, whoever was refused the lease in the meantime
        intent = await stage.assigned()
        done = await stage.until_status(intent, "done")
    assert retries == [(2, "KeyError", "'no 1'"), (3, "KeyError", "'no 2'")]
    record = stage.record(done)
    assert (record.attempt, record.failed, own(done.state)) == (3, 2, {"attempt": 3})
    assert [delay for delay, _ in delays(await stage.events(intent), stage)] == [0.2, 0.4]
    assert all(waited >= timedelta(seconds=delay * 0.95) for delay, waited in delays(await stage.events(intent), stage))


def delays(events, stage: Stage):
    """Of each failure: the delay that its record declares, and how much later the next one began, by the log."""
    failed, found = None, []
    for event in events:
        if event.event_type != "state_patched":
            continue
        for change in event.payload["patches"]:
            if change["path"] != records.path(stage.name):
                continue
            record = records.of_value(change["value"], stage.name)
            if record.retry_in_seconds:
                failed = (record.retry_in_seconds, event.created_at)
            elif failed is not None and record.status == "running":
                found.append((failed[0], event.created_at - failed[1]))
                failed = None
    return found


async def test_an_instance_that_starts_during_a_delay_waits_for_it_too(stage, agent):
    begun = asyncio.Event()

    @agent(retry=Retry(max_attempts=2, base_delay_seconds=0.6))
    class Worker:
        @on_assignment
        async def handle(self, intent):
            begun.set()
            if self.work.attempt == 1:
                raise ValueError("no")

    async with running(Worker):
        intent = await stage.assigned()
        await stage.until_status(intent, "open")
        await soon(begun.wait())
        await stage.until_released(intent)
    async with running(Worker):
        await stage.until_status(intent, "done")
    ((delay, waited),) = delays(await stage.events(intent), stage)
    assert delay == 0.6
    assert waited >= timedelta(seconds=0.55)


async def test_what_is_assigned_anew_does_not_wait_for_the_delay_of_before(stage, agent):
    calls = []

    @agent(retry=Retry(base_delay_seconds=3600, max_delay_seconds=3600))
    class Worker:
        @on_assignment
        async def handle(self, intent):
            calls.append(self.work.attempt)
            if len(calls) == 1:
                raise ValueError("no")

    async with running(Worker):
        intent = await stage.assigned()
        await stage.until(intent, lambda found: stage.record(found).failed == 1)
        await stage.boss.unassign_agent(intent.id, stage.name)
        await stage.boss.assign_agent(intent.id, stage.name)
        await stage.until_status(intent, "done")
    assert calls == [1, 1]


async def test_without_attempts_left_it_is_parked_and_a_person_gets_the_history(stage, agent):
    calls = []

    @agent(retry=Retry(max_attempts=2, base_delay_seconds=0.01))
    class Worker:
        @on_assignment
        def handle(self, intent):
            calls.append(intent.id)
            if len(calls) < 3:
                raise OSError(f"no {len(calls)}")
            return {"calls": len(calls)}

    async with running(Worker) as (worker,):
        intent = await stage.assigned()
        parked = await stage.until_status(intent, "parked")
        asked = await stage.until_event(intent, lambda event: "arbitration" in event.event_type)
        assert own(parked.state) == {}
        assert len(calls) == 2

        await stage.boss.unassign_agent(intent.id, stage.name)
        await stage.boss.assign_agent(intent.id, stage.name)
        done = await stage.until_status(intent, "done")
    assert own(done.state) == {"calls": 3}
    assert (stage.record(done).attempt, stage.record(done).failed) == (1, 0)
    assert asked.seq < parked_at(await stage.events(intent), stage)  # who dies in between does not leave it unasked
    failures = asked.payload["context"]["failures"]
    assert [failure["message"] for failure in failures] == ["no 1", "no 2"]
    assert {failure["holder"] for failure in failures} == {worker.agent_id}
    assert "OSError" in asked.payload["reason"]


def parked_at(events, stage: Stage):
    """The place in the log where the record says so."""
    patches = [(event.seq, change) for event in events for change in event.payload.get("patches", ())]
    return next(seq for seq, change in patches if change["value"].get("status") == "parked")


async def test_without_attempts_left_it_falls_to_the_other_agent_that_was_named(stage, agent, name, server_url):
    told = []

    @agent(retry=Retry(max_attempts=2, base_delay_seconds=0.01, fallback_agent=f"{name}-b"))
    class Worker:
        @on_assignment
        async def handle(self, intent):
            raise OSError("no")

    @Agent(f"{name}-b", base_url=server_url)
    class Other:
        @on_handoff
        async def taken(self, intent, from_agent):
            told.append(from_agent)

        @on_assignment
        async def handle(self, intent):
            return {"by": "the other"}

    async with running(Worker, Other):
        intent = await stage.assigned()
        await stage.until_status(intent, "done", name=f"{name}-b")
        done = await stage.until_status(intent, "failed")
    assert own(done.state) == {"by": "the other"}
    assert told == [name]
    assert await stage.events(intent, "arbitration_requested") == []


async def test_an_error_that_is_not_worth_another_try_gets_none(stage, agent):
    @agent(retry=Retry(max_attempts=5, base_delay_seconds=0, retryable_errors=("OSError",)))
    class Worker:
        @on_assignment
        async def handle(self, intent):
            raise ConnectionResetError("again") if self.work.attempt == 1 else KeyError("never")

    async with running(Worker):
        intent = await stage.assigned()
        parked = await stage.until_status(intent, "parked")
    assert [failure.error for failure in stage.record(parked).failures] == ["ConnectionResetError", "KeyError"]


async def awaits_what_is_cancelled(_self, _intent):
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


def is_cancelled_inside(_self, _intent):
    asyncio.run(awaits_what_is_cancelled(None, None))


def exits(_self, _intent):
    sys.exit(0)


@pytest.mark.parametrize("handler", [awaits_what_is_cancelled, is_cancelled_inside, exits], ids=lambda it: it.__name__)
async def test_a_handler_that_ends_itself_has_failed_and_ends_no_agent(stage, agent, handler):
    @agent(retry=Retry(max_attempts=2, base_delay_seconds=0.01))
    class Worker:
        handle = on_assignment(handler)

    async with running(Worker):
        intent = await stage.assigned()
        parked = await stage.until_status(intent, "parked")
        another = await stage.assigned()
        await stage.until_status(another, "parked")
    assert [failure.error for failure in stage.record(parked).failures] == ["RuntimeError", "RuntimeError"]


@pytest.mark.parametrize("returned", [7, {"x": object()}, {1: 2}], ids=["no dict", "no JSON", "no names"])
async def test_a_result_that_is_none_is_a_failure_like_any_other(stage, agent, returned):
    @agent(retry=Retry(max_attempts=1))
    class Worker:
        @on_assignment
        async def handle(self, intent):
            return returned

    async with running(Worker):
        intent = await stage.assigned()
        parked = await stage.until_status(intent, "parked")
    assert own(parked.state) == {}
    assert stage.record(parked).last_failure.error == "TypeError"


async def test_what_is_done_stays_done_if_it_may_not_be_completed(stage, agent):
    """The policy wants an approval first. The handler is not to run again for that."""
    calls = []

    @agent(complete=True, retry=Retry(max_attempts=3, base_delay_seconds=0.01))
    class Worker:
        @on_assignment
        async def handle(self, intent):
            calls.append(intent.id)
            return {"rows": 3}

    async with running(Worker):
        intent = await stage.assigned(governance_policy={"completion_mode": "require_approval"})
        await stage.until_released(intent)
        another = await stage.assigned()
        await stage.until(another, lambda found: found.status == "completed")
    left = await stage.boss.get_intent(intent.id)
    assert (stage.record(left).status, left.status, left.state["rows"]) == ("done", "draft", 3)
    assert calls == [intent.id, another.id]


async def test_a_result_that_may_have_landed_is_not_called_back(stage, agent, monkeypatch):
    """The answer to the last write is lost. Whoever comes next finds out what became of it."""
    calls, lost = [], []
    monkeypatch.setattr(runner, "TROUBLE_S", (0.0, 0.01))

    @agent()
    class Worker:
        @on_assignment
        async def handle(self, intent):
            calls.append(self.work.attempt)
            return {"rows": 3}

    async with running(Worker) as (worker,):
        write = worker.async_client.patch_state

        async def write_and_hear_nothing(intent_id, patches, **options):
            answer = await write(intent_id, patches, **options)
            if len(patches) == 2 and not lost:
                lost.append(intent_id)
                raise OutcomeUnknown("no answer came")
            return answer

        monkeypatch.setattr(worker.async_client, "patch_state", write_and_hear_nothing)
        intent = await stage.assigned()
        await stage.until_status(intent, "done")
        await stage.until(intent, lambda found: stage.record(found).status != "running")
        another = await stage.assigned()
        await stage.until_released(another)
    done = await stage.boss.get_intent(intent.id)
    assert lost == [intent.id]
    assert (stage.record(done).status, stage.record(done).failed, own(done.state)) == ("done", 0, {"rows": 3})
    assert calls == [1, 1]  # each intent once


async def test_whoever_comes_after_one_who_died_before_completing_it_completes_it(stage, agent):
    @agent(complete=True)
    class Worker:
        @on_assignment
        async def handle(self, intent):
            raise AssertionError("it is done")

    intent = await stage.assigned()
    (assignment,) = await stage.boss.list_assigned_agents(intent.id)
    done = records.Record(status="done", assigned_at=assignment.assigned_at.isoformat(), attempt=1, holder="dead~1")
    await stage.boss.patch_state(intent.id, [records.patch(stage.name, done)])
    async with running(Worker):
        await stage.until(intent, lambda found: found.status == "completed")
        # But if somebody opens it again, they mean it.
        await stage.boss.set_status(intent.id, None, "active")
        another = await stage.assigned()
        await stage.until_released(another)
    assert (await stage.boss.get_intent(intent.id)).status == "active"


@pytest.mark.parametrize(
    "garbage", [{"retry_in_seconds": "soon"}, {"status": ["x"]}, 7, {"status": "open", "attempt": None}], ids=repr
)
async def test_garbage_where_a_record_should_be_ends_no_agent(stage, agent, garbage):
    @agent()
    class Worker:
        @on_assignment
        async def handle(self, intent):
            return {"ok": True}

    async with running(Worker):
        bad = await stage.boss.create_intent("Bad")
        await stage.boss.patch_state(bad.id, {records.path(stage.name): garbage})
        await stage.boss.assign_agent(bad.id, stage.name)
        await stage.until_released(bad)
        await stage.boss.patch_state(bad.id, {records.path(stage.name): garbage})
        good = await stage.assigned()
        await stage.until_status(good, "done")
        await stage.boss.patch_state(bad.id, {records.path(stage.name): {}})  # somebody mends it
        await stage.until_status(bad, "done")
