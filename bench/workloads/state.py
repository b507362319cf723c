"""Change a record if it still has the version that was seen."""

from contextlib import ExitStack

from results import Row
from suite import Bench, Contender, Workload, loaded

from workloads import pgbench
from workloads.cycle import size


def run(bench: Bench) -> list[Row]:
    conns, contenders = bench.size(256, 32), list[Contender]()
    with ExitStack() as stack:
        for key in bench.has("ours", "redis", "etcd"):
            server = bench.start(stack, key)
            contenders += loaded(bench, stack, server, "patch", size(conns), conns, conns=conns)
        for key in bench.has("postgres"):
            server = bench.start(stack, key)
            pgbench.furnish(server)
            measure = pgbench.measured(server, pgbench.STATE, clients=conns, seconds=bench.seconds)
            contenders.append(Contender(Row(key, size(conns), conns), server, measure))
        return bench.in_turns(contenders)


WORKLOAD = Workload(
    name="state",
    title="State patch with compare",
    about="Each connection changes its own record if that has the version it saw last. Ours is an intent, with its "
    "event log; theirs is one key, or one row that PostgreSQL also reads first.",
    run=run,
)
