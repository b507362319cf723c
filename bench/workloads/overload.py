"""More acquires than the server can do, beside holders who renew in time."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from results import Row
from suite import Bench, Column, Workload

TTL_S = 10
PACE_S = TTL_S / 3  # as the SDK renews
MINUTES_2_S = 120.0


def run(bench: Bench) -> list[Row]:
    holders, flooding = bench.size(1_000, 100), bench.size(1_024, 128)
    seconds = bench.size(MINUTES_2_S, 5.0)
    keeping, flood = Row("ours", f"{holders:,} holders", holders), Row("ours", f"{flooding:,} that acquire", flooding)
    with ExitStack() as stack:
        server = bench.start(stack, "ours")
        options = {"conns": holders, "held": holders, "ttl": TTL_S, "pace": PACE_S}
        keepers = bench.connect(stack, server, "renew", seconds=seconds, warmup=0.0, **options)
        crowd = bench.connect(stack, server, "flood", seconds=seconds, warmup=0.0, conns=flooding)
        assert keepers is not None
        assert crowd is not None
        bench.say(f"{flooding:,} acquire as fast as they can, {holders:,} renew, for {seconds:.0f} s")
        with ThreadPoolExecutor() as pool:
            kept, flooded = pool.submit(keepers.window), pool.submit(crowd.window)
            renewed = kept.result()
            keeping.add(renewed | {"done": renewed["per_s"] * seconds})
            flood.add(flooded.result())
    return [keeping, flood]


WORKLOAD = Workload(
    name="overload",
    title="Overload",
    about="1,024 connections acquire and release without a pause, and try again at once if refused; beside them 1,000 "
    "holders with a ttl of 10 s renew every third of it, for two minutes. An error of theirs is a renewal that "
    "was lost. Refusals are answers 429; with a time means that they have `Retry-After`.",
    run=run,
    columns=(
        Column("per_s", "done per second"),
        Column("done", "renewals"),
        Column("p50_ms", "p50 ms"),
        Column("p99_ms", "p99 ms"),
        Column("max_ms", "longest ms", worst=True),
        Column("errors", "errors", worst=True),
        Column("overloaded", "refusals"),
        Column("retry_after", "with a time"),
    ),
    compared="",
    bars=("p50_ms", "p99_ms", "max_ms"),
    unit="ms",
    window="one run",
)
