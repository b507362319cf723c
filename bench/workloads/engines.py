"""Our own server on each engine, beside what the engine does by itself when it is asked the same."""

from contextlib import ExitStack
from dataclasses import dataclass

import load
from commits import Counted
from peers import Server, ours
from results import Row
from suite import COST, RATE, Bench, Column, Contender, Workload, loaded

from workloads import cycle, pgbench

CONNS = 256  # also in a quick run: what is wanted is wanted of so many
HELD = 10_000
PASSED_ON = "postgres"  # where a second server of ours is asked, too; that it costs has little to do with the engine


@dataclass(frozen=True)
class Engine:
    """One that others run: its name for people, and the URL of a place in it."""

    title: str
    url: str


SQLITE = "SQLite"
SHARED = {
    "postgres": Engine("PostgreSQL", "postgresql://bench@127.0.0.1:{port}/postgres"),
    "etcd": Engine("etcd", "etcd://127.0.0.1:{port}/bench"),
    "redis": Engine("Redis", "redis://127.0.0.1:{port}/0"),
    "zookeeper": Engine("ZooKeeper", "zookeeper://127.0.0.1:{port}/bench"),
}


def run(bench: Bench) -> list[Row]:
    with ExitStack() as stack:
        contenders = _ours(bench, stack, SQLITE, bench.start(stack, "ours"))
        for key in bench.has(*SHARED):
            engine = bench.start(stack, key)
            title, url = SHARED[key].title, SHARED[key].url.format(port=engine.port)
            leader = bench.start(stack, "ours", engine=url)
            contenders += _ours(bench, stack, title, leader, engine)
            if key == PASSED_ON:
                other = bench.start(stack, "ours", engine=url)
                contenders += _ours(bench, stack, f"{title}, passed on", other, leader, engine)
            contenders += _alone(bench, stack, key)
        contenders.sort(key=lambda each: each.row.size.startswith("renew"))  # what is compared is done in one go
        return bench.in_turns(contenders)


def size(operation: str, engine: str) -> str:
    return f"{operation} on {engine}"


def _ours(bench: Bench, stack: ExitStack, engine: str, server: Server, *beside: Server) -> list[Contender]:
    held = {"held": bench.size(HELD, CONNS), "ttl": load.LONG_TTL_S}
    acquiring = loaded(bench, stack, server, "cycle", size("cycle", engine), CONNS, conns=CONNS)
    renewing = loaded(bench, stack, server, "renew", size("renew", engine), CONNS, conns=CONNS, **held)
    for each in (*acquiring, *renewing):
        each.beside = beside
    for each in acquiring:
        each.measure = Counted(ours.engine(server), each.measure)
    return acquiring + renewing


def _alone(bench: Bench, stack: ExitStack, key: str) -> list[Contender]:
    """Another server of the same kind, without us: what one has in store must not slow the other."""
    server, named = bench.start(stack, key), size("cycle", SHARED[key].title)
    if server.peer.target:
        return loaded(bench, stack, server, "cycle", named, CONNS, conns=CONNS)
    if key == "postgres":
        pgbench.furnish(server)
        measure = pgbench.measured(server, pgbench.CYCLE, clients=CONNS, seconds=bench.seconds)
    else:
        measure = cycle.kazoo(bench, server, CONNS)
    return [Contender(Row(key, named, CONNS), server, measure)]


WORKLOAD = Workload(
    name="engines",
    title="On each engine",
    about="Our server on each engine, on 256 connections: leases acquired and released as above, and renewals of "
    "10,000 held ones, which no engine is asked for. *Commands a commit* is how many requests share one; *engine "
    "processors* are those of the engine's own server. Beside it what another server of the same kind does by "
    "itself when it is asked for leases. *Passed on*: a second server of ours is asked, and asks the one that leads; "
    "the processors of that one are counted with those of the engine.",
    run=run,
    columns=(
        *RATE,
        Column("batch", "commands a commit"),
        Column("commits_per_s", "commits per second"),
        *COST,
        Column("engine_cpu", "engine processors"),
    ),
)
