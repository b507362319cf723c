"""Running agents: one or several in a process, until a signal ends them."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from openintent.agents.context import AgentBase
from openintent.agents.runner import Runner

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def made(agent: AgentBase | type[AgentBase]) -> AgentBase:
    """A class is as good as an object of it."""
    if isinstance(agent, AgentBase):
        return agent
    if isinstance(agent, type) and issubclass(agent, AgentBase):
        return agent()
    raise TypeError(f"{agent!r} is no agent: decorate the class with @Agent(...)")


def run_agents(
    *agents: AgentBase | type[AgentBase], on_start: Callable[[Sequence[AgentBase]], object] | None = None
) -> None:
    """Run them until SIGTERM or Ctrl-C; then they finish what they do, within their `drain_seconds`, and leave.

    A second signal ends them at once: what runs is put back for others. `on_start` is called when a signal would be
    understood.
    """
    with suppress(KeyboardInterrupt):
        asyncio.run(_run([made(each) for each in agents], on_start or (lambda _: None)))


async def run_agents_async(*agents: AgentBase | type[AgentBase]) -> None:
    await asyncio.gather(*(made(each).run_async() for each in agents))


async def _run(ours: Sequence[AgentBase], on_start: Callable[[Sequence[AgentBase]], object]) -> None:
    running = asyncio.gather(*(each.run_async() for each in ours))
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if stopped:
            running.cancel()
        stopped = True
        for each in ours:
            each.stop()

    for number in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError):  # not on Windows, and not beside the main thread
            loop.add_signal_handler(number, stop)
    on_start(ours)
    with suppress(asyncio.CancelledError):
        await running


@asynccontextmanager
async def running(*agents: AgentBase | type[AgentBase]) -> AsyncIterator[list[AgentBase]]:
    """The agents run inside the block, and are drained at its end: for tests, and beside other work."""
    ours = [made(each) for each in agents]
    runners = [each.start() for each in ours]
    tasks = [asyncio.create_task(runner.run(), name="openintent-agent") for runner in runners]
    try:
        await _ready(runners, tasks)
        yield ours
    finally:
        for runner in runners:
            runner.stop()
        ended: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        for problem in ended:
            if isinstance(problem, Exception):
                raise problem


async def _ready(runners: list[Runner], tasks: list[asyncio.Task[None]]) -> None:
    for runner, task in zip(runners, tasks, strict=True):
        ready = asyncio.create_task(runner.ready.wait())
        await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if task.done():
            task.result()
