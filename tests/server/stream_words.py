"""Words that the tests of streams share: messages taken apart, and a stream whose world changes at every step."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from openintent.core.answers import Reply
from openintent.core.commands import (
    AddMember,
    Assign,
    CreateIntent,
    CreatePortfolio,
    LogEvent,
    PatchState,
    RemoveMember,
    Unassign,
)
from openintent.engines.base import Record
from openintent.engines.memory import MemoryEngine
from openintent.grantor.feed import MOVES, moved
from openintent.grantor.grantor import Grantor
from openintent.grantor.parcels import Landing
from openintent.model import Assignment, Event, Intent, Limits, Member, Patch, Portfolio
from openintent.server import sse
from openintent.server.keys import DEV
from openintent.server.stream import Stream, reads_along
from openintent.server.views import Views

INTENTS = ("a", "b", "c")
PATIENCE_S = 10.0  # for signals that come at once unless something is broken


class Message(NamedTuple):
    """What a reader makes of the lines between two empty ones."""

    id: int | None
    event: str | None
    data: Any


def messages(text: str) -> list[Message]:
    """Those that say something: pings and greetings only move the cursor."""
    taken_apart = [_fields(block) for block in text.split("\n\n") if block]
    return [
        Message(int(fields["id"]) if "id" in fields else None, fields.get("event"), json.loads(fields["data"]))
        for fields in taken_apart
        if "data" in fields
    ]


def _fields(block: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition(": ") for line in block.split("\n")) if name}


Step = Callable[[], Awaitable[None]]


class BusyEngine(MemoryEngine):
    """Something happens before and after each look at the log."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Step | None = None
        self.scans = 0

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        self.scans += 1
        if self.meanwhile is not None:
            await self.meanwhile()
        found = await super().scan(first, last, limit=limit, reverse=reverse)
        if self.meanwhile is not None:
            await self.meanwhile()
        return found


class World:
    """A grantor, some intents, a portfolio and an agent, and a random story that goes on whenever it is asked to."""

    def __init__(self, seed: int = 0, limits: Limits | None = None) -> None:
        self.engine = BusyEngine()
        self.grantor = Grantor(self.engine, limits or Limits(), member="m")
        self.rng = random.Random(seed)
        self.left = 0  # how much of the story is still to come

    async def start(self) -> None:
        await self.grantor.start()
        for intent_id in INTENTS:
            await self.do(CreateIntent(intent=Intent(id=intent_id, title="t"), chosen_id=True, actor="boss"))
        await self.do(CreatePortfolio(portfolio=Portfolio(id="p", name="p"), chosen_id=True, actor="boss"))

    async def do(self, command: Any) -> Reply:
        """Carry it out, and wait until it is durable."""
        landing = Landing()
        reply = self.grantor.apply(command)
        self.grantor.park(reply, landing)
        assert await landing.durable
        return reply

    async def tell(self, count: int) -> None:
        self.left += count
        while self.left:
            await self.step()

    async def step(self) -> None:
        """The next thing that happens, if there is one."""
        if self.left:
            self.left -= 1
            await self.do(self._next_command())

    def _next_command(self) -> Any:
        intent_id, kind = (
            self.rng.choice(INTENTS),
            self.rng.choice(["assign", "unassign", "add", "remove", "note", "patch"]),
        )
        if kind == "assign":
            role = self.rng.choice(["worker", "reviewer"])
            return Assign(assignment=Assignment(intent_id=intent_id, agent_id="ann", role=role), actor="boss")
        if kind == "unassign":
            return Unassign(intent_id=intent_id, agent_id="ann", actor="boss")
        if kind == "add":
            priority = self.rng.randrange(2)
            return AddMember(
                member=Member(id="m", portfolio_id="p", intent_id=intent_id, priority=priority), actor="boss"
            )
        if kind == "remove":
            return RemoveMember(portfolio_id="p", intent_id=intent_id, actor="boss")
        if kind == "patch":
            steps = [Patch("set", ("n",), self.rng.random())]
            return PatchState(intent_id=intent_id, actor="boss", steps=steps)
        return LogEvent(space=f"intent:{intent_id}", actor="boss", type="note", payload={})

    async def log(self, *spaces: str) -> list[Event]:
        """All there is in these logs, in order, each event once."""
        meanwhile, self.engine.meanwhile = self.engine.meanwhile, None
        found = [event for space in spaces for event in await self.grantor.history.events(space, limit=1_000_000)]
        self.engine.meanwhile = meanwhile
        return [event for _, event in sorted({event.seq: event for event in found}.items())]

    async def expected(self, own: str, after: int) -> list[int]:
        """What a reader that was always there has been told, counted by hand from the beginning of the log."""
        along: set[str] = set()
        told = []
        for event in await self.log(own, *(f"intent:{each}" for each in INTENTS)):
            if {event.space, event.also} & {own, *along} and event.seq > after:
                told.append(event.seq)
            move = moved(event, own) if reads_along(own) and event.type in MOVES else None
            if move is not None:
                along = along | {move.space} if move.joins else along - {move.space}
        return told


class Telling:
    """One stream that runs, and what it has said so far. Each write can be a step too."""

    def __init__(
        self, world: World, own: str, *, after: int | None, upper: bool = False, assigned: Sequence = ()
    ) -> None:
        self._world = world
        family = sse.Upper(own) if upper else sse.Lower(Views(world.grantor))
        self.stream = Stream(
            world.grantor,
            own,
            family,
            principal=DEV,
            cursor=after,
            assigned=list(assigned),
        )
        self.text = ""
        self.at_each_write: Step | None = None
        self._heard = asyncio.Event()
        self._gone = asyncio.Event()
        self.task = asyncio.create_task(self.stream.run(self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.text += message["body"].decode()
        self._heard.set()
        if self.at_each_write is not None:
            await self.at_each_write()

    @property
    def messages(self) -> list[Message]:
        return messages(self.text)

    @property
    def numbers(self) -> list[int]:
        return [each.id for each in self.messages if each.id is not None and each.event != "closed"]

    @property
    def cursor(self) -> int:
        """What a reader would resume by."""
        return int(self.text.rpartition("id: ")[2].split("\n")[0])

    async def until(self, seq: int) -> None:
        """Until it has told this event, or is over."""
        await self._until(lambda: self.numbers[-1:] == [seq])

    async def until_said(self, text: str) -> None:
        await self._until(lambda: text in self.text)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so() and not self.task.done():
                self._heard.clear()
                heard = asyncio.ensure_future(self._heard.wait())
                await asyncio.wait({self.task, heard}, return_when=asyncio.FIRST_COMPLETED)
                heard.cancel()

    async def hang_up(self) -> None:
        self._gone.set()
        self.stream.discard()
        async with asyncio.timeout(PATIENCE_S):
            await self.task
