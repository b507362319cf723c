"""Many leases by one request, against as many requests."""

from contextlib import ExitStack

from results import Row
from suite import Bench, Contender, Workload, loaded

ALONE = "one at a time"


def run(bench: Bench) -> list[Row]:
    conns, contenders = bench.size(256, 16), list[Contender]()
    with ExitStack() as stack:
        servers = {key: bench.start(stack, key) for key in bench.has("ours", "redis")}
        for server in servers.values():
            contenders += loaded(bench, stack, server, "cycle", ALONE, 1, conns=conns)
        for leases in bench.size((16, 64), (16,)):
            few = max(1, conns // leases)  # as many leases are under way as in the row above
            contenders += loaded(
                bench, stack, servers["ours"], "batch", size(leases), leases, conns=few, pipeline=leases
            )
        return bench.in_turns(contenders)


def size(leases: int) -> str:
    return f"{leases} in a request"


WORKLOAD = Workload(
    name="batch",
    title="Many leases by one request",
    about="As *Acquire and release*, on 256 connections; then as many leases at a time on fewer connections, each of "
    "which acquires many by one batch call and releases them by the next. The rate counts leases. Redis has one "
    "command in a request: it can be sent many, too, which is not measured here.",
    run=run,
)
