"""Queues: who waits for a scope, in which order, and who goes next.

Higher priority first, then first come; nobody overtakes a waiter whose scope overlaps. Only a waiter with an open
request is granted, so one that died burns no ttl. One that is absent keeps its rank for a while, but those who are
present go first; between two slices of a wait, and shortly after a restart, an absent waiter still counts as present,
so that order survives the gap (`docs/decisions/0003-waiters-between-slices.md`).
"""

from bisect import bisect_left, insort
from operator import attrgetter

from openintent.core import attempts, grants
from openintent.core.answers import Answer, Cooling, Granted, Held, LimitReached, Overtaking, Queued, Reply, WaitOver
from openintent.core.books import Books, Line, Space
from openintent.core.commands import Acquire
from openintent.model import Ask, Waiter

Obstacle = Held | Cooling | Overtaking

_rank = attrgetter("rank")
BEHIND_ALL = 1 << 62  # the order of somebody who has no place yet


def obstacle(books: Books, space: Space, ask: Ask, rank: tuple[int, int] | None = None) -> Obstacle | None:
    """Why this cannot be granted now to somebody of that rank, or to a newcomer; None if it can."""
    held = space.leases.blocking(ask.scope, ask.holder)
    if held is not None:
        return Held(held, books.remaining_ms(held), queue_length(space, ask.scope), yours=held.holder == ask.holder)
    if space.cooldowns.items:
        for closed in space.cooldowns.overlapping(ask.scope):
            left_ms = max(0, closed.until_ms - books.now_ms)
            return Cooling(closed.scope, closed.holder, left_ms, queue_length(space, ask.scope))
    first = _ahead(space, ask, rank or (-ask.priority, BEHIND_ALL)) if space.lines.items else None
    return None if first is None else Overtaking(ask.scope, first.ask.holder, queue_length(space, ask.scope))


def _ahead(space: Space, ask: Ask, rank: tuple[int, int]) -> Waiter | None:
    """A waiter of another agent that must go before this one."""
    for line in space.lines.overlapping(ask.scope):
        for waiter in line.waiters:
            if waiter.rank >= rank:
                break
            if waiter.in_line and waiter.ask.holder != ask.holder:
                return waiter
    return None


def queue_length(space: Space, scope: str) -> int:
    line = space.lines.get(scope)
    return 0 if line is None else len(line.waiters)


def enqueue(books: Books, command: Acquire, print_: bytes) -> Reply:
    """Take a place and leave the request open."""
    ask, limits = command.ask, books.limits
    space = books.space(ask.space)
    if queue_length(space, ask.scope) >= limits.waiters_per_scope_max:
        return books.reply(LimitReached("waiters for this scope", limits.waiters_per_scope_max))
    if books.waiting.get(ask.holder, 0) >= limits.waiters_per_agent_max:
        return books.reply(LimitReached("places in queues for this agent", limits.waiters_per_agent_max))
    if (full := grants.no_room(books, ask.holder)) is not None:
        return books.reply(full)
    books.order += 1
    waiter = Waiter(
        ticket=command.lease_id, ask=ask, attempt=command.attempt, order=books.order, queued_ms=books.now_ms
    )
    place(books, waiter)
    if command.attempt is not None:
        attempts.remember(books, ask.holder, command.attempt, kind="lease", print_=print_, target=waiter.ticket)
        _keep(books, waiter)
    return attend(books, waiter, command)


def place(books: Books, waiter: Waiter) -> None:
    """Put a waiter into its line, where its rank says."""
    space, ask = books.space(waiter.ask.space), waiter.ask
    line = space.lines.get(ask.scope)
    if line is None:
        line = Line(ask.scope, [])
        space.lines.add(ask.scope, "", line)
    insort(line.waiters, waiter, key=_rank)
    books.queues[ask.space, ask.scope] = len(line.waiters)
    books.waiters[waiter.ticket] = waiter
    books.waiting[ask.holder] = books.waiting.get(ask.holder, 0) + 1


def attend(books: Books, waiter: Waiter, command: Acquire) -> Reply:
    """An open request now stands at this place; an older one, if any, is answered and no longer counts."""
    if waiter.request:
        _answer_wait_over(books, waiter)
    waiter.request, waiter.arrived_ms = command.request, books.now_ms
    waiter.until_ms = books.now_ms + command.wait_ms
    waiter.passed_ms = waiter.gone_ms = 0
    books.requests[command.request] = waiter
    books.timers.add(waiter)
    return books.reply(Queued(waiter.ticket), after=0)


def slice_over(books: Books, waiter: Waiter) -> None:
    """The open request has waited as long as it wanted to."""
    _answer_wait_over(books, waiter)
    step_away(books, waiter, blink_ms=books.limits.blink_ms)


def _answer_wait_over(books: Books, waiter: Waiter) -> None:
    books.rev += 1
    space = books.space(waiter.ask.space)
    why = obstacle(books, space, waiter.ask, waiter.rank)
    over = WaitOver(waiter.ticket, place_of(space, waiter), books.now_ms - waiter.arrived_ms, why)
    del books.requests[waiter.request]
    books.outbox.append((waiter.request, books.reply(over)))
    waiter.request = 0


def step_away(books: Books, waiter: Waiter, *, blink_ms: int = 0) -> None:
    """No request is open at this place any more."""
    if waiter.request:
        del books.requests[waiter.request]
        waiter.request = 0
    if waiter.attempt is None:
        leave(books, waiter)
        return
    waiter.passed_ms = books.now_ms + blink_ms if blink_ms else 0
    waiter.gone_ms = books.now_ms + books.limits.absence_ms
    books.timers.add(waiter)
    if not blink_ms:
        pump(books, books.space(waiter.ask.space), waiter.ask.scope)


def fall_due(books: Books, waiter: Waiter) -> None:
    """A waiter's timer: its slice ended, its blink is over, or its place is given up."""
    if waiter.request:
        slice_over(books, waiter)
    elif waiter.passed_ms:
        waiter.passed_ms = 0
        books.timers.add(waiter)
        pump(books, books.space(waiter.ask.space), waiter.ask.scope)
    else:
        leave(books, waiter)


def leave(books: Books, waiter: Waiter) -> None:
    """Give up a place without a grant, so that those behind can move up."""
    if waiter.request:
        _answer_wait_over(books, waiter)
    attempts.forget(books, waiter.ask.holder, waiter.attempt)
    space = books.space(waiter.ask.space)
    _remove(books, space, waiter)
    pump(books, space, waiter.ask.scope)
    books.tidy(space)


def send_away(books: Books, space: Space, refused: list[tuple[Waiter, Answer]]) -> None:
    """Some lose their places, and are told why. Nobody moves up before all of them are gone."""
    for waiter, why in refused:
        if waiter.request:
            books.rev += 1
            del books.requests[waiter.request]
            books.outbox.append((waiter.request, books.reply(why)))
        attempts.forget(books, waiter.ask.holder, waiter.attempt)
        _remove(books, space, waiter)
    for waiter, _ in refused:
        pump(books, space, waiter.ask.scope)
    books.tidy(space)


def _remove(books: Books, space: Space, waiter: Waiter) -> None:
    ask = waiter.ask
    line = space.lines.get(ask.scope)
    assert line is not None, waiter
    del line.waiters[bisect_left(line.waiters, waiter.rank, key=_rank)]
    books.queues[ask.space, ask.scope] = len(line.waiters)
    if not line.waiters:
        space.lines.remove(ask.scope)
    del books.waiters[waiter.ticket]
    books.waiting[ask.holder] -= 1
    if not books.waiting[ask.holder]:
        del books.waiting[ask.holder]
    waiter.left = True
    books.timers.died(waiter)
    if waiter.attempt is not None:
        books.drop(f"w/{waiter.ticket}")


def pump(books: Books, space: Space, scope: str) -> None:
    """Something in this scope became free: grant whoever may go now, the first in line before all others."""
    if not space.lines.items:
        return
    firsts = [first for line in space.lines.overlapping(scope) if (first := _first_in_line(line)) is not None]
    for waiter in sorted(firsts, key=_rank):
        if waiter.request and obstacle(books, space, waiter.ask, waiter.rank) is None:
            _grant(books, space, waiter)


def _first_in_line(line: Line) -> Waiter | None:
    return next((waiter for waiter in line.waiters if waiter.in_line), None)


def _grant(books: Books, space: Space, waiter: Waiter) -> None:
    books.rev += 1
    _remove(books, space, waiter)
    lease = grants.grant(books, space, waiter.ask, waiter.ticket, waiter.attempt)
    granted = Granted(lease, books.now_ms - waiter.arrived_ms, books.remaining_ms(lease))
    del books.requests[waiter.request]
    books.outbox.append((waiter.request, books.reply(granted, after=lease.batch)))


def place_of(space: Space, waiter: Waiter) -> int:
    """1 for the first in its line."""
    line = space.lines.get(waiter.ask.scope)
    assert line is not None, waiter
    return bisect_left(line.waiters, waiter.rank, key=_rank) + 1


def _keep(books: Books, waiter: Waiter) -> None:
    books.keep(f"w/{waiter.ticket}", waiter)
