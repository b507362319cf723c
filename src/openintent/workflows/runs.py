"""The intents of a run: made once, and read again by whoever goes on with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from openintent.client.aio import AsyncOpenIntentClient
from openintent.client.values import Intent
from openintent.errors import ConflictError, NotFoundError
from openintent.model import DONE_STATUSES
from openintent.workflows.facts import RunState, Seen, seen_of, state_of
from openintent.workflows.spec import Workflow


class AnotherRun(ValueError):
    """The id belongs to a run of another workflow, or to one that was started with something else."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    run_id: str
    completed: bool
    why: str = ""


def outcome_of(seen: Seen) -> Outcome:
    why = seen.state.why or ("" if seen.completed else "the run was abandoned")
    return Outcome(seen.run.id, seen.completed, why)


async def read(client: AsyncOpenIntentClient, run_id: str) -> Seen:
    run = await client.get_intent(run_id)
    return seen_of(run, await client.get_children(run_id))


async def begin(
    client: AsyncOpenIntentClient, workflow: Workflow, run_id: str, trigger: Mapping[str, Any] | None
) -> Intent:
    """Make the run, or find it. Without a `trigger` a run that is there goes on with the one it has."""
    try:
        run = await client.get_intent(run_id)
    except NotFoundError:
        run = await _make(client, workflow, run_id, trigger or {})
    _check(run, workflow, trigger)
    if run.status not in DONE_STATUSES:
        await _gather(client, workflow, run_id)
    return run


async def _gather(client: AsyncOpenIntentClient, workflow: Workflow, run_id: str) -> None:
    # One stream tells what happens to all that is in a portfolio; that of an intent does not tell of its children.
    try:
        await client.create_portfolio(workflow.name, id=run_id)
    except ConflictError:
        await client.get_portfolio(run_id)
    await client.add_intent_to_portfolio(run_id, run_id, role="primary")


async def _make(client: AsyncOpenIntentClient, workflow: Workflow, run_id: str, trigger: Mapping[str, Any]) -> Intent:
    state = msgspec.to_builtins(RunState(workflow=workflow, trigger=dict(trigger)))
    try:
        return await client.create_intent(
            workflow.name, workflow.description, id=run_id, status="active", initial_state=state
        )
    except ConflictError:  # another runner was faster, for what we want or for something else
        return await client.get_intent(run_id)


def _check(run: Intent, workflow: Workflow, trigger: Mapping[str, Any] | None) -> None:
    state = state_of(run)
    if state.workflow != workflow:
        what = "an older or newer text" if state.workflow.name == workflow.name else f"“{state.workflow.name}”"
        raise AnotherRun(f"{run.id} is a run of {what}; name another run, or begin a new one")
    if trigger is not None and _as_json(trigger) != _as_json(state.trigger):
        raise AnotherRun(f"{run.id} was started with other inputs; name another run, or begin a new one")


def _as_json(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(value, order="sorted")
