"""What the planner wants, done: by the coordinator of a run, and under its token.

The coordinator may die between any two requests, and the next one plans from what is there. So each effect is the same
when it is repeated, and the note on a step comes last. What has no token (to create an intent, to assign an agent) is
asked for only while the lease is trusted. One that is late all the same begins nothing twice: the intent of a step has
one id, and whoever is assigned stays so, with a record that says whether he is through.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from openintent.agents import record
from openintent.agents.record import Leasing, Record
from openintent.client.aio import AsyncOpenIntentClient
from openintent.client.coordinator import CoordinatorLease
from openintent.client.values import Intent
from openintent.errors import ConflictError, LeaseConflictError, NotFoundError, PermissionError_, ValidationError
from openintent.model import DONE_STATUSES
from openintent.workflows.facts import ABANDONED, COMPLETED, Seen, StepNote, needs_approval, record_of
from openintent.workflows.plan import ENDED, PASSED, Action, Facts, Fall, Finish, Note, Open
from openintent.workflows.spec import Step, step_intent_id

logger = logging.getLogger("openintent.workflows")

# Of why something ended. A person reads it, and a run of as many steps as there may be has room for all of them.
WHY_CHARS_MAX: Final = 400


class Acting:
    """One coordinator's hands."""

    def __init__(self, client: AsyncOpenIntentClient, run_id: str, lease: CoordinatorLease) -> None:
        self._client = client
        self._run_id = run_id
        self._lease = lease

    async def do(self, actions: Iterable[Action], seen: Seen, facts: Facts) -> None:
        """Everything but the end of the run. All notes are one patch: a deposed coordinator writes none of them."""
        notes: dict[str, StepNote] = {}
        for action in actions:
            match action:
                case Open():
                    notes[action.step] = await self._open(action, seen)
                case Fall():
                    notes[action.step] = await self._fall(action)
                case Note():
                    agent = facts[action.step].agent if action.step in seen.children else ""
                    notes[action.step] = StepNote(status=action.status, agent=agent, why=action.why[:WHY_CHARS_MAX])
        if notes:
            await self._write(notes, seen)

    async def _write(self, notes: Mapping[str, StepNote], seen: Seen) -> None:
        changes = {f"steps/{name}": msgspec.to_builtins(note) for name, note in notes.items()}
        try:
            await self._client.patch_state(self._run_id, changes, lease=self._lease)
        except LeaseConflictError:
            # A step may have leased the state of the run, and with it these notes. If its time is over it is stopped
            # all the same: then it lets go of them.
            for name, child in seen.children.items():
                if name in notes and notes[name].status in ENDED - PASSED and child.status not in DONE_STATUSES:
                    await self._abandon(child, notes[name])
            raise

    # A step begins

    async def _open(self, action: Open, seen: Seen) -> StepNote:
        step = seen.workflow.by_name[action.step]
        try:
            await self._make(step, action.state, seen)
            await self._assign(step.name, action.agent)
        except (PermissionError_, ValidationError, _NotOurs) as refused:
            # The file asks for what cannot be: that will not be otherwise the next time.
            logger.warning("step refused run=%s step=%s error=%s", self._run_id, step.name, refused)
            return StepNote(status="failed", agent=action.agent, why=str(refused)[:WHY_CHARS_MAX])
        return StepNote(status="open", agent=action.agent)

    async def _make(self, step: Step, state: Mapping[str, Any], seen: Seen) -> None:
        id_ = step_intent_id(self._run_id, step.name)
        self._lease.check()
        try:
            await self._client.create_child_intent(
                self._run_id,
                step.title,
                step.description,
                id=id_,
                status="active",
                initial_state={**state, record.KEY: self._records(step)},
                constraints=step.constraints,
                depends_on=[seen.children[name].id for name in step.depends_on if name in seen.children],
                governance_policy=seen.workflow.governance or None,
            )
        except ConflictError:
            # What it depends on may have been changed since it was made. It is the same step all the same.
            if (await self._client.get_intent(id_)).parent_id != self._run_id:
                raise _NotOurs(f"the intent {id_} exists already and is no part of this run") from None
        await self._client.add_intent_to_portfolio(self._run_id, id_)

    def _records(self, step: Step) -> dict[str, Any]:
        """Of all who may ever be assigned: nothing is left to be written when the step falls to another."""
        leasing = None if step.leasing is None else _at_home(step.leasing, self._run_id)
        first = Record(retry=step.retry, parks=False, completes=True, leasing=leasing)
        other = None if step.retry is None else step.retry.fallback_agent
        return {name: msgspec.to_builtins(first) for name in (step.assign, other) if name is not None}

    async def _assign(self, step: str, agent: str) -> None:
        self._lease.check()
        await self._client.assign_agent(step_intent_id(self._run_id, step), agent, role="worker")

    async def _fall(self, action: Fall) -> StepNote:
        # Whoever had it stays assigned, and his record says that he is through. Were he taken off, a late request of a
        # deposed coordinator could assign him anew; this way it changes nothing.
        try:
            await self._assign(action.step, action.agent)
        except (PermissionError_, ValidationError, NotFoundError) as refused:
            return StepNote(status="failed", agent=action.agent, why=str(refused)[:WHY_CHARS_MAX])
        return StepNote(status="open", agent=action.agent)

    # A step or the run ends

    async def tidy(self, seen: Seen, *, at_the_end: bool = False) -> bool:
        """Nobody is to work on what ended without success; what was approved is completed. Whether any of it was."""
        changed = False
        for name, child in seen.children.items():
            note = seen.note(name)
            if child.status in DONE_STATUSES:
                continue
            if note.status in ENDED - PASSED or ((at_the_end or seen.over) and note.status not in ENDED):
                changed |= await self._abandon(child, note)
            elif note.status in ("done", "parked") and (at_the_end or needs_approval(child)):
                changed |= await self._complete(child, note)
        return changed

    async def _abandon(self, child: Intent, note: StepNote) -> bool:
        why = note.why or "the run has ended"
        if await self._set_status(child, ABANDONED, why):
            return True
        # The policy keeps the coordinator out. Then at least nobody is assigned.
        for each in await self._client.list_assigned_agents(child.id):
            self._lease.check()
            await self._client.unassign_agent(child.id, each.agent_id)
        return False

    async def _complete(self, child: Intent, note: StepNote) -> bool:
        is_done = record_of(child, note.agent).status == "done"
        return is_done and await self._set_status(child, COMPLETED, "the step is done")

    async def _set_status(self, child: Intent, status: str, why: str) -> bool:
        """False if the policy of the intent forbids it, or does not allow it yet."""
        try:
            await self._client.set_status(child.id, None, status, why[:WHY_CHARS_MAX], lease=self._lease)
        except PermissionError_ as forbidden:
            logger.debug("step status refused intent=%s status=%s error=%s", child.id, status, forbidden)
            return False
        return True

    async def finish(self, end: Finish, seen: Seen) -> None:
        """The status of the run itself comes last: it says that there is nothing left to do."""
        await self.tidy(seen, at_the_end=True)
        status, why = COMPLETED if end.completed else ABANDONED, end.why[:WHY_CHARS_MAX]
        await self._client.patch_state(self._run_id, {"why": why}, lease=self._lease)
        self._lease.check()
        await self._client.update_portfolio_status(self._run_id, status)
        await self._client.set_status(self._run_id, None, status, why or "all steps are done", lease=self._lease)


class _NotOurs(ValueError):
    """An intent of another has the id that a step needs."""


def _at_home(leasing: Leasing, run_id: str) -> Leasing:
    """Steps of one run share its scopes, unless the file names another place."""
    return leasing if leasing.intent_id else replace(leasing, intent_id=run_id)
