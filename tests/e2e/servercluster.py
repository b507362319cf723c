"""Several servers on one engine, each a process with a link of its own to that engine; and callers who try them all."""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from eventreader import EventReader
from faultproxy import FaultProxy
from rawhttp import UNKNOWN, Answer, Connection
from serverprocess import ServerProcess

SERVERS = 3
LEADER_TTL_S = 1.0
ELECTION_S_MAX = 30.0
LOOK_S = 0.02
LOOK_S_MAX = 0.5  # one that does not say by then whether it leads is frozen
AGAIN_S = 0.05
TRY_S_MAX = 8.0  # a frozen server does not answer; another would
PLACE = re.compile(r"127\.0\.0\.1:(\d+)")
PLACES = re.compile(r"127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+)*")


class Cluster:
    def __init__(self, folder: Path, engine: str, servers: int = SERVERS) -> None:
        self._folder = folder
        self._engine = engine
        self._count = servers
        self.servers: list[ServerProcess] = []
        self._links: dict[ServerProcess, dict[int, FaultProxy]] = {}  # by the port of the engine, or of its member

    @property
    def ports(self) -> list[int]:
        return [server.port for server in self.servers]

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    async def start(self) -> None:
        for _ in range(self._count):
            await self.add()
        await asyncio.gather(*(asyncio.to_thread(server.start) for server in self.servers))
        await self.leader()

    async def add(self) -> ServerProcess:
        """One more, that is not started yet. Each asks another member of the engine first."""
        number = len(self.servers)
        links = {int(port): FaultProxy(int(port)) for port in PLACE.findall(self._engine)}
        hosts = [(await link.start()).removeprefix("http://") for link in links.values()]
        first = number % len(hosts)
        engine = PLACES.sub(",".join(hosts[first:] + hosts[:first]), self._engine)
        server = ServerProcess(self._folder / f"server-{number}", engine=engine)
        server.settings["OPENINTENT_LEADER_TTL_SECONDS"] = str(LEADER_TTL_S)
        self._links[server] = links
        self.servers.append(server)
        return server

    async def stop(self) -> None:
        for server in self.servers:
            server.kill()
        for link in self._all_links():
            await link.stop()

    # Links to the engine

    def _all_links(self, port: int | None = None) -> list[FaultProxy]:
        """Those to one member of it, or all."""
        return [link for links in self._links.values() for to, link in links.items() if port in (None, to)]

    def cut_off(self, server: ServerProcess) -> None:
        """From its engine; everybody else still reaches it."""
        for link in self._links[server].values():
            link.cut()

    def heal(self, server: ServerProcess) -> None:
        for link in self._links[server].values():
            link.heal()

    def cut_off_member(self, port: int) -> None:
        """No server of ours reaches that member of the engine."""
        for link in self._all_links(port):
            link.cut()

    def heal_member(self, port: int) -> None:
        for link in self._all_links(port):
            link.heal()

    def reset_links(self) -> None:
        """Every connection to the engine ends; new ones can be opened."""
        for link in self._all_links():
            link.reset()

    def lead_links_to(self, port: int) -> None:
        """What has the address of the engine is another server from now on."""
        self._engine = PLACES.sub(f"127.0.0.1:{port}", self._engine)
        for link in self._all_links():
            link.lead_to(port)

    # Who leads

    async def leader(self, besides: ServerProcess | None = None) -> ServerProcess:
        """The one that says so, as soon as one does."""
        async with asyncio.timeout(ELECTION_S_MAX):
            while True:
                said = await asyncio.gather(*(self._leads(server) for server in self.servers if server is not besides))
                leaders = [server for server in said if server is not None]
                if leaders:
                    return leaders[0]
                await asyncio.sleep(LOOK_S)

    async def all_ready(self) -> None:
        """Everybody leads, or knows who does. Whoever does not look any more knows of an older term only."""
        async with asyncio.timeout(ELECTION_S_MAX):
            while True:
                said = await asyncio.gather(*(self._ready(server) for server in self.servers))
                if all(answer.ok for answer in said) and len({answer.body["term"] for answer in said}) == 1:
                    return
                await asyncio.sleep(LOOK_S)

    async def _leads(self, server: ServerProcess) -> ServerProcess | None:
        answer = await self._ready(server)
        return server if answer.ok and answer.body["role"] == "grantor" else None

    async def _ready(self, server: ServerProcess) -> Answer:
        line = Connection(server.port, "watcher")
        try:
            async with asyncio.timeout(LOOK_S_MAX):
                return await line.call("GET", "/readyz")
        except TimeoutError:
            return UNKNOWN
        finally:
            line.close()


@asynccontextmanager
async def running(folder: Path, engine: str) -> AsyncIterator[Cluster]:
    cluster = Cluster(folder, engine)
    try:
        await cluster.start()
        yield cluster
    finally:
        await cluster.stop()


# Callers


class Roaming(Connection):
    """A connection to one of several servers. What got no answer, or a 503, is asked again elsewhere, as the SDK does.

    So an answer is always one: whoever asks with an attempt id never has a doubt.
    """

    def __init__(self, ports: list[int], agent: str, *, try_s_max: float = TRY_S_MAX) -> None:
        self._ports = random.Random(agent).sample(ports, len(ports))
        self._try_s_max = try_s_max
        super().__init__(self._ports[0], agent)

    async def call(self, *words: Any, **more: Any) -> Answer:
        give_up_at: float | None = None  # a request may have waited for long before it fails
        while True:
            answer = await self._try(*words, **more)
            if answer.status not in (0, 503, 504):
                return answer
            give_up_at = give_up_at or monotonic() + ELECTION_S_MAX
            assert monotonic() < give_up_at, f"{words}: {answer}"
            self._move_on()
            await asyncio.sleep(AGAIN_S)

    async def _try(self, *words: Any, **more: Any) -> Answer:
        wait_s = (words[2] or {}).get("wait_seconds", 0.0) if len(words) > 2 else 0.0
        try:
            async with asyncio.timeout(self._try_s_max + wait_s):
                return await super().call(*words, **more)
        except TimeoutError:
            return UNKNOWN

    def _move_on(self) -> None:
        self.close()
        self._ports = [*self._ports[1:], self._ports[0]]
        self._port = self._ports[0]


class RoamingReader(EventReader):
    """Comes back to the next server each time."""

    def __init__(self, ports: list[int], path: str) -> None:
        super().__init__(ports[0], path, after=0)
        self._ports = ports

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._port = self._ports[self.connections % len(self._ports)]
        self._ports = [*self._ports[1:], self._ports[0]]
        return await super()._open()
