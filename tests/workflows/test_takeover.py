"""A runner may die between any two requests, be killed at any moment, or be frozen: another one goes on."""

import asyncio
import random
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from proving import size
from scripted import PIPELINE, Crew, check_pipeline, pipeline_script
from serverprocess import ServerProcess

from openintent import AsyncOpenIntentClient
from openintent.client import flows
from openintent.retrying import Retry
from openintent.workflows import runs
from openintent.workflows.runner import WorkflowRunner
from openintent.workflows.spec import Step, Workflow

pytestmark = pytest.mark.anyio

SOON_S = 30.0
PROGRAM = Path(__file__).with_name("runnerprogram.py")


@pytest.fixture
async def client(server_url):
    async with AsyncOpenIntentClient(server_url) as made:
        yield made


# Between any two requests


class Died(Exception):
    """Whoever made the request is no more."""


class Mortal(AsyncOpenIntentClient):
    """Dies with its n-th request that may change something: before it is sent, or before the answer is read."""

    def __init__(self, url: str, *, dies_at: int = 0, sent: bool = False) -> None:
        super().__init__(url)
        self.requests, self._dies_at, self._sent = 0, dies_at, sent

    async def _ask(self, call):
        flow = flows.patiently(call, patience_s=SOON_S)
        return await (super()._run(flow) if call.method == "GET" else self._run(flow))

    async def _run(self, flow):
        self.requests += 1
        if self.requests != self._dies_at:
            return await super()._run(flow)
        if self._sent:
            await super()._run(flow)
        raise Died


SMALL = Workflow(
    name="Small",
    steps=(
        Step(name="a", title="A", assign="worker", retry=Retry(max_attempts=1, fallback_agent="other")),
        Step(name="b", title="B", assign="worker", depends_on=("a",), skip_when="a.by == 'other'"),
        Step(name="c", title="C", assign="worker", depends_on=("b",)),
        Step(name="d", title="D", assign="worker"),
        Step(name="e", title="E", assign="worker", depends_on=("d",)),
    ),
)
ENDS = {"a": "done", "b": "skipped", "c": "done", "d": "failed", "e": "blocked"}


def small_script(ran):
    return "Broken" if ran.agent != "other" and ran.intent_id[-1] in "ad" else {"by": ran.agent}


async def run_small(client, run_id, *, ttl_seconds=0.5):
    async with asyncio.timeout(SOON_S):
        return await WorkflowRunner(client, SMALL, run_id, ttl_seconds=ttl_seconds).run()


async def requests_of_a_run(server_url, run_id):
    async with Mortal(server_url) as client:
        await run_small(client, run_id)
        return client.requests


@pytest.mark.slow
async def test_a_runner_may_die_with_any_of_its_requests(server_url, client, run_id, figures):
    async with Crew(server_url, small_script).at_work("worker", "other") as crew:
        count = await requests_of_a_run(server_url, run_id)
        points = [(number, sent) for number in range(1, count + 1) for sent in (False, True)]
        tried = random.Random(6).sample(points, min(len(points), size("workflow_crash_points", 24)))
        died = sum(
            [
                await _die_and_go_on(server_url, client, crew, f"{run_id}-{n}", at, sent)
                for n, (at, sent) in enumerate(tried)
            ]
        )
    assert died > len(tried) / 2  # how many requests a run takes is not always the same
    figures.add("a runner's death at each of its requests", points=len(points), tried=len(tried), died=died, repeated=0)


async def _die_and_go_on(server_url, client, crew, run_id, dies_at, sent):
    async with Mortal(server_url, dies_at=dies_at, sent=sent) as mortal:
        try:
            await run_small(mortal, run_id)
            died = False
        except Died:
            died = True
    assert not (await run_small(client, run_id)).completed
    seen = await runs.read(client, run_id)
    assert {name: seen.note(name).status for name in ENDS} == ENDS
    ran = sorted((each.intent_id[-1], each.agent) for each in crew.began if each.intent_id.startswith(f"{run_id}."))
    assert ran == [("a", "other"), ("a", "worker"), ("c", "worker"), ("d", "worker")]
    assert {child.status for child in seen.children.values()} <= {"completed", "abandoned"}
    return died


# Processes


class Runners:
    """Runner processes of one run."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._workflow = folder / "workflow.json"
        self._workflow.write_bytes(msgspec.json.encode(PIPELINE))
        self.started: list[Runner] = []

    async def start(self, run_id: str, *, ttl_s: float, freezes_at: int = 0) -> "Runner":
        arguments = [str(PROGRAM), str(self._workflow), self._url, run_id, str(ttl_s), str(freezes_at)]
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
        self.started.append(Runner(process))
        return self.started[-1]

    async def end(self) -> None:
        for runner in self.started:
            await runner.kill()


class Runner:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._news:
                self.lines.append(line.decode().rstrip())
                self._news.notify_all()

    async def says(self, word: str) -> str:
        async with asyncio.timeout(SOON_S), self._news:
            await self._news.wait_for(lambda: self.said(word) is not None)
        return self.said(word) or ""

    def said(self, word: str) -> str | None:
        return next((line for line in self.lines if line.startswith(word)), None)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading


@asynccontextmanager
async def runner_processes(url, folder):
    runners = Runners(url, folder)
    try:
        yield runners
    finally:
        await runners.end()


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_killed_at_random_moments_it_finishes_and_no_finished_step_runs_again(
    server_url, client, run_id, tmp_path, figures
):
    kills, chance, done, finished = size("workflow_kills", 4), random.Random(12), 0, 0
    async with (
        Crew(server_url, pipeline_script, takes_s=0.03).at_work("worker", "other") as crew,
        runner_processes(server_url, tmp_path) as runners,
    ):
        while done < kills:
            run = f"{run_id}-{finished}"
            done += await _kill_until_it_ends(runners, run, chance, most=kills - done)
            crew_of_run = Crew(server_url, pipeline_script)
            crew_of_run.began = [ran for ran in crew.began if ran.intent_id.startswith(f"{run}.")]
            crew_of_run.finished = crew.finished
            await check_pipeline(client, crew_of_run, run)
            finished += 1
            figures.progress(done, kills)
    figures.add("kill -9 of the workflow runner", kills=done, runs=finished, steps=12, repeated=0, seed=12)


async def _kill_until_it_ends(runners, run_id, chance, *, most):
    """How many were killed. There is always one more that stands by."""
    killed = 0
    leader, standby = await runners.start(run_id, ttl_s=0.6), await runners.start(run_id, ttl_s=0.6)
    while True:
        leader = await _who_leads(leader, standby)
        standby = next(each for each in runners.started[-2:] if each is not leader)
        if killed == most or await _ends_within(leader, chance.uniform(0, 0.35)):
            assert (await leader.says("ended")).startswith("ended True")
            assert (await standby.says("ended")).startswith("ended True")
            return killed
        await leader.kill()
        killed += 1
        leader, standby = standby, await runners.start(run_id, ttl_s=0.6)


async def _who_leads(*runners):
    asked = {asyncio.create_task(each.says("leading")): each for each in runners}
    done, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    return asked[done.pop()]


async def _ends_within(runner, seconds):
    try:
        await asyncio.wait_for(runner.says("ended"), seconds)
    except TimeoutError:
        return False
    return True


@pytest.mark.slow
async def test_of_two_runners_one_leads_and_the_other_goes_on_when_it_is_killed(server_url, client, run_id, tmp_path):
    async with (
        Crew(server_url, pipeline_script, takes_s=0.15).at_work("worker", "other") as crew,
        runner_processes(server_url, tmp_path) as runners,
    ):
        leader = await runners.start(run_id, ttl_s=0.6)
        await leader.says("leading")
        other = await runners.start(run_id, ttl_s=0.6)
        await other.says("standing by")
        await crew.one_finished.wait()
        assert other.said("leading") is None
        await leader.kill()
        assert leader.said("ended") is None
        assert (await other.says("ended")) == "ended True"
        await check_pipeline(client, crew, run_id)


@pytest.mark.slow
async def test_what_a_frozen_leader_writes_after_the_takeover_is_refused(server_url, client, run_id, tmp_path):
    async with (
        Crew(server_url, pipeline_script).at_work("worker", "other") as crew,
        runner_processes(server_url, tmp_path) as runners,
    ):
        leader = await runners.start(run_id, ttl_s=0.6, freezes_at=3)
        await leader.says("frozen")
        other = await runners.start(run_id, ttl_s=0.6)
        await other.says("leading")
        leader.signal(signal.SIGCONT)
        assert await leader.says("late") == "late StaleTokenError"
        assert (await other.says("ended")) == "ended True"
        assert (await leader.says("ended")) == "ended True"
        await check_pipeline(client, crew, run_id)


@pytest.mark.slow
async def test_a_server_that_is_killed_and_started_again_ends_no_run(run_id, tmp_path):
    server = ServerProcess(tmp_path / "leases.db")
    server.start()
    url = f"http://127.0.0.1:{server.port}"
    try:
        async with (
            asyncio.timeout(SOON_S),
            AsyncOpenIntentClient(url) as client,
            Crew(url, pipeline_script, takes_s=0.05).at_work("worker", "other") as crew,
        ):
            run = asyncio.create_task(WorkflowRunner(client, PIPELINE, run_id).run())
            await crew.one_finished.wait()
            await asyncio.to_thread(server.kill)
            assert not run.done()
            await asyncio.to_thread(server.start)
            assert (await run).completed
            await check_pipeline(client, crew, run_id)
    finally:
        server.kill()
