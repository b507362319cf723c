"""A cycle by the Python SDK, against one by redis-py."""

from collections.abc import Callable
from contextlib import ExitStack

import load
from peers import Server
from results import Figures, Row
from suite import Bench, Column, Contender, Workload

KINDS = (("sync", 1), ("async", 1), ("async", 32))


def run(bench: Bench) -> list[Row]:
    with ExitStack() as stack:
        servers = [bench.start(stack, key) for key in bench.has("ours", "redis")]
        contenders = [
            Contender(Row(server.peer.key, size(kind, tasks), tasks), server, _measure(bench, server, kind, tasks))
            for kind, tasks in KINDS
            for server in servers
        ]
        return bench.in_turns(contenders)


def size(kind: str, tasks: int) -> str:
    return f"{kind}, {tasks} tasks" if tasks > 1 else f"{kind}, one at a time"


def _measure(bench: Bench, server: Server, kind: str, tasks: int) -> Callable[[], Figures]:
    words = [kind, "--port", str(server.port), "--tasks", str(tasks), "--seconds", str(bench.seconds)]

    def measure() -> Figures:
        return load.client(server.peer.key, *words)

    return measure


WORKLOAD = Workload(
    name="sdk",
    title="The SDK in one Python process",
    about="One process acquires and releases by the SDK, or by redis-py's `Lock` against the same durable Redis as "
    "above. The time of a cycle is what the program waits for.",
    run=run,
    columns=(
        Column("cycle_us", "us a cycle"),
        Column("per_s", "per second"),
        Column("p99_ms", "p99 ms"),
        Column("client_cpu", "processors of the program"),
        Column("server_cpu", "server processors"),
    ),
    compared="cycle_us",
)
