"""Granting: a lease comes into being, with the next token and a deadline that nothing shortens."""

from openintent.core.answers import LimitReached
from openintent.core.books import Books, Space, checkpoint_key
from openintent.model import Ask, Grant, Lease


def no_room(books: Books, holder: str) -> LimitReached | None:
    """Whether this agent may get no further lease. What it waits for counts: a place in a queue may become one."""
    most = books.limits.leases_per_agent_max
    if books.held.get(holder, 0) + books.waiting.get(holder, 0) < most:
        return None
    return LimitReached("leases of this agent, held or waited for", most)


def grant(books: Books, space: Space, ask: Ask, lease_id: str, attempt: str | None) -> Lease:
    """Give the scope to the holder. The caller has made sure that nothing stands against it."""
    books.token += 1
    lease = _new_lease(books, space, ask, lease_id, attempt)
    scope, holder = ask.scope, ask.holder
    if space.checkpoints and scope in space.checkpoints:
        lease.checkpoint = space.checkpoints.pop(scope)
        books.drop(checkpoint_key(ask.space, scope))
    space.leases.add(scope, holder, lease)
    books.leases[lease_id] = lease
    books.held[holder] = books.held.get(holder, 0) + 1
    books.timers.watch(lease, lease.deadline_ms)
    books.bear("l/" + lease_id, lease)
    books.log("lease_acquired", space.home, holder, grant=constant_part(lease))
    return lease


def constant_part(lease: Lease) -> Grant:
    return Grant(lease.id, lease.scope, lease.token, lease.holder, lease.purpose, lease.metadata)


def _new_lease(books: Books, space: Space, ask: Ask, lease_id: str, attempt: str | None) -> Lease:
    now_ms, ttl_ms = books.now_ms, ask.ttl_ms
    lease = Lease(  # by their order, as far as that can be read: names take longer
        lease_id,
        space.name,  # one text for all leases in it
        ask.scope,
        ask.holder,
        books.token,
        ttl_ms,
        ttl_ms,
        now_ms + ttl_ms,
        books.date_ms,
        attempt=attempt,
        purpose=ask.purpose,
        metadata=ask.metadata,
        cooldown_ms=ask.cooldown_ms,
        batch=books.batch,
        priority=ask.priority,
    )
    if ask.max_hold_ms is not None or ask.progress_ms is not None:
        _bound(lease, ask, now_ms)
    return lease


def _bound(lease: Lease, ask: Ask, now_ms: int) -> None:
    """Note what renewals cannot move."""
    lease.max_hold_ms, lease.progress_ms = ask.max_hold_ms, ask.progress_ms
    lease.hold_end_ms = None if ask.max_hold_ms is None else now_ms + ask.max_hold_ms
    lease.progress_end_ms = None if ask.progress_ms is None else now_ms + ask.progress_ms
    lease.deadline_ms = now_ms
    lease.deadline_ms = promised_end_ms(lease, now_ms + ask.ttl_ms)


def promised_end_ms(lease: Lease, end_ms: int) -> int:
    """The wished end, cut by what renewals cannot move, and never before what was promised already."""
    if lease.hold_end_ms is not None:
        end_ms = min(end_ms, lease.hold_end_ms)
    if lease.progress_end_ms is not None:
        end_ms = min(end_ms, lease.progress_end_ms)
    return max(end_ms, lease.deadline_ms)


def keep(books: Books, lease: Lease) -> None:
    lease.batch = books.batch
    books.keep("l/" + lease.id, lease)
