"""Hearing that something happened to a run.

What happened is not told: whoever hears it reads the run anew. So many events at once are one, and it does not matter
whether an event is told twice. A look now and then makes up for a stream that cannot be had.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final, Self

from openintent.client.aio import AsyncOpenIntentClient
from openintent.errors import NotFoundError, OpenIntentError

logger = logging.getLogger("openintent.workflows")

POLL_S: Final = 5.0
# The types of events after which a run may stand otherwise than before.
TYPES: Final = ("state_patched", "status_changed", "decision_recorded", "removed_from_portfolio")


class Watch:
    def __init__(self, client: AsyncOpenIntentClient, run_id: str, *, others_only: bool = False) -> None:
        """`others_only`: what this client does itself is no news."""
        self._client = client
        self._run_id = run_id
        self._deaf_to = client.agent_id if others_only else None
        self._happened = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Whatever happens after this is heard, however long it takes until the stream stands."""
        self._task = asyncio.create_task(self._listen(await self._newest()), name="openintent-run-watch")
        return self

    async def _newest(self) -> int:
        try:
            newest = await self._client.get_events(portfolio_id=self._run_id, limit=1)
        except NotFoundError:  # whoever began the run died before it had a portfolio; the next runner makes it
            return 0
        return newest[0].seq if newest else 0

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})

    async def change(self, *, within_s: float) -> None:
        """Until something happens, or for so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._happened.wait(), min(within_s, POLL_S))
        self._happened.clear()

    async def _listen(self, after: int | None) -> None:
        while True:
            stream = self._client.subscribe_portfolio(self._run_id, after=after, types=TYPES, on_gap="skip")
            try:
                async with stream:
                    async for event in stream:
                        if event.actor is None or event.actor != self._deaf_to:
                            self._happened.set()
            except OpenIntentError as exc:
                logger.warning("run stream ended run=%s error=%s", self._run_id, exc)
            after = stream.cursor if stream.cursor is not None else after
            await asyncio.sleep(POLL_S)
