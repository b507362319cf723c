"""One client's side of things: who it is, which leases it knows, and under which of them the running code works."""

import os
import re
import socket
import threading
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from typing import Final
from weakref import WeakValueDictionary

from openintent.client.coordinator import CoordinatorLease, lease_of
from openintent.client.hold import Watcher
from openintent.client.keeper import Keeper
from openintent.client.lease import Lease, hold_of, show
from openintent.client.replies import Beat, Seen
from openintent.client.transport import Addresses, HttpTransport, Identity
from openintent.client.values import Heartbeat, Released
from openintent.spaces import spaces_of_intent

# Ended leases whose late replies must not be taken for new ones. A reply is not that many leases late.
DEAD_KEPT_MAX: Final = 4_096

# The leases whose blocks the running code is inside, innermost last, each with its holder and the block's watcher.
_working_under: ContextVar[tuple[tuple["Holder", Lease, Watcher], ...]] = ContextVar("working_under", default=())


def new_attempt() -> str:
    return os.urandom(16).hex()


def made_up_agent_id() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()) or "host"
    return f"{host}-{os.getpid()}-{os.urandom(4).hex()}"


class Holder:
    def __init__(self, urls: Sequence[str], api_key: str | None, agent_id: str | None, *, timeout_s: float) -> None:
        self.urls = tuple(urls)
        self.timeout_s = timeout_s
        self._api_key = api_key
        self._given_agent_id = agent_id
        self._leases: WeakValueDictionary[str, Lease] = WeakValueDictionary()
        self._dead: dict[str, None] = {}
        self._kept: dict[tuple[str, str], Lease] = {}  # by space and scope: those whose blocks are open
        self._start_anew()
        self.keeper = Keeper(self._keeper_transport, lambda: self.identity().agent_id)

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a handler of signals may use the client that it has interrupted
        self._identity = Identity(self._given_agent_id or made_up_agent_id(), self._api_key)

    def identity(self) -> Identity:
        # Leases exclude other agents only: a forked child under a made-up name of its parent would share its leases.
        if self._pid != os.getpid():
            self._start_anew()
        return self._identity

    def _keeper_transport(self) -> HttpTransport:
        return HttpTransport(Addresses(self.urls), self.identity, timeout_s=self.timeout_s)

    # What replies tell

    def take(self, seen: Seen) -> Lease:
        """One object for one lease: whoever has it sees what any reply tells about it."""
        if seen.view.agent_id != self.identity().agent_id:
            return lease_of(seen, held_by_us=False)
        with self._lock:
            known = self._leases.get(seen.view.id)
            if known is None:
                self._leases[seen.view.id] = known = lease_of(seen, held_by_us=True)
                if seen.view.id in self._dead:  # this reply was overtaken by the end of it
                    hold_of(known).release()
                return known
        show(known, seen)
        return known

    def take_coordinator(self, seen: Seen) -> CoordinatorLease:
        return as_coordinator(self.take(seen))

    def take_all(self, seen: Iterable[Seen]) -> list[Lease]:
        return [self.take(each) for each in seen]

    def renewed(self, seen: Seen) -> Lease:
        lease = self.take(seen)
        lease.check()  # the server has it, but for us it had ended already: late replies revive nothing
        self.keeper.hasten(hold_of(lease))
        return lease

    def hear(self, beat: Beat, leases: Iterable[Lease]) -> Heartbeat:
        holds = {lease.id: hold_of(lease) for lease in leases}
        for verdict in beat.heartbeat.leases:
            hold = holds.get(verdict.id)
            if hold is not None and verdict.verdict == "lost":
                hold.lose(verdict.reason or "lost")
            elif hold is not None:
                hold.confirm(beat.trust(verdict))
                if verdict.verdict == "preempt_asked":
                    hold.ask_back()
        return beat.heartbeat

    def is_dead(self, seen: Seen) -> bool:
        """Whether a grant names a lease that has ended for us: work was cancelled under this token."""
        known = self._leases.get(seen.view.id)
        return seen.view.id in self._dead or (known is not None and hold_of(known).over)

    # Ending

    def end_trust(self, lease_id: str) -> None:
        """Before a release leaves: from here on the scope may be another's at any moment."""
        lease = self._leases.get(lease_id)
        if lease is not None:
            self.keeper.drop(hold_of(lease))
            hold_of(lease).release()
        with self._lock:
            self._dead[lease_id] = None
            if len(self._dead) > DEAD_KEPT_MAX:
                self._dead.pop(next(iter(self._dead)), None)  # a handler of signals may have been faster

    def end_trusts(self, lease_ids: Iterable[str]) -> list[str]:
        """The same for many: those whose release is ours to send, each once."""
        ours = [lease_id for lease_id in dict.fromkeys(lease_ids) if self.inherited(lease_id) is None]
        for lease_id in ours:
            self.end_trust(lease_id)
        return ours

    def inherited(self, lease_id: str) -> Released | None:
        """The answer for a lease of the process that we were forked from: its release is not ours to send."""
        lease = self._leases.get(lease_id)
        if lease is None or not hold_of(lease).inherited:
            return None
        return Released(id=lease_id, status="active", message="the lease belongs to the parent process")

    # Working under a lease

    def enter(self, lease: Lease, watcher: Watcher) -> bool:
        """From here on the keeper renews it. False if it is over already."""
        hold = hold_of(lease)
        if not hold.enter(watcher):
            return False
        try:
            self.keeper.add(hold)
            self._kept[lease.space, lease.scope] = lease
            _working_under.set((*_working_under.get(), (self, lease, watcher)))
        except BaseException:
            self.leave(lease, watcher)
            raise
        return True

    def kept(self, space: str, scope: str) -> Lease | None:
        """The lease that a reentrant block may join without asking the server."""
        lease = self._kept.get((space, scope))
        return None if lease is None or hold_of(lease).over else lease

    def leave(self, lease: Lease, watcher: Watcher) -> bool:
        """Whether no block on the lease is left; then its trust has ended and it should be released.

        An interrupt may come at any moment of it: twice is as good as once.
        """
        _forget(watcher)
        if hold_of(lease).inherited or not hold_of(lease).leave(watcher):
            return False
        if self._kept.get((lease.space, lease.scope)) is lease:
            self._kept.pop((lease.space, lease.scope), None)
        self.end_trust(lease.id)
        return True

    def token_for(self, intent_id: str, lease: Lease | int | None) -> int | None:
        """The token of the lease that a write is made under; also of a lost one, so that the server refuses it."""
        under = self._innermost(spaces_of_intent(intent_id)) if lease is None else lease
        if not isinstance(under, Lease):
            return under
        if hold_of(under).inherited:
            raise hold_of(under).failure()
        return under.token

    def _innermost(self, spaces: Collection[str]) -> Lease | None:
        mine = [lease for holder, lease, _ in _working_under.get() if holder is self and lease.space in spaces]
        return mine[-1] if mine else None


def as_coordinator(lease: Lease) -> CoordinatorLease:
    assert isinstance(lease, CoordinatorLease), lease
    return lease


def _forget(watcher: Watcher) -> None:
    """Not by resetting the variable: a block may be left in another context than it was entered in."""
    _working_under.set(tuple([entry for entry in _working_under.get() if entry[2] is not watcher]))
