"""What it takes to hold many leases: memory, and time to be back after an end."""

import signal
from contextlib import ExitStack

import load
from peers import Server
from results import Row
from suite import Bench, Column, Workload

SIZES = (100_000, 1_000_000)
CONNS = 256


def _sizes(bench: Bench) -> tuple[int, ...]:
    return bench.size(SIZES, (5_000,))


def _held(held: int) -> str:
    return f"{held:,} leases"


def _fill(bench: Bench, server: Server, held: int) -> float:
    """Acquire that many and leave them; how many a second."""
    bench.say(f"{server.peer.title}: acquiring {held:,} leases")
    done = load.once(server, "hold", conns=CONNS, held=held, ttl=load.LONG_TTL_S)
    return held / float(done["setup_seconds"])


# Memory


def measure_memory(bench: Bench) -> list[Row]:
    rows = []
    for held in _sizes(bench):
        for key in bench.has("ours", "redis", *_etcd(bench, held)):
            with ExitStack() as stack:
                server = bench.start(stack, key)
                _fill(bench, server, CONNS)  # what connections cost is not what leases cost
                before = server.resident_bytes()
                per_s = _fill(bench, server, held)
                grown = server.resident_bytes() - before
                row = Row(key, _held(held), held)
                row.add({"bytes": grown / held, "resident_mb": server.resident_bytes() / 1e6, "filled_per_s": per_s})
                rows.append(row)
    return rows


def _etcd(bench: Bench, held: int) -> list[str]:
    if held <= SIZES[0] or bench.long:
        return ["etcd"]
    bench.note(
        f"etcd with {held:,} leases is measured with `--long` only: it takes a quarter of an hour to acquire them"
    )
    return []


# Start-up


def measure_startup(bench: Bench) -> list[Row]:
    rows = []
    for held in _sizes(bench):
        for key in bench.has("ours", "redis"):
            with ExitStack() as stack:
                server = bench.start(stack, key)
                _fill(bench, server, held)
                row = Row(key, _held(held), held)
                for _ in range(bench.size(2, 1)):
                    row.add(_restarts(bench, server))
                rows.append(row)
    return rows


def _restarts(bench: Bench, server: Server) -> dict[str, float]:
    bench.say(f"{server.peer.title}: kill -9, and start")
    server.stop(signal.SIGKILL)
    killed_s = server.start()
    bench.say(f"{server.peer.title}: stop, and start")
    server.stop()
    return {"killed_s": killed_s, "clean_s": server.start(), "resident_mb": server.resident_bytes() / 1e6}


MEMORY = Workload(
    name="memory",
    title="Memory for each held lease",
    about="How much the server's resident memory grows while that many leases are acquired, divided by their number.",
    run=measure_memory,
    columns=(
        Column("bytes", "bytes a lease"),
        Column("resident_mb", "resident MB"),
        Column("filled_per_s", "acquired per second"),
    ),
    compared="bytes",
    bars=("bytes",),
    unit="bytes a lease",
    window="once",
)

STARTUP = Workload(
    name="startup",
    title="Start-up with live leases",
    about="The server ends while that many leases are held, by `kill -9` or by being told to stop, and is started "
    "again: how long until it answers that it is ready.",
    run=measure_startup,
    columns=(
        Column("killed_s", "ready after kill -9, s"),
        Column("clean_s", "ready after a stop, s"),
        Column("resident_mb", "resident MB"),
    ),
    compared="",
    bars=("killed_s", "clean_s"),
    unit="s",
    window="two restarts of each kind",
)
