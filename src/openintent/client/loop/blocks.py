"""`async with client.lease(...)`. `client/blocks.py` has its twin, and what both share."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from openintent.client.blocks import ENTER_TRIES_MAX, RELEASE_S_MAX, Block, Callback
from openintent.client.calls import Wish
from openintent.client.coordinator import CoordinatorLease
from openintent.client.flows import Flow
from openintent.client.holder import Holder, as_coordinator
from openintent.client.lease import Lease, hold_of
from openintent.client.values import Released


class AsyncLeaseBlock(Block):
    def __init__(
        self,
        holder: Holder,
        wish: Wish,
        acquire: Callable[[Wish], Awaitable[Lease]],
        finish: Callable[[Callable[[], Flow[Released]], float], Awaitable[Released | None]],
        *,
        on_lost: Callback | None = None,
        on_at_risk: Callback | None = None,
        on_preempt: Callback | None = None,
    ) -> None:
        super().__init__(holder, wish, on_lost=on_lost, on_at_risk=on_at_risk, on_preempt=on_preempt)
        self._acquire = acquire
        self._finish = finish
        self._task: asyncio.Task[object] | None = None
        self._cancelled = False

    async def __aenter__(self) -> Lease:
        self._refuse_twice()
        self._task, self._cancelled = asyncio.current_task(), False
        assert self._task is not None
        self._loop = asyncio.get_running_loop()
        self._cancelling_before = self._task.cancelling()
        for _ in range(ENTER_TRIES_MAX):
            joined = self._join()
            if joined is not None:
                return joined
            lease = await self._acquire(self._wish)
            if self._open(lease):
                return lease
        raise hold_of(lease).failure()

    def _stop(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and the work with it
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        """On the loop, and only while the body runs: a later cancellation would hit what comes after the block."""
        if self._inside and not self._cancelled and self._task is not None:
            self._cancelled = True
            self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: object) -> None:
        token, failure, release = self._shut()
        ours = self._take_back_cancellation(exc)
        # Cancelling the caller must not cancel the release.
        released = None if release is None else await self._finish(release, RELEASE_S_MAX)
        failure = self._how_it_ended(token, failure, released)
        if failure is not None and (exc is None or ours):
            raise failure from exc

    def _take_back_cancellation(self, exc: BaseException | None) -> bool:
        """Whether the body was ended by our cancellation and by no other, as `asyncio.timeout` finds out."""
        if not self._cancelled or self._task is None:
            return False
        return self._task.uncancel() <= self._cancelling_before and isinstance(exc, asyncio.CancelledError)


class AsyncCoordinatorBlock(AsyncLeaseBlock):
    async def __aenter__(self) -> CoordinatorLease:
        return as_coordinator(await super().__aenter__())
