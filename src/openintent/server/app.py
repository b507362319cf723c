"""The server as a process: engine, grantor, service and uvicorn, started and stopped in the right order."""

import asyncio
import gc
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, Protocol

import uvicorn

from openintent.engines import open_engine
from openintent.engines.base import Engine
from openintent.grantor.grantor import Grantor
from openintent.server import hotlane, logs
from openintent.server.asgi import make_app
from openintent.server.auth import Gate, is_loopback
from openintent.server.cluster import Cluster
from openintent.server.forwarding import Forwarder
from openintent.server.keys import KeyRing
from openintent.server.largepages import LargePages
from openintent.server.openfiles import make_room
from openintent.server.overload import Overload, Patience
from openintent.server.routes import ROUTER
from openintent.server.service import Service
from openintent.server.settings import Settings
from openintent.server.sweep import Sweep
from openintent.server.uvicorn_fit import self_check

log = logging.getLogger("openintent.server")

Announce = Callable[[str], None]

LOOK_S: Final = 0.1  # whether it is to stop, if it was not told so by a signal
SWITCH_S: Final = 0.000_01
GC_THRESHOLD: Final = 20_000


class Named(Protocol):
    """A socket, or what asyncio shows of one."""

    def getsockname(self) -> Any: ...


class Server(uvicorn.Server):
    """uvicorn with our grantor behind it: nothing listens before the grantor serves, and it is the last to stop."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        announce: Announce,
        gate: Gate | None = None,
        *,
        member: str | None = None,
    ) -> None:
        member = member or f"{socket.gethostname()}:{os.getpid()}"
        self._settings = settings
        self._engine = engine
        self._announce = announce
        self._signalled = asyncio.Event()
        self._grantor = Grantor(engine, settings.limits, member=member, leader_ttl_s=settings.leader_ttl_seconds)
        patience = Patience(
            new_ms=settings.shed_new_ms, most_ms=settings.shed_most_ms, commit_ms=settings.shed_commit_ms
        )
        overload = Overload(patience, lambda: self._grantor.commit_age_ms)
        self._service = Service(
            self._grantor, settings.limits, ROUTER, gate or Gate(), overload, streams_max=settings.streams_max
        )
        if not engine.guarantees.exclusive_open:
            self._service.forwarder = Forwarder(self._grantor, member, self._service.stopping)
        self._service.cluster = Cluster(
            self._grantor,
            member=member,
            scheme=settings.engine.partition(":")[0],
            leader_ttl_s=settings.leader_ttl_seconds,
            forwarder=self._service.forwarder,
        )
        self._bounds = hotlane.Bounds(
            connections_max=settings.connections_max,
            connections_per_address_max=settings.connections_per_address_max,
            connections_reserved=settings.connections_reserved,
        )
        super().__init__(self._config())
        self._service.connections = lambda: len(self.server_state.connections)
        self._sweep = Sweep(self.server_state.connections, self._bounds)
        self._pages = LargePages()

    def _config(self) -> uvicorn.Config:
        unfit = self_check()
        if unfit is not None:
            log.warning("hot lane off reason=%s", unfit)
        return uvicorn.Config(
            make_app(self._service),
            host=self._settings.host,
            port=self._settings.port,
            http="httptools" if unfit is not None else hotlane.hot_protocol(self._service, self._bounds),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # no address is believed that a client may have made up
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=round(self._settings.stop_seconds) + 1,  # only if cutting off does not help
            backlog=4_096,
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._grantor.start()
        self._sweep.start()
        self._service.gate.start()
        self._service.overload.start()
        if self._service.forwarder is not None:
            self._service.forwarder.start()
        self._service.cluster.start()
        await super().startup(sockets)
        if self.started:
            url = url_of(self.servers[0].sockets[0])
            await self._engine.announce(url)
            self._announce(url)
            self._pages.start()  # last: only a server that has started is stopped

    async def main_loop(self) -> None:
        """Until it is to stop. uvicorn looks now and then; but others wait for a signal to be obeyed, to take over."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._signalled.wait(), LOOK_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._signalled.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            # uvicorn would raise them once more, and end the process before the engine is closed. They are obeyed.
            self._captured_signals.clear()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, answer whoever waits, finish what is under way, write the farewell."""
        log.info("stop began connections=%d", len(self.server_state.connections))
        self._service.stopping.set()
        self._grantor.hang_up()
        # What was read just now is carried out behind us, and may begin to wait.
        asyncio.get_running_loop().call_soon(self._grantor.hang_up)
        forwarder, stop_s = self._service.forwarder, self._settings.stop_seconds
        # Where there are others, one of them can lead already while this one sees to its connections.
        leaving = None if forwarder is None else asyncio.ensure_future(self._grantor.stop())
        patience = [asyncio.get_running_loop().call_later(stop_s, self._cut_off)]
        if forwarder is not None:  # whoever waits for another server must be told before that
            patience.append(asyncio.get_running_loop().call_later(stop_s / 2, forwarder.hang_up))
        await super().shutdown(sockets)
        for each in patience:
            each.cancel()
        self._sweep.stop()
        await self._pages.stop()
        self._service.gate.stop()
        self._service.overload.stop()
        await self._service.close(within_s=stop_s)
        self._service.cluster.stop()
        if forwarder is not None:
            forwarder.stop()
        await (leaving or self._grantor.stop())
        # uvicorn would now raise the signal anew and so end the process, before the engine is closed.
        self._captured_signals.clear()

    def _cut_off(self) -> None:
        """Give up whoever has not taken its answer by now."""
        # uvicorn would cancel the task that writes it, and wait; but what waits to write need not end by that.
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def url_of(listener: Named) -> str:
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host, port = name[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def bound(host: str, port: int) -> socket.socket:
    """A socket that has the address and does not listen yet. `OSError` if it cannot be had."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # `localhost` has two addresses, and port 0 would be another port on each; every client also tries this one.
    family, kind, protocol, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        # A server that is restarted must not wait for the connections of its predecessor to be forgotten.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def gate_of(settings: Settings) -> Gate:
    """The gate with the keys of its file, if there are any. `BadKeyFile` if they cannot be used."""
    path = settings.key_file
    if path is None:
        return Gate()
    # Where a key is a must, a file that has gone since somebody looked must not open the house to everybody.
    ring = KeyRing(path, in_force=settings.keys is not None or not is_loopback(settings.host))
    ring.open()
    return Gate(ring, failures_max=settings.key_failures_max)


async def serve(settings: Settings, announce: Announce) -> None:
    """Run until told to stop by SIGINT or SIGTERM."""
    gate = gate_of(settings)
    engine = open_engine(settings.engine, address=f"http://{settings.host}:{settings.port}", apart=True)
    try:
        if engine.notice is not None:
            log.warning("engine warned notice=%s", engine.notice)
        # Bound before the grantor starts: if the port is taken, no new term has begun.
        listener = bound(settings.host, settings.port)
        member = f"{settings.advertise or url_of(listener)}#{os.urandom(8).hex()}"
        await Server(settings, engine, announce, gate, member=member).serve([listener])
    finally:
        await engine.close()


def run(settings: Settings, announce: Announce) -> None:
    """The whole process."""
    logs.set_up(settings)
    settings = make_room(settings)
    _tune_interpreter()
    with runner() as loop:
        loop.run(serve(settings, announce))


def _tune_interpreter() -> None:
    """Settings that are the process's own: measured to be worth a tenth of the throughput."""
    # The loop lets go of the interpreter's lock between any two requests and takes it back at once. A thread that works
    # for it, as some engines have, asleep for the default 5 ms between its tries, would be woken and disappointed each
    # time, which costs both.
    sys.setswitchinterval(SWITCH_S)
    # What was imported lives for ever; and of what requests make, hardly anything is cyclic.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def runner() -> asyncio.Runner:
    try:
        import uvloop  # noqa: PLC0415  # there may be none
    except ImportError:  # a platform without it; slower, not different
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
