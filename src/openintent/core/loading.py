"""Taking in what a former term left.

Every live lease gets the largest ttl ever promised for it, from now on: renewals are not written down, so nobody knows
how much of the last one is left, and too long is safe where too short is not. Only after a clean stop are the exact
deadlines known. Agents are taken to be as healthy as they were.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from openintent.core import agents, intents, portfolios, waiting
from openintent.core.books import Books
from openintent.core.grants import promised_end_ms
from openintent.core.values import Draft, weigh
from openintent.model import (
    DEAD,
    Agent,
    Assignment,
    Attempt,
    Checkpoint,
    Cooldown,
    Decision,
    Horizon,
    Intent,
    Lease,
    Member,
    PatchRecord,
    Portfolio,
    Waiter,
)

_token = attrgetter("token")

LOADED_PER_MS: Final = 100  # leases that get their ttl from the same millisecond on
LOADED_KINDS: Final = ("i", "p", "q", "m", "g", "r", "o", "h", "l", "w", "a", "d", "c")  # a patch needs its intent


def load_one(books: Books, key: str, thing: Any, deadlines: dict[str, int]) -> None:
    """Put a record on its shelf; `deadlines` are those of a farewell."""
    if isinstance(thing, Lease):
        _load_lease(books, thing, deadlines.get(thing.id))
    else:
        _LOADERS[type(thing)](books, key, thing)


def finish(books: Books) -> None:
    """All is in; from here on the order of things is that of their creation again."""
    books.leases = {lease.id: lease for lease in sorted(books.leases.values(), key=_token)}
    for space in books.spaces.values():
        space.leases.sort(_token)
    for intent in sorted(books.intents.values(), key=lambda intent: (intent.created_at_ms, intent.id)):
        del books.intents[intent.id]
        intents.place(books, intent)
    by_age = sorted(books.portfolios.values(), key=lambda each: (each.created_at_ms, each.id))
    books.portfolios = {portfolio.id: portfolio for portfolio in by_age}
    registered = sorted(books.agents.values(), key=lambda each: (each.registered_at_ms, each.id))
    books.agents = {agent.id: agent for agent in registered}
    ended = [attempt for attempt in books.attempts.values() if attempt.until_ms]
    books.spent.line.extend(sorted(ended, key=lambda each: each.until_ms))
    if ended:
        books.timers.add(books.spent)


def _load_lease(books: Books, lease: Lease, deadline_ms: int | None) -> None:
    lease.batch, lease.timer_ms, lease.deadline_ms = 0, DEAD, books.now_ms
    if lease.progress_ms is not None:
        lease.progress_end_ms = books.now_ms + lease.progress_ms
    if deadline_ms is None:
        # Not all in one instant: if nobody comes back for them, that is when they end.
        began_ms = books.now_ms + len(books.leases) // LOADED_PER_MS
        deadline_ms = promised_end_ms(lease, began_ms + lease.ttl_ms_max)
    lease.deadline_ms = deadline_ms
    space = books.space(lease.space)
    lease.space = space.name  # one text for all leases in it
    space.leases.add(lease.scope, lease.holder, lease)
    books.leases[lease.id] = lease
    books.held[lease.holder] = books.held.get(lease.holder, 0) + 1
    books.timers.watch(lease, deadline_ms)


def _load_waiter(books: Books, _: str, waiter: Waiter) -> None:
    limits = books.limits
    waiter.request, waiter.timer_ms, waiter.left = 0, DEAD, False
    waiter.passed_ms = books.now_ms + limits.return_ms
    waiter.gone_ms = books.now_ms + limits.absence_ms
    books.order = max(books.order, waiter.order)
    waiting.place(books, waiter)
    books.timers.add(waiter)


def _load_attempt(books: Books, _: str, attempt: Attempt) -> None:
    attempt.batch = 0
    books.attempts[attempt.holder, attempt.key] = attempt


def _load_cooldown(books: Books, _: str, closed: Cooldown) -> None:
    closed.timer_ms = DEAD
    books.space(closed.space).cooldowns.add(closed.scope, "", closed)
    books.timers.add(closed)


def _load_checkpoint(books: Books, key: str, checkpoint: Checkpoint) -> None:
    space, _, scope = key[2:].partition("\t")
    books.space(space).checkpoints[scope] = checkpoint.value


def _load_intent(books: Books, _: str, intent: Intent) -> None:
    intent.batch, intent.patches, intent.state_bytes = 0, 0, weigh(intent.state)
    books.intents[intent.id] = intent


def _load_patch(books: Books, key: str, record: PatchRecord) -> None:
    intent = books.intents[key[2:].partition("\t")[0]]
    intent.patches += 1  # also one that the whole record overtook: the next whole one wipes it
    if record.version <= intent.version:
        return
    draft = Draft(intent.state, intent.state_bytes)
    for step in record.steps:
        draft.apply(step)
    intent.state, intent.state_bytes = draft.root, draft.size
    intent.version, intent.updated_at_ms = record.version, record.updated_at_ms


def _load_portfolio(books: Books, _: str, portfolio: Portfolio) -> None:
    portfolio.batch = 0
    books.portfolios[portfolio.id] = portfolio


def _load_member(books: Books, _: str, member: Member) -> None:
    portfolios.place(books, member)


def _load_assignment(books: Books, _: str, assignment: Assignment) -> None:
    agents.place(books, assignment)


def _load_agent(books: Books, _: str, agent: Agent) -> None:
    agent.batch, agent.timer_ms = 0, DEAD
    agent.seen_ms = books.now_ms
    books.agents[agent.id] = agent
    agents.watch(books, agent)


def _load_decision(books: Books, _: str, decision: Decision) -> None:
    books.decisions.setdefault(decision.intent_id, []).append(decision)


def _load_horizon(books: Books, _: str, horizon: Horizon) -> None:
    books.horizon = horizon.seq


_LOADERS: Final[dict[type, Callable[[Books, str, Any], None]]] = {
    Waiter: _load_waiter,
    Attempt: _load_attempt,
    Cooldown: _load_cooldown,
    Checkpoint: _load_checkpoint,
    Intent: _load_intent,
    PatchRecord: _load_patch,
    Portfolio: _load_portfolio,
    Member: _load_member,
    Assignment: _load_assignment,
    Agent: _load_agent,
    Decision: _load_decision,
    Horizon: _load_horizon,
}
