"""Procedures of several exchanges. They ask, a driver answers; they send nothing, sleep never and read no clock.

A flow yields a `Call` and is answered with what the call parses to, or the call's exception is thrown into it; it
yields a `Pause` and is resumed after it; it yields `Now()` and is told the boot clock.

`Unavailable` means that nothing happened: it is tried again as long as the caller's patience lasts. After
`OutcomeUnknown` only a call that may be repeated is: one under an attempt, or one that does the same twice as once.
Everything else is an answer and goes to the caller. A flow never yields while it is being closed: what must happen
after a cancellation is the shell's affair.
"""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from openintent.client import calls
from openintent.client.calls import Call, Wish
from openintent.client.replies import Page, Seen
from openintent.client.values import Intent
from openintent.errors import NotFoundError, OpenIntentError, OutcomeUnknown, Unavailable, WaitTimeout

T = TypeVar("T")

SLICE_S_MAX: Final = 10.0
# What the server would round to no wait at all is answered as a refusal, not as the end of a wait.
SLICE_S_MIN: Final = 0.05
# How long one try may take beyond what it waits for: a server that is cut off must leave time to ask another.
TRY_S_MAX: Final = 10.0
# A try that is given no time is none.
TRY_S_MIN: Final = 1.0
# An absent waiter keeps its place for 5 s; a waiter whose connection hangs should be back by then.
WAITING_TRY_S_MAX: Final = 5.0
BACKOFF_S_FIRST: Final = 0.1
BACKOFF_S_MAX: Final = 5.0
# While waiting, at least one try a second: the place is kept for 5 s only.
WAITING_BACKOFF_S_MAX: Final = 1.0
# A server that restarts listens again within seconds; that none is running should be said soon.
UNREACHABLE_S_MAX: Final = 5.0
GIVE_UP_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a time between the two, which the driver draws: clients that failed together come back apart."""

    at_least_s: float
    at_most_s: float


@dataclass(frozen=True, slots=True)
class Now:
    """Tell the time on the boot clock."""


Ask: TypeAlias = Call[Any] | Pause | Now
Flow: TypeAlias = Generator[Ask, Any, T]


def send(call: Call[T]) -> Flow[T]:
    answer: T = yield call  # the one untyped line: a driver answers Call[T] with T
    return answer


_NOW: Final = Now()


def read_clock() -> Flow[float]:
    now: float = yield _NOW
    return now


# Patience


def backoff(
    failures: int,
    *,
    first_s: float = BACKOFF_S_FIRST,
    cap_s: float = BACKOFF_S_MAX,
    retry_after_s: float | None = None,
) -> Pause:
    """Full jitter below a doubling bound, but never sooner than the server said."""
    # The exponent is bounded too: 2.0**1100 is no float.
    bound_s = min(max(cap_s, first_s), first_s * 2.0 ** min(failures - 1, 16))
    at_least_s = retry_after_s or 0.0
    return Pause(at_least_s, at_least_s + bound_s)


def patiently(call: Call[T], *, patience_s: float) -> Flow[T]:
    """One exchange, repeated while that is safe and the patience lasts."""
    started = yield from read_clock()
    now, failures = started, 0
    while True:
        left_s = started + patience_s - now
        try:
            return (yield from send(call.within(min(max(left_s, TRY_S_MIN), TRY_S_MAX))))
        except (Unavailable, OutcomeUnknown) as exc:
            failures += 1
            pause = yield from _rest(exc, failures, until=started + patience_for(exc, patience_s))
            if pause is None or not may_repeat(call, exc):
                raise
        yield pause
        now = yield from read_clock()


def _rest(exc: OpenIntentError, failures: int, *, until: float) -> Flow[Pause | None]:
    """The pause before the next try; None if that would come too late."""
    pause = backoff(failures, retry_after_s=_retry_after_s(exc))
    now = yield from read_clock()
    return None if now + pause.at_least_s >= until else pause


def may_repeat(call: Call[Any], exc: OpenIntentError) -> bool:
    return call.repeatable if isinstance(exc, OutcomeUnknown) else worth_repeating(exc)


def worth_repeating(exc: OpenIntentError) -> bool:
    return exc.code != "limit_reached"  # a limit will not have moved in a moment; the caller should hear of it


def _retry_after_s(exc: OpenIntentError) -> float | None:
    return exc.retry_after if isinstance(exc, Unavailable) else None


def patience_for(exc: OpenIntentError, patience_s: float) -> float:
    return min(patience_s, UNREACHABLE_S_MAX) if exc.code == "unreachable" else patience_s


# Many at once


def together(asked: Sequence[Call[T]], *, patience_s: float) -> Flow[list[T | OpenIntentError]]:
    """Many exchanges in few, each repeated as `patiently` does it. What it would raise in the end is its answer."""
    started = yield from read_clock()
    told = yield from _batched(asked, until=started + patience_s)
    failures = 0
    while left := {n: answer for n, answer in enumerate(told) if _is_open(asked[n], answer)}:
        failures += 1
        exc = next(iter(left.values()))
        assert isinstance(exc, OpenIntentError)
        pause = yield from _rest(exc, failures, until=started + patience_for(exc, patience_s))
        if pause is None:
            break
        yield pause
        again = yield from _batched([asked[n] for n in left], until=started + patience_s)
        for n, answer in zip(left, again, strict=True):
            told[n] = answer
    return told


def _is_open(call: Call[T], answer: T | OpenIntentError) -> bool:
    return isinstance(answer, Unavailable | OutcomeUnknown) and may_repeat(call, answer)


def _batched(asked: Sequence[Call[T]], *, until: float) -> Flow[list[T | OpenIntentError]]:
    told: list[T | OpenIntentError] = []
    for batch in calls.batches(asked):
        now = yield from read_clock()
        try:
            told += yield from send(batch.within(min(max(until - now, TRY_S_MIN), TRY_S_MAX)))
        except OpenIntentError as exc:
            assert batch.body is not None
            told += [exc] * len(batch.body["requests"])
    return told


# Acquiring


Tried: TypeAlias = Sequence[tuple[Wish, str]]  # each with its attempt


def acquire_all(tried: Tried, *, patience_s: float) -> Flow[list[Seen | OpenIntentError]]:
    """`acquire` for many that do not wait; what it would raise is the answer."""
    asked = [calls.acquire(wish, attempt=attempt, wait_s=0.0) for wish, attempt in tried]
    told = yield from together(asked, patience_s=patience_s)
    now = yield from read_clock()
    late = {n: seen for n, seen in enumerate(told) if isinstance(seen, Seen) and _is_late(seen, now)}
    renewals = [_renewal(seen) for seen in late.values()]
    for n, seen in zip(late, (yield from together(renewals, patience_s=patience_s)), strict=True):
        told[n] = seen
    failed = [each for each, seen in zip(tried, told, strict=True) if isinstance(seen, Unavailable | OutcomeUnknown)]
    yield from give_up_all(failed)
    return told


def acquire(wish: Wish, *, attempt: str, patience_s: float) -> Flow[Seen]:
    """Get the scope, waiting as long as the wish says. Whoever gives up leaves neither a place nor a lease behind."""
    try:
        if wish.wait_s > 0:
            seen = yield from _wait(wish, attempt, patience_s=patience_s)
        else:
            seen = yield from patiently(calls.acquire(wish, attempt=attempt, wait_s=0.0), patience_s=patience_s)
        return (yield from _fresh(seen))
    except (Unavailable, OutcomeUnknown, WaitTimeout):
        yield from give_up(wish, attempt=attempt)
        raise


def _wait(wish: Wish, attempt: str, *, patience_s: float) -> Flow[Seen]:
    """Wait slice by slice under one attempt, which keeps the place."""
    started = now = yield from read_clock()
    failures, spare_s = 0, min(max(patience_s, TRY_S_MIN), WAITING_TRY_S_MAX)
    while True:
        left_s = started + wish.wait_s - now
        wait_s = max(SLICE_S_MIN, min(even_slice_s(wish.wait_s), left_s))
        try:
            return (yield from send(_slice(wish, attempt, wait_s, spare_s=spare_s)))
        except (WaitTimeout, Unavailable, OutcomeUnknown) as exc:
            asked_at, now = now, (yield from read_clock())
            # A server that stops sends its waiters away early; they should not all come back at once.
            waited = isinstance(exc, WaitTimeout) and now - asked_at >= wait_s / 2
            failures = 0 if waited else failures + 1
            pause = backoff(failures, cap_s=WAITING_BACKOFF_S_MAX, retry_after_s=_retry_after_s(exc))
            if now + pause.at_least_s >= started + wish.wait_s:
                raise
        if failures:
            yield pause
            now = yield from read_clock()


def _slice(wish: Wish, attempt: str, wait_s: float, *, spare_s: float) -> Call[Seen]:
    return calls.acquire(wish, attempt=attempt, wait_s=wait_s, timeout_s=wait_s + spare_s)


def even_slice_s(wait_s: float) -> float:
    """Slices of one length, so that none is a mere crumb."""
    return wait_s / max(1, math.ceil(wait_s / SLICE_S_MAX))


def _fresh(seen: Seen) -> Flow[Seen]:
    """A grant whose reply came late, or that has run for a while, is renewed before anybody relies on it."""
    now = yield from read_clock()
    return (yield from send(_renewal(seen))) if _is_late(seen, now) else seen


def _is_late(seen: Seen, now: float) -> bool:
    return now >= seen.trust.at_risk_from(seen.ttl_s)


def _renewal(seen: Seen) -> Call[Seen]:
    return calls.renew(calls.lease_path(seen.view.id), ttl_s=None)


def give_up(wish: Wish, *, attempt: str) -> Flow[None]:
    """Best effort: after its ttl, or 5 s in the queue, the server forgets it by itself."""
    # A reentrant attempt may have been answered with a lease that somebody further out still works under.
    if wish.reentrant:
        return
    with suppress(OpenIntentError):
        yield from send(calls.give_up(wish.space, attempt=attempt, timeout_s=GIVE_UP_S))


def give_up_all(tried: Tried) -> Flow[None]:
    """As many as there is time for."""
    started = yield from read_clock()
    for wish, attempt in tried:
        yield from give_up(wish, attempt=attempt)
        now = yield from read_clock()
        if now >= started + GIVE_UP_S:
            return


# Others


def create_intent(
    body: calls.JSON, assign: Iterable[str], *, attempt: str, patience_s: float, parent_id: str | None = None
) -> Flow[Intent]:
    call = calls.create_intent(body, attempt=attempt, parent_id=parent_id)
    intent = yield from patiently(call, patience_s=patience_s)
    for agent_id in assign:
        yield from patiently(calls.assign_agent(intent.id, agent_id), patience_s=patience_s)
    return intent


def remove(call: Call[None], *, patience_s: float) -> Flow[None]:
    """Take something away. After a try of which no answer came, that it is gone is good news."""
    started = yield from read_clock()
    try:
        yield from patiently(replace(call, repeatable=False), patience_s=patience_s)
    except OutcomeUnknown:
        now = yield from read_clock()
        with suppress(NotFoundError):
            yield from patiently(call, patience_s=started + patience_s - now)


PageOf: TypeAlias = Callable[[str | None], Call[Page[T]]]


def every(page_of: PageOf[T], *, patience_s: float) -> Flow[list[T]]:
    """Every page. Each is true of its own moment only."""
    found: list[T] = []
    after: str | None = None
    while True:
        page = yield from patiently(page_of(after), patience_s=patience_s)
        found += page.items
        after = page.next
        if after is None:
            return found
