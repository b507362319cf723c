"""A batch on its way to the engine."""

from collections.abc import Awaitable

from openintent.core.books import Batch
from openintent.engines.base import Head
from openintent.grantor.feed import News


class Commit:
    """What is sent, and what is known of its fate."""

    __slots__ = ("batch", "began_ms", "failure", "head", "news", "outcome")

    def __init__(self, batch: Batch, head: Head, began_ms: int) -> None:
        self.batch = batch
        self.head = head
        self.began_ms = began_ms
        self.news: list[News] = []  # to be told when it is durable
        self.outcome: Awaitable[None] | None = None
        self.failure: Exception | None = None  # if it could not even be sent

    async def settled(self) -> None:
        """Wait for its fate; raises what the engine raises if it is not durable."""
        if self.failure is not None:
            raise self.failure
        assert self.outcome is not None
        await self.outcome


def head_after(last: Head, batch: Batch, *, term: int, farewell: bool) -> Head:
    """What the head becomes by the commit of this batch."""
    return Head(
        term=term,
        beat=last.beat + 1,
        rev=batch.rev,
        clock_ms=batch.now_ms,
        member=last.member,
        token=batch.token,
        seq=batch.seq,
        farewell=farewell,
    )
