"""Preemption: a request of a higher priority asks for what others hold.

Nobody is cut off. A lease that is asked for is marked, once and for good: no renewal goes past the later of what was
promised and a grace, and its holder is told with the next heartbeat. Whoever asked is refused, or waits, like anybody
else; its priority puts it first in line. If it goes away the mark stays: the holder may have acted on it already.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from openintent.core import grants
from openintent.core.answers import Held, LimitReached
from openintent.core.books import Books
from openintent.core.waiting import queue_length
from openintent.model import Ask, Lease

REASON_CHARS_MAX: Final = 512  # of what each marked lease keeps about the request


def outranked(books: Books, ask: Ask) -> Sequence[Lease] | LimitReached:
    """The leases of others in the way of this, if every one has a lower priority; none of them if one has not."""
    most = books.limits.preempted_per_call_max
    others = books.space(ask.space).leases.overlapping(ask.scope, but=ask.holder)
    leases = list(islice(others, most + 1))
    if any(lease.priority >= ask.priority for lease in leases):
        return []
    return leases if len(leases) <= most else LimitReached("leases preempted at a time", most)


def mark(books: Books, ask: Ask, leases: Sequence[Lease]) -> None:
    """Give each of them an end that renewals cannot move, as `max_hold` does; one that is marked has it already."""
    reason = ask.holder if ask.purpose is None else f"{ask.holder}: {ask.purpose}"
    for lease in leases:
        if lease.preempt_reason is None:
            lease.preempt_reason = reason[:REASON_CHARS_MAX]
            end_ms = max(lease.deadline_ms, books.now_ms + books.limits.preempt_grace_ms)
            lease.hold_end_ms = end_ms if lease.hold_end_ms is None else min(end_ms, lease.hold_end_ms)
            grants.keep(books, lease)


def press(books: Books, ask: Ask) -> None:
    """Ask again, for one who waits: others may have come in its way while it was absent."""
    leases = outranked(books, ask)
    if not isinstance(leases, LimitReached):  # if they are too many now, it goes on waiting like anybody
        mark(books, ask, leases)


def held_until_the_end(books: Books, ask: Ask, leases: Sequence[Lease]) -> Held:
    """The refusal, by the one of these marked leases that may be there for longest: by then all of them have ended."""
    ends_ms = {lease.hold_end_ms or 0: lease for lease in leases}
    last_ms = max(ends_ms)
    return Held(ends_ms[last_ms], last_ms - books.now_ms, queue_length(books.space(ask.space), ask.scope))
