"""The runner of a workflow.

It promises: the run goes on as long as any runner lives, and none of its steps begins again once it has ended. All that
is known of a run is in its intents; whoever holds the coordinator's lease of the run leads it, all other runners stand
by. A runner that loses the lease stops, and what it still writes is refused.

Not promised: that a timeout is kept to the second. It counts on the leading runner's own clock from when that first saw
the step open, so a new leader counts anew.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from openintent.client.aio import AsyncOpenIntentClient
from openintent.client.coordinator import CoordinatorLease
from openintent.clock import boot_s
from openintent.errors import (
    LeaseConflictError,
    LeaseLost,
    OutcomeUnknown,
    StaleTokenError,
    Unavailable,
    WaitTimeout,
)
from openintent.workflows import expression, runs
from openintent.workflows.acting import Acting
from openintent.workflows.facts import Seen, facts_of, seen_of
from openintent.workflows.plan import Action, Facts, Finish, Judge, plan
from openintent.workflows.runs import Outcome, outcome_of
from openintent.workflows.spec import Workflow
from openintent.workflows.timeouts import Timeouts
from openintent.workflows.watching import Watch

logger = logging.getLogger("openintent.workflows")

TTL_S_DEFAULT: Final = 15.0  # so long a run stands still when its runner dies
STANDBY_S: Final = 60.0  # one wait to lead; then another
AGAIN_S: Final = 1.0  # after the server was not to be reached, or our own agent's older lease is in the way
HELD_S: Final = 0.5  # a part of the run's state is leased by somebody; then look again

OnRole = Callable[[str], object]


class WorkflowRunner:
    """`await WorkflowRunner(client, workflow).run()`. Any number of them may run at once, also for one run."""

    def __init__(
        self,
        client: AsyncOpenIntentClient,
        workflow: Workflow,
        run_id: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        *,
        ttl_seconds: float = TTL_S_DEFAULT,
        on_role: OnRole | None = None,
        judge: Judge = expression.holds,
    ) -> None:
        """Without a `run_id` it is the run that the workflow means. `on_role` hears `standing by` and `leading`."""
        self._client = client
        self._workflow = workflow
        self.run_id = run_id or workflow.run_id
        self._trigger = trigger
        self._ttl_s = ttl_seconds
        self._on_role = on_role or (lambda _: None)
        self._judge = judge

    async def begin(self) -> Outcome | None:
        """Make the run if there is none; how it ended if it has. `AnotherRun`: the id is taken by something else."""
        run = await runs.begin(self._client, self._workflow, self.run_id, self._trigger)
        seen = seen_of(run, ())
        return outcome_of(seen) if seen.over else None

    async def run(self) -> Outcome:
        """Until the run has ended. Cancelled, it stops leading; the run stays, and another goes on with it."""
        outcome = await self.begin()
        while outcome is None:
            outcome = await self._campaign()
        return outcome

    async def _campaign(self) -> Outcome | None:
        self._on_role("standing by")
        lead = self._client.coordinate(
            intent_id=self.run_id,
            ttl_seconds=self._ttl_s,
            wait_seconds=STANDBY_S,
            role="workflow runner",
            coordinator_type="system",
        )
        try:
            async with lead as lease:
                return await self._lead(lease)
        except WaitTimeout:  # somebody else leads, and lives
            return None
        except (LeaseLost, StaleTokenError) as exc:
            logger.warning("runner deposed run=%s error=%s", self.run_id, exc)
            return None
        except (Unavailable, OutcomeUnknown, LeaseConflictError) as exc:
            logger.warning("runner failed run=%s error=%s", self.run_id, exc)
            await asyncio.sleep(AGAIN_S)
            return None

    async def _lead(self, lease: CoordinatorLease) -> Outcome:
        logger.info("runner leads run=%s token=%s", self.run_id, lease.token)
        self._on_role("leading")
        async with Watch(self._client, self.run_id, others_only=True) as watch:
            reign = _Reign(self, Acting(self._client, self.run_id, lease), await self.read())
            while True:
                try:
                    wait_s = await reign.turn()
                except LeaseConflictError as held:
                    logger.info("run waits for a lease run=%s holder=%s", self.run_id, held.current_holder)
                    wait_s = HELD_S
                if wait_s is None:
                    return outcome_of(reign.seen)
                if wait_s > 0:
                    await watch.change(within_s=wait_s)

    async def read(self) -> Seen:
        return await runs.read(self._client, self.run_id)

    def plan(self, seen: Seen, facts: Facts, *, late: bool) -> list[Action]:
        return plan(seen.workflow, facts, trigger=seen.state.trigger, judge=self._judge, late=late)


class _Reign:
    """What one coordinator does, turn by turn."""

    def __init__(self, runner: WorkflowRunner, acting: Acting, seen: Seen) -> None:
        self._runner = runner
        self._acting = acting
        self._timeouts = Timeouts(seen, now_s=boot_s())
        self.seen = seen

    async def turn(self) -> float | None:
        """Read, plan, act once. How long to wait for news, 0 if there is more to do; None if the run is over."""
        seen = self.seen = await self._runner.read()
        if seen.over:
            await self._acting.tidy(seen)
            return None
        now_s = boot_s()
        self._timeouts.look(seen, now_s=now_s)
        facts = facts_of(seen, overdue=self._timeouts.overdue(now_s=now_s))
        actions = self._runner.plan(seen, facts, late=self._timeouts.late(now_s=now_s))
        if not actions:
            changed = await self._acting.tidy(seen)
            return 0.0 if changed else self._timeouts.next_s(now_s=now_s)
        await self._acting.do(actions, seen, facts)
        for end in actions:
            if isinstance(end, Finish):
                await self._acting.finish(end, await self._runner.read())
        return 0.0
