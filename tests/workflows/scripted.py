"""Agents that keep the records of their assignments as the real ones do, and succeed or fail as a script says."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openintent import AsyncOpenIntentClient
from openintent.agents import record
from openintent.errors import LeaseConflictError
from openintent.retrying import Retry
from openintent.workflows import runs
from openintent.workflows.spec import Step, Workflow

TTL_S = 30.0


class Ran(NamedTuple):
    """One run of a handler."""

    intent_id: str
    agent: str
    attempt: int


# What becomes of one run of a handler: its outputs, or the name of an error.
Script = Callable[[Ran], Mapping[str, Any] | str]


@dataclass
class Crew:
    url: str
    script: Script
    takes_s: float = 0.0
    completes: bool = True
    began: list[Ran] = field(default_factory=list)
    finished: Counter[str] = field(default_factory=Counter)  # by intent
    one_finished: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @asynccontextmanager
    async def at_work(self, *names: str):
        self.tasks += [asyncio.create_task(self._serve(name)) for name in names]
        try:
            yield self
        finally:
            for task in self.tasks:
                task.cancel()
            results = await asyncio.gather(*self.tasks, return_exceptions=True)
            failed = [each for each in results if isinstance(each, Exception)]
            assert not failed, failed

    async def _serve(self, name: str) -> None:
        async with (
            AsyncOpenIntentClient(self.url, agent_id=f"{name}~1") as client,
            client.subscribe_agent(name) as stream,
        ):
            async for event in stream:
                if event.event_type == "agent_assigned":
                    work = self._assigned(client, event.intent_id or event.payload["intent_id"], name)
                    self.tasks.append(asyncio.create_task(work))

    async def _assigned(self, client: AsyncOpenIntentClient, intent_id: str, name: str) -> None:
        with suppress(LeaseConflictError):  # a stream that was cut tells it again, and we are at it already
            await self._assignment(client, intent_id, name)

    async def _assignment(self, client: AsyncOpenIntentClient, intent_id: str, name: str) -> None:
        while True:
            scope = record.path(name).replace(f"{record.KEY}/", "assignment:")
            async with client.lease(intent_id, scope, ttl_seconds=TTL_S, wait_seconds=TTL_S) as lease:
                left = await self._attempt(client, intent_id, name, lease.token)
            if left is None or left.over:
                return
            await asyncio.sleep(left.retry_in_seconds)

    async def _attempt(self, client, intent_id: str, name: str, token: int) -> record.Record | None:
        intent, default = await client.get_intent(intent_id), Retry(max_attempts=1)
        known, holder = record.read(intent.state, name), client.agent_id
        begun = record.begin(known, assigned_at="once", holder=holder, token=token, default=default)
        if begun is None:
            return None
        await client.patch_state(intent_id, [record.patch(name, begun)])
        ran = Ran(intent_id, name, begun.attempt)
        self.began.append(ran)
        await asyncio.sleep(self.takes_s)
        result = self.script(ran)
        if isinstance(result, str):
            failed = record.fail(begun, [result], "by the script", default=default, chance=0.5)
            await client.patch_state(intent_id, [record.patch(name, failed)])
            return failed
        self.finished[intent_id] += 1
        outputs = [{"op": "set", "path": key, "value": value} for key, value in result.items()]
        await client.patch_state(intent_id, [*outputs, record.patch(name, record.succeed(begun))])
        if self.completes:
            await client.set_status(intent_id, None, "completed")
        self.one_finished.set()
        return None


def step_of(ran: Ran) -> str:
    return ran.intent_id.rpartition(".")[2]


# A workflow with everything in it

LINEAR = Retry(max_attempts=4, backoff="linear", base_delay_seconds=0.02)
DOUBLING = Retry(max_attempts=5, backoff="exponential", base_delay_seconds=0.01)
FALLING = Retry(max_attempts=2, backoff="constant", base_delay_seconds=0.03, fallback_agent="other")

PIPELINE = Workflow(
    name="Nightly report",
    steps=(
        Step(name="start", title="Start", assign="worker", outputs={"number": "int"}),
        Step(name="fetch-a", title="Fetch a", assign="worker", depends_on=("start",), retry=LINEAR),
        Step(name="fetch-b", title="Fetch b", assign="worker", depends_on=("start",), retry=DOUBLING),
        Step(name="fetch-c", title="Fetch c", assign="worker", depends_on=("start",), inputs={"of": "start.number"}),
        Step(name="clean-a", title="Clean a", assign="worker", depends_on=("fetch-a",)),
        Step(name="clean-b", title="Clean b", assign="worker", depends_on=("fetch-b",), retry=FALLING),
        Step(name="repair", title="Repair", assign="worker", depends_on=("fetch-c",), skip_when="start.number == 7"),
        Step(name="join", title="Join", assign="worker", depends_on=("clean-a", "clean-b", "repair"), retry=DOUBLING),
        Step(name="chart", title="Chart", assign="worker", depends_on=("join",)),
        Step(name="text", title="Text", assign="worker", depends_on=("join",), retry=LINEAR),
        Step(name="proof", title="Proof", assign="worker", depends_on=("chart", "text")),
        Step(name="send", title="Send", assign="worker", depends_on=("proof",)),
    ),
)
# How often each of them fails before it succeeds.
FAILS = {"fetch-a": 2, "fetch-b": 3, "clean-b": 2, "join": 1, "text": 3}
FELL_TO_THE_OTHER = {"clean-b"}


def pipeline_script(ran: Ran) -> Mapping[str, Any] | str:
    step = step_of(ran)
    if ran.agent != "other" and ran.attempt <= FAILS.get(step, 0):
        return "FlakyError"
    return {"number": 7, "by": ran.agent}


def declared_delays(step: Step) -> list[float]:
    """Those that the file declares for the failures that the script has; after the last attempt there is none."""
    policy, failures = step.retry or Retry(max_attempts=1), FAILS.get(step.name, 0)
    return [
        round(policy.delay_s(count, chance=0.5), 3) for count in range(1, min(failures, policy.max_attempts - 1) + 1)
    ]


async def delays_in_the_log(client, run_id, step):
    """What the records said when they were written."""
    found = []
    async for event in client.iter_events(f"{run_id}.{step.name}", types="state_patched"):
        values = [patch["value"] for patch in event.payload["patches"] if patch["path"].startswith("_assignments/")]
        found += [value["retry_in_seconds"] for value in values if value.get("status", "open") == "open"]
    return found


async def check_pipeline(client, crew, run_id):
    """All steps done once, one of them by the other agent, one skipped; and the delays are the declared ones."""
    steps = {step.name: f"{run_id}.{step.name}" for step in PIPELINE.steps}
    done = {name: crew.finished[intent_id] for name, intent_id in steps.items()}
    assert done == {name: int(name != "repair") for name in steps}
    attempts = Counter((ran.agent, ran.attempt, ran.intent_id) for ran in crew.began)
    assert max(attempts.values()) == 1, attempts
    seen = await runs.read(client, run_id)
    assert {name: seen.note(name).status for name in steps} == {
        name: "skipped" if name == "repair" else "done" for name in steps
    }
    agents = {name: seen.note(name).agent for name in steps}
    assert {name for name, agent in agents.items() if agent == "other"} == FELL_TO_THE_OTHER, agents
    assert seen.run.status == "completed"
    for step in PIPELINE.steps:
        if step.name != "repair":
            assert await delays_in_the_log(client, run_id, step) == declared_delays(step), step.name
