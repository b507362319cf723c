"""One event, many readers."""

from contextlib import ExitStack

import load
from results import Row
from suite import Bench, Column, Contender, Workload


def run(bench: Bench) -> list[Row]:
    readers = bench.size(1_000, 50)
    with ExitStack() as stack:
        server = bench.start(stack, "ours")
        words = ["--port", str(server.port), "--readers", str(readers), "--seconds", str(bench.seconds)]
        row = Row("ours", f"{readers:,} readers", readers)
        return bench.in_turns([Contender(row, server, lambda: load.client("readers", *words))])


WORKLOAD = Workload(
    name="streams",
    title="Events to many readers",
    about="1,000 readers follow one intent by server-sent events, each on its own connection. First one change at a "
    "time: how long from when it is sent until a reader has it, and until the last reader has it. Then as many "
    "changes as the readers take, with at most 8 under way. The readers are one Python process, which has a "
    "part in these times.",
    run=run,
    columns=(
        Column("per_s", "deliveries per second"),
        Column("p50_ms", "p50 ms"),
        Column("p99_ms", "p99 ms"),
        Column("last_p50_ms", "last reader p50 ms"),
        Column("errors", "missed", worst=True),
        Column("server_cpu", "server processors"),
        Column("client_cpu", "load processors"),
    ),
)
