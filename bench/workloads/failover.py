"""One of two servers of ours dies, or is stopped: how long until the other one grants."""

import json
import signal
import time
import urllib.error
import urllib.request
from contextlib import ExitStack

import load
from peers import Server
from results import Figures, Row
from suite import Bench, Column, Workload

from workloads.engines import SHARED

LEADER_TTL_S, QUICK_LEADER_TTL_S = 10.0, 1.0  # the default is 10 s
ASKED_EVERY_S = 0.01
GIVE_UP_S = 60.0


def run(bench: Bench) -> list[Row]:
    rows = []
    for key in bench.has(*SHARED):
        with ExitStack() as stack:
            url = SHARED[key].url.format(port=bench.start(stack, key).port)
            leader_ttl_s = bench.size(LEADER_TTL_S, QUICK_LEADER_TTL_S)
            extra = {"engine": url, "leader_ttl_seconds": str(leader_ttl_s)}
            pair = [bench.start(stack, "ours", **extra) for _ in range(2)]
            row = Row("ours", f"on {SHARED[key].title}", leader_ttl_s)
            for number in range(bench.rounds):
                bench.say(f"{row.size}: round {number + 1} of {bench.rounds}")
                row.add(_round(pair))
            rows.append(row)
    return rows


def _round(pair: list[Server]) -> Figures:
    """After each part the roles are changed: the one that ended is back, and stands by."""
    killed_s = _ended(pair, signal.SIGKILL)
    pair.reverse()
    handed_s = _ended(pair, signal.SIGTERM)
    pair.reverse()
    return {"killed_s": killed_s, "handed_s": handed_s}


def _ended(pair: list[Server], how: int) -> float:
    leader, other = pair
    term = _grant(other)
    assert term is not None
    assert leader.process is not None
    began_s = time.monotonic()
    leader.process.send_signal(how)
    while (found := _grant(other)) is None or found <= term:
        if time.monotonic() > began_s + GIVE_UP_S:
            raise load.LoadFailed(f"nobody took over within {GIVE_UP_S:.0f} s")
        time.sleep(ASKED_EVERY_S)
    took_s = time.monotonic() - began_s
    leader.stop()
    leader.start()
    return took_s


def _grant(server: Server) -> int | None:
    """Acquire something that nobody holds; the term of the grant, None if there was none."""
    body = json.dumps({"scope": f"s{time.monotonic_ns()}", "ttl_seconds": 1}).encode()
    headers = {"Content-Type": "application/json", "X-Agent-ID": "bench"}
    url = f"http://127.0.0.1:{server.port}/api/v1/spaces/failover/leases"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=GIVE_UP_S) as answer:
            return int(answer.headers["X-Term"])
    except urllib.error.HTTPError as refusal:
        refusal.close()
        return None


WORKLOAD = Workload(
    name="failover",
    title="When the server that leads dies",
    about="Two servers of ours share an engine, with a leader ttl of 10 s, which is the default. The one that leads is "
    "killed (`kill -9`), or told to stop, while the other is asked for leases all the time: how long until that one "
    "grants one. Of the first, the leader ttl is what nobody can shorten but you. On SQLite there is no other: see "
    "*Start-up* for how long it takes to be back.",
    run=run,
    columns=(
        Column("killed_s", "after kill -9, s"),
        Column("killed_s", "longest s", worst=True),
        Column("handed_s", "after a stop, s"),
        Column("handed_s", "longest s", worst=True),
    ),
    compared="",
    window="one of each in a round",
)
