"""The planner: whatever becomes of the steps, every run ends, and no step begins before its time or twice."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.agents.record import Failure
from openintent.retrying import Retry
from openintent.workflows.plan import ENDED, PASSED, Fact, Fall, Finish, Note, Open, plan
from openintent.workflows.spec import Step, Workflow

FELL = Failure(attempt=3, error="IOError", message="the disk is full")


def step(name, *needs, **more):
    return Step(name=name, title=name.title(), assign=f"{name}r", depends_on=needs, **more)


def workflow(*steps, **more):
    return Workflow(name="Pipeline", steps=steps, **more)


def planned(flow, facts=(), *, trigger=(), judge=lambda text, outputs: False, late=False):
    return plan(flow, dict(facts), trigger=dict(trigger), judge=judge, late=late)


def done(**outputs):
    return Fact("done", noted="done", outputs=outputs)


# One rule each


def test_what_depends_on_nothing_begins_at_once():
    assert planned(workflow(step("a"), step("b", "a"), step("c"))) == [Open("a", "ar", {}), Open("c", "cr", {})]


def test_a_step_begins_when_all_before_it_are_done_or_skipped():
    flow = workflow(step("a"), step("b"), step("c", "a", "b"))
    skipped = Fact("skipped", noted="skipped")
    assert planned(flow, {"a": done(), "b": Fact("running", noted="running")}) == []
    assert planned(flow, {"a": done(), "b": skipped}) == [Open("c", "cr", {})]


def test_what_an_agent_says_counts_only_when_it_is_noted():
    flow = workflow(step("a"), step("b", "a"))
    assert planned(flow, {"a": Fact("done", noted="running")}) == [Note("a", "done")]


def test_inputs_come_from_steps_from_the_trigger_and_from_the_step_itself():
    inputs = {"url": "a.found.url", "user": "$trigger.user", "size": "$initial_state.size"}
    flow = workflow(step("a"), step("b", "a", inputs=inputs, initial_state={"size": 3}))
    actions = planned(flow, {"a": done(found={"url": "x"})}, trigger={"user": "ann"})
    assert actions == [Open("b", "br", {"size": 3, "url": "x", "user": "ann"})]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("a.missing", "a left no missing"),
        ("a.found.deeper", "a left no found.deeper"),
        ("$trigger.user", "the run was started without user"),
        ("$initial_state.size", "initial_state has no size"),
    ],
)
def test_a_step_whose_input_is_not_there_fails_and_says_so(source, why):
    flow = workflow(step("a"), step("b", "a", inputs={"x": source}))
    assert planned(flow, {"a": done(found=1)}) == [Note("b", "failed", why)]


def test_what_a_skipped_step_would_have_left_is_nothing():
    flow = workflow(step("a"), step("b", "a", inputs={"x": "a.out"}))
    assert planned(flow, {"a": Fact("skipped", noted="skipped")}) == [Open("b", "br", {"x": None})]


def test_a_step_is_skipped_if_its_condition_holds_of_the_outputs_before():
    flow = workflow(step("a"), step("b", "a", skip_when="a.ok"))
    asked = []

    def judge(text, outputs):
        asked.append((text, outputs))
        return True

    assert planned(flow, {"a": done(ok=1)}, judge=judge) == [Note("b", "skipped", "skip_when: a.ok")]
    assert asked == [("a.ok", {"a": {"ok": 1}})]


def test_a_condition_that_cannot_be_judged_fails_the_step():
    def judge(text, outputs):
        raise ValueError("a.ok is no number")

    flow = workflow(step("b", skip_when="a.ok > 3"))
    assert planned(flow, judge=judge) == [Note("b", "failed", "a.ok is no number")]


@pytest.mark.parametrize(("kind", "noted"), [("string", "failed"), ({"required": False}, "done")])
def test_a_step_is_done_only_with_its_outputs(kind, noted):
    flow = workflow(step("a", outputs={"report": kind}))
    (note,) = planned(flow, {"a": Fact("done", noted="running")})
    assert note.status == noted


def test_a_step_that_used_up_its_attempts_falls_to_the_other_agent_once():
    flow = workflow(step("a", retry=Retry(fallback_agent="other")))
    failed = Fact("failed", "ar", noted="running", failures=(FELL,))
    assert planned(flow, {"a": failed}) == [Fall("a", "other", instead_of="ar")]
    assert planned(flow, {"a": replace(failed, agent="other")}) == [Note("a", "failed", "IOError: the disk is full")]


def test_a_step_whose_intent_was_abandoned_falls_to_nobody():
    flow = workflow(step("a", retry=Retry(fallback_agent="other")))
    withdrawn = Fact("failed", "ar", noted="open", failures=(FELL,), why="its intent was abandoned", withdrawn=True)
    assert planned(flow, {"a": withdrawn}) == [Note("a", "failed", "its intent was abandoned")]


def test_why_a_step_is_parked_is_noted():
    flow = workflow(step("a"))
    assert planned(flow, {"a": Fact("parked", noted="running", why="approve it")}) == [
        Note("a", "parked", "approve it")
    ]


def test_an_overdue_step_fails():
    flow = workflow(step("a", timeout_seconds=1.5))
    assert planned(flow, {"a": Fact("running", noted="running", overdue=True)}) == [
        Note("a", "failed", "it took longer than 1.5 s")
    ]
    assert planned(flow, {"a": Fact("done", noted="running", overdue=True)}) == [Note("a", "done")]
    stopped = Fact("failed", noted="running", overdue=True, why="its intent was abandoned", withdrawn=True)
    assert planned(flow, {"a": stopped}) == [Note("a", "failed", "it took longer than 1.5 s")]


def test_a_run_that_is_late_ends_with_all_its_open_steps():
    flow = workflow(step("a"), step("b"), timeout_seconds=60)
    why = "the workflow took longer than 60 s"
    assert planned(flow, {"a": done()}, late=True) == [Note("b", "failed", why), Finish(completed=False, why=why)]


# All rules together, on workflows and with accidents made by chance


@st.composite
def workflows(draw):
    names = [f"s{number}" for number in range(draw(st.integers(1, 9)))]
    steps = []
    for place, name in enumerate(names):
        needs = draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=3)) if place else []
        more = {"retry": Retry(fallback_agent="other")} if draw(st.booleans()) else {}
        if draw(st.integers(0, 4)) == 0:
            more["skip_when"] = "by chance"
        steps.append(step(name, *needs, **more))
    return workflow(*draw(st.permutations(steps)))


class World:
    """Does what the planner says, and lets agents do what chance says."""

    def __init__(self, flow, draw):
        self.flow, self._draw = flow, draw
        self.facts = {each.name: Fact() for each in flow.steps}
        self.opened, self.end = [], None

    def turn(self):
        actions = planned(self.flow, self.facts, judge=lambda text, outputs: self._draw(st.booleans()))
        for action in actions[: self._draw(st.integers(1, len(actions))) if actions else 0]:  # then the runner dies
            self._do(action)
        if not actions:
            self._an_agent_works()

    def _do(self, action):
        if isinstance(action, Finish):
            self.end = action
            return
        before = self.facts[action.step]
        assert before.noted not in ENDED, f"{action} after the end of the step"
        if isinstance(action, Open):
            self._open(action)
        elif isinstance(action, Fall):
            assert (before.status, action.instead_of) == ("failed", before.agent)
            self.facts[action.step] = Fact("open", action.agent, noted="open")
        else:
            self.facts[action.step] = replace(before, noted=action.status, why=action.why)

    def _open(self, action):
        assert action.step not in self.opened, f"{action} for the second time"
        needs = self.flow.by_name[action.step].depends_on
        assert all(self.facts[name].noted in PASSED for name in needs), f"{action} before its time"
        self.opened.append(action.step)
        self.facts[action.step] = Fact("open", action.agent, noted="open")

    def _an_agent_works(self):
        open_ones = sorted(name for name, fact in self.facts.items() if fact.status in ("open", "running"))
        assert open_ones, f"nothing to do, nobody at work, and no end: {self.facts}"
        name = self._draw(st.sampled_from(open_ones))
        become = self._draw(st.sampled_from(["running", "done", "failed"]))
        if become == self.facts[name].status:
            become = "done"
        self.facts[name] = replace(self.facts[name], status=become)


TURNS_MAX = 200


@given(workflows(), st.data())
def test_every_run_ends_and_each_step_begins_once_and_in_order(flow, data):
    world = World(flow, data.draw)
    for _ in range(TURNS_MAX):
        if world.end is not None:
            break
        world.turn()
    assert world.end is not None, "the run does not end"
    ends = {name: fact.noted for name, fact in world.facts.items()}
    assert set(ends.values()) <= ENDED
    stopped = [each.name for each in flow.steps if ends[each.name] not in PASSED]
    assert world.end == Finish(completed=not stopped, why=f"{', '.join(stopped)} did not succeed" if stopped else "")
    for each in flow.steps:
        if ends[each.name] == "blocked":
            named = [name for name in each.depends_on if name in world.facts[each.name].why]
            assert named
            assert all(ends[name] not in PASSED for name in named)
