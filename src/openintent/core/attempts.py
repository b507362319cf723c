"""Attempts: a request that carries one never acts twice, also over a restart.

A repeat is answered with the present, never with the old reply: an old "60 s remaining" would be a promise that
nobody made. Refusals are not remembered, so a refused attempt may be tried again.

One whose work has ended is kept for `attempt_kept_ms`, and may be kept longer: they are forgotten some at a time. When
there are as many as may be, the one that ended first goes for a new one, but not before `attempt_kept_ms_min`: who
repeats a request does so within seconds, and for those who do not, nobody should be refused.
"""

from typing import Final

from openintent.core.answers import LimitReached
from openintent.core.books import Books, attempt_key
from openintent.model import DEAD, Attempt

# Together 20,000 a second, more than can come; and a fraction of a millisecond at a time.
FORGOTTEN_AT_ONCE: Final = 200
REST_MS: Final = 10


def find(books: Books, holder: str, key: str | None) -> Attempt | None:
    return None if key is None else books.attempts.get((holder, key))


def full(books: Books, key: str | None) -> bool:
    """Whether there is no room for one more, not even in the place of an old one."""
    return key is not None and len(books.attempts) >= books.limits.attempts_max and not _can_spare_one(books)


def _can_spare_one(books: Books) -> bool:
    line, limits = books.spent.line, books.limits
    early_ms = limits.attempt_kept_ms - limits.attempt_kept_ms_min
    return bool(line) and books.now_ms >= line[0].until_ms - early_ms


def none_left(books: Books, key: str | None) -> LimitReached | None:
    return LimitReached("attempts", books.limits.attempts_max) if full(books, key) else None


def remember(books: Books, holder: str, key: str | None, *, kind: str, print_: bytes, target: str) -> None:
    """Keep an attempt for as long as what it made lives, which `expire` will tell."""
    if key is None:
        return
    if len(books.attempts) >= books.limits.attempts_max and books.spent.line:
        _forget_first(books)
    attempt = Attempt(holder=holder, key=key, kind=kind, print=print_, target=target, batch=books.batch)
    books.attempts[holder, key] = attempt
    books.keep(attempt_key(holder, key), attempt)


def expire(books: Books, holder: str, key: str | None) -> None:
    """From now on it is kept only for those who still repeat it."""
    attempt = find(books, holder, key)
    if attempt is None:
        return
    attempt.until_ms = books.now_ms + books.limits.attempt_kept_ms
    books.spent.line.append(attempt)
    books.timers.add(books.spent)
    books.keep(attempt_key(attempt.holder, attempt.key), attempt)


def settle(books: Books, holder: str, key: str | None, *, kind: str, print_: bytes, target: str) -> None:
    """Keep an attempt whose work is done: only for those who still repeat it."""
    remember(books, holder, key, kind=kind, print_=print_, target=target)
    expire(books, holder, key)


def forget(books: Books, holder: str, key: str | None) -> None:
    """Of one whose work has not ended, and never will."""
    attempt = find(books, holder, key)
    if attempt is not None:
        assert not attempt.until_ms, attempt
        _drop(books, attempt)


def fall_due(books: Books) -> None:
    """The time of the first is over, and perhaps that of others."""
    spent = books.spent
    for _ in range(FORGOTTEN_AT_ONCE):
        if not spent.line or spent.line[0].until_ms > books.now_ms:
            break
        _drop(books, spent.line.popleft())
    spent.rests_until_ms = books.now_ms + REST_MS
    if spent.line:
        books.timers.add(spent)


def _forget_first(books: Books) -> None:
    spent = books.spent
    _drop(books, spent.line.popleft())
    if not spent.line:
        books.timers.died(spent)
        spent.timer_ms = DEAD  # there will be others, and it is to be watched anew then


def _drop(books: Books, attempt: Attempt) -> None:
    del books.attempts[attempt.holder, attempt.key]
    books.drop(attempt_key(attempt.holder, attempt.key))
