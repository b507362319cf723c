"""One call that renews all leases of an agent, against one that renews one."""

from contextlib import ExitStack

import load
from results import Row
from suite import COST, RATE, Bench, Column, Contender, Workload, loaded


def run(bench: Bench) -> list[Row]:
    conns, contenders = bench.size(256, 16), list[Contender]()
    with ExitStack() as stack:
        server = bench.start(stack, "ours")
        options = {"conns": conns, "ttl": load.LONG_TTL_S}
        contenders += loaded(bench, stack, server, "renew", "one renewal", 0, held=conns, **options)
        for leases in bench.size((1, 100, 1_000), (1, 100)):
            found = loaded(bench, stack, server, "heartbeat", size(leases), leases, held=conns * leases, **options)
            contenders += found
        rows = bench.in_turns(contenders)
    for row in rows:
        row.figures["renewals"] = [rate * max(row.at, 1) for rate in row.figures["per_s"]]
        row.figures["cost"] = [rows[0].median("per_s") / rate for rate in row.figures["per_s"]]
    return rows


def size(leases: int) -> str:
    return f"heartbeat of {leases:,}"


WORKLOAD = Workload(
    name="heartbeat",
    title="Heartbeat",
    about="Each of 256 agents renews all its leases by one call. The cost is set against a call that renews one lease.",
    run=run,
    columns=(*RATE, Column("renewals", "leases renewed per second"), Column("cost", "costs, in renewals"), *COST),
    compared="",
)
