"""The network between clients and the server: slow, lossy, cut at times; and the clients' transport on top of it."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import msgspec
from history import History
from scenario import Weather
from simloop import Scheduler, SimLoop
from simserver import SimExchange, SimServer

from openintent.client.calls import Call
from openintent.client.replies import Reply
from openintent.errors import OpenIntentError, OutcomeUnknown, Unavailable
from openintent.wire import API

TIMEOUT_S = 5.0
NOT_HERE = 503

Answer: TypeAlias = tuple[int, bytes, dict[str, str]]


class Network:
    def __init__(
        self, scheduler: Scheduler, random: Random, history: History, weather: Weather, *, servers: int
    ) -> None:
        self._scheduler = scheduler
        self._random = random
        self._history = history
        self._weather = weather
        self._cut_until: dict[str, float] = {}
        self._slow: dict[str, tuple[float, float]] = {}  # how slow, and until when
        self.servers: list[SimServer | None] = [None] * servers  # by place, as far as one listens
        self.open: set[Connection] = set()

    def break_all(self, place: int) -> None:
        """The server there died. Some clients are told by the network, the others wait in vain."""
        for connection in sorted(self.open, key=lambda connection: connection.number):
            if connection.place == place and self._random.random() < 0.5:
                self.carry(connection.client, connection.lose)

    def calm(self) -> None:
        """From now on all messages arrive, and soon."""
        self._weather = Weather()
        self._cut_until.clear()
        self._slow.clear()

    def cut(self, client: str, seconds: float) -> None:
        self._cut_until[client] = self._scheduler.now + seconds

    def slow(self, client: str, seconds: float) -> None:
        """For twice that long every message takes that long."""
        self._slow[client] = (seconds, self._scheduler.now + 2 * seconds)

    def is_cut(self, client: str) -> bool:
        return self._scheduler.now < self._cut_until.get(client, 0.0)

    def carry(self, client: str, deliver: Callable[..., None], *message: Any) -> None:
        """Bring a message over, or not. One that is under way when the link is cut is lost."""
        chance = self._random.random
        if self.is_cut(client) or chance() < self._weather.loss:
            return
        delay_s = 0.0005 + chance() * 0.02
        if chance() < self._weather.tail:
            delay_s = chance() * 3.0
            self._history.count("message later than a second", delay_s > 1.0)
        slow_s, until = self._slow.get(client, (0.0, 0.0))
        if self._scheduler.now < until:
            delay_s = max(delay_s, slow_s)
        self._scheduler.after(delay_s, self._arrive, client, deliver, message)

    def _arrive(self, client: str, deliver: Callable[..., None], message: tuple[Any, ...]) -> None:
        if not self.is_cut(client):
            self._scheduler.happened()
            deliver(*message)

    def twice(self) -> bool:
        again = self._random.random() < self._weather.repeats
        self._history.count("request repeated by the network", again)
        return again


class SimTransport:
    """What the flows' driver sends through. Sending and not hearing is an unknown outcome; nobody there is none."""

    def __init__(
        self, network: Network, loop: SimLoop, client: str, life: int, history: History, *, only: int | None = None
    ) -> None:
        self._network = network
        self._loop = loop
        self._client = client
        self._life = life
        self._history = history
        self._only = only
        self._place = only or 0  # of the server that it asks

    async def exchange(self, call: Call[Any]) -> Reply:
        """Where there are several servers, the next request goes to another if this one had no answer."""
        place = self._place
        self._place = (place + 1) % len(self._network.servers) if self._only is None else place
        reply = await self._exchange(call, place)
        if reply.status != NOT_HERE:
            self._place = place
        return reply

    async def _exchange(self, call: Call[Any], place: int) -> Reply:
        sent_at = self._loop.time()
        if self._network.servers[place] is None and not self._network.is_cut(self._client):
            await asyncio.sleep(0.001)
            raise Unavailable("no server could be reached", code="unreachable")
        noted = self._history.send(self._client, self._life, call, self._loop.true(sent_at))
        connection = Connection(self._network, self._loop, self._client, place, len(self._history.requests))
        self._network.carry(self._client, self._arrive, call, connection)
        if self._network.twice():
            noted.copies += 1
            self._network.carry(self._client, self._arrive, call, connection)
        timer = self._loop.call_later(call.timeout_s or TIMEOUT_S, connection.time_out)
        heard = False
        try:
            status, body, headers = await connection.answered
            heard = True
        finally:
            timer.cancel()
            connection.close(heard=heard)
        self._history.hear(noted, status, body, headers)
        return Reply(status, body, sent_at, headers.get("retry-after"))

    def _arrive(self, call: Call[Any], connection: "Connection") -> None:
        """A request reached the machine of the server; the process deals with it when it runs."""
        server = self._network.servers[connection.place]
        if server is None:
            connection.reset()
        else:
            server.loop.post(self._open, server, call, connection)

    def _open(self, server: SimServer, call: Call[Any], connection: "Connection") -> None:
        headers = {b"x-agent-id": self._client.encode(), b"content-type": b"application/json"}
        for name, value in call.headers.items():
            headers[name.lower().encode()] = value.encode()
        body = b"" if call.body is None else msgspec.json.encode(call.body)
        path, _, query = call.path.partition("?")
        exchange = SimExchange(
            server.service, call.method, API + path, query, headers, body, answered=connection.answer
        )
        connection.opened.append((server, exchange))
        server.turn.add(exchange)

    async def close(self) -> None: ...


class Connection:
    """What one request came by. If its client goes, the server hears of that some time later."""

    def __init__(self, network: Network, loop: SimLoop, client: str, place: int, number: int) -> None:
        self._network = network
        self._loop = loop
        self.client = client
        self.place = place
        self.number = number
        network.open.add(self)
        self.answered: asyncio.Future[Answer] = loop.create_future()  # until it is closed
        self._closed = False
        self.opened: list[tuple[SimServer, SimExchange]] = []

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._network.carry(self.client, self._loop.post, self._settle, (status, bytes(body), headers))

    def _settle(self, outcome: Answer) -> None:
        if not self._closed and not self.answered.done():
            self.answered.set_result(outcome)

    def time_out(self) -> None:
        self._fail(OutcomeUnknown("no answer came", code="no_answer"))

    def reset(self) -> None:
        """Nobody listens any more."""
        self._loop.post(self._fail, Unavailable("the connection was refused", code="unreachable"))

    def _fail(self, failure: OpenIntentError) -> None:
        if not self._closed and not self.answered.done():
            self.answered.set_exception(failure)

    def lose(self) -> None:
        self._loop.post(self._fail, OutcomeUnknown("the connection broke", code="no_answer"))

    def close(self, *, heard: bool) -> None:
        """Lets go of what knows it, or else neither would be gone before the garbage is collected."""
        self._network.open.discard(self)
        if not heard and not self._loop.dead:
            for server, exchange in self.opened:
                self._network.carry(self.client, server.loop.post, exchange.gone)
        self._closed = True
        self.opened.clear()
        del self.answered
