"""A server process: the real grantor and the real service on a simulated loop, engine and network."""

from collections.abc import Callable, Coroutine
from typing import Any

from simdisk import SimEngine
from simloop import SimLoop
from simremote import RemoteStore

from openintent.engines.journaled import JournaledEngine
from openintent.errors import EngineError
from openintent.grantor.grantor import Grantor
from openintent.model import Limits
from openintent.server.auth import Gate
from openintent.server.exchange import Exchange
from openintent.server.routes import ROUTER
from openintent.server.service import Service
from openintent.server.turns import Turn

Answered = Callable[[int, bytes, dict[str, str]], None]

LEADER_TTL_S = 1.0  # where several share an engine


class SimExchange(Exchange, kw_only=True):
    """A request that came over the simulated network."""

    answered: Answered

    def write(self) -> None:
        place = self.place
        headers = {"x-term": str(place.term), "x-rev": str(place.rev)} if place.rev else {}
        if self.extra:
            for line in self.extra.decode().splitlines():
                name, _, value = line.partition(": ")
                headers[name] = value
        self.answered(self.status, self.payload, headers)


class NoForwarder:
    """Clients find the one that leads by themselves here."""

    def takes(self, _exchange: Exchange) -> bool:
        return False


class SimServer:
    """One life of a server, from its start to its end."""

    def __init__(
        self,
        place: int,
        life: int,
        loop: SimLoop,
        engine: SimEngine | RemoteStore,
        *,
        wall_ms: Callable[[], int],
        serves: Callable[[], None],
        gave_up: Callable[[], None],
    ) -> None:
        self.place = place
        self.member = f"s{place}.{life}"
        self.loop = loop
        self.engine = engine
        self.ready = False
        self._wall_ms = wall_ms
        self._serves = serves
        self._gave_up = gave_up
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.call_soon(self.loop.create_task, work)

    async def _start(self) -> None:
        limits = Limits()
        engine = JournaledEngine(self.engine) if isinstance(self.engine, RemoteStore) else self.engine
        self.grantor = Grantor(
            engine,
            limits,
            member=self.member,
            leader_ttl_s=LEADER_TTL_S,
            boot_clock_ms=self.loop.time_ms,
            wall_clock_ms=self._wall_ms,
        )
        self.service = Service(self.grantor, limits, ROUTER, Gate())
        self.turn = Turn(self.service.dispatch_all)
        if isinstance(self.engine, RemoteStore):
            self.service.forwarder = NoForwarder()  # type: ignore[assignment]
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

    @property
    def leads(self) -> bool:
        """Whether it would answer, or thinks so."""
        return self.ready and self.grantor.serving

    def kill(self) -> None:
        self.ready = False
        self._end()

    def _end(self) -> None:
        self.loop.kill()
        if isinstance(self.engine, SimEngine):
            self.engine.lose()

    def stop(self, stopped: Callable[[], None]) -> None:
        """A clean stop, with a farewell."""
        self.ready = False

        async def end() -> None:
            await self.service.close()
            await self.grantor.stop()
            self._end()
            stopped()

        self.run(end())
