"""Portfolios: intents that belong together. An intent may be in several; a portfolio's log says who came and went."""

from itertools import islice

from openintent.core import attempts
from openintent.core.answers import (
    AttemptReused,
    Done,
    Exists,
    LimitReached,
    Members,
    MemberSeen,
    Missing,
    Portfolios,
    PortfolioSeen,
    Reply,
)
from openintent.core.books import Books, member_key
from openintent.core.commands import (
    AddMember,
    CreatePortfolio,
    GetPortfolio,
    ListMembers,
    ListPortfolios,
    RemoveMember,
    SetPortfolioStatus,
)
from openintent.core.shelves import shelve, unshelve
from openintent.core.values import fingerprint
from openintent.model import Member, Portfolio
from openintent.spaces import intent_space, portfolio_space


def create(books: Books, command: CreatePortfolio) -> Reply:
    portfolio, limits = command.portfolio, books.limits
    print_ = _print(command)
    known = attempts.find(books, command.actor, command.attempt)
    if known is not None:
        again = books.portfolios.get(known.target)
        same = known.print == print_ and again is not None
        return books.reply(PortfolioSeen(again) if same and again is not None else AttemptReused(known.key))
    existing = books.portfolios.get(portfolio.id)
    if existing is not None:
        same = command.chosen_id and existing.print == print_
        return books.reply(PortfolioSeen(existing) if same else Exists(portfolio.id), after=existing.batch)
    if len(books.portfolios) >= limits.portfolios_max:
        return books.reply(LimitReached("portfolios", limits.portfolios_max))
    if (refusal := attempts.none_left(books, command.attempt)) is not None:
        return books.reply(refusal)
    portfolio.print = print_
    portfolio.created_by = portfolio.created_by or command.actor
    portfolio.created_at_ms = books.date_ms
    books.portfolios[portfolio.id] = portfolio
    _keep(books, portfolio)
    attempts.settle(books, command.actor, command.attempt, kind="portfolio", print_=print_, target=portfolio.id)
    books.log("portfolio_created", portfolio_space(portfolio.id), command.actor, payload={"name": portfolio.name})
    return books.reply(PortfolioSeen(portfolio), after=portfolio.batch)


def _print(command: CreatePortfolio) -> bytes:
    """Of what the request said: an id that was made up for it is not part of that."""
    said, id_ = command.portfolio, command.portfolio.id if command.chosen_id else None
    whole = (id_, said.name, said.description, said.created_by, said.governance_policy, said.metadata)
    return fingerprint("portfolio", *whole)


def get(books: Books, command: GetPortfolio) -> Reply:
    portfolio = books.portfolios.get(command.portfolio_id)
    if portfolio is None:
        return books.reply(Missing("portfolio"))
    return books.reply(PortfolioSeen(portfolio), after=portfolio.batch)


def list_all(books: Books, command: ListPortfolios) -> Reply:
    """In the order of their creation; or those that an intent belongs to."""
    if command.intent_id is not None and command.intent_id not in books.intents:
        return books.reply(Missing("intent"))
    ids = books.portfolios if command.intent_id is None else books.portfolios_of.get(command.intent_id, {})
    found = (books.portfolios[each] for each in ids)
    wanted = (each for each in found if command.created_by in (None, each.created_by))
    page = list(islice(wanted, command.offset, command.offset + command.limit + 1))
    return books.reply(Portfolios(page[: command.limit], more=len(page) > command.limit))


def set_status(books: Books, command: SetPortfolioStatus) -> Reply:
    portfolio = books.portfolios.get(command.portfolio_id)
    if portfolio is None:
        return books.reply(Missing("portfolio"))
    payload = {"old_status": portfolio.status, "new_status": command.status, "reason": None}
    portfolio.status = command.status
    _keep(books, portfolio)
    books.log("status_changed", portfolio_space(portfolio.id), command.actor, payload=payload)
    return books.reply(PortfolioSeen(portfolio), after=portfolio.batch)


# Members


def add(books: Books, command: AddMember) -> Reply:
    """Put an intent into a portfolio. One that is there already only changes its role and priority."""
    member = command.member
    missing = _missing(books, member.portfolio_id, member.intent_id)
    if missing is not None:
        return books.reply(missing)
    members = books.members.get(member.portfolio_id, {})
    known = members.get(member.intent_id)
    room = books.limits.intents_per_portfolio_max
    if known is None and len(members) >= room:
        return books.reply(LimitReached("intents in this portfolio", room))
    if known is not None:
        member.id, member.added_at_ms = known.id, known.added_at_ms
        if known == member:
            return books.reply(MemberSeen(known))
    else:
        member.added_at_ms = books.date_ms
    place(books, member)
    books.keep(member_key(member.portfolio_id, member.intent_id), member)
    _log(books, "added_to_portfolio", member, command.actor, again=known is not None)
    return books.reply(MemberSeen(member))


def place(books: Books, member: Member) -> None:
    shelve(books.members, member.portfolio_id, member.intent_id, member)
    shelve(books.portfolios_of, member.intent_id, member.portfolio_id, None)


def remove(books: Books, command: RemoveMember) -> Reply:
    missing = _missing(books, command.portfolio_id, command.intent_id)
    if missing is not None:
        return books.reply(missing)
    if command.intent_id not in books.members.get(command.portfolio_id, {}):
        return books.reply(Missing("member"))
    take_out(books, command.portfolio_id, command.intent_id, command.actor)
    return books.reply(Done())


def take_out(books: Books, portfolio_id: str, intent_id: str, actor: str) -> None:
    member = books.members[portfolio_id][intent_id]
    unshelve(books.members, portfolio_id, intent_id)
    unshelve(books.portfolios_of, intent_id, portfolio_id)
    books.drop(member_key(portfolio_id, intent_id))
    _log(books, "removed_from_portfolio", member, actor)


def list_members(books: Books, command: ListMembers) -> Reply:
    """The most important first, then in the order of their coming."""
    portfolio = books.portfolios.get(command.portfolio_id)
    if portfolio is None:
        return books.reply(Missing("portfolio"))
    members = sorted(books.members.get(portfolio.id, {}).values(), key=_importance)
    return books.reply(Members(portfolio, [(member, books.intents[member.intent_id]) for member in members]))


def _importance(member: Member) -> tuple[int, int, str]:
    return (-member.priority, member.added_at_ms, member.intent_id)


def _missing(books: Books, portfolio_id: str, intent_id: str) -> Missing | None:
    if portfolio_id not in books.portfolios:
        return Missing("portfolio")
    return None if intent_id in books.intents else Missing("intent")


def _log(books: Books, kind: str, member: Member, actor: str, *, again: bool = False) -> None:
    """In both logs: the portfolio's and the intent's. `again` tells a change of its place from the beginning."""
    named = {
        "portfolio_id": member.portfolio_id,
        "intent_id": member.intent_id,
        "role": member.role,
        "priority": member.priority,
    }
    payload = {**named, "again": True} if again else named
    space, also = portfolio_space(member.portfolio_id), intent_space(member.intent_id)
    books.log(kind, space, actor, payload=payload, also=also)


def _keep(books: Books, portfolio: Portfolio) -> None:
    portfolio.updated_at_ms = books.date_ms
    portfolio.batch = books.batch
    books.keep(f"q/{portfolio.id}", portfolio)
