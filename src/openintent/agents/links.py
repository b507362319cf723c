"""An agent's connections: one client for code with an event loop, one for plain code, both the same agent."""

import asyncio
import threading
from collections.abc import Sequence

from openintent.client import AsyncOpenIntentClient, OpenIntentClient


def in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Links:
    """Both are made when they are first used.

    They know the same leases: a plain handler writes under the lease that was taken for it on the event loop.
    """

    def __init__(self, base_url: str | Sequence[str] | None, api_key: str | None, agent_id: str) -> None:
        self._where = (base_url, api_key, agent_id)
        self._awaited: AsyncOpenIntentClient | None = None
        self._plain: OpenIntentClient | None = None
        self._lock = threading.Lock()  # several plain handlers may be the first at once
        self.agent_id = agent_id

    @property
    def awaited(self) -> AsyncOpenIntentClient:
        with self._lock:
            if self._awaited is None:
                self._awaited = AsyncOpenIntentClient(*self._where)
                if self._plain is not None:
                    self._awaited.share_leases(self._plain)
            return self._awaited

    @property
    def plain(self) -> OpenIntentClient:
        with self._lock:
            if self._plain is None:
                self._plain = OpenIntentClient(*self._where)
                if self._awaited is not None:
                    self._plain.share_leases(self._awaited)
            return self._plain

    async def close(self) -> None:
        if self._plain is not None:
            await asyncio.to_thread(self._plain.close)
        if self._awaited is not None:
            await self._awaited.close()
        self._plain = self._awaited = None
