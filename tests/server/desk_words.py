"""Words for tests that need the whole service in process: bounds of their own, and two requests in one instant."""

import asyncio
import json
from contextlib import asynccontextmanager

import msgspec

from openintent.engines.memory import MemoryEngine
from openintent.grantor.grantor import Grantor
from openintent.model import Limits
from openintent.server.auth import Gate
from openintent.server.exchange import Exchange
from openintent.server.routes import ROUTER
from openintent.server.service import Service


class Asked(Exchange):
    """A request, and its answer when there is one."""

    answered: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def write(self) -> None:
        self.answered.set()

    def json(self):
        return json.loads(self.payload)


class Counter:
    """Where requests are handed in."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def hand_in(self, method, path, body=None, *, agent="ada", **headers) -> Asked:
        """Begin a request; its answer may come later."""
        sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        path, _, query = f"/api/v1{path}".partition("?")
        asked = Asked(self.service, method, path, query, {b"x-agent-id": agent.encode(), **sent})
        asked.body = b"" if body is None else json.dumps(body).encode()
        self.service.dispatch(asked)
        return asked

    async def ask(self, *request, **more) -> Asked:
        asked = self.hand_in(*request, **more)
        await asked.answered.wait()
        return asked

    async def forget(self) -> None:
        """Whatever has ended, as far as the bounds say so: that happens with the next commit."""
        await self.ask("POST", "/intents", {"title": "another"})
        books = self.service.grantor.books
        assert len(books.ended) + len(books.released) <= 2 * books.limits.ended_kept_max


@asynccontextmanager
async def counter(engine=None, **limits):
    bounds = Limits(**limits)
    grantor = Grantor(engine or MemoryEngine(), bounds, member="test")
    await grantor.start()
    service = Service(grantor, bounds, ROUTER, Gate())
    try:
        yield Counter(service)
    finally:
        await service.close()
        await grantor.stop()
