"""Whether work gets slower as more is held, and as more has happened."""

from contextlib import ExitStack

import load
from peers import Server
from results import Row
from suite import RATE, Bench, Column, Contender, Workload, loaded

HELD = (100, 10_000, 100_000, 1_000_000)
EVENTS = (0, 100_000, 1_000_000)
EVENTS_LONG = 10_000_000
EVENTS_PER_CYCLE = 2
CONNS = 256
RENEW_CONNS = 100  # as many as there are leases at least, so that nothing but their number is different
QUICK_CONNS = 32


def run(bench: Bench) -> list[Row]:
    return _by_held(bench) + _by_events(bench)


def _by_held(bench: Bench) -> list[Row]:
    """A server for each size, all at once, so that they are measured in turns."""
    contenders: list[Contender] = []
    with ExitStack() as stack:
        for held in bench.size(HELD, (100, 2_000)):
            server = bench.start(stack, "ours")
            contenders += _both(bench, stack, server, f"{held:,} held", held=held, at=held)
        return bench.in_turns(contenders)


def _by_events(bench: Bench) -> list[Row]:
    contenders: list[Contender] = []
    full = (*EVENTS, EVENTS_LONG) if bench.long else EVENTS
    with ExitStack() as stack:
        for events in bench.size(full, (0, 5_000)):
            server = bench.start(stack, "ours", events_kept_max=str(4 * EVENTS_LONG))
            if events:
                bench.say(f"making {events:,} events")
                conns = bench.size(CONNS, QUICK_CONNS)
                load.once(server, "cycle", conns=conns, cycles=events // EVENTS_PER_CYCLE, seconds=3_600, warmup=0)
            file_mb = _file_bytes(server) / 1e6  # before it is measured, which makes events too
            found = _both(bench, stack, server, f"{events:,} events", held=CONNS, at=events)
            for each in found:
                each.row.add({"file_mb": file_mb})
            contenders += found
        return bench.in_turns(contenders)


def _file_bytes(server: Server) -> int:
    return sum(file.stat().st_size for file in server.folder.glob("ours.db*"))


def _both(bench: Bench, stack: ExitStack, server: Server, size: str, *, held: int, at: int) -> list[Contender]:
    options = {"conns": bench.size(RENEW_CONNS, QUICK_CONNS), "ttl": load.LONG_TTL_S}
    found = loaded(bench, stack, server, "renew", f"renew, {size}", at, held=held, **options)
    found += loaded(bench, stack, server, "cycle", f"cycle, {size}", at, conns=bench.size(CONNS, QUICK_CONNS))
    for each in found:
        each.row.add({"resident_mb": server.resident_bytes() / 1e6})
    return found


WORKLOAD = Workload(
    name="growth",
    title="Growth",
    about="The same work on servers that hold more and more leases, and on servers that have more and more events "
    "behind them, measured in turns. Pairs come on 256 connections, renewals on 100. What is measured "
    "makes some 100,000 events in each round, too. 10,000,000 events are made with `--long` only. Memory and the "
    "database file are those before it is measured.",
    run=run,
    columns=(*RATE, Column("resident_mb", "resident MB"), Column("file_mb", "file MB")),
    compared="",
)
