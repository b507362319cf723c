"""A holder is killed: how long until the next one has the lease."""

import json
import random
import subprocess
import time
from contextlib import ExitStack
from functools import partial

import load
from peers import Server
from results import Figures, Row
from suite import Bench, Column, Contender, Workload

# The program of bench/clients that speaks to each.
CLIENTS = {"ours": "ours", "redis": "redis", "etcd": "etcd", "zookeeper": "zookeeper"}
TTL_S = 5.0
QUICK_TTL_S = 2.0
GIVE_UP_S = 60.0


def run(bench: Bench) -> list[Row]:
    ttl_s, lots = bench.size(TTL_S, QUICK_TTL_S), random.Random(5)  # noqa: S311  # the same moments in each run
    with ExitStack() as stack:
        contenders = []
        for key in bench.has(*CLIENTS):
            server = bench.start(stack, key)
            row = Row(key, f"ttl {ttl_s:g} s", ttl_s)
            contenders.append(Contender(row, server, partial(_takeover, server, ttl_s, lots)))
        rows = bench.in_turns(contenders)
        for _ in range(bench.size(2, 0)):  # what chance decides needs more rounds
            bench.in_turns(contenders)
        return rows


def _takeover(server: Server, ttl_s: float, lots: random.Random) -> Figures:
    """Kill the holder at a moment chosen by chance, while another waits."""
    scope = f"takeover-{lots.getrandbits(32):08x}"
    holder, waiter = _spoken(server, "hold", scope, ttl_s), None
    try:
        _told(holder)
        waiter = _spoken(server, "wait", scope, ttl_s)
        _told(waiter)
        time.sleep(ttl_s / 3 * (1 + lots.random()))  # so that it has renewed at least once
        holder.kill()
        killed_s = time.monotonic()
        granted_s = _told(waiter)
        return {"takeover_s": granted_s - killed_s}
    finally:
        for process in filter(None, (holder, waiter)):
            process.kill()
            process.communicate()


def _spoken(server: Server, part: str, scope: str, ttl_s: float) -> "subprocess.Popen[str]":
    name = CLIENTS[server.peer.key]
    words = [load.client_python(name), str(load.CLIENTS / f"{name}_client.py"), part]
    words += ["--port", str(server.port), "--scope", scope, "--ttl", str(ttl_s)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _told(process: "subprocess.Popen[str]") -> float:
    """The next moment that the program tells, on the clock that all processes share."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        assert process.stderr is not None
        raise load.LoadFailed(process.stderr.read().strip()[-300:])
    return float(json.loads(line))


WORKLOAD = Workload(
    name="takeover",
    title="Takeover after a holder's kill -9",
    about="A holder keeps its lease alive, renewing three times in a ttl, and is killed at a moment chosen by chance, "
    "while another waits: how long until that one has the lease. It takes what is left of the ttl; what is "
    "above it is the server's, or the waiter's who asks too seldom.",
    run=run,
    columns=(Column("takeover_s", "median s"), Column("takeover_s", "longest s", worst=True)),
    compared="takeover_s",
    window="three takeovers of each in a round",
)
