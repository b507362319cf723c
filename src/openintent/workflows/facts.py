"""From the intents of a run to the facts that the planner decides from. Pure.

A run is an intent whose state has the workflow, what it was started with, and a note on each step; each step that was
opened is a child of it. A note counts for more than the intent of its step: it is written by the coordinator alone,
under its token. A step without a note has not been opened, whatever there is of it: whoever began that died over it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from openintent.agents import record
from openintent.agents.record import BadRecord, Record
from openintent.client.values import Intent
from openintent.model import DONE_STATUSES
from openintent.workflows.plan import ENDED, Fact, StepStatus
from openintent.workflows.spec import Step, Workflow, step_intent_id

COMPLETED: Final = "completed"
ABANDONED: Final = "abandoned"


class NotARun(ValueError):
    """The intent is there, and is no run of a workflow."""


class StepNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the run knows of a step."""

    status: StepStatus = "waiting"
    agent: str = ""
    why: str = ""


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run's intent."""

    workflow: Workflow
    trigger: dict[str, Any] = {}
    steps: dict[str, StepNote] = {}
    why: str = ""  # it ended as it did


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as it was read."""

    run: Intent
    state: RunState
    children: Mapping[str, Intent]  # by the name of their step

    @property
    def workflow(self) -> Workflow:
        return self.state.workflow

    @property
    def over(self) -> bool:
        return self.run.status in DONE_STATUSES

    @property
    def completed(self) -> bool:
        return self.run.status == COMPLETED

    def note(self, step: str) -> StepNote:
        return self.state.steps.get(step, StepNote())

    def is_through(self, step: str) -> bool:
        """Whether its agent has done it: at most an approval is still to come."""
        child = self.children.get(step)
        return child is not None and record_of(child, self.note(step).agent).status == "done"


def seen_of(run: Intent, children: Collection[Intent]) -> Seen:
    state, by_id = state_of(run), {child.id: child for child in children}
    named = {step.name: by_id.get(step_intent_id(run.id, step.name)) for step in state.workflow.steps}
    return Seen(run, state, {name: child for name, child in named.items() if child is not None})


def state_of(run: Intent) -> RunState:
    try:
        return msgspec.convert(run.state, RunState)
    except msgspec.ValidationError as wrong:
        raise NotARun(f"the intent {run.id} is no run of a workflow: {wrong}") from None


def facts_of(seen: Seen, *, overdue: Collection[str] = ()) -> dict[str, Fact]:
    """`overdue`: the steps that have been open for longer than they may, which whoever asks must have counted."""
    return {step.name: _fact(seen, step, overdue=step.name in overdue) for step in seen.workflow.steps}


def outputs_of(child: Intent) -> dict[str, Any]:
    return {key: value for key, value in child.state.items() if key != record.KEY}


def record_of(child: Intent, agent: str) -> Record:
    """What is known of the step's assignment; of what is no record, nothing."""
    try:
        return record.read(child.state, agent)
    except BadRecord:
        return Record()


def needs_approval(intent: Intent) -> bool:
    policy = intent.governance_policy or {}
    return bool(policy.get("completion_mode", "auto") != "auto")


def _fact(seen: Seen, step: Step, *, overdue: bool) -> Fact:
    note, child = seen.note(step.name), seen.children.get(step.name)
    agent = note.agent or step.assign
    if child is None or note.status == "waiting":
        gone = note.status not in ENDED | {"waiting"}
        status: StepStatus = "failed" if gone else note.status
        why = "its intent was deleted" if gone else note.why
        return Fact(status, agent, noted=note.status, why=why, withdrawn=gone)
    other = None if step.retry is None else step.retry.fallback_agent
    if other is not None and record_of(child, other).attempt:
        agent = other  # it fell to him, though whoever gave it to him may have died before that was noted
    found = record_of(child, agent)
    status, why = _how_it_stands(child, found, agent)
    return Fact(
        status,
        agent,
        attempt=found.attempt,
        holder=found.holder,
        failures=found.failures,
        outputs=outputs_of(child),
        noted=note.status,
        overdue=overdue and found.status != "done",  # how long an approval takes is no matter of the step's time
        why=note.why if note.status in ENDED else why,
        withdrawn=child.status == ABANDONED,
    )


def _how_it_stands(child: Intent, found: Record, agent: str) -> tuple[StepStatus, str]:
    # Agents that keep no records complete the intent, and people may do so in their place.
    if child.status == COMPLETED:
        return "done", ""
    if child.status == ABANDONED and found.status != "failed":
        return "failed", "its intent was abandoned"
    if found.status == "done" and needs_approval(child):
        return "parked", "it is done, and waits to be approved"
    try:
        return record.read(child.state, agent).status, ""
    except BadRecord as wrong:
        return "failed", str(wrong)
