"""The hot path in one process, without sockets: what `instructions.py` has callgrind watch.

Requests go in at a connection's `data_received` and answers come out at its transport, as they would from the network;
all between is the real server: protocol, service, ledger, grantor, engine. Each turn every connection has one request,
so that a commit has always the same number of them.
"""

import argparse
import asyncio
import ctypes
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openintent.engines import open_engine
from openintent.server import app
from openintent.server.settings import Settings

LINES = 128  # connections, and so requests in a commit: as many as share one where there are 256
TURNS = 4  # measured, for each operation
WARM_TURNS = 3  # before that: caches fill, the interpreter specialises
HEARTBEAT_LEASES = 100
FOREVER_MS = 3_600_000  # a watched program is fifty times slower, and must not refuse work for that


class Wire(asyncio.Transport):
    """The edge: what was written, and a signal when the last connection of a turn has its answer."""

    def __init__(self, turn: "Turn", number: int) -> None:
        super().__init__({"peername": ("127.0.0.1", 10_000 + number), "sockname": ("127.0.0.1", 8000)})
        self.turn = turn
        self.sent: list[bytes] = []

    def write(self, data: Any) -> None:
        self.sent.append(data)
        if data[:5] == b"HTTP/":  # a body may follow its head, but never after the loop has come round
            self.turn.answered()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        raise AssertionError(f"the server hung up: {self.sent}")

    abort = write_eof = close

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Turn:
    """One request on each connection, and the wait until all are answered."""

    def __init__(self) -> None:
        self.due = 0
        self.done: asyncio.Future[None] | None = None

    def answered(self) -> None:
        self.due -= 1
        if self.due == 0 and self.done is not None:
            self.done.set_result(None)

    async def take(self, lines: list[Any], requests: list[bytes]) -> None:
        self.due, self.done = len(lines), asyncio.get_running_loop().create_future()
        for line, request in zip(lines, requests, strict=True):
            line.data_received(request)
        await self.done


class House:
    """A server with its connections; each connection is an agent."""

    def __init__(self, server: app.Server) -> None:
        self.turn = Turn()
        self.wires = [Wire(self.turn, number) for number in range(LINES)]
        self.lines = [self._connected(server, wire) for wire in self.wires]

    @staticmethod
    def _connected(server: app.Server, wire: Wire) -> Any:
        make: Any = server.config.http_protocol_class
        line = make(config=server.config, server_state=server.server_state, app_state={})
        line.connection_made(wire)
        return line

    async def ask(self, requests: list[bytes]) -> list[Any]:
        """The answers' bodies; anything but 200 ends the program."""
        for wire in self.wires:
            wire.sent.clear()
        await self.turn.take(self.lines, requests)
        raw = [b"".join(wire.sent) for wire in self.wires]
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in raw), raw[0]
        return [json.loads(answer.partition(b"\r\n\r\n")[2]) for answer in raw]


def request(method: str, path: str, body: Any = None, *, agent: int, more: str = "") -> bytes:
    payload = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    head = f"{method} /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nX-API-Key: dev-user-key\r\n"
    head += f"X-Agent-ID: load-{agent}\r\n{more}"
    if payload:
        head += f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n"
    return f"{head}\r\n".encode() + payload


class Work:
    """What is asked in each turn, for each operation. Leases that one acquires another renews or releases."""

    def __init__(self, house: House, intents: list[str]) -> None:
        self.house = house
        self.intents = intents
        self.held: list[list[str]] = []  # a turn's leases, one for each connection
        self.beats: list[list[dict[str, Any]]] = [[] for _ in range(LINES)]
        self.versions = [1] * LINES

    def acquires(self, turn: int) -> list[bytes]:
        body = {"duration_seconds": 3_600}
        return [
            request("POST", f"intents/{self.intents[0]}/leases", {"scope": f"s{turn:06x}{n:04x}", **body}, agent=n)
            for n in range(LINES)
        ]

    def renewals(self, turn: int) -> list[bytes]:
        leases, path = self.held[turn % len(self.held)], f"intents/{self.intents[0]}/leases"
        body = {"duration_seconds": 3_000 + turn}
        return [request("PATCH", f"{path}/{lease}", body, agent=n) for n, lease in enumerate(leases)]

    def releases(self, turn: int) -> list[bytes]:
        path = f"intents/{self.intents[0]}/leases"
        return [request("DELETE", f"{path}/{lease}", agent=n) for n, lease in enumerate(self.held[turn])]

    def heartbeats(self, size: int) -> list[bytes]:
        return [
            request("POST", f"agents/load-{n}/heartbeat", {"leases": self.beats[n][:size]}, agent=n)
            for n in range(LINES)
        ]

    def patches(self, turn: int) -> list[bytes]:
        body = {"patches": [{"op": "set", "path": "progress/step", "value": turn}]}
        return [
            request("PATCH", f"intents/{intent}/state", body, agent=n, more=f"If-Match: {self.versions[n] + turn}\r\n")
            for n, intent in enumerate(self.intents)
        ]

    async def furnish(self, turns: int) -> None:
        """Leases for the operations that need some, and their first turns' answers kept."""
        for turn in range(turns):
            answers = await self.house.ask(self.acquires(turn))
            self.held.append([answer["id"] for answer in answers])
            for beat, answer in zip(self.beats, answers, strict=True):
                beat.append({"id": answer["id"], "token": answer["token"]})


class Marks:
    """Begins and ends what is counted; without callgrind it takes the time instead."""

    def __init__(self, library: str | None) -> None:
        self.library = ctypes.CDLL(library) if library else None
        self.began_s = 0.0

    def begin(self) -> None:
        if self.library is not None:
            self.library.mark_begin()
        self.began_s = time.process_time()

    def end(self, name: str, requests: int) -> None:
        took_s = time.process_time() - self.began_s
        if self.library is not None:
            self.library.mark_end(name.encode())
        else:
            print(f"{name:<24}{took_s / requests * 1e6:8.1f} us of processor time a request")


async def measure(name: str, house: House, plan: Callable[[int], list[bytes]], marks: Marks, first: int = 0) -> None:
    """`first`: the number of the first turn, as an acquire or a patch cannot be asked twice."""
    turns = [plan(first + turn) for turn in range(WARM_TURNS + TURNS)]
    for requests in turns[:WARM_TURNS]:
        await house.ask(requests)
    marks.begin()
    for requests in turns[WARM_TURNS:]:
        await house.turn.take(house.lines, requests)
    marks.end(name, TURNS * LINES)
    for wire in house.wires:
        assert all(piece.startswith((b"HTTP/1.1 200", b"{")) for piece in wire.sent), wire.sent[-1]


async def measure_all(house: House, marks: Marks) -> None:
    created = await house.ask([request("POST", "intents", {"title": "load"}, agent=n) for n in range(LINES)])
    work = Work(house, [intent["id"] for intent in created])
    await work.furnish(HEARTBEAT_LEASES)
    await measure("acquire", house, work.acquires, marks, first=HEARTBEAT_LEASES)
    # Before the renewals: those ask for less than the leases have, and then each answer would be another.
    await measure("heartbeat of 1", house, lambda _: work.heartbeats(1), marks)
    await measure(f"heartbeat of {HEARTBEAT_LEASES}", house, lambda _: work.heartbeats(HEARTBEAT_LEASES), marks)
    await measure("renew", house, work.renewals, marks)
    await measure("release", house, work.releases, marks)
    work.versions = [intent["version"] for intent in created]
    await measure("state patch", house, work.patches, marks)


async def main(engine_url: str, marks: Marks) -> None:
    settings = Settings(
        port=0, engine=engine_url, shed_new_ms=FOREVER_MS, shed_most_ms=FOREVER_MS, shed_commit_ms=FOREVER_MS
    )
    engine = open_engine(engine_url, apart=True)  # as `openintent serve` has it
    server = app.Server(settings, engine, lambda _url: None)
    server.config.load()
    listener = app.bound("127.0.0.1", 0)
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup([listener])
    # What goes by the clock: the slower we are watched, the more of it would be counted.
    server._sweep.stop()  # noqa: SLF001
    await server._pages.stop()  # noqa: SLF001
    await measure_all(House(server), marks)
    server.server_state.connections.clear()  # they have no sockets that could be closed
    await server.shutdown([listener])
    await engine.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="sqlite", choices=["sqlite", "memory"])
    parser.add_argument("--marks", help="the library that speaks to callgrind; without it, the time is shown")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, app.runner() as loop:
        app._tune_interpreter()  # noqa: SLF001  # the process's own settings belong to what is measured
        url = "memory:" if options.engine == "memory" else f"sqlite:///{Path(folder)}/hot.db"
        loop.run(main(url, Marks(options.marks)))
