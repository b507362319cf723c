"""How far a run is, as one plain value: for the command line, for `--json`, for whoever wants to show it. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from openintent.client.values import Intent
from openintent.workflows.facts import Seen, facts_of, record_of
from openintent.workflows.plan import ENDED, PASSED, Fact, StepStatus
from openintent.workflows.runs import outcome_of
from openintent.workflows.spec import Step

RunStatus = Literal["running", "completed", "failed"]


class StepProgress(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    status: StepStatus
    agent: str  # who it is assigned to
    holder: str  # the instance of it that works on it, or did last
    attempt: int
    attempts_max: int | None  # None: as the agent itself has it
    retry_in_seconds: float  # it failed, and is tried again after this delay
    elapsed_seconds: float | None  # None: it has not begun. By the dates of the server; nothing is decided by it
    why: str
    depth: int  # how many steps are before it, on the longest way
    after: str | None  # the last of those, which it is shown below


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    name: str
    status: RunStatus
    why: str
    steps: list[StepProgress]

    @property
    def over(self) -> bool:
        return self.status != "running"


def progress_of(seen: Seen, *, now: datetime) -> Progress:
    facts, depths = facts_of(seen), _depths({step.name: step for step in seen.workflow.steps})
    return Progress(
        run_id=seen.run.id,
        name=seen.workflow.name,
        status="completed" if seen.completed else "failed" if seen.over else "running",
        why=outcome_of(seen).why if seen.over else "",
        steps=[_step(seen, step, facts[step.name], depths, now) for step in seen.workflow.steps],
    )


def _step(seen: Seen, step: Step, fact: Fact, depths: Mapping[str, int], now: datetime) -> StepProgress:
    child, ended = seen.children.get(step.name), fact.noted in ENDED
    status = fact.noted if ended else fact.status
    found = None if child is None else record_of(child, fact.agent)
    last = fact.failures[-1] if fact.failures else None
    return StepProgress(
        name=step.name,
        title=step.title,
        status=status,
        agent=fact.agent,
        holder=fact.holder,
        attempt=fact.attempt,
        attempts_max=None if step.retry is None else step.retry.max_attempts,
        retry_in_seconds=0.0 if found is None or ended else found.retry_in_seconds,
        elapsed_seconds=None if child is None else _elapsed_s(child, now, ended=ended),
        why=fact.why or (f"{last.error}: {last.message}" if last is not None and status not in PASSED else ""),
        depth=depths[step.name],
        after=max(step.depends_on, key=lambda name: depths[name], default=None),
    )


def _elapsed_s(child: Intent, now: datetime, *, ended: bool) -> float:
    until = child.updated_at if ended else now
    return round(max(0.0, (until - child.created_at).total_seconds()), 1)


def _depths(steps: Mapping[str, Step]) -> dict[str, int]:
    """A file that was read has no circles, and its steps may stand in any order."""
    depths: dict[str, int] = {}
    left = list(steps)
    while left:
        ready = [name for name in left if all(need in depths for need in steps[name].depends_on)]
        assert ready, f"the steps wait for each other: {left}"
        depths |= {name: 1 + max((depths[need] for need in steps[name].depends_on), default=-1) for name in ready}
        left = [name for name in left if name not in depths]
    return depths
