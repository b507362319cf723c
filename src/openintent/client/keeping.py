"""When to renew, when to warn, when to stop: the keeper's decisions, without a clock, a thread or a socket.

All instants are on the holder's boot clock and counted from when a request was sent. A lease is *held*; *at risk*
when no renewal was confirmed for two thirds of its ttl; then comes the soft stop, at which the work is cancelled, in
time to have ended when trust does. The soft stop is final: a reply that comes after it revives nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from openintent.trust import RENEW_SHARE

# Agents that were started together must not beat together.
JITTER_SHARE: Final = 0.1
RETRY_S_FIRST: Final = 0.25
RETRY_FIRST_SHARE: Final = 1 / 20
RETRY_MAX_SHARE: Final = 1 / 10
# Three tries that hang to their end fit between the first renewal and the soft stop.
TRY_SHARE: Final = 1 / 6
# With a ttl of hours a try need not hang for minutes.
TRY_S_MAX: Final = 10.0


@dataclass(frozen=True, slots=True)
class Watched:
    """The two instants that matter of one lease."""

    at_risk_at: float
    stop_at: float
    warned: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """These leases are lost: cancel their work now."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warn:
    """These leases are at risk: start nothing new under them."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Renew:
    """Send one heartbeat for all of them."""


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


def next_step(*, now: float, leases: Mapping[str, Watched], renew_at: float) -> Stop | Warn | Renew | Sleep:
    """What to do first. Stopping comes before all else, and nothing that is sent can delay it."""
    stopped = tuple(id_ for id_, lease in leases.items() if now >= lease.stop_at)
    if stopped:
        return Stop(stopped)
    at_risk = tuple(id_ for id_, lease in leases.items() if now >= lease.at_risk_at and not lease.warned)
    if at_risk:
        return Warn(at_risk)
    if now >= renew_at:
        return Renew()
    return Sleep(min([renew_at, *_instants(leases.values())]) - now)


def _instants(leases: Iterable[Watched]) -> Iterable[float]:
    return (lease.stop_at if lease.warned else lease.at_risk_at for lease in leases)


def period_s(ttl_s: float, *, chance: float) -> float:
    """From one heartbeat to the next; `chance` is evenly spread over 0 to 1."""
    return ttl_s * RENEW_SHARE * (1 + JITTER_SHARE * (2 * chance - 1))


def try_s(ttl_s: float) -> float:
    """How long one heartbeat may take before another is sent."""
    return min(ttl_s * TRY_SHARE, TRY_S_MAX)


def retry_s(ttl_s: float, *, failures: int) -> float:
    first_s = min(RETRY_S_FIRST, ttl_s * RETRY_FIRST_SHARE)
    return min(first_s * 2.0 ** min(failures - 1, 16), ttl_s * RETRY_MAX_SHARE)


def retry_at(*, now: float, ttl_s: float, failures: int, stop_at: float, retry_after_s: float | None) -> float:
    """When to try again: when the server says, but in time for one more try before the next soft stop."""
    soonest = now + retry_s(ttl_s, failures=failures)
    if retry_after_s is None:
        return soonest
    return max(soonest, min(now + retry_after_s, stop_at - try_s(ttl_s)))
