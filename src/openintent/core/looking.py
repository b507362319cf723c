"""Leases, queues and tokens, looked at. Nothing changes here."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter
from typing import Final

from openintent.core.answers import Leases, Missing, Queue, Reply, Stale, TokenChecked
from openintent.core.books import Books
from openintent.core.commands import CheckToken, ListLeases, ListQueue
from openintent.model import Intent, Lease
from openintent.spaces import (
    coordinator_space,
    home_of,
    intent_of,
    intent_space,
    portfolio_of,
)

COORDINATORS_MAX: Final = 1_000  # above one intent, the nearest first: who is farther away cannot write to it by token


def missing_owner(books: Books, space: str) -> Missing | None:
    """What does not exist, if this is the space of an intent or a portfolio that does not."""
    home = home_of(space)
    intent_id, portfolio_id = intent_of(home), portfolio_of(home)
    if intent_id is not None and intent_id not in books.intents:
        return Missing("intent")
    return Missing("portfolio") if portfolio_id is not None and portfolio_id not in books.portfolios else None


def check_token(books: Books, command: CheckToken) -> Reply:
    space = books.spaces.get(command.space)
    lease = None if space is None else space.leases.get(command.scope)
    live = None if lease is None else lease.token
    return books.reply(TokenChecked(live == command.token, live))


def list_leases(books: Books, command: ListLeases) -> Reply:
    missing = None if command.space is None else missing_owner(books, command.space)
    if missing is not None:
        return books.reply(missing)
    found = list(islice(_wanted(_leases_of(books, command.space), command), command.limit + 1))
    page = found[: command.limit]
    return books.reply(Leases(page, books.now_ms, len(found) > len(page)))


def _leases_of(books: Books, space: str | None) -> Iterable[Lease]:
    if space is None:
        return books.leases.values()
    known = books.spaces.get(space)
    return () if known is None else known.leases


def _wanted(leases: Iterable[Lease], command: ListLeases) -> Iterable[Lease]:
    """They stand in the order of their tokens. There may be a million, and everybody waits while they are looked at."""
    if command.after_token:
        whole = list(leases)
        leases = whole[bisect_right(whole, command.after_token, key=attrgetter("token")) :]
    if command.holder is not None:
        leases = (lease for lease in leases if lease.holder == command.holder)
    if command.scope is not None:
        leases = (lease for lease in leases if lease.scope == command.scope)
    return leases


def list_queue(books: Books, command: ListQueue) -> Reply:
    missing = missing_owner(books, command.space)
    if missing is not None:
        return books.reply(missing)
    space = books.spaces.get(command.space)
    lines = [] if space is None else [line for line in space.lines if command.scope in (None, line.scope)]
    places = [place for line in lines for place in enumerate(line.waiters, start=1)]
    return books.reply(Queue(places, books.now_ms))


# Tokens


def stale(books: Books, intent: Intent, *, holder: str, token: int | None) -> Stale | None:
    """A token that a write names must be of its agent's live lease: on a part of the intent, or on coordinating it."""
    if token is None or _has(books, intent_space(intent.id), holder, token):
        return None
    coordinators = _coordinators_of(books, intent)
    if any(_has(books, name, holder, token) for name in coordinators):
        return None
    return Stale(token, _successor_of(books, (intent_space(intent.id), *coordinators), token))


def _has(books: Books, name: str, holder: str, token: int) -> bool:
    space = books.spaces.get(name)
    return space is not None and any(lease.token == token for lease in space.leases.owned(holder))


def _coordinators_of(books: Books, intent: Intent) -> list[str]:
    """The spaces of those who coordinate it: alone, in its portfolios, or as a part of what it belongs to."""
    return list(islice(_upwards(books, intent), COORDINATORS_MAX))


def _upwards(books: Books, intent: Intent | None) -> Iterator[str]:
    while intent is not None:
        yield coordinator_space(intent_id=intent.id, portfolio_id=None)
        for portfolio_id in books.portfolios_of.get(intent.id, ()):
            yield coordinator_space(intent_id=None, portfolio_id=portfolio_id)
        intent = books.intents.get(intent.parent_id or "")


def _successor_of(books: Books, names: Collection[str], token: int) -> int | None:
    """The live token of the scope that the stale one was for, as far as that is still known."""
    for lease in chain(reversed(books.released.values()), reversed(books.ended.values())):
        if lease.token == token and lease.space in names:
            space = books.spaces.get(lease.space)
            live = None if space is None else space.leases.get(lease.scope)
            return None if live is None else live.token
    return None
