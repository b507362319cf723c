"""A server process: the real grantor and the real service on a simulated loop, disk and network."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from history import History
from simdisk import Disk, SimEngine
from simloop import Scheduler, SimLoop

from openintent.errors import EngineError
from openintent.grantor.grantor import Grantor
from openintent.model import Limits
from openintent.server.auth import Gate
from openintent.server.exchange import Exchange
from openintent.server.routes import ROUTER
from openintent.server.service import Service

Answered = Callable[[int, bytes, dict[str, str]], None]


class SimExchange(Exchange):
    """A request that came over the simulated network."""

    __slots__ = ("answered",)

    def __init__(
        self, service: Service, method: str, target: str, headers: dict[bytes, bytes], body: bytes, answered: Answered
    ) -> None:
        path, _, query = target.partition("?")
        super().__init__(service, method, path, query, headers)
        self.body = body
        self.answered = answered

    def write(self) -> None:
        headers = {"x-term": str(self.term), "x-rev": str(self.rev)} if self.rev else {}
        if self.extra:
            for line in self.extra.decode().splitlines():
                name, _, value = line.partition(": ")
                headers[name] = value
        self.answered(self.status, self.payload, headers)


class SimServer:
    """One life of the server, from its start to its end."""

    def __init__(
        self,
        disk: Disk,
        scheduler: Scheduler,
        random: Random,
        history: History,
        *,
        fails: float,
        wall_ms: Callable[[], int],
        serves: Callable[[], None],
        gave_up: Callable[[], None],
    ) -> None:
        rate = 1 + random.uniform(-0.001, 0.001)
        self.loop = SimLoop(scheduler, origin=random.uniform(0, 1e6), rate=rate)
        self.engine = SimEngine(disk, scheduler, random, history, fails=fails)
        self._scheduler = scheduler
        self.ready = False
        self.stopped = False
        self._wall_ms = wall_ms
        self._serves = serves
        self._gave_up = gave_up
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.call_soon(self.loop.create_task, work)

    async def _start(self) -> None:
        limits = Limits()
        self.grantor = Grantor(
            self.engine,
            limits,
            member="sim",
            boot_clock_ms=self.loop.time_ms,
            wall_clock_ms=self._wall_ms,
        )
        self.service = Service(self.grantor, limits, ROUTER, Gate())
        try:
            await self.grantor.start()
        except EngineError:
            self.kill()
            self._gave_up()
        else:
            self.ready = True
            self._serves()

    @property
    def term(self) -> int:
        return self.grantor.term if self.ready else 0

    def kill(self) -> None:
        self.ready = False
        self.loop.kill()
        self.engine.lose()

    def stop(self, stopped: Callable[[], None]) -> None:
        """A clean stop, with a farewell."""
        self.ready = False

        async def end() -> None:
            await self.service.close()
            await self.grantor.stop()
            self.loop.kill()
            self.engine.lose()
            stopped()

        self.run(end())
