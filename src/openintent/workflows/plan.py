"""The planner: from a workflow and what is known of a run to what is to be done next. Pure.

It is asked again after every change, and by whoever is the coordinator then. So it decides from facts alone: nothing
that it said before counts unless it was done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from openintent.agents.record import Failure
from openintent.workflows.spec import INITIAL_STATE, TRIGGER, Step, Workflow

StepStatus = Literal["waiting", "open", "running", "done", "skipped", "failed", "parked", "blocked"]
# A step in one of these has come to its end, and never leaves it.
ENDED: Final = frozenset({"done", "skipped", "failed", "blocked"})
# What a step that depends on it may begin after.
PASSED: Final = frozenset({"done", "skipped"})


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of one step."""

    status: StepStatus = "waiting"
    agent: str = ""  # who has it: the one it is assigned to, or the one that it fell to
    attempt: int = 0
    holder: str = ""
    failures: tuple[Failure, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict)  # the state of its intent
    noted: StepStatus = "waiting"  # what the run's own record of the step says
    overdue: bool = False  # it has been open for longer than its timeout
    why: str = ""
    withdrawn: bool = False  # its intent was abandoned or deleted: no other agent can do it either


Facts: TypeAlias = Mapping[str, Fact]


# What is to be done


@dataclass(frozen=True, slots=True)
class Open:
    """Make the step's intent with this state, and assign it."""

    step: str
    agent: str
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fall:
    """Its agent has used up its attempts: give it to the other one."""

    step: str
    agent: str
    instead_of: str


@dataclass(frozen=True, slots=True)
class Note:
    """Write down how the step stands; if that is an end, it is final."""

    step: str
    status: StepStatus
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    completed: bool
    why: str = ""


Action: TypeAlias = Open | Fall | Note | Finish
# Whether a `skip_when` is true of the outputs of the steps before.
Judge: TypeAlias = Callable[[str, Mapping[str, Mapping[str, Any]]], bool]


def plan(
    workflow: Workflow, facts: Facts, *, trigger: Mapping[str, Any], judge: Judge, late: bool = False
) -> list[Action]:
    """Everything that can be done now; nothing if the run waits for agents. `late`: the run's own time is over."""
    planner = _Planner(workflow, dict(facts), trigger, judge)
    return planner.ended_late() if late else planner.next_steps()


class _Planner:
    def __init__(self, workflow: Workflow, facts: dict[str, Fact], trigger: Mapping[str, Any], judge: Judge) -> None:
        self._workflow = workflow
        self._facts = facts
        self._trigger = trigger
        self._judge = judge

    def next_steps(self) -> list[Action]:
        actions: list[Action] = []
        for step in self._workflow.steps:
            actions += self._of(step, self._fact(step.name))
        return actions or self._end()

    def ended_late(self) -> list[Action]:
        why = f"the workflow took longer than {self._workflow.timeout_seconds:g} s"
        open_ones = [step.name for step in self._workflow.steps if self._fact(step.name).noted not in ENDED]
        return [*(Note(name, "failed", why) for name in open_ones), Finish(completed=False, why=why)]

    def _fact(self, name: str) -> Fact:
        return self._facts.get(name, Fact())

    def _of(self, step: Step, fact: Fact) -> list[Action]:
        if fact.noted in ENDED:
            return []
        if fact.status == "waiting":
            return self._begin(step)
        if fact.status == "done":
            return [self._check_outputs(step, fact)]
        if fact.overdue:
            return [Note(step.name, "failed", f"it took longer than {step.timeout_seconds:g} s")]
        if fact.status == "failed":
            return [self._failed(step, fact)]
        return [] if fact.noted == fact.status else [Note(step.name, fact.status, fact.why)]

    # A step that has not begun

    def _begin(self, step: Step) -> list[Action]:
        before = {name: self._fact(name) for name in step.depends_on}
        stopped = [name for name, fact in before.items() if fact.noted in ENDED - PASSED]
        if stopped:
            return [Note(step.name, "blocked", f"it needs {' and '.join(stopped)}, which did not succeed")]
        if any(fact.noted not in PASSED for fact in before.values()):
            return []
        try:
            if step.skip_when is not None and self._judge(step.skip_when, self._outputs()):
                return [Note(step.name, "skipped", f"skip_when: {step.skip_when}")]
            return [Open(step.name, step.assign, self._state(step))]
        except ValueError as wrong:  # what it needs is not there, or of another kind than the file expects
            return [Note(step.name, "failed", str(wrong))]

    def _outputs(self) -> dict[str, Mapping[str, Any]]:
        return {name: fact.outputs for name, fact in self._facts.items() if fact.noted in PASSED}

    def _state(self, step: Step) -> dict[str, Any]:
        return {**step.initial_state, **{key: self._input(step, source) for key, source in step.inputs.items()}}

    def _input(self, step: Step, source: str) -> Any:
        where, _, key = source.partition(".")
        if where == TRIGGER:
            return _at(self._trigger, key, f"the run was started without {key}")
        if where == INITIAL_STATE:
            return _at(step.initial_state, key, f"initial_state has no {key}")
        fact = self._fact(where)
        # A step that was skipped has no outputs; what needs one of them goes without.
        return None if fact.noted == "skipped" else _at(fact.outputs, key, f"{where} left no {key}")

    # A step that has been done, or not

    def _check_outputs(self, step: Step, fact: Fact) -> Note:
        missing = [key for key, kind in step.outputs.items() if _required(kind) and key not in fact.outputs]
        if missing:
            return Note(step.name, "failed", f"it left no {' and no '.join(missing)}")
        return Note(step.name, "done")

    def _failed(self, step: Step, fact: Fact) -> Action:
        other = step.retry.fallback_agent if step.retry is not None else None
        if other is not None and fact.agent != other and not fact.withdrawn:
            return Fall(step.name, other, instead_of=fact.agent)
        last = fact.failures[-1] if fact.failures else None
        return Note(step.name, "failed", fact.why or (f"{last.error}: {last.message}" if last is not None else ""))

    # The end

    def _end(self) -> list[Action]:
        ends = {step.name: self._fact(step.name).noted for step in self._workflow.steps}
        if any(status not in ENDED for status in ends.values()):
            return []
        stopped = [name for name, status in ends.items() if status not in PASSED]
        why = "" if not stopped else f"{', '.join(stopped)} did not succeed"
        return [Finish(completed=not stopped, why=why)]


def _required(kind: Any) -> bool:
    return bool(kind.get("required", True)) if isinstance(kind, Mapping) else True


def _at(values: Mapping[str, Any], key: str, otherwise: str) -> Any:
    """A value by its path: `a.b` is b in a."""
    found: Any = values
    for part in key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise ValueError(otherwise)
        found = found[part]
    return found
