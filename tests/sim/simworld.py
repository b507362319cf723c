"""One scenario, one history: servers that crash, clients that die, a network that lies, and in the end quiet."""

import asyncio
import math
import random as global_random
from asyncio import events
from contextlib import suppress
from random import Random

from history import History
from replay import Tape
from scenario import CLIENTS, SECONDS_MAX, Fault, Scenario
from simclient import INTENT, SPACE, Onlooker, SimClient
from simdisk import Disk, SimEngine
from simloop import Scheduler, SimLoop
from simnet import Network, SimTransport
from simremote import Machine, RemoteStore
from simserver import SimServer
from simstore import FencedStore

from openintent.chance import SPREAD
from openintent.client import calls, drivers, flows
from openintent.client.calls import Wish
from openintent.core import timers
from openintent.engines import journaled
from openintent.errors import OpenIntentError
from openintent.grantor import grantor
from openintent.server.ids import Ids
from openintent.server.routes import leases as lease_routes

QUIET_S_MAX = 40.0  # the largest wait of a client, and what it leaves behind
LATE_S_MAX = 3.1  # a message that was on its way when the weather became calm has arrived by then
PROBES_S_MAX = 20.0


class World:
    def __init__(self, scenario: Scenario | int, *, wall_jumps: bool = True, telling: bool = False) -> None:
        self.scenario = scenario if isinstance(scenario, Scenario) else Scenario.drawn(scenario)
        seed = self.scenario.seed
        self.random = Random(f"world {seed}")
        self._with_jumps = wall_jumps
        self.scheduler = Scheduler()
        self.disk = Disk() if self.scenario.servers == 1 else Machine()
        self.tape = Tape(self.disk, lambda: self.scheduler.now)
        if self.scenario.servers > 1:
            self.tape.frozen_until = math.inf  # a leader is also late when it could not speak for a while
        self.history = History(lambda: self.scheduler.now, telling=telling)
        self.network = Network(
            self.scheduler,
            Random(f"network {seed}"),
            self.history,
            self.scenario.weather,
            servers=self.scenario.servers,
        )
        self.store = FencedStore(self.scheduler, self.history)
        self.wall_offset_s = 1_700_000_000.0
        self.servers: list[SimServer] = []  # all lives
        self._places: dict[int, SimServer] = {}
        self._onlookers: list[Onlooker] = []
        self.clients: dict[str, SimClient] = {}
        self._lives: dict[str, int] = {}
        self._dead: list[SimClient] = []
        self._jobs = {name: iter([job for job in self.scenario.jobs if job.client == name]) for name in CLIENTS}
        self._turbulent = True

    def run(self) -> "World":
        with _Determined(self.random, self.tape):
            for place in range(self.scenario.servers):
                self._start_server(place)
            self._furnish()
            for name in CLIENTS:
                self._start_client(name)
            if self.scenario.servers > 1:
                self._watch()
            for fault in self.scenario.faults:
                self.scheduler.at(fault.at, self._strike, fault)
            while self.scheduler.steps < self.scenario.steps and self.scheduler.now < SECONDS_MAX:
                self.scheduler.run_until(self.scheduler.now + 0.05)
            self._calm_down()
        return self

    # Lives

    @property
    def server(self) -> SimServer:
        """The one that leads, as far as there is one."""
        return max(self._places.values(), key=lambda server: (server.leads, server.term))

    def _start_server(self, place: int) -> None:
        loop = SimLoop(self.scheduler, rate=1 + self.random.uniform(-0.001, 0.001), origin=self.random.uniform(0, 1e6))
        server = SimServer(
            place,
            len(self.servers),
            loop,
            self._engine(loop),
            wall_ms=self._wall_ms,
            serves=lambda: self._listen(server),
            gave_up=lambda: self.scheduler.after(0.5, self._start_server, place),
        )
        self._places[place] = server
        self.servers.append(server)

    def _engine(self, loop: SimLoop) -> SimEngine | RemoteStore:
        if isinstance(self.disk, Machine):
            late = self.scenario.engine_late if self._turbulent else 0.0
            return RemoteStore(self.disk, loop, self.scheduler, self.random, self.history, late=late)
        fails = self.scenario.disk_fails if self._turbulent else 0.0
        return SimEngine(self.disk, self.scheduler, self.random, self.history, fails=fails)

    def _listen(self, server: SimServer) -> None:
        """From now on requests reach it."""
        self.network.servers[server.place] = server
        self.history.tell("{} listens, term {}", server.member, server.term)

    def _start_client(self, name: str) -> None:
        life = self._lives[name] = self._lives.get(name, 0) + 1
        self.clients[name] = SimClient(
            name,
            life,
            self._jobs[name],
            scheduler=self.scheduler,
            network=self.network,
            store=self.store,
            history=self.history,
            random=self.random,
        )
        self.clients[name].quiet = not self._turbulent

    def _watch(self) -> None:
        self._onlookers = [
            Onlooker(place, scheduler=self.scheduler, network=self.network, history=self.history)
            for place in range(self.scenario.servers)
        ]

    def _furnish(self) -> None:
        """The intent that all is about. Somebody makes it, patiently; until then others are told that it is not."""

        async def create() -> None:
            body = {"id": INTENT, "title": "Report", "state": {"n": 0}}
            made = False
            while not made:
                with suppress(OpenIntentError):
                    await self._as_operator(flows.create_intent(body, [], attempt="create", patience_s=1.0))
                    made = True

        self._operate(create())

    def _operate(self, work: object) -> None:
        self.operator = SimClient(
            "operator", 1, iter(()), scheduler=self.scheduler, network=self.network, store=self.store,
            history=self.history, random=self.random,
        )  # fmt: skip
        self._line = SimTransport(self.network, self.operator.loop, "operator", 1, self.history)
        self.operator.loop.call_soon(self.operator.loop.create_task, work)

    async def _as_operator(self, flow: object) -> None:
        await drivers.run_async(flow, self._line)  # type: ignore[arg-type]

    def _wall_ms(self) -> int:
        return int((self.wall_offset_s + self.scheduler.now) * 1_000)

    def end(self) -> None:
        """Nobody does anything any more, or else what is left would keep itself alive; and most of it goes at once."""
        clients = (*self.clients.values(), *self._dead, *self._onlookers, self.operator)
        for process in (*self.servers, *clients):
            process.loop.forget()
        for played in self.tape.terms:
            played.steps.clear()

    # Faults

    def _strike(self, fault: Fault) -> None:
        jump = fault.kind == "wall jump"  # which must change nothing, not even how many steps there were
        if not self._turbulent or (jump and not self._with_jumps):
            return
        self.scheduler.steps += not jump
        if getattr(self, f"_{fault.kind.replace(',', '').replace(' ', '_')}")(fault):
            self.history.count(fault.kind)
            self.history.tell("{}", str(fault).strip())

    def _struck(self, fault: Fault) -> SimServer | None:
        """The server that it is done to, if that lives and listens."""
        server = self.server if fault.place is None else self._places[fault.place]
        return server if server.ready and self.network.servers[server.place] is server else None

    def _crash(self, fault: Fault) -> bool:
        server = self._struck(fault)
        if server is None:
            return False
        self.history.count("crash with a commit on its way", server.engine.busy)
        self._end_server(server, fault)
        return True

    def _crash_at_a_commit(self, fault: Fault) -> bool:
        """The next commit is its last: before, while or after it becomes durable, but before anybody is told."""
        server = self._struck(fault)
        if server is None or server.engine.doom is not None:
            return False

        def end() -> None:
            if self.network.servers[server.place] is server:
                self.history.count("crash within a commit")
                self._end_server(server, fault)

        server.engine.doom = end
        return True

    def _end_server(self, server: SimServer, fault: Fault) -> None:
        self.history.count("server crash")
        self.network.servers[server.place] = None
        server.kill()
        self.network.break_all(server.place)
        self.scheduler.after(fault.length_s, self._start_server, server.place)

    def _stop(self, fault: Fault) -> bool:
        server = self._struck(fault)
        if server is None:
            return False
        if self.random.random() < 0.5:  # else it is reached until the end, over connections that were open before
            self.network.servers[server.place] = None

        def stopped() -> None:
            self.network.servers[server.place] = None
            self.scheduler.after(fault.length_s, self._start_server, server.place)

        server.stop(stopped)
        return True

    def _freeze_server(self, fault: Fault) -> bool:
        server = self.server if fault.place is None else self._places[fault.place]
        self.history.count("leader frozen", server.leads)
        server.loop.freeze(fault.length_s)
        self.tape.frozen_until = max(self.tape.frozen_until, server.loop.frozen_until)
        return True

    def _cut_from_the_engine(self, fault: Fault) -> bool:
        server = self._struck(fault)
        if server is None or not isinstance(server.engine, RemoteStore):
            return False
        self.history.count("leader cut from the engine", server.leads)
        server.engine.cut_until = self.scheduler.now + fault.length_s
        return True

    def _kill(self, fault: Fault) -> bool:
        if self.clients[fault.client].loop.dead:
            return False
        self.clients[fault.client].kill()
        self._dead.append(self.clients[fault.client])
        self.scheduler.after(fault.length_s, lambda: self._start_client(fault.client))
        return True

    def _freeze(self, fault: Fault) -> bool:
        self.clients[fault.client].loop.freeze(fault.length_s)
        return True

    def _cut(self, fault: Fault) -> bool:
        self.network.cut(fault.client, fault.length_s)
        return True

    def _slow_then_cut(self, fault: Fault) -> bool:
        """Answers come late, and then nothing does: who counts from when an answer came trusts for too long."""
        self.network.slow(fault.client, fault.length_s)
        self.scheduler.after(fault.length_s * 2, self._strike, Fault(0.0, "cut", fault.client, 2.0))
        return True

    def _wall_jump(self, fault: Fault) -> bool:
        self.wall_offset_s += fault.length_s
        return True

    # The quiet phase

    def _calm_down(self) -> None:
        """No more faults; clients finish what they do. Then everything must become free by itself, and be had again."""
        self._turbulent = False
        self.history.quiet_at = self.scheduler.now
        self.history.tell("quiet from now on")
        self.network.calm()
        for server in self._places.values():
            server.engine.calm()
        for client in (*self.clients.values(), *self._onlookers):
            client.quiet = True
        self.scheduler.run_until(self.scheduler.now + LATE_S_MAX)
        while self.left_over() and self.scheduler.now < self.history.quiet_at + QUIET_S_MAX:
            self.scheduler.run_until(self.scheduler.now + 0.5)
        self._operate(self._probe())
        until = self.scheduler.now + PROBES_S_MAX
        while not self.history.probe and self.scheduler.now < until:
            self.scheduler.run_until(self.scheduler.now + 0.2)

    def left_over(self) -> list[str]:
        """Who is still busy, and what is still held, waited for or closed."""
        busy = [client.name for client in self.clients.values() if client.busy]
        records = [key for key in self.disk.records if key.startswith(("l/", "w/", "d/"))]
        return busy + records + ([] if self.server.leads else ["the server"])

    async def _probe(self) -> None:
        """Whoever can have everything can have each part of it."""
        wish, attempt = Wish(space=SPACE, scope="*", ttl_s=1.0), "probe"
        try:
            await self._as_operator(flows.acquire(wish, attempt=attempt, patience_s=3.0))
            gives_up = calls.give_up(SPACE, attempt=attempt, timeout_s=3.0)
            await self._as_operator(flows.patiently(gives_up, patience_s=3.0))
        except OpenIntentError as failure:
            self.history.probe = str(failure)
        else:
            self.history.probe = "granted"


class _Determined:
    """While it lasts, chance and ids come from the seed, also where the product draws them by itself.

    And no loop but the simulated ones is the running one.
    """

    def __init__(self, random: Random, tape: Tape) -> None:
        self._random = random
        self._tape = tape

    def __enter__(self) -> None:
        self._state = global_random.getstate()
        self._loop = events._get_running_loop()
        global_random.seed(self._random.random())
        SPREAD.seed(self._random.random())
        self._ids, lease_routes.ids = lease_routes.ids, Ids(self._random.getrandbits)
        self._clock, drivers.boot_s = drivers.boot_s, _loop_time
        self._ledger, grantor.Ledger = grantor.Ledger, self._tape.ledger  # type: ignore[misc, assignment]
        # So little is written in a history that nothing would ever be folded.
        self._weights = journaled.IDLE_WEIGHT, journaled.SLICE_WEIGHT
        journaled.IDLE_WEIGHT, journaled.SLICE_WEIGHT = 40, 20  # type: ignore[misc]
        # Every ttl is short here, and somebody would always be in a hurry.
        self._hurry_ms, timers.HURRY_MS = timers.HURRY_MS, 700  # type: ignore[misc]

    def __exit__(self, *_: object) -> None:
        lease_routes.ids, drivers.boot_s, grantor.Ledger = self._ids, self._clock, self._ledger  # type: ignore[misc]
        journaled.IDLE_WEIGHT, journaled.SLICE_WEIGHT = self._weights  # type: ignore[misc]
        timers.HURRY_MS = self._hurry_ms  # type: ignore[misc]
        events._set_running_loop(self._loop)
        global_random.setstate(self._state)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
