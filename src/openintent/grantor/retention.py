"""Retention: of the log, the newest events are kept; older ones are forgotten, and with them the leases they ended.

How far that has gone (the horizon) is written down before anything is deleted. A chunk goes when all its events are
behind the horizon, so some that are older than it may still be found: nobody may rely on either.

A pass begins when the log has grown by a tenth over its bound. It goes through the logs one by one, the old end of each
first, in slices that are small enough for commits to pass between them; and it rests after each for as long as that
took. After a restart there is a pass in any case, because the last one may not have come to its end.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

from openintent import records
from openintent.core.answers import Reply
from openintent.core.books import Books, bucket_of, end_key
from openintent.core.commands import Command, Forget
from openintent.engines.base import Engine, Record
from openintent.errors import EngineUnavailable
from openintent.grantor.feed import Feed
from openintent.grantor.parcels import Landing, NotServing, Parcel
from openintent.model import Event, LeaseEnd

log = logging.getLogger("openintent.grantor")

LOOK_S: Final = 1.0
REST_S_MIN: Final = 0.002
CHUNKS_PER_SLICE: Final = 64  # scanned in less than a millisecond, from a plain SSD
KEYS_PER_COMMAND: Final = 256  # deleted together with what others commit at the time


class Grantor(Protocol):
    """What is needed of the one writer."""

    feed: Feed
    serving: bool
    term: int

    @property
    def books(self) -> Books: ...

    def apply(self, command: Command) -> Reply: ...

    def park(self, reply: Reply, parcel: Parcel) -> None: ...


class Retention:
    def __init__(self, grantor: Grantor, engine: Engine, *, kept_max: int) -> None:
        self._grantor = grantor
        self._engine = engine
        self._kept_max = kept_max
        self._swept_term = 0  # in this one a pass has come to its end
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._look_forever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except (NotServing, EngineUnavailable):
                continue  # the next term begins with a pass of its own
            except Exception:  # a log that grows too long is no reason to stop serving
                log.exception("retention failed")

    async def look(self) -> None:
        """A pass, if it is time for one."""
        grantor, kept = self._grantor, self._kept_max
        if not grantor.serving:
            return
        behind = grantor.books.horizon
        excess = grantor.feed.seq - behind - kept
        if excess > kept // 10:
            await self._pass(behind + excess)
        elif behind and self._swept_term != grantor.term:
            await self._pass(behind)

    async def _pass(self, horizon: int) -> None:
        term = self._grantor.term
        await self._forget(horizon, [])
        place: str | None = "v/"
        forgotten = 0
        while place is not None:
            began_s = asyncio.get_running_loop().time()
            place, keys = await self._slice(place, horizon)
            for start in range(0, len(keys), KEYS_PER_COMMAND):
                await self._forget(horizon, keys[start : start + KEYS_PER_COMMAND])
            forgotten += len(keys)
            await asyncio.sleep(max(asyncio.get_running_loop().time() - began_s, REST_S_MIN))
        self._swept_term = term
        log.info("events forgotten horizon=%d records=%d", horizon, forgotten)

    async def _slice(self, place: str, horizon: int) -> tuple[str | None, list[str]]:
        """Where to go on, if anywhere, and what to delete."""
        page = await self._engine.scan(place, "v0", limit=CHUNKS_PER_SLICE)
        old = [record for record in page if _seq(record.key) <= horizon]
        keys = [record.key for record in old] + await self._old_ends(old, horizon)
        if len(page) < CHUNKS_PER_SLICE:
            return None, keys
        last = page[-1].key
        # A log is in order: behind a chunk that stays, all of it stays. A line feed is next to the tab in a key.
        return (last + "\0" if _seq(last) <= horizon else last.partition("\t")[0] + "\n"), keys

    async def _old_ends(self, chunks: Iterable[Record], horizon: int) -> list[str]:
        """The index entries of leases that ended in these chunks, and of whatever else goes from the same buckets."""
        buckets: dict[str, None] = {}
        for record in chunks:
            events: list[Event] = records.decode(record.key, record.value)
            for event in events:
                if event.lease is not None:
                    buckets[bucket_of(LeaseEnd(event.lease.id, event.space, event.seq))] = None
        return [key for bucket in buckets for key in await self._keys(bucket, horizon)]

    async def _keys(self, bucket: str, horizon: int) -> list[str]:
        found: list[str] = []
        first, last = end_key(bucket, 0), end_key(bucket, horizon + 1)
        while page := await self._engine.scan(first, last, limit=CHUNKS_PER_SLICE):
            found += [record.key for record in page]
            first = page[-1].key + "\0"
        return found

    async def _forget(self, horizon: int, keys: list[str]) -> None:
        landing = Landing()
        self._grantor.park(self._grantor.apply(Forget(horizon, keys)), landing)
        if not await landing.durable:
            raise NotServing


def _seq(key: str) -> int:
    """The number of the last event of a chunk."""
    return int(key.rpartition("\t")[2], 16)
