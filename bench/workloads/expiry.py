"""Many leases lapse at once: how long do others wait meanwhile."""

import json
import time
import urllib.request
from contextlib import ExitStack

import load
from peers import Server
from results import Row
from suite import Bench, Column, Workload

OTHERS = 200  # connections that renew a lease of their own,
PACE_S = 0.1  # each so often
BEFORE_S, WINDOW_S = 1.0, 5.0  # the window begins before the first lapses and ends when all have
FILLED_PER_S = 4_000  # a slow machine's rate of acquires
PAGE = 1_000


def run(bench: Bench) -> list[Row]:
    lapsing = bench.size(100_000, 2_000)
    quiet, lapse = Row("ours", "nothing lapses", 0), Row("ours", f"{lapsing:,} lapse in one second", lapsing)
    with ExitStack() as stack:
        server = bench.start(stack, "ours")
        options = {"conns": OTHERS, "held": OTHERS, "pace": PACE_S, "ttl": load.LONG_TTL_S}
        others = bench.connect(stack, server, "renew", seconds=WINDOW_S, warmup=0.0, **options)
        assert others is not None
        for _ in range(bench.rounds):
            bench.say("nothing lapses")
            quiet.add(others.window() | {"lapsed": 0})
            lapse_s = _fill(bench, server, lapsing)
            time.sleep(max(0.0, lapse_s - BEFORE_S - time.monotonic()))
            bench.say(f"{lapsing:,} leases lapse")
            lapse.add(others.window() | {"lapsed": lapsing - (_left(server) - OTHERS)})
    return [quiet, lapse]


def _fill(bench: Bench, server: Server, lapsing: int) -> float:
    """Acquire leases that lapse together; when they begin to."""
    bench.say(f"acquiring {lapsing:,} leases that lapse together")
    together_s = 4 + lapsing / FILLED_PER_S
    at_s = time.monotonic() + together_s
    load.once(server, "hold", conns=256, held=lapsing, together=together_s)
    if time.monotonic() > at_s - BEFORE_S:
        raise load.LoadFailed("the machine is too slow to acquire the leases before they lapse")
    return at_s


def _left(server: Server) -> int:
    """How many leases live, as far as one page shows them."""
    url = f"http://127.0.0.1:{server.port}/api/v1/leases?status=active&limit={PAGE}"
    with urllib.request.urlopen(url, timeout=30) as answer:  # loopback
        return len(json.load(answer)["leases"])


WORKLOAD = Workload(
    name="expiry",
    title="Expiry of many at once",
    about="100,000 leases lapse within one second while 200 others renew theirs, ten times a second each, whatever "
    "the server does. The latency is theirs, from when a renewal was due.",
    run=run,
    columns=(
        Column("per_s", "renewals per second"),
        Column("p50_ms", "p50 ms"),
        Column("p99_ms", "p99 ms"),
        Column("p999_ms", "p99.9 ms"),
        Column("max_ms", "longest ms", worst=True),
        Column("lapsed", "lapsed"),
        Column("errors", "errors", worst=True),
    ),
    compared="",
    bars=("p50_ms", "p99_ms", "max_ms"),
    unit="ms",
    window=f"{WINDOW_S:g} s in each round",
)
