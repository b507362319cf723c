"""`with client.lease(...)` and `async with client.lease(...)`: the lease is kept alive inside and given back after.

When it is lost, a task is cancelled and the block raises `LeaseLost` in place of that cancellation; a thread cannot
be cancelled, so it looks at `lease.lost` or `lease.check()`, or has a callback called. A body that ends normally
under a lost lease raises `LeaseLost` too: its work may have been done without protection. An exception of the body's
own stays what it is. Trust ends before the release is sent, and the release survives cancellation, within a bound.

Whatever a handler of signals raises, on the way in or out, leaves no lease behind. Not promised: the instant between
the body's last step and the first of `__exit__`, about which Python lets nobody do anything.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from openintent.client import calls, flows
from openintent.client.calls import Wish
from openintent.client.coordinator import CoordinatorLease
from openintent.client.flows import Flow
from openintent.client.hold import TRUST_ENDED, Watcher, lease_lost
from openintent.client.holder import Holder
from openintent.client.lease import Lease, hold_of
from openintent.client.values import Released
from openintent.errors import LeaseLost, OpenIntentError

logger = logging.getLogger("openintent.client")

Callback: TypeAlias = Callable[[Lease], object]

# The work is done; for a server that cannot be reached nobody should wait long. It lets go by itself after one ttl.
RELEASE_S_MAX: Final = 5.0
# Of a lease that was lost because no answer came, the release will hardly get one.
LOST_RELEASE_S_MAX: Final = 1.0
# A lease that was got back may end just then, because the last block on it is left. So often in a row is no accident.
ENTER_TRIES_MAX: Final = 5


class Block:
    """What both kinds of block do on the way in and on the way out."""

    def __init__(
        self,
        holder: Holder,
        wish: Wish,
        *,
        on_lost: Callback | None = None,
        on_at_risk: Callback | None = None,
        on_preempt: Callback | None = None,
    ) -> None:
        self._holder = holder
        self._wish = wish
        self._on_lost = on_lost
        self._on_at_risk = on_at_risk
        self._on_preempt = on_preempt
        self._watcher = Watcher(self._tell_lost, self._tell_at_risk, self._tell_preempt_asked)
        self._lease: Lease | None = None  # stays when the block is left: a callback may still want it
        self._inside = False

    def _refuse_twice(self) -> None:
        if self._inside:
            raise RuntimeError("this block is open already; call client.lease(...) for each")

    def _join(self) -> Lease | None:
        """The same client's own block on the same scope, if the wish allows it and there is one."""
        lease = self._holder.kept(self._wish.space, self._wish.scope) if self._wish.reentrant else None
        return lease if lease is not None and self._open(lease) else None

    def _open(self, lease: Lease) -> bool:
        self._lease = lease
        self._inside = self._holder.enter(lease, self._watcher)
        return self._inside

    def _shut(self) -> tuple[int, LeaseLost | None, Callable[[], Flow[Released]] | None]:
        """End the trust. The token, what became of the lease if it was lost, and the release if one is due."""
        lease, self._inside = self._lease, False
        assert lease is not None
        hold = hold_of(lease)
        failure = hold.failure() if hold.lost and not hold.inherited else None
        if not self._holder.leave(lease, self._watcher):
            return lease.token, failure, None
        return lease.token, failure, self._release(lease, failure)

    def _release(self, lease: Lease, failure: LeaseLost | None) -> Callable[[], Flow[Released]] | None:
        call = calls.release(calls.lease_path(lease.id))
        if failure is None:
            return partial(flows.patiently, call, patience_s=min(lease.ttl_seconds, RELEASE_S_MAX))
        # If the server itself said that it has ended, there is nothing to give back.
        told = hold_of(lease).reason != TRUST_ENDED
        return None if told else partial(flows.patiently, call, patience_s=LOST_RELEASE_S_MAX)

    def _how_it_ended(self, token: int, failure: LeaseLost | None, released: Released | None) -> LeaseLost | None:
        """The answer to the release may be the first to tell of a revocation."""
        if failure is not None or released is None or released.status == "released":
            return failure
        return lease_lost(released.ended_reason or released.status, token)

    def _tell_lost(self) -> None:
        self._stop()
        self._call(self._on_lost)

    def _tell_at_risk(self) -> None:
        self._call(self._on_at_risk)

    def _tell_preempt_asked(self) -> None:
        self._call(self._on_preempt)

    def _stop(self) -> None:
        """Stop the work, as far as that can be done from outside."""

    def _call(self, callback: Callback | None) -> None:
        # On a thread of its own: one slow callback must not delay the soft stop of another lease.
        lease = self._lease
        if callback is None or lease is None:
            return
        told = (callback, lease)
        try:
            threading.Thread(target=_call_safely, args=told, name="openintent-callback", daemon=True).start()
        except RuntimeError:  # no thread is to be had; told slowly is better than not at all
            _call_safely(*told)


def _call_safely(callback: Callback, lease: Lease) -> None:
    try:
        callback(lease)
    except Exception:
        logger.exception("callback failed lease=%s", lease.id)


def report_unreleased(exc: Exception) -> None:
    """It may have been released all the same: the answer is what is missing."""
    logger.warning("release failed, the lease will lapse error=%s", exc)


class LeaseBlock(Block):
    def __init__(
        self,
        holder: Holder,
        wish: Wish,
        acquire: Callable[[Wish], Lease],
        run: Callable[[Flow[Released]], Released],
        *,
        on_lost: Callback | None = None,
        on_at_risk: Callback | None = None,
        on_preempt: Callback | None = None,
    ) -> None:
        super().__init__(holder, wish, on_lost=on_lost, on_at_risk=on_at_risk, on_preempt=on_preempt)
        self._acquire = acquire
        self._run = run

    def __enter__(self) -> Lease:
        self._refuse_twice()
        self._lease = None
        try:
            return self._entered()
        except OpenIntentError:
            raise  # then there is nothing to give back
        except BaseException:  # Ctrl-C, or whatever a handler of signals raises
            self._back_out()
            raise

    def _entered(self) -> Lease:
        for _ in range(ENTER_TRIES_MAX):
            joined = self._join()
            if joined is not None:
                return joined
            self._lease = lease = self._acquire(self._wish)
            if self._open(lease):
                return lease
        raise hold_of(lease).failure()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: object) -> None:
        try:
            failure = self._left()
        except BaseException:
            self._back_out()
            raise
        if failure is not None and exc is None:
            raise failure

    def _left(self) -> LeaseLost | None:
        token, failure, release = self._shut()
        return self._how_it_ended(token, failure, self._give_back(release))

    def _back_out(self) -> None:
        """After an interrupt on the way in or out, of which nobody knows how far it had come."""
        lease, self._inside = self._lease, False
        if lease is None:
            return
        # A reentrant wish may have been answered with a lease that somebody further out still works under.
        untouched = not (self._wish.reentrant or hold_of(lease).entries)
        if self._holder.leave(lease, self._watcher) or untouched:
            call = calls.release(calls.lease_path(lease.id))
            self._give_back(partial(flows.patiently, call, patience_s=LOST_RELEASE_S_MAX))

    def _give_back(self, release: Callable[[], Flow[Released]] | None) -> Released | None:
        try:
            return None if release is None else self._run(release())
        except (OpenIntentError, RuntimeError) as exc:  # RuntimeError: the client was closed inside the block
            report_unreleased(exc)
            return None


class CoordinatorBlock(LeaseBlock):
    def __enter__(self) -> CoordinatorLease:
        entered: Any = super().__enter__()  # to look at what it is would be one more moment for an interrupt
        lease: CoordinatorLease = entered
        return lease
