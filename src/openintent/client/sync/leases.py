"""Leases: taken, kept alive, renewed, given back, looked at."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Unpack

from msgspec import UNSET

from openintent.client import calls, flows, spelling
from openintent.client.blocks import Callback, LeaseBlock
from openintent.client.calls import Wish
from openintent.client.holder import new_attempt
from openintent.client.lease import Lease
from openintent.client.replies import Seen
from openintent.client.spelling import LeaseOptions
from openintent.client.sync.base import Base
from openintent.client.values import Released, TokenCheck, Waiter
from openintent.errors import OpenIntentError


class Leases(Base):
    def lease(
        self,
        intent_id: str | None = None,
        scope: str = "*",
        ttl: float | None = None,
        *,
        ttl_seconds: float | None = None,
        duration_seconds: float | None = None,
        space: str | None = None,
        wait_seconds: float = 0.0,
        on_lost: Callback | None = None,
        on_at_risk: Callback | None = None,
        on_preempt: Callback | None = None,
        **options: Unpack[LeaseOptions],
    ) -> LeaseBlock:
        """A block under a lease that is kept alive, as in `with client.lease(intent.id, "build") as lease:`.

        The callbacks are called with the lease, each on a thread of its own: `on_at_risk` when renewals fail,
        `on_preempt` when a higher priority has asked for it, `on_lost` at the soft stop, which is before another agent
        can get the scope.
        """
        ttl_s = spelling.ttl_of(ttl=ttl, ttl_seconds=ttl_seconds, duration_seconds=duration_seconds)
        where = spelling.space_of(intent_id, space)
        wish = spelling.make_wish(space=where, scope=scope, ttl_s=ttl_s, wait_seconds=wait_seconds, **options)
        return LeaseBlock(
            self._holder,
            wish,
            self._acquire,
            self._run,
            on_lost=on_lost,
            on_at_risk=on_at_risk,
            on_preempt=on_preempt,
        )

    def acquire_lease(
        self,
        intent_id: str | None = None,
        scope: str = "*",
        ttl_seconds: float | None = None,
        *,
        duration_seconds: float | None = None,
        space: str | None = None,
        wait_seconds: float = 0.0,
        **options: Unpack[LeaseOptions],
    ) -> Lease:
        """Take a lease that nobody renews but you. `LeaseConflictError` names the holder if the scope is held.

        With `wait_seconds` it waits in the scope's queue, and raises `WaitTimeout` when they are over.
        """
        ttl_s = spelling.ttl_of(ttl_seconds=ttl_seconds, duration_seconds=duration_seconds)
        where = spelling.space_of(intent_id, space)
        return self._acquire(
            spelling.make_wish(space=where, scope=scope, ttl_s=ttl_s, wait_seconds=wait_seconds, **options)
        )

    def acquire_leases(
        self,
        intent_id: str | None = None,
        scopes: Iterable[str] = (),
        ttl_seconds: float | None = None,
        *,
        duration_seconds: float | None = None,
        space: str | None = None,
        **options: Unpack[LeaseOptions],
    ) -> list[Lease | OpenIntentError]:
        """Take many leases in one space with few requests, none of them all or nothing.

        For each scope, in their order: the lease, or the exception that `acquire_lease` would have raised.
        """
        ttl_s = spelling.ttl_of(ttl_seconds=ttl_seconds, duration_seconds=duration_seconds)
        where = spelling.space_of(intent_id, space)
        wishes = [
            spelling.make_wish(space=where, scope=scope, ttl_s=ttl_s, wait_seconds=0.0, **options)
            for scope in spelling.scopes_of(scopes)
        ]
        return self._acquire_all(wishes)

    def _acquire(self, wish: Wish) -> Lease:
        attempt = new_attempt()
        try:
            seen = self._run(flows.acquire(wish, attempt=attempt, patience_s=self._holder.timeout_s))
            if not self._holder.is_dead(seen):
                return self._holder.take(seen)
            self._ask(calls.release(calls.lease_path(seen.view.id)))
        except OpenIntentError:
            raise  # then the flow has seen to it
        except BaseException:  # Ctrl-C, or whatever a handler of signals raises
            with suppress(Exception):
                self._run(flows.give_up(wish, attempt=attempt))
            raise
        # Our own lease came back whose work was cancelled. New work needs a new token.
        return self._acquire(wish)

    def _acquire_all(self, wishes: list[Wish]) -> list[Lease | OpenIntentError]:
        tried = [(wish, new_attempt()) for wish in wishes]
        try:
            told = self._run(flows.acquire_all(tried, patience_s=self._holder.timeout_s))
            return [self._taken(wish, seen) for wish, seen in zip(wishes, told, strict=True)]
        except OpenIntentError:
            raise
        except BaseException:
            with suppress(Exception):
                self._run(flows.give_up_all(tried))
            raise

    def _taken(self, wish: Wish, told: Seen | OpenIntentError) -> Lease | OpenIntentError:
        if isinstance(told, OpenIntentError):
            return told
        try:
            return self._acquire(wish) if self._holder.is_dead(told) else self._holder.take(told)
        except OpenIntentError as exc:
            return exc

    def renew_lease(
        self,
        intent_id: str | Lease | None = None,
        lease_id: str | Lease | None = None,
        *,
        ttl_seconds: float | None = None,
        duration_seconds: float | None = None,
    ) -> Lease:
        """`renew_lease(lease_id)` or `renew_lease(intent_id, lease_id)`. `LeaseLost` says why, if it has ended."""
        ttl_s = spelling.ttl_of(ttl_seconds=ttl_seconds, duration_seconds=duration_seconds)
        path = calls.lease_path(*spelling.lease_of(intent_id, lease_id))
        return self._holder.renewed(self._ask(calls.renew(path, ttl_s=ttl_s)))

    def release_lease(self, intent_id: str | Lease | None = None, lease_id: str | Lease | None = None) -> Released:
        """Give it back. One that has already ended is none the worse for it; the answer says how it ended."""
        named, intent = spelling.lease_of(intent_id, lease_id)
        inherited = self._holder.inherited(named)
        if inherited is not None:
            return inherited
        self._holder.end_trust(named)
        return self._ask(calls.release(calls.lease_path(named, intent)))

    def release_leases(self, leases: Iterable[str | Lease]) -> list[OpenIntentError | None]:
        """Give many back with few requests. For each, in their order: None, or what `release_lease` would raise."""
        named = [spelling.lease_of(lease, None)[0] for lease in leases]
        ours = self._holder.end_trusts(named)
        asked = [calls.release(calls.lease_path(lease_id)) for lease_id in ours]
        told = self._run(flows.together(asked, patience_s=self._holder.timeout_s))
        failed = {one: each for one, each in zip(ours, told, strict=True) if isinstance(each, OpenIntentError)}
        return [failed.get(lease_id) for lease_id in named]

    def revoke_lease(self, lease_id: str | Lease, reason: str) -> Lease:
        """End another's lease, as an operator. Its holder is told with its next heartbeat."""
        return self._holder.take(self._ask(calls.revoke(spelling.lease_of(lease_id, None)[0], reason=reason)))

    def report_progress(self, lease: str | Lease, checkpoint: Any = UNSET) -> Lease:
        """The work goes on; `checkpoint` is a note for whoever holds the scope next."""
        body = {} if checkpoint is UNSET else {"checkpoint": checkpoint}
        return self._holder.renewed(self._ask(calls.progress(spelling.lease_of(lease, None)[0], body)))

    def get_lease(self, lease_id: str) -> Lease:
        """One lease, live or ended, with its timeline."""
        return self._holder.take(self._ask(calls.get_lease(lease_id)))

    def get_leases(
        self,
        intent_id: str | None = None,
        status: str = "active",
        *,
        space: str | None = None,
        scope: str | None = None,
        agent_id: str | None = None,
    ) -> list[Lease]:
        where = spelling.space_of(intent_id, space)
        asked = partial(calls.get_leases, where, status=status, scope=scope, agent_id=agent_id)
        return self._holder.take_all(self._all(lambda at: asked(after=at)))

    def list_leases(
        self, *, agent_id: str | None = None, space: str | None = None, status: str = "active"
    ) -> list[Lease]:
        """All that this client may see."""
        where = None if space is None else spelling.space_of(None, space)
        seen = self._all(lambda at: calls.list_leases(agent_id=agent_id, space=where, status=status, after=at))
        return self._holder.take_all(seen)

    def get_queue(
        self, intent_id: str | None = None, scope: str | None = None, *, space: str | None = None
    ) -> list[Waiter]:
        return self._ask(calls.get_queue(spelling.space_of(intent_id, space), scope=scope))

    def check_token(self, space: str, scope: str, token: int) -> TokenCheck:
        """For resources that ask whether a token is the live one of the scope."""
        return self._ask(calls.check_token(spelling.space_of(None, space), scope, token=token))
