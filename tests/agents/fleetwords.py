"""Words that the tests of agents share: waiting for what the log tells, and what to wait for."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

from openintent import AsyncOpenIntentClient
from openintent.agents import record as records
from openintent.agents.record import Record
from openintent.client.values import Event, Intent

SOON_S = 20.0  # a bound for what takes milliseconds on an idle machine


class Stage:
    """Somebody who assigns, and sees what becomes of it; also the operator who revokes."""

    def __init__(self, boss: AsyncOpenIntentClient, name: str) -> None:
        self.boss = boss
        self.name = name

    async def assigned(self, *names: str, **options: object) -> Intent:
        """A new intent that is assigned to the agent of this test, or to those that are named."""
        return await self.boss.create_intent("Report", "of it", assign=list(names or [self.name]), **options)

    async def until(self, intent: Intent, wanted: Callable[[Intent], object]) -> Intent:
        """The intent, when it is as wanted. It is looked at whenever something happens to it."""
        async with asyncio.timeout(SOON_S), self.boss.subscribe_intent(intent.id, after=0) as stream:
            async for _ in stream:
                found = await self.boss.get_intent(intent.id)
                if wanted(found):
                    return found
        raise AssertionError("the stream ended")

    async def until_status(self, intent: Intent, *statuses: str, name: str | None = None) -> Intent:
        """When the record of the assignment says so."""
        return await self.until(intent, lambda found: self.record(found, name).status in statuses)

    async def until_event(self, intent: Intent, wanted: Callable[[Event], object]) -> Event:
        async with asyncio.timeout(SOON_S), self.boss.subscribe_intent(intent.id, after=0) as stream:
            async for event in stream:
                if wanted(event):
                    return event
        raise AssertionError("the stream ended")

    async def until_released(self, intent: Intent, scope: str | None = None) -> Event:
        wanted = scope or self.scope
        return await self.until_event(
            intent, lambda event: event.event_type == "lease_released" and event.payload["scope"] == wanted
        )

    def record(self, intent: Intent, name: str | None = None) -> Record:
        return records.read(intent.state, name or self.name)

    @property
    def scope(self) -> str:
        return f"assignment:{self.name}"

    async def holder(self, intent: Intent, scope: str | None = None):
        """The lease of the assignment, while somebody has it."""
        return next(iter(await self.boss.get_leases(intent.id, scope=scope or self.scope)), None)

    async def events(self, intent: Intent, *types: str) -> list[Event]:
        return await self.boss.get_events(intent.id, types=types or None, order="asc", limit=1_000)


def own(state: dict) -> dict:
    """What of the state is no record."""
    return {key: value for key, value in state.items() if key != records.KEY}


async def soon(act):
    """Whatever it is to wait for, but not for ever."""
    async with asyncio.timeout(SOON_S):
        return await act


class Program:
    """An agent in a process of its own; what it tells is heard line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict] = []
        self.agent_id = ""

    async def heard(self, what: str, **wanted: object) -> dict:
        """The next line that tells this."""
        while (line := await self._next(what))["what"] != what or not wanted.items() <= line.items():
            pass
        return line

    async def heard_all(self, *whats: str) -> list[dict]:
        """The next line that tells each, in whichever order they come."""
        found: dict[str, dict] = {}
        while not found.keys() >= set(whats):
            line = await self._next(*whats)
            found.setdefault(line["what"], line)
        return [found[what] for what in whats]

    async def _next(self, *whats: str) -> dict:
        assert self.process.stdout is not None
        async with asyncio.timeout(SOON_S):
            line = await self.process.stdout.readline()
        assert line, f"it ended without {whats}: {self.told}"
        self.told.append(json.loads(line))
        return self.told[-1]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        async with asyncio.timeout(SOON_S):
            return await self.process.wait()


@asynccontextmanager
async def programs(url: str):
    """Starts agents as processes, and leaves none behind."""
    started: list[Program] = []

    async def start(name: str, *, counts_in: str = "", **settings: object) -> Program:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).with_name("agentprogram.py")),
            url,
            name,
            json.dumps(settings),
            env={**os.environ, "COUNTS_IN": counts_in},
            stdout=asyncio.subprocess.PIPE,
        )
        program = Program(process)
        started.append(program)
        program.agent_id = (await program.heard("started"))["agent_id"]
        return program

    try:
        yield start
    finally:
        for program in started:
            if program.process.returncode is None:
                program.process.kill()
            await program.process.wait()
