"""More acquires than the server can do, beside holders who renew in time."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from results import Row
from suite import Bench, Column, Workload

TTL_S = 10
PACE_S = TTL_S / 3  # as the SDK renews
MINUTES_2_S = 120.0
CROWD = 1_024
# As many as the server takes on one connection. With one request on each of 1,024, those that wait for a turn of the
# server's loop are served in less than `shed_new_ms`, unless others need the processor too; with 16 on each, not.
AT_ONCE = 16


def run(bench: Bench) -> list[Row]:
    return [row for at_once in (1, AT_ONCE) for row in _beside(bench, at_once)]


def _beside(bench: Bench, at_once: int) -> list[Row]:
    holders, each = bench.size(1_000, 100), f"{at_once} request{'s' * (at_once > 1)} each"
    keeping = Row("ours", f"{holders:,} holders, beside {each}", holders)
    flood = Row("ours", f"{CROWD:,} that acquire, {each}", CROWD)
    window = {"seconds": bench.size(MINUTES_2_S, 5.0), "warmup": 0.0}
    with ExitStack() as stack:
        server = bench.start(stack, "ours")
        options = {"conns": holders, "held": holders, "ttl": TTL_S, "pace": PACE_S}
        keepers = bench.connect(stack, server, "renew", **window, **options)
        flooders = bench.connect(stack, server, "flood", **window, conns=CROWD, pipeline=at_once)
        assert keepers is not None
        assert flooders is not None
        bench.say(f"{flood.size}, and {holders:,} renew, for {window['seconds']:.0f} s")
        with ThreadPoolExecutor() as pool:
            kept, flooded = pool.submit(keepers.window), pool.submit(flooders.window)
            renewed = kept.result()
            keeping.add(renewed | {"done": renewed["per_s"] * window["seconds"]})
            flood.add(flooded.result())
    return [keeping, flood]


WORKLOAD = Workload(
    name="overload",
    title="Overload",
    about="1,024 connections acquire and release without a pause, and try again at once if refused; beside them 1,000 "
    "holders with a ttl of 10 s renew every third of it, for two minutes. An error of theirs is a renewal that "
    "was lost. Refusals are answers 429; with a time means that they have `Retry-After`. First each connection waits "
    "for its answer: no more than 1,024 requests wait at a time, which is not enough to bring an idle machine's server "
    "as far behind as it may be (`shed_new_ms`), and hardly anybody is refused. Then each sends 16 acquires before it "
    "reads the answers: what is beyond the bound is refused.",
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
    bars=("max_ms",),
    unit="ms",
    window="one run of each",
)
