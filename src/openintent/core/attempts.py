"""Attempts: a request that carries one never acts twice, also over a restart.

A repeat is answered with the present, never with the old reply: an old "60 s remaining" would be a promise that
nobody made. Refusals are not remembered, so a refused attempt may be tried again.
"""

from openintent.core.answers import LimitReached
from openintent.core.books import Books, attempt_key
from openintent.model import Attempt


def find(books: Books, holder: str, key: str | None) -> Attempt | None:
    return None if key is None else books.attempts.get((holder, key))


def full(books: Books, key: str | None) -> bool:
    return key is not None and len(books.attempts) >= books.limits.attempts_max


def none_left(books: Books, key: str | None) -> LimitReached | None:
    return LimitReached("attempts", books.limits.attempts_max) if full(books, key) else None


def remember(books: Books, holder: str, key: str | None, *, kind: str, print_: bytes, target: str) -> None:
    """Keep an attempt for as long as what it made lives, which `expire` will tell."""
    if key is None:
        return
    attempt = Attempt(holder=holder, key=key, kind=kind, print=print_, target=target, batch=books.batch)
    books.attempts[holder, key] = attempt
    books.keep(attempt_key(holder, key), attempt)


def expire(books: Books, holder: str, key: str | None) -> None:
    """From now on it is kept only for those who still repeat it."""
    attempt = find(books, holder, key)
    if attempt is None:
        return
    attempt.until_ms = books.now_ms + books.limits.attempt_kept_ms
    books.timers.add(attempt)
    books.keep(attempt_key(attempt.holder, attempt.key), attempt)


def settle(books: Books, holder: str, key: str | None, *, kind: str, print_: bytes, target: str) -> None:
    """Keep an attempt whose work is done: only for those who still repeat it."""
    remember(books, holder, key, kind=kind, print_=print_, target=target)
    expire(books, holder, key)


def forget(books: Books, holder: str, key: str | None) -> None:
    attempt = find(books, holder, key)
    if attempt is not None:
        del books.attempts[attempt.holder, attempt.key]
        books.drop(attempt_key(attempt.holder, attempt.key))
