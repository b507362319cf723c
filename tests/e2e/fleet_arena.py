"""A fleet: agents of one role, each a process with a link of its own, a server, a store, and what they are to do."""

import asyncio
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from chaos_arena import Arena, Worker
from chaos_log import wall_less_boot_ns
from chaos_nemesis import Nemesis
from fleet_agent import ROLE, STEPS_PER_TTL
from proving import Figures, size

from openintent.client.values import Event, Intent
from openintent.clock import boot_s

AGENTS = size("fleet_agents", 6)
TTL_MS = size("fleet_ttl_ms", 1_000)
PERIOD_S = size("fleet_period_ms", 600) / 1_000  # from one fault to the next
STEPS_MAX = STEPS_PER_TTL * 5 // 4
TRAITS = {"notes": 0.5, "stubborn": 0.7}  # the share of the assignments that can be continued, and so on
LEAVE_S_MAX = 20.0
LOOK_S = 0.1

# What goes wrong, and for which kind of agent. Each of them comes once before any comes again.
FAULTS = tuple(product(("kill", "freeze", "cut"), ("plain", "awaited")))
# Some of the faults of a link: what is held back arrives when nobody waits for it any more.
CUTS = ("black hole", "requests held back", "requests held back", "answers held back", "answers dropped")
LENGTH_TTLS = (1.2, 2.5)


class Member(Worker):
    """A place in the fleet."""

    program = "fleet_agent.py"
    first_word = b"ready\n"
    more_words = (str(TTL_MS),)

    async def kill(self) -> None:
        await self._end()
        await self._launch()

    async def leave(self) -> int:
        """SIGTERM; returns the exit code."""
        self._signal(signal.SIGTERM)
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), LEAVE_S_MAX)

    async def dies(self) -> None:
        assert self._process is not None
        await self._process.wait()


class Fleet(Arena):
    def __init__(self, folder: Path, agents: int = AGENTS) -> None:
        super().__init__(folder, agents, Member)
        self.members = [worker for worker in self.workers if isinstance(worker, Member)]
        self.intents: list[str] = []
        self.wall_less_boot_ns = wall_less_boot_ns()  # the least that was seen

    def assign(self, count: int, chance: random.Random) -> None:
        for number in range(count):
            traits = [trait for trait, share in TRAITS.items() if chance.random() < share]
            self.assign_one(f"work {number}", {"steps": chance.randint(1, STEPS_MAX), **dict.fromkeys(traits, True)})

    def assign_one(self, title: str, state: dict[str, Any]) -> str:
        intent = self._client.create_intent(title, initial_state=state, assign=[ROLE])
        self.intents.append(intent.id)
        return intent.id

    def unfinished(self) -> int:
        return len(self._client.get_assignments(ROLE))

    async def finished(self, within_s: float, figures: Figures | None = None, *, but: int = 0) -> float:
        """Wait until no more than so many are left to do; how many seconds that took."""
        began = boot_s()
        while (left := await asyncio.to_thread(self.unfinished)) > but:
            assert boot_s() - began < within_s, f"{left} assignments are not finished; the logs are in {self.folder}"
            if figures is not None:
                figures.progress(len(self.intents) - left, len(self.intents))
            self.wall_less_boot_ns = min(self.wall_less_boot_ns, wall_less_boot_ns())
            await asyncio.sleep(LOOK_S)
        return boot_s() - began

    def heard(self, intent_id: str, event_type: str) -> Event:
        """Wait for an event of this type."""
        return next(iter(self._client.subscribe_intent(intent_id, after=0, types=event_type)))

    async def until(self, intent_id: str, holds: Callable[[Intent], bool]) -> None:
        """Wait until the intent is as it is to be."""
        while not holds(await asyncio.to_thread(self._client.get_intent, intent_id)):  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(LOOK_S)

    async def one_dies(self) -> None:
        """Wait until an agent has ended; then another comes in its place."""
        dying = {asyncio.create_task(member.dies()): member for member in self.members}
        done, others = await asyncio.wait(dying, return_when=asyncio.FIRST_COMPLETED)
        for each in others:
            each.cancel()
        for each in done:
            await dying[each].kill()

    async def leave(self) -> list[int]:
        return list(await asyncio.gather(*(member.leave() for member in self.members)))

    def told(self) -> list[tuple[Intent, list[Event]]]:
        """What the server knows of each assignment, and its log."""
        client = self._client
        return [(client.get_intent(each), list(client.iter_events(each))) for each in self.intents]


class FleetNemesis(Nemesis):
    """Every now and then something goes wrong for an agent for which nothing is wrong yet."""

    async def harass(self, over: asyncio.Event) -> None:
        """Until it is over; when it returns, all is well again."""
        plan: list[tuple[str, str]] = []
        spared = set(self._arena.workers)
        async with asyncio.TaskGroup() as faults:
            while not over.is_set():
                plan = plan or self._chance.sample(FAULTS, len(FAULTS))
                fault, kind = plan.pop()
                found = sorted((worker for worker in spared if worker.kind == kind), key=lambda worker: worker.name)
                if found:
                    worker = self._chance.choice(found)
                    spared.discard(worker)
                    striking = faults.create_task(self._fault(fault, worker))
                    striking.add_done_callback(partial(_spare_again, spared, worker))
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), PERIOD_S)

    async def _fault(self, fault: str, worker: Worker) -> None:
        length_s = self._chance.uniform(*LENGTH_TTLS) * TTL_MS / 1_000
        if fault == "kill":
            await self._kill(worker, 0)
        elif fault == "freeze":
            await self._pause(worker, 0, length_s)
        else:
            await self._break_link(worker, self._chance.choice(CUTS), 0, length_s)


def _spare_again(spared: set[Worker], worker: Worker, _: asyncio.Task[None]) -> None:
    spared.add(worker)
