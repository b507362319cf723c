"""What the figures must show: each line of the list, with what was seen."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import stats
from results import Outcome, Results, Row


@dataclass(frozen=True)
class Seen:
    text: str
    holds: bool


Look = Callable[[Results], Seen | None]  # None: what it takes was not measured


@dataclass(frozen=True)
class Promise:
    what: str
    wanted: str
    look: Look


AT = "256 connections"
GROWN = {"held": 1_000_000, "events": 10_000_000}
ON_ETCD, ON_POSTGRES = "cycle on etcd", "cycle on PostgreSQL"

# Ways to look


def _ratios(above: Row | None, below: Row | None, figure: str) -> list[float]:
    """One for each round: those were measured one right after the other."""
    if above is None or below is None or not (above.has(figure) and below.has(figure)):
        return []
    pairs = zip(above.figures[figure], below.figures[figure], strict=False)
    return [one / other for one, other in pairs if other]


def _judged(ratios: list[float], *, least: float | None = None, most: float | None = None) -> Seen | None:
    if not ratios:
        return None
    middle = stats.median(ratios)
    holds = (least is None or middle >= least) and (most is None or middle <= most)
    return Seen(f"{stats.times(middle)} (rounds {stats.times(min(ratios))} to {stats.times(max(ratios))})", holds)


def against(workload: str, peer: str, size: str, figure: str, **bound: float) -> Look:
    """Ours over theirs."""

    def look(results: Results) -> Seen | None:
        outcome = results.outcomes.get(workload)
        if outcome is None:
            return None
        return _judged(_ratios(outcome.find("ours", size), outcome.find(peer, size), figure), **bound)

    return look


def batched(size: str, least: float) -> Look:
    """Ours with many leases in a request over Redis with one."""

    def look(results: Results) -> Seen | None:
        outcome = results.outcomes.get("batch")
        if outcome is None:
            return None
        return _judged(_ratios(outcome.find("ours", size), outcome.find("redis"), "per_s"), least=least)

    return look


def on_engine(one: str, other: str, least: float) -> Look:
    """Ours on one engine over ours on another."""

    def look(results: Results) -> Seen | None:
        outcome = results.outcomes.get("engines")
        if outcome is None:
            return None
        above, below = (outcome.find("ours", f"cycle on {engine}") for engine in (one, other))
        return _judged(_ratios(above, below, "per_s"), least=least)

    return look


def _below(workload: str, size: str, figure: str, most: float, unit: str, *, worst: bool = False) -> Look:
    def look(results: Results) -> Seen | None:
        outcome = results.outcomes.get(workload)
        row = outcome.find("ours", size) if outcome else None
        if row is None or not row.has(figure):
            return None
        value = row.worst(figure) if worst else row.median(figure)
        return Seen(f"{stats.amount(value)} {unit}", value <= most)

    return look


def best_of(peer: str, least: float) -> Look:
    """Ours over the best that it does with any number of connections."""

    def look(results: Results) -> Seen | None:
        outcome = results.outcomes.get("cycle")
        theirs = [row for row in outcome.of(peer) if row.has("per_s") and row.median("per_s")] if outcome else []
        if outcome is None or not theirs:
            return None
        best = max(theirs, key=lambda row: row.median("per_s"))
        seen = _judged(_ratios(outcome.find("ours", AT), best, "per_s"), least=least)
        return seen and Seen(f"{seen.text}; its best is with {best.size}", seen.holds)

    return look


def grown(operation: str, unit: str) -> Look:
    def look(results: Results) -> Seen | None:
        outcome = results.outcomes.get("growth")
        found = series(outcome, operation, unit) if outcome else []
        return _flatness(found, GROWN[unit]) if len(found) > 1 else None

    return look


def series(outcome: Outcome, operation: str, unit: str) -> list[Row]:
    return [row for row in outcome.rows if row.size.startswith(f"{operation},") and row.size.endswith(unit)]


def _flatness(rows: Iterable[Row], wanted_at: int) -> Seen:
    first, *others = rows
    shares = [(row.median("per_s") / first.median("per_s"), row.size) for row in others]
    least, where = min(shares)
    reached = others[-1].at >= wanted_at  # fewer are no proof of how it is with so many
    short = "" if reached else f"; no more than {others[-1].at:,.0f} were tried"
    return Seen(f"{least:.0%} of the first at least ({where}){short}", reached and least >= 0.8)


def overload_refused(results: Results) -> Seen | None:
    outcome = results.outcomes.get("overload")
    row = outcome.rows[-1] if outcome else None
    if row is None:
        return None
    refused, timed = row.median("overloaded"), row.median("retry_after")
    # Without a refusal nothing was shown, and that must not look like a promise kept.
    return Seen(f"{refused:,.0f} refusals, {timed:,.0f} with `Retry-After`", 0 < refused == timed)


def overload_lost(results: Results) -> Seen | None:
    """Of all holders, whatever the load beside them."""
    outcome = results.outcomes.get("overload")
    rows = [row for row in outcome.rows if row.has("done")] if outcome else []
    if not rows:
        return None
    lost, done = (sum(sum(row.figures[figure]) for row in rows) for figure in ("errors", "done"))
    return Seen(f"{lost:,.0f} lost of {done:,.0f}", lost == 0)


# The list

ALL = (
    Promise("cycle, against etcd's JSON gateway", "at least 10x", against("cycle", "etcd", AT, "per_s", least=10)),
    Promise("cycle, against PostgreSQL at its best", "at least 1.5x", best_of("postgres", 1.5)),
    Promise("cycle, against the public server at its best", "at least 150x", best_of("public", 150)),
    Promise("cycle, against Redis that syncs", "at least 0.5x", against("cycle", "redis", AT, "per_s", least=0.5)),
    Promise("cycle with a batch call, against Redis that syncs", "at least 1x", batched("64 in a request", 1)),
    Promise("renew, against etcd", "at least 2x", against("renew", "etcd", "10,000 held", "per_s", least=2)),
    Promise("renew, against Redis", "at least 0.8x", against("renew", "redis", "10,000 held", "per_s", least=0.8)),
    Promise(
        "renew with 1,000,000 held, against Redis",
        "at least 0.8x",
        against("renew", "redis", "1,000,000 held", "per_s", least=0.8),
    ),
    Promise("on etcd, against its JSON gateway", "at least 3x", against("engines", "etcd", ON_ETCD, "per_s", least=3)),
    Promise(
        "on PostgreSQL, against row leases on as many connections",
        "at least 1.5x",
        against("engines", "postgres", ON_POSTGRES, "per_s", least=1.5),
    ),
    Promise("on Redis, against SQLite", "at least 0.6x", on_engine("Redis", "SQLite", 0.6)),
    Promise(
        "heartbeat of 100 leases", "at most 5 renewals", _below("heartbeat", "heartbeat of 100", "cost", 5, "renewals")
    ),
    Promise(
        "hand-over p50, 64 waiters, against etcd",
        "below 1x",
        against("contend", "etcd", "64 waiters", "p50_ms", most=1),
    ),
    Promise(
        "hand-over p50, 64 waiters, against ZooKeeper",
        "below 1x",
        against("contend", "zookeeper", "64 waiters", "p50_ms", most=1),
    ),
    Promise("hand-over p99, 64 waiters", "below 5 ms", _below("contend", "64 waiters", "p99_ms", 5, "ms")),
    Promise("herd, 1,000 waiters", "none", _below("contend", "1,000 waiters", "wasted", 0, "wasted answers a release")),
    Promise(
        "one connection, cycle p50, against Redis",
        "at most 1.8x",
        against("cycle", "redis", "1 connection", "p50_ms", most=1.8),
    ),
    Promise(
        "memory, 1,000,000 leases", "at most 1,200 bytes", _below("memory", "1,000,000 leases", "bytes", 1_200, "bytes")
    ),
    Promise(
        "ready after kill -9, 1,000,000 leases",
        "below 15 s",
        _below("startup", "1,000,000 leases", "killed_s", 15, "s", worst=True),
    ),
    Promise(
        "ready after a stop, 1,000,000 leases",
        "below 15 s",
        _below("startup", "1,000,000 leases", "clean_s", 15, "s", worst=True),
    ),
    Promise(
        "SDK, sync cycle, against redis-py",
        "at most 1.5x",
        against("sdk", "redis", "sync, one at a time", "cycle_us", most=1.5),
    ),
    Promise(
        "SDK, async cycle, against redis-py",
        "at most 1.5x",
        against("sdk", "redis", "async, one at a time", "cycle_us", most=1.5),
    ),
    *(
        Promise(f"{operation}, up to {most:,} {unit}", "at least 80 % of the first rate", grown(operation, unit))
        for unit, most in GROWN.items()
        for operation in ("cycle", "renew")
    ),
    Promise(
        "100,000 leases lapse in one second",
        "nobody waits 50 ms",
        _below("expiry", "100,000 lapse in one second", "max_ms", 50, "ms at most", worst=True),
    ),
    Promise("renewals under overload", "0 lost", overload_lost),
    Promise("refusals under overload", "all say when to try again", overload_refused),
)
