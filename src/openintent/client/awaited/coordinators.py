"""Coordinators: who leads a portfolio or an intent, one at a time.

Their leases are leases like any other. `renew_lease`, `release_lease` and heartbeats work on them too.
"""

from typing import Unpack

from openintent.client import calls, spelling
from openintent.client.awaited.leases import Leases
from openintent.client.blocks import Callback
from openintent.client.coordinator import CoordinatorLease
from openintent.client.holder import as_coordinator
from openintent.client.lease import Lease
from openintent.client.loop.blocks import AsyncCoordinatorBlock
from openintent.client.spelling import CoordinatorOptions
from openintent.client.values import Released


class Coordinators(Leases):
    def coordinate(
        self,
        portfolio_id: str | None = None,
        *,
        intent_id: str | None = None,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0.0,
        on_lost: Callback | None = None,
        on_at_risk: Callback | None = None,
        **options: Unpack[CoordinatorOptions],
    ) -> AsyncCoordinatorBlock:
        """A block as its coordinator, kept alive: `async with client.coordinate(portfolio_id=portfolio.id) as lease:`.

        All that is true of `client.lease(...)` is true of it: when the lease is lost, the task is cancelled and the
        block raises `LeaseLost`, before another can be the coordinator.
        """
        wish = spelling.coordinator_wish(
            space=spelling.coordinated(portfolio_id, intent_id),
            ttl_s=spelling.ttl_of(ttl_seconds=ttl_seconds),
            wait_seconds=wait_seconds,
            options=options,
        )
        return AsyncCoordinatorBlock(
            self._holder, wish, self._acquire, self._finish, on_lost=on_lost, on_at_risk=on_at_risk
        )

    async def acquire_coordinator_lease(
        self,
        portfolio_id: str | None = None,
        *,
        intent_id: str | None = None,
        ttl_seconds: float | None = None,
        duration_seconds: float | None = None,
        wait_seconds: float = 0.0,
        **options: Unpack[CoordinatorOptions],
    ) -> CoordinatorLease:
        """Become the coordinator, under a lease that nobody renews but you.

        `LeaseConflictError` names the holder if there is one; with `wait_seconds` it waits to be the next.
        """
        wish = spelling.coordinator_wish(
            space=spelling.coordinated(portfolio_id, intent_id),
            ttl_s=spelling.ttl_of(ttl_seconds=ttl_seconds, duration_seconds=duration_seconds),
            wait_seconds=wait_seconds,
            options=options,
        )
        return as_coordinator(await self._acquire(wish))

    async def create_coordinator_lease(
        self,
        agent_id: str,
        *,
        portfolio_id: str | None = None,
        intent_id: str | None = None,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0.0,
        **options: Unpack[CoordinatorOptions],
    ) -> CoordinatorLease:
        """Make an agent the coordinator: this one, or another if the key may speak for it."""
        wish = spelling.coordinator_wish(
            space=spelling.coordinated(portfolio_id, intent_id),
            ttl_s=spelling.ttl_of(ttl_seconds=ttl_seconds),
            wait_seconds=wait_seconds,
            options=options,
            agent_id=agent_id,
        )
        return as_coordinator(await self._acquire(wish))

    async def coordinator_heartbeat(
        self, lease_id: str | Lease, *, ttl_seconds: float | None = None
    ) -> CoordinatorLease:
        """Stay the coordinator for another ttl. `LeaseLost` says why, if it has ended."""
        ttl_s = spelling.ttl_of(ttl_seconds=ttl_seconds)
        call = calls.beat_coordinator(spelling.lease_of(lease_id, None)[0], ttl_s=ttl_s)
        return as_coordinator(self._holder.renewed(await self._ask(call)))

    async def release_coordinator_lease(self, lease_id: str | Lease) -> Released:
        """Stop coordinating; for the supervisor of another coordinator: take it away from that."""
        named = spelling.lease_of(lease_id, None)[0]
        inherited = self._holder.inherited(named)
        if inherited is not None:
            return inherited
        self._holder.end_trust(named)
        ended = (await self._ask(calls.end_coordinator(named))).view
        return Released(id=ended.id, status=ended.status, ended_reason=ended.ended_reason)

    async def get_coordinator_lease(self, lease_id: str) -> CoordinatorLease:
        """One coordinator's lease, live or ended."""
        return self._holder.take_coordinator(await self._ask(calls.get_coordinator(lease_id)))

    async def list_coordinator_leases(
        self, portfolio_id: str | None = None, *, intent_id: str | None = None
    ) -> list[CoordinatorLease]:
        """Who coordinates now: one or none."""
        seen = await self._ask(calls.list_coordinators(spelling.coordinated(portfolio_id, intent_id)))
        return [self._holder.take_coordinator(each) for each in seen]
