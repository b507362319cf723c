"""Leases and queues, looked at. Nothing changes here."""

from openintent.core.answers import Leases, Missing, Queue, Reply, TokenChecked
from openintent.core.books import Books, Space
from openintent.core.commands import CheckToken, ListLeases, ListQueue
from openintent.model import Lease, home_of, intent_of, portfolio_of


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
    found = [lease for lease in _leases_of(books, command.space) if _wanted(lease, command)]
    found.sort(key=lambda lease: lease.token)
    page = found[: command.limit]
    return books.reply(Leases(page, books.now_ms, len(found) > len(page)))


def _leases_of(books: Books, space: str | None) -> list[Lease]:
    if space is None:
        return list(books.leases.values())
    known = books.spaces.get(space)
    return [] if known is None else list(known.leases)


def _wanted(lease: Lease, command: ListLeases) -> bool:
    return (
        command.scope in (None, lease.scope)
        and command.holder in (None, lease.holder)
        and lease.token > command.after_token
    )


def list_queue(books: Books, command: ListQueue) -> Reply:
    missing = missing_owner(books, command.space)
    if missing is not None:
        return books.reply(missing)
    space = books.spaces.get(command.space)
    lines = [] if space is None else [line for line in space.lines if command.scope in (None, line.scope)]
    places = [place for line in lines for place in enumerate(line.waiters, start=1)]
    return books.reply(Queue(places, books.now_ms))


def live_lease_with(space: Space | None, *, holder: str, token: int) -> Lease | None:
    """The agent's own live lease in this space that carries the token."""
    if space is None:
        return None
    return next((lease for lease in space.leases.owned(holder) if lease.token == token), None)
