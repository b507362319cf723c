"""A batch on its way to the engine; and the last one of a term."""

import logging
from collections.abc import Awaitable

from openintent.core.books import Batch
from openintent.core.ledger import Ledger
from openintent.engines.base import Head
from openintent.errors import EngineError
from openintent.grantor.feed import Bulletin
from openintent.grantor.leadership import Leadership
from openintent.grantor.storing import encoded

log = logging.getLogger("openintent.grantor")


class Commit:
    """What is known of it, and of its fate. Not what it stores: that was sent, and need not be kept."""

    __slots__ = ("began_ms", "bulletin", "failure", "head", "number", "outcome")

    def __init__(self, number: int, head: Head, began_ms: int) -> None:
        self.number = number  # of the batch
        self.head = head
        self.began_ms = began_ms
        self.bulletin = Bulletin()  # to be told when it is durable
        self.outcome: Awaitable[None] | None = None
        self.failure: Exception | None = None  # if it could not even be sent

    async def settled(self) -> None:
        """Wait for its fate; raises what the engine raises if it is not durable."""
        if self.failure is not None:
            raise self.failure
        assert self.outcome is not None
        await self.outcome


async def say_farewell(ledger: Ledger, leadership: Leadership) -> None:
    """End a term with the exact deadlines."""
    batch, last = ledger.take_batch(), leadership.head
    batch.changes["f/"] = ledger.farewell()
    try:
        await leadership.commit(head_after(last, batch, farewell=True), encoded(batch))
    except EngineError as failure:
        log.warning("farewell failed error=%s", failure)  # the next term gives full ttls instead
    else:
        log.info("term ended term=%d leases=%d", last.term, len(ledger.books.leases))


def head_after(last: Head, batch: Batch, *, farewell: bool = False) -> Head:
    """What the head becomes by the commit of this batch."""
    return Head(
        term=last.term,
        beat=last.beat + 1,
        rev=batch.rev,
        clock_ms=batch.now_ms,
        member=last.member,
        token=batch.token,
        seq=batch.seq,
        farewell=farewell,
    )
