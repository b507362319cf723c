"""Many want one lease: how long from a release until the next of them has it."""

from contextlib import ExitStack

import load
from peers import Server
from results import Row
from suite import COST, Bench, Column, Contender, Workload, loaded

QUEUED_PER_S = 200  # by the slowest
ANSWERS_NEEDED = 2  # for a hand-over: one to the release, one to who is granted


def run(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    with ExitStack() as stack:
        servers = [bench.start(stack, key) for key in bench.has("ours", "etcd", "zookeeper")]
        for waiters in bench.size((2, 16, 64, 1_000), (2, 16)):
            rows += _at(bench, servers, waiters)
    return rows


def _at(bench: Bench, servers: list[Server], waiters: int) -> list[Row]:
    size, contenders = f"{waiters:,} waiters", list[Contender]()
    with ExitStack() as stack:
        for server in servers:
            if server.peer.target:
                options = {"conns": waiters + 1, "ttl": 3_600, "warmup": _warmup_s(bench, waiters)}
                contenders += loaded(bench, stack, server, "contend", size, waiters, **options)
            else:
                contenders.append(_kazoo(bench, server, waiters, size))
        rows = bench.in_turns(contenders)
    for row in rows:
        if row.peer != "zookeeper":
            pairs = zip(row.figures["requests_per_s"], row.figures["per_s"], strict=True)
            row.figures["wasted"] = [_wasted(*pair) for pair in pairs]
    return rows


def _wasted(answers_per_s: float, handovers_per_s: float) -> float:
    """Answers for each release beyond those that are needed; the edges of a window are no waste."""
    return max(0.0, round(answers_per_s / handovers_per_s - ANSWERS_NEEDED, 1)) if handovers_per_s else 0.0


def _kazoo(bench: Bench, server: Server, waiters: int, size: str) -> Contender:
    words = ["contend", "--port", str(server.port), "--conns", str(waiters + 1), "--seconds", str(bench.seconds)]
    words += ["--warmup", str(_warmup_s(bench, waiters))]
    return Contender(Row("zookeeper", size, waiters), server, lambda: load.client("zookeeper", *words))


def _warmup_s(bench: Bench, waiters: int) -> float:
    """Long enough that all have queued: before that, no release is followed by a grant as it will be."""
    return max(bench.seconds / 4, waiters / QUEUED_PER_S)


WORKLOAD = Workload(
    name="contend",
    title="Contended hand-over",
    about="All connections queue for one scope; who has it releases it at once and queues again. The latency is from "
    "when a release leaves until the answer to the next grant arrives. Wasted answers are those for each release "
    "beyond the two that are needed: with a herd there would be one for each waiter.",
    run=run,
    columns=(
        Column("per_s", "hand-overs per second"),
        Column("p50_ms", "p50 ms"),
        Column("p99_ms", "p99 ms"),
        Column("wasted", "wasted answers a release"),
        *COST,
    ),
    plotted="p50_ms",
    log_y=True,
    compared="p50_ms",
)
