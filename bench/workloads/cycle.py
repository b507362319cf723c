"""Acquire a lease that nobody holds, release it."""

from collections.abc import Callable
from contextlib import ExitStack

import load
from peers import Server
from results import Figures, Row
from suite import Bench, Contender, Workload, loaded

from workloads import pgbench

POSTGRES_TOO = (8, 16, 64, 128)  # its best is somewhere here
POSTGRES_MAX = 256  # it takes a process for each
KAZOO_MAX = 256  # it takes a thread for each


def run(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    with ExitStack() as stack:
        servers = {key: bench.start(stack, key) for key in bench.has(*bench.peers)}
        if "postgres" in servers:
            pgbench.furnish(servers["postgres"])
        for conns in bench.size((1, 32, 256, 1_024), (1, 32)):
            rows += _at(bench, servers, conns)
        if "postgres" in servers and not bench.quick:
            server = servers["postgres"]
            rows += bench.in_turns([_postgres(bench, server, conns) for conns in POSTGRES_TOO])
    return rows


def _at(bench: Bench, servers: dict[str, Server], conns: int) -> list[Row]:
    contenders: list[Contender] = []
    with ExitStack() as stack:
        for key, server in servers.items():
            if server.peer.target:
                contenders += loaded(bench, stack, server, "cycle", size(conns), conns, conns=conns)
            elif key == "postgres" and conns <= POSTGRES_MAX:
                contenders.append(_postgres(bench, server, conns))
            elif key == "zookeeper" and conns <= KAZOO_MAX:
                contenders.append(Contender(Row(key, size(conns), conns), server, kazoo(bench, server, conns)))
        return bench.in_turns(contenders)


def size(conns: int) -> str:
    return "1 connection" if conns == 1 else f"{conns:,} connections"


def _postgres(bench: Bench, server: Server, conns: int) -> Contender:
    measure = pgbench.measured(server, pgbench.CYCLE, clients=conns, seconds=bench.seconds)
    return Contender(Row("postgres", size(conns), conns), server, measure)


def kazoo(bench: Bench, server: Server, conns: int) -> Callable[[], Figures]:
    words = ["cycle", "--port", str(server.port), "--conns", str(conns), "--seconds", str(bench.seconds)]
    return lambda: load.client("zookeeper", *words)


WORKLOAD = Workload(
    name="cycle",
    title="Acquire and release",
    about="A lease on a scope that nobody holds is acquired and released, over and over, on each connection. The rate "
    "counts such pairs; the latency is that of a pair.",
    run=run,
    plotted="per_s",
    log_y=True,
)
