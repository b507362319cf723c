"""From what was read of a run to what the planner is told, and to what people are shown."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from openintent.agents import record
from openintent.agents.record import Failure, Record
from openintent.client.values import Intent
from openintent.retrying import Retry
from openintent.workflows.facts import NotARun, RunState, StepNote, facts_of, seen_of
from openintent.workflows.plan import Fact
from openintent.workflows.progress import progress_of
from openintent.workflows.spec import Step, Workflow
from openintent.workflows.timeouts import Timeouts

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
FELL = Failure(attempt=1, error="IOError", message="the disk is full", holder="worker~1")


def intent(id_, state, *, status="active", parent="run", policy=None, minutes=1):
    return Intent(
        id=id_,
        title=id_,
        version=1,
        status=status,
        created_at=BEGAN,
        updated_at=BEGAN + timedelta(minutes=minutes),
        state=state,
        parent_id=parent,
        governance_policy=policy,
    )


def a_step(name="a", *needs, **more):
    return Step(name=name, title=name, assign="worker", depends_on=needs, **more)


def run_of(*steps, status="active", why="", timeout_seconds=None, **notes):
    flow = Workflow(name="Pipeline", steps=steps or (a_step(),), timeout_seconds=timeout_seconds)
    state = RunState(workflow=flow, trigger={"x": 1}, steps=notes, why=why)
    return intent("run", msgspec.to_builtins(state), status=status, parent=None)


def child_of(record_=None, *, step="a", agent="worker", status="active", policy=None, **outputs):
    state = {**outputs, record.KEY: {agent: msgspec.to_builtins(record_ or Record())}}
    return intent(f"run.{step}", state, status=status, policy=policy)


def fact_of(run, *children, overdue=()):
    return facts_of(seen_of(run, children), overdue=overdue)["a"]


OPEN = StepNote(status="open", agent="worker")
RUNNING = Record(status="running", attempt=2, holder="worker~2", failures=(FELL,))


@pytest.mark.parametrize("status", ["active", "completed"])
def test_a_step_that_fell_to_another_is_his_also_if_nobody_lived_to_note_that(status):
    run = run_of(a_step(retry=Retry(max_attempts=1, fallback_agent="other")), a=OPEN)
    child, his = child_of(Record(status="failed", attempt=1, failures=(FELL,)), status=status), child_of(agent="other")
    child.state[record.KEY] |= his.state[record.KEY]
    assert fact_of(run, child).agent == "worker"
    done = Record(status="done" if status == "completed" else "running", attempt=1, holder="other~1")
    child.state[record.KEY] |= child_of(done, agent="other").state[record.KEY]
    fact = fact_of(run, child)
    assert (fact.agent, fact.holder, fact.status) == ("other", "other~1", done.status)


def test_a_step_without_a_note_waits_whatever_there_is_of_it():
    assert fact_of(run_of(), child_of(RUNNING)) == Fact("waiting", "worker")


def test_the_record_tells_how_the_step_stands():
    fact = fact_of(run_of(a=OPEN), child_of(RUNNING, found=3), overdue={"a"})
    assert fact == Fact(
        "running",
        "worker",
        attempt=2,
        holder="worker~2",
        failures=(FELL,),
        outputs={"found": 3},
        noted="open",
        overdue=True,
    )


@pytest.mark.parametrize("status", ["open", "running", "done", "failed", "parked"])
def test_a_step_stands_as_its_record_does(status):
    assert fact_of(run_of(a=OPEN), child_of(Record(status=status))).status == status


def test_after_a_fall_the_record_of_the_other_agent_counts():
    fell = StepNote(status="open", agent="other")
    child = child_of(Record(status="done"), agent="other")
    child.state[record.KEY]["worker"] = {"status": "failed"}
    fact = fact_of(run_of(a=fell), child)
    assert (fact.status, fact.agent) == ("done", "other")


def test_what_somebody_completed_is_done_also_without_a_record():
    assert fact_of(run_of(a=OPEN), child_of(status="completed", found=3)).status == "done"


@pytest.mark.parametrize("status", ["open", "running", "done", "parked"])
@pytest.mark.parametrize("policy", [None, {"completion_mode": "require_approval"}])
def test_what_somebody_abandoned_has_failed_and_falls_to_nobody(status, policy):
    fact = fact_of(run_of(a=OPEN), child_of(Record(status=status), status="abandoned", policy=policy))
    assert (fact.status, fact.withdrawn, fact.why) == ("failed", True, "its intent was abandoned")


def test_a_deleted_intent_is_a_failed_step():
    fact = fact_of(run_of(a=OPEN))
    assert (fact.status, fact.withdrawn, fact.why) == ("failed", True, "its intent was deleted")


@pytest.mark.parametrize("status", ["skipped", "blocked"])
def test_a_step_that_ended_before_it_began_needs_no_intent(status):
    fact = fact_of(run_of(a=StepNote(status=status, why="so it was")))
    assert (fact.status, fact.noted, fact.why) == (status, status, "so it was")


def test_what_must_be_approved_is_not_done_before_it_is():
    policy = {"completion_mode": "require_approval"}
    waiting = fact_of(run_of(a=OPEN), child_of(Record(status="done"), policy=policy))
    assert (waiting.status, waiting.why) == ("parked", "it is done, and waits to be approved")
    assert fact_of(run_of(a=OPEN), child_of(Record(status="done"), policy=policy, status="completed")).status == "done"


@pytest.mark.parametrize("records", [3, {"worker": {"status": "asleep"}}])
def test_what_is_no_record_fails_the_step_and_says_where(records):
    fact = fact_of(run_of(a=OPEN), intent("run.a", {record.KEY: records}))
    assert fact.status == "failed"
    assert "_assignments/worker" in fact.why


@pytest.mark.parametrize("state", [{}, {"workflow": 3}, {"workflow": {"name": "x"}}])
def test_an_intent_that_is_no_run_is_told_so(state):
    with pytest.raises(NotARun, match="the intent run is no run of a workflow"):
        seen_of(intent("run", state), ())


def test_intents_that_are_no_steps_do_not_matter():
    assert seen_of(run_of(a=OPEN), [child_of(step="else")]).children == {}


# Timeouts


def open_run(**more):
    return seen_of(run_of(a_step(timeout_seconds=5), a_step("b"), timeout_seconds=20, **more), ())


def test_a_step_counts_from_when_it_was_first_seen_open():
    timeouts = Timeouts(open_run(), now_s=100)
    timeouts.look(open_run(a=OPEN, b=OPEN), now_s=103)
    timeouts.look(open_run(a=StepNote(status="running"), b=OPEN), now_s=107)
    assert timeouts.overdue(now_s=107.9) == set()
    assert timeouts.overdue(now_s=108) == {"a"}
    assert timeouts.next_s(now_s=107) == 1


def test_a_step_that_has_ended_is_never_overdue():
    timeouts = Timeouts(open_run(a=OPEN), now_s=100)
    timeouts.look(open_run(a=StepNote(status="done")), now_s=101)
    assert timeouts.overdue(now_s=200) == set()


def test_the_time_that_an_approval_takes_does_not_count():
    policy, parked = {"completion_mode": "require_approval"}, StepNote(status="parked", agent="worker")
    done, given_up = (child_of(Record(status=status), policy=policy) for status in ("done", "parked"))
    run = run_of(a_step(timeout_seconds=5), a=parked)
    assert not fact_of(run, done, overdue={"a"}).overdue
    assert fact_of(run, given_up, overdue={"a"}).overdue
    for child, overdue in ((done, set()), (given_up, {"a"})):
        assert Timeouts(seen_of(run, [child]), now_s=100).overdue(now_s=200) == overdue


def test_the_run_counts_from_when_it_is_led():
    timeouts = Timeouts(open_run(), now_s=100)
    assert (timeouts.late(now_s=119.9), timeouts.late(now_s=120)) == (False, True)
    assert timeouts.next_s(now_s=110) == 10


# Progress


def shown(run, *children):
    return progress_of(seen_of(run, children), now=BEGAN + timedelta(seconds=90))


def test_progress_shows_attempts_holders_delays_and_why():
    retry = Retry(max_attempts=4)
    waits = Record(status="open", attempt=2, retry_in_seconds=2.5, holder="worker~1", failures=(FELL,))
    (step,) = shown(run_of(a_step(retry=retry), a=OPEN), child_of(waits)).steps
    assert (step.status, step.attempt, step.attempts_max, step.holder) == ("open", 2, 4, "worker~1")
    assert (step.retry_in_seconds, step.elapsed_seconds) == (2.5, 90)
    assert step.why == "IOError: the disk is full"


def test_the_time_of_a_step_that_has_ended_stands_still():
    (step,) = shown(run_of(a=StepNote(status="done", agent="worker")), child_of(RUNNING)).steps
    assert (step.status, step.elapsed_seconds, step.why) == ("done", 60, "")


def test_each_step_is_shown_below_the_one_that_it_waits_longest_for():
    steps = shown(run_of(a_step("c", "a", "b"), a_step("b", "a"), a_step("a"))).steps
    assert [(step.name, step.depth, step.after) for step in steps] == [("c", 2, "b"), ("b", 1, "a"), ("a", 0, None)]


def test_a_run_that_was_abandoned_by_hand_says_so():
    assert shown(run_of(status="abandoned")).why == "the run was abandoned"
    ended = shown(run_of(status="abandoned", why="a did not succeed"))
    assert (ended.status, ended.why, ended.over) == ("failed", "a did not succeed", True)
    assert shown(run_of(status="completed")).status == "completed"
    assert not shown(run_of()).over
