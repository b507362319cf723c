"""The runner with a real server and scripted agents: what it makes of a workflow, whatever comes in between."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from scripted import PIPELINE, Crew, check_pipeline, pipeline_script, step_of

from openintent import AsyncOpenIntentClient, PermissionError_
from openintent.agents import record
from openintent.agents.record import Leasing
from openintent.retrying import Retry
from openintent.workflows import runs, watching
from openintent.workflows.facts import NotARun
from openintent.workflows.runner import WorkflowRunner
from openintent.workflows.runs import AnotherRun
from openintent.workflows.spec import Step, Workflow

pytestmark = pytest.mark.anyio

SOON_S = 30.0
APPROVED_ONLY = {"completion_mode": "require_approval"}


def a_step(name="a", *needs, **more):
    return Step(name=name, title=name, assign=more.pop("assign", "worker"), depends_on=needs, **more)


def a_workflow(*steps, **more):
    return Workflow(name="Small", steps=steps or (a_step(),), **more)


def succeeds(_):
    return {"found": 1}


@pytest.fixture(autouse=True)
def no_looks(monkeypatch):
    """All that a runner learns it learns from the stream: a look now and then must not hide what that misses."""
    monkeypatch.setattr(watching, "POLL_S", 600.0)


@pytest.fixture
async def client(server_url):
    async with AsyncOpenIntentClient(server_url) as made:
        yield made


@pytest.fixture
async def person(server_url):
    async with AsyncOpenIntentClient(server_url, agent_id="ann") as made:
        yield made


async def outcome_of(client, workflow, run_id, trigger=None, **options):
    async with asyncio.timeout(SOON_S):
        return await WorkflowRunner(client, workflow, run_id, trigger, **options).run()


# What a run does


async def test_a_workflow_with_failures_a_skip_and_a_fallback_completes(server_url, client, run_id):
    async with Crew(server_url, pipeline_script).at_work("worker", "other") as crew:
        outcome = await outcome_of(client, PIPELINE, run_id)
    assert (outcome.completed, outcome.why) == (True, "")
    await check_pipeline(client, crew, run_id)
    assert {ran.agent for ran in crew.began if step_of(ran) == "clean-b"} == {"worker", "other"}
    child = await client.get_intent(f"{run_id}.fetch-c")
    assert (child.state["of"], child.parent_id, child.depends_on) == (7, run_id, [f"{run_id}.start"])
    assert (await client.get_portfolio(run_id)).status == "completed"


async def test_a_step_that_fails_for_good_blocks_what_needs_it_and_nothing_else(server_url, client, run_id):
    flow = a_workflow(a_step(), a_step("b", "a"), a_step("c"), a_step("d", "b"))
    async with Crew(server_url, lambda ran: "Broken" if step_of(ran) == "a" else {}).at_work("worker") as crew:
        outcome = await outcome_of(client, flow, run_id)
    assert (outcome.completed, outcome.why) == (False, "a, b, d did not succeed")
    seen = await runs.read(client, run_id)
    assert {name: seen.note(name).status for name in "abcd"} == {
        "a": "failed",
        "b": "blocked",
        "c": "done",
        "d": "blocked",
    }
    assert (seen.note("a").why, seen.note("b").why) == (
        "Broken: by the script",
        "it needs a, which did not succeed",
    )
    assert (seen.run.status, seen.children["a"].status, seen.children["c"].status) == (
        "abandoned",
        "abandoned",
        "completed",
    )
    assert sorted(crew.finished) == [f"{run_id}.c"]


async def test_a_run_that_has_ended_is_told_and_not_repeated(server_url, client, run_id):
    async with Crew(server_url, succeeds).at_work("worker") as crew:
        first = await outcome_of(client, a_workflow(), run_id)
        assert await outcome_of(client, a_workflow(), run_id) == first
    assert len(crew.began) == 1


async def test_an_id_of_another_run_is_refused(client, run_id):
    await WorkflowRunner(client, a_workflow(), run_id, {"day": 1}).begin()
    await WorkflowRunner(client, a_workflow(), run_id).begin()  # as it is
    for flow, trigger in [(a_workflow(a_step("b")), None), (a_workflow(), {"day": 2}), (a_workflow(), {})]:
        with pytest.raises(AnotherRun, match=run_id):
            await WorkflowRunner(client, flow, run_id, trigger).begin()


async def test_an_intent_that_is_no_run_is_left_alone(client, run_id):
    await client.create_intent("Mine", id=run_id)
    with pytest.raises(NotARun):
        await WorkflowRunner(client, a_workflow(), run_id).begin()


async def test_a_step_that_takes_too_long_fails_and_nobody_works_on_it_any_more(client, run_id):
    outcome = await outcome_of(client, a_workflow(a_step(timeout_seconds=0.2)), run_id)  # and nobody is there
    assert outcome.why == "a did not succeed"
    assert (await runs.read(client, run_id)).note("a").why == "it took longer than 0.2 s"
    assert (await client.get_intent(f"{run_id}.a")).status == "abandoned"


async def test_a_run_that_takes_too_long_ends_with_all_its_steps(client, run_id):
    flow = a_workflow(a_step(), a_step("b", "a"), timeout_seconds=0.2)
    outcome = await outcome_of(client, flow, run_id)
    assert (outcome.completed, outcome.why) == (False, "the workflow took longer than 0.2 s")
    assert (await client.get_intent(f"{run_id}.a")).status == "abandoned"


@asynccontextmanager
async def going_on(client, workflow, run_id, **options):
    """A run in the background, at a moment when its first step is open."""
    runner = WorkflowRunner(client, workflow, run_id, **options)
    await runner.begin()
    task = asyncio.create_task(runner.run())
    await noted(client, run_id, a="open")
    async with asyncio.timeout(SOON_S):
        yield task


async def noted(client, run_id, **wanted):
    """Until the run's notes say so."""
    async with asyncio.timeout(SOON_S), client.subscribe_intent(run_id, after=0) as stream:
        async for _ in stream:
            seen = await runs.read(client, run_id)
            if all(seen.note(name).status == status for name, status in wanted.items()):
                return


async def test_a_run_that_somebody_abandons_stops(client, person, run_id):
    async with going_on(client, a_workflow(), run_id) as run:
        await person.set_status(run_id, None, "abandoned")
        outcome = await run
    assert (outcome.completed, outcome.why) == (False, "the run was abandoned")
    assert (await client.get_intent(f"{run_id}.a")).status == "abandoned"


async def test_a_step_that_somebody_completes_by_hand_is_done(client, person, run_id):
    async with going_on(client, a_workflow(a_step(outputs={"x": "int"})), run_id) as run:
        await person.patch_state(f"{run_id}.a", {"x": 1})
        await person.set_status(f"{run_id}.a", None, "completed")
        assert (await run).completed


async def test_a_step_that_somebody_abandons_falls_to_nobody(client, person, run_id):
    async with going_on(client, a_workflow(a_step(retry=Retry(fallback_agent="other"))), run_id) as run:
        await person.set_status(f"{run_id}.a", None, "abandoned")
        assert not (await run).completed
    assert (await runs.read(client, run_id)).note("a").why == "its intent was abandoned"


async def test_a_step_whose_intent_somebody_deletes_fails(client, person, run_id):
    async with going_on(client, a_workflow(), run_id) as run:
        await person.delete_intent(f"{run_id}.a")
        assert not (await run).completed
    assert (await runs.read(client, run_id)).note("a").why == "its intent was deleted"


async def test_a_step_that_must_be_approved_waits_for_it(server_url, client, person, run_id, monkeypatch):
    flow, refused, set_status = a_workflow(governance=APPROVED_ONLY), asyncio.Event(), client.set_status

    async def heard(*args, **options):
        try:
            return await set_status(*args, **options)
        except PermissionError_:
            refused.set()
            raise

    monkeypatch.setattr(client, "set_status", heard)
    async with Crew(server_url, succeeds, completes=False).at_work("worker"), going_on(client, flow, run_id) as run:
        await noted(client, run_id, a="parked")
        assert (await runs.read(client, run_id)).note("a").why == "it is done, and waits to be approved"
        await person.record_decision(f"{run_id}.a", "completion", "approved", "looks good")
        assert (await run).completed


async def test_a_step_that_is_abandoned_in_place_of_an_approval_has_failed(server_url, client, person, run_id):
    flow = a_workflow(governance=APPROVED_ONLY)
    async with Crew(server_url, succeeds, completes=False).at_work("worker"), going_on(client, flow, run_id) as run:
        await noted(client, run_id, a="parked")
        await person.set_status(f"{run_id}.a", None, "abandoned", "that will not do")
        assert not (await run).completed


async def test_a_step_that_its_policy_does_not_allow_fails_and_says_why(client, run_id):
    flow = a_workflow(governance={"allowed_agents": ["somebody else"]})
    outcome = await outcome_of(client, flow, run_id)
    assert not outcome.completed
    assert "worker" in (await runs.read(client, run_id)).note("a").why


async def test_what_keeps_the_coordinator_out_does_not_keep_the_run_from_ending(client, run_id):
    flow = a_workflow(a_step(timeout_seconds=0.2), governance={"allowed_agents": ["worker"]})
    assert not (await outcome_of(client, flow, run_id)).completed
    assert await client.list_assigned_agents(f"{run_id}.a") == []


async def test_a_leased_state_makes_the_runner_wait_and_no_more(server_url, client, person, run_id):
    """A step may lease all of the run: then nobody else writes there, and its coordinator neither."""
    async with going_on(client, a_workflow(), run_id) as run:
        async with person.lease(run_id, "*"), Crew(server_url, succeeds).at_work("worker") as crew:
            await crew.one_finished.wait()
            await asyncio.sleep(0.1)
            assert not run.done()
        assert (await run).completed


@pytest.mark.parametrize("late", ["step", "run"])
async def test_a_step_that_has_leased_the_run_is_stopped_when_its_time_is_over(client, person, run_id, late):
    limit = {"timeout_seconds": 1}
    flow = a_workflow(a_step(**limit)) if late == "step" else a_workflow(**limit)
    async with going_on(client, flow, run_id) as run:
        await noted(client, run_id, a="open")
        async with person.lease(run_id, "*"), person.subscribe_intent(f"{run_id}.a", after=0) as events:
            async with asyncio.timeout(SOON_S):
                while (event := await anext(events)).event_type != "status_changed":
                    pass
            assert (event.payload["new_status"], run.done()) == ("abandoned", False)
        assert not (await run).completed
    assert "took longer than 1 s" in (await runs.read(client, run_id)).note("a").why


async def test_the_record_says_what_the_file_wants(client, run_id):
    retry = Retry(max_attempts=7, fallback_agent="other")
    flow = a_workflow(a_step(retry=retry, leasing=Leasing(scope="disk", ttl=5)))
    async with going_on(client, flow, run_id) as run:
        assert [(await client.get_intent(id_)).status for id_ in (run_id, f"{run_id}.a")] == ["active"] * 2
        state = (await client.get_intent(f"{run_id}.a")).state
        for name in ("worker", "other"):
            found = record.read(state, name)
            assert (found.retry, found.parks, found.completes) == (retry, False, True)
            assert found.leasing == Leasing(scope="disk", ttl=5, intent_id=run_id)
        run.cancel()


async def test_an_agent_that_dies_before_it_completes_the_intent_leaves_that_to_the_runner(server_url, client, run_id):
    async with Crew(server_url, succeeds, completes=False).at_work("worker"):
        assert (await outcome_of(client, a_workflow(), run_id)).completed
    assert (await client.get_intent(f"{run_id}.a")).status == "completed"


async def test_a_step_that_was_made_from_other_inputs_is_the_same_step(server_url, client, run_id):
    runner = WorkflowRunner(client, a_workflow(), run_id)
    await runner.begin()
    await client.create_child_intent(run_id, "a", id=f"{run_id}.a", initial_state={"as it was": 1})
    async with Crew(server_url, succeeds).at_work("worker"), asyncio.timeout(SOON_S):
        assert (await runner.run()).completed
    assert (await client.get_intent(f"{run_id}.a")).state["as it was"] == 1


async def test_an_intent_of_others_that_has_the_id_of_a_step_is_left_alone(client, run_id):
    await client.create_intent("Mine", id=f"{run_id}.a")
    assert not (await outcome_of(client, a_workflow(), run_id)).completed
    assert "is no part of this run" in (await runs.read(client, run_id)).note("a").why
    assert (await client.get_intent(f"{run_id}.a")).status == "draft"


async def test_a_runner_whose_lease_was_revoked_writes_nothing_more_and_leads_anew(server_url, client, person, run_id):
    roles = []
    async with going_on(client, a_workflow(), run_id, on_role=roles.append) as run:
        (first,) = await person.list_coordinator_leases(intent_id=run_id)
        await person.revoke_lease(first.id, "a coup")  # its own keeper would hear of it seconds later
        async with Crew(server_url, succeeds).at_work("worker"):
            assert (await run).completed
    assert roles == ["standing by", "leading"] * 2
