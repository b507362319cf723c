"""The server that leads is frozen until another leads, and wakes: it acknowledges nothing any more."""

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest
from failover_engines import RealEngine
from proving import Figures, size
from rawhttp import API, Connection
from servercluster import Cluster
from serverprocess import ServerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.alone]

FREEZES = size("failover_freezes", 1)
ROUND_S_MAX = 30.0
ASKS = ("GET /leases", "POST /spaces/frozen/leases", "PATCH /leases/{lease}", "DELETE /leases/{lease}")
IN_FLIGHT = 3  # of each, sent right before it is frozen, and as many right after


class Probe:
    """Requests on connections to one server, and when each answer came."""

    def __init__(self, server: ServerProcess, lease_id: str) -> None:
        self._server = server
        self._lease_id = lease_id
        self._tasks: list[asyncio.Task[tuple[float, bytes]]] = []

    async def send(self, asks: Sequence[str] = ASKS) -> None:
        for number, ask in enumerate([*asks] * IN_FLIGHT):
            method, _, path = ask.format(lease=self._lease_id).partition(" ")
            body = b'{"scope": "s%d", "ttl_seconds": 1}' % number if method == "POST" else b""
            head = f"{method} {API}{path} HTTP/1.1\r\nhost: localhost\r\nx-agent-id: holder\r\nconnection: close\r\n"
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
            writer.write(head.encode() + body)
            self._tasks.append(asyncio.create_task(self._answer(reader, writer)))

    @staticmethod
    async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[float, bytes]:
        try:
            first = await reader.read(1)
            at = monotonic()
            return at, first + await reader.read()
        except OSError:
            return monotonic(), b""
        finally:
            writer.close()

    async def answers(self, *, after: float) -> list[bytes]:
        """Those that came after this moment."""
        told = await asyncio.wait_for(asyncio.gather(*self._tasks), ROUND_S_MAX)
        return [text for at, text in told if at > after]


def is_acknowledged(answer: bytes, *, term: int) -> bool:
    """The ledger of this term had a part in it. What came late enough was passed on, and decided in a later one."""
    head = answer.partition(b"\r\n\r\n")[0] + b"\r\n"
    told = head.partition(b"\r\nx-term: ")[2].partition(b"\r\n")[0]
    return bool(told) and int(told) <= term


@pytest.mark.timeout(60 + ROUND_S_MAX * FREEZES)
async def test_a_leader_that_was_frozen_and_wakes_acknowledges_nothing(
    cluster: Cluster, real_engine: RealEngine, figures: Figures
):
    """What it had decided before may be on its way out of the process when that is frozen: such answers are counted."""
    seen: Counter[str] = Counter()
    for done in range(1, FREEZES + 1):
        await cluster.all_ready()
        leader = await cluster.leader()
        line = Connection(leader.port, "holder")
        held = await line.call("POST", "/spaces/held/leases", {"scope": f"s{done}", "ttl_seconds": 60})
        assert held.ok, held
        before, after = Probe(leader, held.body["id"]), Probe(leader, held.body["id"])
        # Every other time nothing is to be committed: then nothing but the clock tells it that its time is over.
        await before.send(ASKS if done % 2 == 0 else ("GET /leases", "PATCH /leases/{lease}"))
        await frozen(leader)
        await after.send()
        successor = await cluster.leader(besides=leader)
        woken_at = monotonic()
        leader.signal(signal.SIGCONT)
        for answer in await after.answers(after=0.0):
            seen["late"] += 1
            assert not is_acknowledged(answer, term=held.mark[0]), f"{answer!r}, and {successor.port} leads"
        for answer in await before.answers(after=woken_at):
            seen["late"] += 1
            seen["decided before"] += is_acknowledged(answer, term=held.mark[0])
        line.close()
        figures.progress(done, FREEZES)
    figures.add(
        f"a leader that was frozen until another led, and wakes, on {real_engine.name}",
        freezes=FREEZES,
        answers_that_came_late=seen["late"],
        of_these_decided_by_it_after_it_woke=0,
        of_these_decided_before_it_was_frozen=seen["decided before"],
    )
    assert seen["late"] >= FREEZES * len(ASKS) * IN_FLIGHT, "too few were in flight to mean anything"


async def frozen(server: ServerProcess) -> None:
    """Not one instruction of it is carried out any more."""
    server.signal(signal.SIGSTOP)
    while state_of(server.pid) != "T":  # noqa: ASYNC110  # the kernel says when
        await asyncio.sleep(0)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
