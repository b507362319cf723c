"""Assignments: whoever they are addressed to, the handler runs, and its result lands."""

import asyncio
import threading
from functools import partial

import pytest
from fleetwords import own, soon

from openintent.agents import Agent, Retry, on_assignment, on_handoff, running
from openintent.agents import record as records
from openintent.errors import ConflictError, LeaseConflictError

pytestmark = pytest.mark.anyio


async def test_what_an_async_handler_returns_lands_with_the_word_that_it_is_done(stage, agent):
    @agent()
    class Worker:
        @on_assignment
        async def handle(self, intent):
            return {"rows": 3, "by": self.agent_id}

    async with running(Worker) as (worker,):
        intent = await stage.assigned()
        done = await stage.until_status(intent, "done")
    assert own(done.state) == {"rows": 3, "by": worker.agent_id}
    assert done.status == "draft"
    patch = (await stage.events(intent, "state_patched"))[-1].payload["patches"]
    assert {change["path"] for change in patch} == {"rows", "by", records.path(stage.name)}


async def test_what_a_plain_handler_returns_lands_as_well(stage, agent):
    @agent(complete=True)
    class Worker:
        @on_assignment
        def handle(self, intent):
            self.log(intent.id, "begun", n=1)
            self.patch_state(intent.id, {"half": intent.title})
            return {"thread": threading.current_thread() is not threading.main_thread()}

    async with running(Worker):
        intent = await stage.assigned()
        done = await stage.until(intent, lambda found: found.status == "completed")
    assert own(done.state) == {"half": "Report", "thread": True}
    (comment,) = await stage.events(intent, "comment")
    assert comment.payload == {"message": "begun", "n": 1}


async def test_a_lease_is_held_while_the_handler_runs_and_given_back_after(stage, agent):
    seen = []

    @agent(lease_ttl=5)
    class Worker:
        @on_assignment
        async def handle(self, intent, work):
            seen.extend([await stage.holder(intent), work.lease])
            assert self.work is work

    async with running(Worker) as (worker,):
        intent = await stage.assigned()
        released = await stage.until_released(intent)
        assert await stage.holder(intent) is None
    held, mine = seen
    assert (held.token, held.agent_id, held.ttl_seconds) == (mine.token, worker.agent_id, 5)
    assert released.actor == worker.agent_id


async def test_a_handlers_own_scope_and_its_way_to_complete_win_over_the_agents(stage, agent):
    @agent()
    class Worker:
        @on_assignment(scope="mine", complete=True)
        async def handle(self, intent):
            return {"scope": self.work.lease.scope}

    async with running(Worker):
        intent = await stage.assigned()
        done = await stage.until(intent, lambda found: found.status == "completed")
    assert own(done.state) == {"scope": "mine"}


async def test_several_handlers_are_called_one_after_the_other_and_all_of_it_lands_together(stage, agent):
    @agent()
    class Worker:
        @on_assignment
        async def first(self, intent):
            return {"a": 1, "both": "first"}

        @on_assignment
        def second(self):
            return {"b": 2, "both": "second"}

    async with running(Worker):
        intent = await stage.assigned()
        done = await stage.until_status(intent, "done")
    assert own(done.state) == {"a": 1, "b": 2, "both": "second"}
    assert done.version == 3  # made, begun, done


async def test_an_agent_that_completes_what_it_has_done_leaves_what_its_handler_abandoned(stage, agent):
    @agent(complete=True)
    class Worker:
        @on_assignment
        async def handle(self, intent):
            await self.client.set_status(intent.id, None, "abandoned", "there is nothing to do")

    async with running(Worker):
        intent = await stage.assigned()
        await stage.until_released(intent)
    changes = [event.payload["new_status"] for event in await stage.events(intent, "status_changed")]
    assert changes == ["abandoned"]


async def test_an_agent_completes_what_was_changed_at_the_last_moment(stage, agent, monkeypatch):
    @agent(complete=True)
    class Worker:
        @on_assignment
        async def handle(self, intent): ...

    async with running(Worker) as (worker,):

        async def after_another(intent_id, *told, **options):
            monkeypatch.undo()
            await stage.boss.patch_state(intent_id, {"note": 1})
            return await worker.async_client.set_status(intent_id, *told, **options)

        monkeypatch.setattr(worker.async_client, "set_status", after_another)
        intent = await stage.assigned()
        left = await stage.until(intent, lambda found: found.status == "completed")
    assert own(left.state) == {"note": 1}


@pytest.mark.parametrize("way", ["returned", "patched", "completed with"])
async def test_a_state_that_is_written_back_whole_changes_no_record(stage, name, server_url, way):
    other, calls, may_end = f"{name}-other", [], asyncio.Event()

    @Agent(name, base_url=server_url)
    class Whole:
        @on_assignment
        async def handle(self, intent):
            old = await self.client.get_intent(intent.id)
            await self.delegate(intent.id, other)
            await soon(may_end.wait())
            state = {**old.state, "found": 1}
            if way == "returned":
                return state
            write = self.patch_state if way == "patched" else self.complete_intent
            await write(intent.id, state)
            return None

    @Agent(other, base_url=server_url)
    class Other:
        @on_assignment
        async def handle(self, intent):
            calls.append(self.work.attempt)

    async with running(Whole, Other):
        intent = await stage.assigned()
        before = await stage.until_status(intent, "done", name=other)
        may_end.set()
        after = await stage.until_status(intent, "done")
    assert (own(after.state), calls) == ({"found": 1}, [1])
    assert stage.record(after, other) == stage.record(before, other)


async def test_open_assignments_of_before_are_found(stage, agent):
    @agent(complete=True)
    class Worker:
        @on_assignment
        async def handle(self, intent): ...

    intents = [await stage.assigned() for _ in range(3)]
    async with running(Worker):
        for intent in intents:
            await stage.until(intent, lambda found: found.status == "completed")


# Who it is addressed to


async def test_an_assignment_to_a_role_is_done_by_one_of_its_agents(stage, name, server_url):
    done_by = []

    def worker(number):
        @Agent(f"{name}-{number}", role=f"{name}-role", base_url=server_url)
        class Worker:
            @on_assignment
            async def handle(self, intent, work):
                done_by.append((self.agent_id, work.name))

        return Worker

    async with running(worker(1), worker(2)):
        intents = [await stage.assigned(f"{name}-role") for _ in range(6)]
        for intent in intents:
            await stage.until_status(intent, "done", name=f"{name}-role")
        mine = await stage.assigned(f"{name}-2")
        await stage.until_status(mine, "done", name=f"{name}-2")
    assert len(done_by) == 7
    assert {called for _, called in done_by[:6]} == {f"{name}-role"}
    assert done_by[6][0].startswith(f"{name}-2~")


async def test_two_names_of_one_intent_are_two_assignments(stage, name, server_url):
    odd = f"{name}/größe~1"

    @Agent(name, role=odd, base_url=server_url, capacity=2)
    class Worker:
        @on_assignment
        async def handle(self, intent, work):
            return {"odd" if work.name == odd else name: self.work.attempt}

    async with running(Worker):
        intent = await stage.assigned(name, odd)
        await stage.until_status(intent, "done")
        done = await stage.until_status(intent, "done", name=odd)
    assert own(done.state) == {name: 1, "odd": 1}
    assert done.state[records.KEY].keys() == {name, odd}


async def test_never_more_than_the_capacity_run_at_once(stage, agent):
    now, most, open_gate = [], [], asyncio.Event()

    @agent(capacity=3)
    class Worker:
        @on_assignment
        async def handle(self, intent):
            now.append(intent.id)
            most.append(len(now))
            if len(now) == 3:
                open_gate.set()
            await soon(open_gate.wait())
            await asyncio.sleep(0.01)
            now.remove(intent.id)

    intents = [await stage.assigned() for _ in range(10)]
    async with running(Worker):
        for intent in intents:
            await stage.until_status(intent, "done")
    assert max(most) == 3
    assert len(most) == 10


# Handing over


async def test_what_is_delegated_comes_with_its_word(stage, name, server_url):
    told = []

    @Agent(name, base_url=server_url)
    class First:
        @on_assignment
        async def handle(self, intent):
            await self.delegate(intent.id, f"{name}-b", {"rows": [1, 2]})

    @Agent(f"{name}-b", base_url=server_url)
    class Second:
        @on_handoff
        async def taken(self, intent, from_agent, payload):
            told.append((intent.id, from_agent, payload))

        @on_assignment
        def handle(self, intent):
            self.delegate(intent.id, f"{name}-c", "plain")
            return {"sum": sum(self.work.payload["rows"]), "from": self.work.from_agent}

    @Agent(f"{name}-c", base_url=server_url)
    class Third:
        @on_assignment
        async def handle(self, intent):
            return {"word": self.work.payload}

    async with running(First, Second, Third):
        intent = await stage.assigned()
        done = await stage.until_status(intent, "done", name=f"{name}-c")
        done = await stage.until_status(intent, "done", name=f"{name}-b")
    assert told == [(intent.id, name, {"rows": [1, 2]})]
    assert own(done.state) == {"sum": 3, "from": name, "word": "plain"}


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_nothing_is_delegated_to_one_who_is_still_at_work_and_would_overwrite_it(stage, name, server_url, kind):
    begun, may_end, refused = asyncio.Event(), asyncio.Event(), []

    @Agent(name, base_url=server_url)
    class Writer:
        @on_assignment
        async def write(self, intent):
            if self.work.from_agent:
                return {"corrected": self.work.payload}
            begun.set()
            await soon(may_end.wait())
            return {"text": "Good morning"}

    @Agent(f"{name}-reviewer", base_url=server_url)
    class Reviewer:
        @on_assignment(retry=Retry(max_attempts=20, backoff="constant", base_delay_seconds=0.1))
        async def review(self, intent):
            hand_back = partial(self.delegate, intent.id, name, "a typo")
            try:
                await (hand_back() if kind == "async" else asyncio.to_thread(hand_back))
            except LeaseConflictError as still_at_work:
                refused.append(still_at_work.current_holder)
                may_end.set()
                raise

    async with running(Writer, Reviewer) as (writer, _):
        intent = await stage.assigned()
        await soon(begun.wait())
        await stage.boss.assign_agent(intent.id, f"{name}-reviewer")
        done = await stage.until(intent, lambda found: "corrected" in found.state)
    assert own(done.state) == {"text": "Good morning", "corrected": "a typo"}
    assert set(refused) == {writer.agent_id}


async def test_a_delegation_that_names_another_version_is_refused_and_one_over_no_record_is_not(stage, agent):
    @agent()
    class Idle:
        @on_assignment
        def handle(self, intent):
            pass

    async with running(Idle) as (idle,):
        intent = await stage.boss.create_intent("given", initial_state={records.KEY: {"other": "no record"}})
        with pytest.raises(ConflictError):
            await soon(idle.delegate(intent.id, "other", expected_version=intent.version + 7))
        await soon(idle.delegate(intent.id, "other", "a word"))
        told = records.read((await stage.boss.get_intent(intent.id)).state, "other")
    assert (told.status, told.payload) == ("open", "a word")


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_an_agent_may_complete_what_it_works_on_itself(stage, agent, kind):
    """That is no reason to stop it: it did so."""

    @agent()
    class Async:
        @on_assignment
        async def handle(self, intent):
            completed = await self.complete_intent(intent.id, {"early": True}, reason="because")
            await asyncio.sleep(0.1)
            return {"status": completed.status}

    @agent()
    class Plain:
        @on_assignment
        def handle(self, intent):
            return {"status": self.complete_intent(intent.id, {"early": True}, reason="because").status}

    async with running(Async if kind == "async" else Plain):
        intent = await stage.assigned()
        done = await stage.until_status(intent, "done")
    assert own(done.state) == {"early": True, "status": "completed"}
    assert (await stage.events(intent, "status_changed"))[0].payload["reason"] == "because"
