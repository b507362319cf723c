"""The network between clients and the server: slow, lossy, cut at times; and the clients' transport on top of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
from simloop import Scheduler, SimLoop
from simserver import SimExchange, SimServer

from openintent.client.calls import Call
from openintent.client.replies import Reply
from openintent.errors import OutcomeUnknown, Unavailable
from openintent.wire import API

TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Weather:
    """How bad the network is. Each seed draws its own."""

    loss: float = 0.0
    repeats: float = 0.0
    tail: float = 0.0  # share of messages that take up to three seconds


class Network:
    def __init__(self, scheduler: Scheduler, random: Random, weather: Weather) -> None:
        self._scheduler = scheduler
        self._random = random
        self._weather = weather
        self._cut_until: dict[str, float] = {}
        self.server: SimServer | None = None  # as far as one listens
        self.late = 0  # replies that took more than a second
        self.repeated = 0

    def cut(self, client: str, seconds: float) -> None:
        self._cut_until[client] = self._scheduler.now + seconds

    def is_cut(self, client: str) -> bool:
        return self._scheduler.now < self._cut_until.get(client, 0.0)

    def carry(self, client: str, deliver: Callable[[], None]) -> None:
        """Bring a message over, or not. One that is under way when the link is cut is lost."""
        chance = self._random.random
        if self.is_cut(client) or chance() < self._weather.loss:
            return
        delay_s = 0.0005 + chance() * 0.02
        if chance() < self._weather.tail:
            delay_s = chance() * 3.0
        self.late += delay_s > 1.0

        def arrive() -> None:
            if not self.is_cut(client):
                deliver()

        self._scheduler.after(delay_s, arrive)

    def twice(self) -> bool:
        again = self._random.random() < self._weather.repeats
        self.repeated += again
        return again


class SimTransport:
    """What the flows' driver sends through. Sending and not hearing is an unknown outcome; nobody there is none."""

    def __init__(self, network: Network, loop: SimLoop, client: str, agent_id: str, heard: Callable[..., None]) -> None:
        self._network = network
        self._loop = loop
        self._client = client
        self._agent_id = agent_id
        self._heard = heard

    async def exchange(self, call: Call[Any]) -> Reply:
        server = self._network.server
        sent_at = self._loop.time()
        if server is None and not self._network.is_cut(self._client):
            await asyncio.sleep(0.001)
            raise Unavailable("no server could be reached", code="unreachable")
        answer: asyncio.Future[tuple[int, bytes, dict[str, str]]] = self._loop.create_future()
        connection = Connection(self._network, self._loop, self._client, answer)
        self._network.carry(self._client, lambda: self._arrive(call, connection))
        if self._network.twice():
            self._network.carry(self._client, lambda: self._arrive(call, connection))
        try:
            status, body, headers = await asyncio.wait_for(answer, call.timeout_s or TIMEOUT_S)
        except TimeoutError:
            connection.close()
            raise OutcomeUnknown("no answer came", code="no_answer") from None
        self._heard(call, status, body, headers, sent_at)
        return Reply(status, body, sent_at, headers.get("retry-after"))

    def _arrive(self, call: Call[Any], connection: "Connection") -> None:
        server = self._network.server
        if server is None:
            connection.reset()
            return
        headers = {b"x-agent-id": self._agent_id.encode(), b"content-type": b"application/json"}
        headers |= {name.lower().encode(): value.encode() for name, value in call.headers.items()}
        body = b"" if call.body is None else msgspec.json.encode(call.body)
        server.receive(
            lambda service: SimExchange(service, call.method, API + call.path, headers, body, connection.answer),
            connection.opened.append,
        )

    async def close(self) -> None: ...


class Connection:
    """What one request came by. If its client goes, the server hears of that some time later."""

    def __init__(self, network: Network, loop: SimLoop, client: str, answer: asyncio.Future[Any]) -> None:
        self._network = network
        self._loop = loop
        self._client = client
        self._answer = answer
        self.opened: list[SimExchange] = []

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._network.carry(self._client, lambda: self._loop.post(self._settle, (status, bytes(body), headers)))

    def _settle(self, outcome: tuple[int, bytes, dict[str, str]]) -> None:
        if not self._answer.done():
            self._answer.set_result(outcome)

    def reset(self) -> None:
        """Nobody listens any more."""
        self._loop.post(self._fail)

    def _fail(self) -> None:
        if not self._answer.done():
            self._answer.set_exception(Unavailable("the connection was refused", code="unreachable"))

    def close(self) -> None:
        server = self._network.server
        if server is not None:
            for exchange in self.opened:
                self._network.carry(self._client, lambda exchange=exchange: server.loop.post(exchange.gone))  # type: ignore[misc]
