"""One seed, one history: a server that crashes, clients that die, a network that lies, and in the end a quiet phase."""

import random as global_random
from dataclasses import dataclass
from random import Random

from history import History
from simclient import SimClient
from simdisk import Disk
from simloop import Scheduler
from simnet import Network, Weather
from simserver import SimServer
from simstore import FencedStore

from openintent.client import drivers
from openintent.server.routes import leases as lease_routes

STEPS = 500
SECONDS_MAX = 120.0
QUIET_S = 40.0


@dataclass(frozen=True)
class Faults:
    """What this seed is like. Each fault is off in some seeds and frequent in others."""

    weather: Weather
    crash: float  # chance per turn of the nemesis
    stop: float
    freeze_server: float
    kill_client: float
    freeze_client: float
    cut: float
    disk: float  # chance per commit
    wall_jumps: float

    @classmethod
    def drawn(cls, random: Random) -> "Faults":
        def often(*choices: float) -> float:
            return random.choice((0.0, *choices))

        return cls(
            weather=Weather(loss=often(0.01, 0.1), repeats=often(0.02, 0.1), tail=often(0.02, 0.1)),
            crash=often(0.1, 0.3),
            stop=often(0.05),
            freeze_server=often(0.1),
            kill_client=often(0.1),
            freeze_client=often(0.1, 0.3),
            cut=often(0.1, 0.3),
            disk=often(0.01, 0.05),
            wall_jumps=often(0.2),
        )


class SimHistory(History):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def now(self) -> float:
        return self._scheduler.now


class World:
    def __init__(self, seed: int, *, clients: int = 4, wall_jumps: bool = True) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.faults = Faults.drawn(self.random)
        self._jumps = Random(seed + 1)  # of their own, so that without them all else is the same
        self._with_jumps = wall_jumps
        self.scheduler = Scheduler()
        self.disk = Disk()
        self.history = SimHistory(self.scheduler)
        self.network = Network(self.scheduler, self.random, self.faults.weather)
        self.store = FencedStore(self.scheduler)
        self.wall_offset_s = 1_700_000_000.0
        self.servers: list[SimServer] = []
        self.clients: dict[str, SimClient] = {}
        self._lives: dict[str, int] = {}
        self._turbulent = True
        self._names = [f"c{number}" for number in range(clients)]

    def run(self, steps: int = STEPS) -> "World":
        with _Determined(self.random):
            self._start_server()
            for name in self._names:
                self._start_client(name)
            self.scheduler.after(0.3, self._nemesis)
            while self.scheduler.steps < steps and self.scheduler.now < SECONDS_MAX:
                self.scheduler.run_until(self.scheduler.now + 0.05)
            self._calm_down()
            self.scheduler.run_until(self.scheduler.now + QUIET_S)
        return self

    # Lives

    @property
    def server(self) -> SimServer:
        return self.servers[-1]

    def _start_server(self) -> None:
        fails = self.faults.disk if self._turbulent else 0.0
        server = SimServer(
            self.disk,
            self.scheduler,
            self.random,
            fails=fails,
            wall_ms=self._wall_ms,
            gave_up=lambda: self.scheduler.after(0.5, self._start_server),
        )
        self.servers.append(server)
        self._listen(server)

    def _listen(self, server: SimServer) -> None:
        """From when it serves, requests reach it."""
        if server.loop.dead:
            return
        if server.ready:
            self.network.server = server
        else:
            self.scheduler.after(0.005, lambda: self._listen(server))

    def _start_client(self, name: str) -> None:
        life = self._lives[name] = self._lives.get(name, 0) + 1
        self.clients[name] = SimClient(
            name,
            life,
            scheduler=self.scheduler,
            network=self.network,
            store=self.store,
            history=self.history,
            random=self.random,
        )
        self.clients[name].quiet = not self._turbulent

    def _wall_ms(self) -> int:
        return int((self.wall_offset_s + self.scheduler.now) * 1_000)

    # Faults

    def _nemesis(self) -> None:
        if not self._turbulent:
            return
        faults, chance = self.faults, self.random.random
        if chance() < faults.crash:
            self._crash()
        elif chance() < faults.stop:
            self._stop()
        if chance() < faults.freeze_server and not self.server.loop.dead:
            self.history.count("server frozen")
            self.server.loop.freeze(chance() * 4)
        name = self.random.choice(self._names)
        if chance() < faults.kill_client:
            self._kill_client(name)
        if chance() < faults.freeze_client:
            self.history.count("client frozen")
            self.clients[name].loop.freeze(chance() * 6)
        if chance() < faults.cut:
            self.history.count("link cut")
            self.network.cut(name, chance() * 5)
        if self._jumps.random() < faults.wall_jumps and self._with_jumps:
            self.wall_offset_s += self._jumps.choice((-3600.0, -5.0, 5.0, 3600.0))
            self.history.count("wall jump")
        self.scheduler.after(0.1 + chance() * 0.6, self._nemesis)

    def _crash(self) -> None:
        if self.server.loop.dead or self.network.server is not self.server:
            return
        self.history.count("server crash")
        self.history.count("crash with a commit on its way", bool(self.server.engine._pending))
        self.network.server = None
        self.server.kill()
        self.scheduler.after(self.random.random() * 1.5, self._start_server)

    def _stop(self) -> None:
        if self.server.loop.dead or self.network.server is not self.server:
            return
        self.history.count("server stop")
        self.network.server = None
        self.server.stop(lambda: self.scheduler.after(self.random.random() * 0.5, self._start_server))

    def _kill_client(self, name: str) -> None:
        if self.clients[name].loop.dead:
            return
        self.history.count("client kill")
        self.clients[name].kill()
        self.scheduler.after(self.random.random() * 2, lambda: self._start_client(name))

    # The quiet phase

    def _calm_down(self) -> None:
        """No more faults; clients finish what they do. Then everything must become free by itself."""
        self._turbulent = False
        self.network._weather = Weather()
        self.network._cut_until.clear()
        self.server.engine._fails = 0.0
        self.history.quiet_at = self.scheduler.now
        for client in self.clients.values():
            client.quiet = True


class _Determined:
    """While it lasts, chance and ids come from the seed, also where the product draws them by itself."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def __enter__(self) -> None:
        self._state = global_random.getstate()
        global_random.seed(self._random.random())
        self._bits, lease_routes._random_bits = lease_routes._random_bits, self._random.getrandbits
        self._clock, drivers.boot_s = drivers.boot_s, _loop_time

    def __exit__(self, *_: object) -> None:
        lease_routes._random_bits, drivers.boot_s = self._bits, self._clock
        global_random.setstate(self._state)


def _loop_time() -> float:
    import asyncio

    return asyncio.get_running_loop().time()
