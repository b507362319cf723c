"""A run from the command line: begun, led, and shown.

It is shown from what the server has, not from what the runner here does: so it is the same while another one leads.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from openintent.agents import running
from openintent.cli import show
from openintent.cli import workflow_screen as screen
from openintent.cli.agent_loading import made
from openintent.cli.options import Session, unique_agent
from openintent.cli.report import Problem, say
from openintent.client.aio import AsyncOpenIntentClient
from openintent.errors import OpenIntentError
from openintent.workflows import runs
from openintent.workflows.facts import NotARun
from openintent.workflows.progress import Progress, progress_of
from openintent.workflows.runner import WorkflowRunner
from openintent.workflows.runs import AnotherRun, Outcome
from openintent.workflows.spec import Workflow
from openintent.workflows.watching import Watch

BEAT_S: Final = 1.0  # the times that are shown grow
STANDBY_TOLD_S: Final = 1.0  # whoever leads at once need not say that it waited


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be run, and how."""

    workflow: Workflow
    run_id: str
    trigger: Mapping[str, Any] | None
    agents: tuple[type[Any], ...]
    ttl_s: float


async def begin(session: Session, wish: Wish) -> None:
    """Make the run, and leave it to others."""
    async with _connected(session) as client:
        await _begin(WorkflowRunner(client, wish.workflow, wish.run_id, wish.trigger))


async def run(session: Session, wish: Wish) -> Progress:
    role = _Role(quiet=session.as_json)
    async with _connected(session) as client, _agents(session, wish.agents):
        runner = WorkflowRunner(
            client, wish.workflow, wish.run_id, wish.trigger, ttl_seconds=wish.ttl_s, on_role=role.becomes
        )
        if await _begin(runner) is not None:
            return await _ended_before(session, client, wish.run_id)
        with screen.showing(as_json=session.as_json, caption=lambda: role.shown) as tell:
            await _until_it_ends(client, runner, tell)
            progress = await _progress(client, wish.run_id)
            tell(progress)
        screen.print_end(progress, as_json=session.as_json)
        return progress


async def look(session: Session, run_id: str, *, watch: bool) -> None:
    async with _connected(session) as client:
        if not watch:
            screen.print_once(await _progress(client, run_id), as_json=session.as_json)
            return
        with screen.showing(as_json=session.as_json, caption=lambda: "Ctrl-C ends the watching only") as tell:
            progress = await _follow(client, run_id, tell)
        screen.print_end(progress, as_json=session.as_json)


async def _begin(runner: WorkflowRunner) -> Outcome | None:
    try:
        return await runner.begin()
    except (AnotherRun, NotARun) as wrong:
        raise Problem(str(wrong), "--new begins a new run, --run ID names another", code="another_run") from None


async def _ended_before(session: Session, client: AsyncOpenIntentClient, run_id: str) -> Progress:
    progress = await _progress(client, run_id)
    if session.as_json:
        screen.print_end(progress, as_json=True)
    else:
        screen.print_once(progress, as_json=False)
        say(f"the run {run_id} has ended already; --new begins a new one")
    return progress


def _agents(session: Session, classes: tuple[type[Any], ...]) -> AbstractAsyncContextManager[Any]:
    if not classes:
        return nullcontext()
    # As if the environment had said it all along: a class with an `__init__` of its own need not take an address.
    os.environ["OPENINTENT_URL"] = session.api.url
    if session.api.api_key:
        os.environ["OPENINTENT_API_KEY"] = session.api.api_key
    return running(*map(made, classes))


@asynccontextmanager
async def _connected(session: Session) -> AsyncIterator[AsyncOpenIntentClient]:
    async with AsyncOpenIntentClient(session.api.url, session.api.api_key, unique_agent()) as client:
        yield client


async def _until_it_ends(client: AsyncOpenIntentClient, runner: WorkflowRunner, tell: screen.Show) -> None:
    following = asyncio.create_task(_follow_on(client, runner.run_id, tell))
    try:
        await runner.run()
    finally:
        following.cancel()
        await asyncio.wait({following})


async def _follow_on(client: AsyncOpenIntentClient, run_id: str, tell: screen.Show) -> None:
    """Over all absences of the server: the runner says what is the matter with it."""
    while True:
        try:
            await _follow(client, run_id, tell)
        except OpenIntentError:
            await asyncio.sleep(BEAT_S)
        else:
            return


async def _follow(client: AsyncOpenIntentClient, run_id: str, tell: screen.Show) -> Progress:
    async with Watch(client, run_id) as watch:
        while True:
            progress = await _progress(client, run_id)
            tell(progress)
            if progress.over:
                return progress
            await watch.change(within_s=BEAT_S)


async def _progress(client: AsyncOpenIntentClient, run_id: str) -> Progress:
    try:
        return progress_of(await runs.read(client, run_id), now=datetime.now(UTC))
    except NotARun as wrong:
        raise Problem(str(wrong), code="not_a_run") from None


class _Role:
    """Says that another one leads, if it does so for more than a moment."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet or show.is_terminal()  # where it is a part of the picture
        self._timer: asyncio.TimerHandle | None = None
        self._said = False
        self.shown = ""

    def becomes(self, role: str) -> None:
        if role == "leading":
            if self._timer is not None:
                self._timer.cancel()
            self._say("leading now", also=self._said)
            self.shown, self._timer, self._said = "", None, False
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(STANDBY_TOLD_S, self._waits)

    def _waits(self) -> None:
        self.shown, self._said = "another runner leads it; standing by", True
        self._say(self.shown)

    def _say(self, line: str, *, also: bool = True) -> None:
        if also and not self._quiet:
            say(line)
