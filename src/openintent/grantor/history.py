"""The log, read back from the engine: events of a space, and leases that ended so long ago that memory forgot them."""

from collections.abc import Callable, Collection
from typing import Final

from openintent import records
from openintent.core.answers import Ended
from openintent.core.books import BUCKET_CHARS, end_key, event_key
from openintent.engines.base import Engine
from openintent.model import Event, Lease, LeaseEnd

CHUNKS_PER_SCAN: Final = 64
SEQ_MAX: Final = 1 << 62


class History:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def events(
        self,
        space: str,
        *,
        after: int = 0,
        limit: int,
        newest_first: bool = False,
        types: Collection[str] = (),
        where: Callable[[Event], bool] = lambda _: True,
    ) -> list[Event]:
        """At most `limit` events of a space with a number above `after`, of these types, that are wanted."""
        first, last = event_key(space, after + 1), event_key(space, SEQ_MAX)
        found: list[Event] = []
        # A chunk has one event at least; but who knows how many of them are wanted.
        most = CHUNKS_PER_SCAN if types else min(limit, CHUNKS_PER_SCAN)
        while len(found) < limit:
            chunks = await self._engine.scan(first, last, limit=most, reverse=newest_first)
            for record in chunks:
                events: list[Event] = records.decode(record.key, record.value)
                ordered = reversed(events) if newest_first else events
                found += [
                    event
                    for event in ordered
                    if event.seq > after and (not types or event.type in types) and where(event)
                ]
            if len(chunks) < most:
                break
            first, last = (first, chunks[-1].key) if newest_first else (chunks[-1].key + "\x00", last)
        return found[:limit]

    async def ended_lease(self, meant: Ended) -> Lease | None:
        """A lease that ended, from the event that ended it, if it is the one that was meant."""
        event = await self.end_of(meant.lease_id)
        lease = None if event is None else event.lease
        return lease if lease is not None and meant.fits(lease) else None

    async def end_of(self, lease_id: str) -> Event | None:
        bucket = lease_id[:BUCKET_CHARS]
        first, last = end_key(bucket, 0), end_key(bucket, SEQ_MAX)
        while chunks := await self._engine.scan(first, last, limit=CHUNKS_PER_SCAN):
            for record in chunks:
                ends: list[LeaseEnd] = records.decode(record.key, record.value)
                for end in ends:
                    if end.id == lease_id:
                        return await self.event(end.space, end.seq)
            first = chunks[-1].key + "\x00"
        return None

    async def event(self, space: str, seq: int) -> Event | None:
        found = await self.events(space, after=seq - 1, limit=1)
        return found[0] if found and found[0].seq == seq else None

    async def lease_events(self, space: str, lease_id: str, *, limit: int = 100) -> list[Event]:
        """What the log says of one lease, oldest first, as far as it is among the newest events of its space."""
        newest = await self.events(space, limit=10_000, newest_first=True)
        story = [event for event in newest if event.lease_id == lease_id]
        return story[::-1][:limit]
