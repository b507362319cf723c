"""A fleet at work: mostly renewals, some acquires and releases, a few changes of state."""

from contextlib import ExitStack

import load
from results import Row
from suite import COST, RATE, Bench, Column, Contender, Workload, loaded


def run(bench: Bench) -> list[Row]:
    agents, contenders = bench.size(1_000, 100), list[Contender]()
    with ExitStack() as stack:
        for key in bench.has("ours", "redis", "etcd"):
            server = bench.start(stack, key)
            options = {"conns": agents, "held": agents, "ttl": load.LONG_TTL_S}
            contenders += loaded(bench, stack, server, "fleet", f"{agents:,} agents", agents, **options)
        return bench.in_turns(contenders)


WORKLOAD = Workload(
    name="fleet",
    title="Mixed fleet",
    about="1,000 agents, each with a connection, a lease and a record of its own. What each does next is chosen by "
    "chance: 80 % renew, 15 % acquire and release another lease, 5 % change the record with a compare. Rate and "
    "latency are those of requests.",
    run=run,
    columns=(*RATE, Column("p999_ms", "p99.9 ms"), *COST),
)
