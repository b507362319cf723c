"""Extend held leases, chosen by chance."""

from contextlib import ExitStack

import load
from results import Row
from suite import Bench, Contender, Workload, loaded

MILLION = 1_000_000


def run(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    for held in bench.size((10_000, MILLION), (1_000,)):
        with ExitStack() as stack:
            contenders: list[Contender] = []
            for key in bench.has("ours", "redis", *_etcd(bench, held)):
                server = bench.start(stack, key)
                options = {"conns": bench.size(256, 32), "held": held, "ttl": load.LONG_TTL_S}
                contenders += loaded(bench, stack, server, "renew", f"{held:,} held", held, **options)
            rows += bench.in_turns(contenders)
    return rows


def _etcd(bench: Bench, held: int) -> list[str]:
    if held < MILLION or bench.long:
        return ["etcd"]
    bench.note(
        f"etcd with {held:,} leases is measured with `--long` only: it takes a quarter of an hour to acquire them"
    )
    return []


WORKLOAD = Workload(
    name="renew",
    title="Renew",
    about="Held leases, chosen by chance, are extended, on 256 connections. Redis writes each renewal to its log; "
    "etcd and we do not: after a restart every lease has its whole ttl again.",
    run=run,
)
