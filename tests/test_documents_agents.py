"""The documents' examples with agents, and their workflow, run word for word; then the same in our own words.

An example is given only what it presumes: functions that it calls, an intent, an assignment. See test_documents.py.
"""

import asyncio
import re
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from documents import MARKS, example, examples
from http_words import running_server

from openintent import AsyncOpenIntentClient
from openintent.agents import Agent, Coordinator, on_assignment, on_lead, on_lease_available, running
from openintent.exceptions import ConflictError, StaleTokenError
from openintent.workflows import runs
from openintent.workflows.checking import load
from openintent.workflows.runner import WorkflowRunner

pytestmark = pytest.mark.anyio

SOON_S = 30.0
TTL_S = 1.0  # of leases whose end is waited for, or that are kept alive for several times as long


@pytest.fixture(scope="module")
def url():
    with running_server() as url:
        yield url


@pytest.fixture
async def boss(url):
    async with AsyncOpenIntentClient(url, agent_id="boss") as client:
        yield client


@asynccontextmanager
async def at_work(url, *agents, **settings):
    """They run at this server, and with these settings, in the block."""
    made = [type(each.__name__, (each,), {"settings": replace(each.settings, **settings)}) for each in agents]
    async with asyncio.timeout(SOON_S), running(*(each(url) for each in made)) as ours:
        yield ours


async def ended(boss, intent_id, scope):
    """Until the lease on this scope has been given back; then the state."""
    async with boss.subscribe_intent(intent_id, after=0) as events:
        async for event in events:
            if event.event_type == "lease_released" and event.payload["scope"] == scope:
                return (await boss.get_intent(intent_id)).state
    raise AssertionError("the stream ended")


async def written(boss, intent_id, key):
    """Until the state has this key; then its value."""
    async with boss.subscribe_intent(intent_id, after=0) as events:
        async for _ in events:
            state = (await boss.get_intent(intent_id)).state
            if key in state:
                return state[key]
    raise AssertionError("the stream ended")


async def happened(boss, intent_id):
    """What was done with leases and to the state, in order: without who did it."""
    told = await boss.get_events(intent_id, order="asc")
    return [(event.event_type, event.payload.get("scope")) for event in told if "assigned" not in event.event_type]


def holders(leases):
    return {lease.scope: lease.agent_id.partition("~")[0] for lease in leases}


# Word for word


def test_no_example_is_left_out():
    assert [mark in block for mark, block in zip(MARKS, examples(), strict=True)] == [True] * 11
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_documents*.py"))
    assert {mark for _, mark in re.findall(r"""example\((['"])(.*?)\1\)""", tests)} == set(MARKS)


def exclusive_worker(boss):
    """The example's class, and what its functions saw."""
    seen = SimpleNamespace(leases=None, researched=[])

    async def do_exclusive_work(intent):
        seen.leases = holders(await boss.get_leases(intent.id))
        with pytest.raises(ConflictError):
            await boss.acquire_lease(intent.id, scope="processing")
        return f"{intent.title}, exclusively"

    async def research(description):
        seen.researched.append(description)
        return f"all about {description}"

    variables = {"do_exclusive_work": do_exclusive_work, "research": research}
    exec(example('@Agent("exclusive-worker")'), variables)  # noqa: S102  # running the documents is the point
    return variables["ExclusiveWorker"], seen


async def test_the_example_of_working_under_a_lease(url, boss):
    worker, seen = exclusive_worker(boss)
    async with at_work(url, worker):
        intent = await boss.create_intent("Report", assign=["exclusive-worker"])
        state = await ended(boss, intent.id, "assignment:exclusive-worker")
    assert state["result"] == "Report, exclusively"
    assert seen.leases == dict.fromkeys(("assignment:exclusive-worker", "processing"), "exclusive-worker")
    assert await boss.get_leases(intent.id) == []
    assert [scope for _, scope in await happened(boss, intent.id) if scope] == [
        "assignment:exclusive-worker",
        "processing",
        "processing",
        "assignment:exclusive-worker",
    ]


@pytest.mark.parametrize("end", ["released", "revoked", "expired"])
async def test_the_example_of_a_lease_that_becomes_available(url, boss, end):
    worker, seen = exclusive_worker(boss)
    async with at_work(url, worker):
        intent = await boss.create_intent("Report", "whales", assign=["exclusive-worker"])
        lease = await boss.acquire_lease(intent.id, scope="research", ttl_seconds=0.3 if end == "expired" else 60)
        if end == "released":
            await boss.release_lease(lease)
        elif end == "revoked":
            await boss.revoke_lease(lease, reason="somebody else is to do it")
        assert await written(boss, intent.id, "findings") == "all about whales"
    assert seen.researched == ["whales"]
    first, second = await boss.get_leases(intent.id, status="all", scope="research")
    assert (first.agent_id, first.status, second.agent_id.partition("~")[0]) == ("boss", end, "exclusive-worker")
    assert second.token > first.token


@pytest.mark.alone
@pytest.mark.slow
async def test_the_example_of_automatic_heartbeats(url, boss):
    """It works for three times the ttl of its lease: without heartbeats it would be over."""
    variables, seen = {}, []
    exec(example('@Agent("reliable-worker"'), variables)  # noqa: S102  # as above

    class Given(variables["ReliableWorker"]):
        async def do_long_task(self, intent):
            seen.append(await boss.get_leases(intent.id))
            await asyncio.sleep(3 * TTL_S)
            seen.append(await boss.get_leases(intent.id))

    async with at_work(url, Given, lease_ttl=TTL_S):
        intent = await boss.create_intent("Report", assign=["reliable-worker"])
        state = await ended(boss, intent.id, "assignment:reliable-worker")
    assert state["status"] == "done"
    assert Given.settings.auto_heartbeat
    ((before,), (after,)) = seen
    assert (before.scope, before.ttl_seconds) == ("assignment:reliable-worker", TTL_S)
    assert (after.id, after.token) == (before.id, before.token)
    assert await happened(boss, intent.id) == [
        ("intent_created", None),
        ("lease_acquired", "assignment:reliable-worker"),
        ("state_patched", None),
        ("state_patched", None),
        ("lease_released", "assignment:reliable-worker"),
    ]


def pipeline_agents(did):
    """Both agents of the workflow; each fails the first time."""

    @Agent("fetcher")
    class Fetcher:
        @on_assignment
        async def fetch(self, intent):
            did.append(("fetcher", intent.title, self.work.attempt))
            if self.work.attempt == 1:
                raise ConnectionError("the source is away")

    @Agent("processor")
    class Processor:
        @on_assignment
        def process(self, intent):
            did.append(("processor", intent.title, self.work.attempt))
            if self.work.attempt < 3:
                raise ValueError("half of it is missing")

    return Fetcher, Processor


@pytest.mark.slow
async def test_the_example_of_a_workflow(url, boss):
    checked = load(example('name: "Resilient Pipeline"'), name="resilient.yaml")
    assert checked.problems == []
    did = []
    async with at_work(url, *pipeline_agents(did)):
        outcome = await WorkflowRunner(boss, checked.workflow).run()
    assert outcome.completed
    assert did == [
        *(("fetcher", "Fetch Data", attempt) for attempt in (1, 2)),
        *(("processor", "Process Data", attempt) for attempt in (1, 2, 3)),
    ]
    delays = {}
    for step in ("fetch", "process"):
        told = await boss.get_events(f"{outcome.run_id}.{step}", types=["state_patched"], order="asc")
        records = [change["value"] for event in told for change in event.payload["patches"]]
        delays[step] = [record["retry_in_seconds"] for record in records if record.get("retry_in_seconds")]
    assert delays == {"fetch": [2.0], "process": [1.0, 2.0]}
    seen = await runs.read(boss, outcome.run_id)
    assert [seen.note(step).status for step in ("fetch", "process")] == ["done", "done"]


# In our own words


@Agent("indexer")
class Indexer:
    @on_assignment
    def handle(self, intent):
        with self.lease(intent.id, "index", ttl=30) as lease:
            return {"indexed_under": lease.token}

    @on_lease_available("cleanup")
    def clean(self, intent, scope):
        with self.lease(intent.id, scope):
            self.patch_state(intent.id, {"cleaned": True})


async def test_plain_handlers_do_the_same(url, boss):
    async with at_work(url, Indexer):
        intent = await boss.create_intent("Index", assign=["indexer"])
        state = await ended(boss, intent.id, "assignment:indexer")
        (used,) = await boss.get_leases(intent.id, status="all", scope="index")
        assert (state["indexed_under"], used.status) == (used.token, "released")
        await boss.release_lease(await boss.acquire_lease(intent.id, scope="cleanup"))
        assert await written(boss, intent.id, "cleaned") is True


async def test_of_a_role_one_instance_has_each_assignment(url, boss):
    did = []

    class Reader:
        @on_assignment
        async def handle(self, intent):
            did.append((intent.id, self.agent_id))

    kinds = [Agent(name, role="reader")(Reader) for name in ("tom", "tim", "tom")]
    async with at_work(url, *kinds) as instances:
        intents = [await boss.create_intent(f"Book {number}", assign=["reader"]) for number in range(6)]
        for intent in intents:
            await ended(boss, intent.id, "assignment:reader")
    assert sorted(intent_id for intent_id, _ in did) == sorted(intent.id for intent in intents)
    assert len({each.agent_id for each in instances}) == 3
    assert {holder for _, holder in did} <= {each.agent_id for each in instances}


async def test_when_a_coordinator_crashes_another_takes_over_and_its_late_write_is_refused(url, boss):
    portfolio = await boss.create_portfolio("Q3")
    intent = await boss.create_intent("Report")
    await boss.add_intent_to_portfolio(portfolio.id, intent.id)
    old = await boss.acquire_coordinator_lease(portfolio_id=portfolio.id, ttl_seconds=0.3)  # and no heartbeat

    @Coordinator("planner", portfolio_id=portfolio.id)
    class Planner:
        @on_lead
        async def lead(self, lease):
            await self.patch_state(intent.id, {"led_under": lease.token})

    async with at_work(url, Planner):
        assert await written(boss, intent.id, "led_under") > old.token
        with pytest.raises(StaleTokenError):
            await boss.patch_state(intent.id, {"led_under": old.token}, lease=old)
