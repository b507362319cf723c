"""Granting: a lease comes into being, with the next token and a deadline that nothing shortens."""

from openintent.core.books import Books, Space, checkpoint_key
from openintent.model import Ask, Lease, home_of


def grant(books: Books, space: Space, ask: Ask, lease_id: str, attempt: str | None) -> Lease:
    """Give the scope to the holder. The caller has made sure that nothing stands against it."""
    books.token += 1
    lease = _new_lease(books, ask, lease_id, attempt)
    lease.deadline_ms = promised_end_ms(lease, books.now_ms + ask.ttl_ms)
    if space.checkpoints and ask.scope in space.checkpoints:
        lease.checkpoint = space.checkpoints.pop(ask.scope)
        books.drop(checkpoint_key(ask.space, ask.scope))
    space.leases.add(ask.scope, ask.holder, lease)
    books.leases[lease_id] = lease
    books.held[ask.holder] = books.held.get(ask.holder, 0) + 1
    books.timers.add(lease)
    keep(books, lease)
    books.log("lease_acquired", home_of(ask.space), ask.holder, payload=constant_part(lease))
    return lease


def constant_part(lease: Lease) -> dict[str, object]:
    """What its events say of a lease: only what never changes, as the lease itself goes on changing."""
    return {
        "lease_id": lease.id,
        "scope": lease.scope,
        "token": lease.token,
        "holder": lease.holder,
        "purpose": lease.purpose,
        "metadata": lease.metadata or {},
    }


def _new_lease(books: Books, ask: Ask, lease_id: str, attempt: str | None) -> Lease:
    now_ms = books.now_ms
    return Lease(
        id=lease_id,
        space=ask.space,
        scope=ask.scope,
        holder=ask.holder,
        token=books.token,
        ttl_ms=ask.ttl_ms,
        ttl_ms_max=ask.ttl_ms,
        deadline_ms=now_ms,
        granted_at_ms=books.date_ms,
        attempt=attempt,
        purpose=ask.purpose,
        metadata=ask.metadata,
        hold_end_ms=None if ask.max_hold_ms is None else now_ms + ask.max_hold_ms,
        max_hold_ms=ask.max_hold_ms,
        progress_ms=ask.progress_ms,
        progress_end_ms=None if ask.progress_ms is None else now_ms + ask.progress_ms,
        cooldown_ms=ask.cooldown_ms,
    )


def promised_end_ms(lease: Lease, end_ms: int) -> int:
    """The wished end, cut by what renewals cannot move, and never before what was promised already."""
    if lease.hold_end_ms is not None:
        end_ms = min(end_ms, lease.hold_end_ms)
    if lease.progress_end_ms is not None:
        end_ms = min(end_ms, lease.progress_end_ms)
    return max(end_ms, lease.deadline_ms)


def keep(books: Books, lease: Lease) -> None:
    lease.batch = books.batch
    books.keep(f"l/{lease.id}", lease)
