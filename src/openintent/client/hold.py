"""The holder's own view of a lease: until when it may act, and whether it is over.

It ends before the server can grant the scope to another, and once it has ended it never comes back, whatever replies
still arrive. Not promised: that work which does not look stops. Whoever shares a `Hold` between threads may: every
change is made under its lock, and `over` only ever goes one way.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from openintent.client import keeping
from openintent.client.keeping import Watched
from openintent.client.replies import Seen
from openintent.clock import boot_s
from openintent.errors import LeaseLost
from openintent.trust import Trust

RELEASED: Final = "released"
TRUST_ENDED: Final = "trust_ended"
FORKED: Final = "forked"
CLIENT_CLOSED: Final = "client_closed"
FOREIGN: Final = "foreign"
PREEMPTED: Final = "preempted"

# What a person reads. Other reasons come from the server, in its own words.
MESSAGES: Final = {
    RELEASED: "the lease was released",
    TRUST_ENDED: "no renewal of the lease was confirmed in time",
    FORKED: "a forked process does not inherit its parent's leases",
    CLIENT_CLOSED: "the client that kept the lease alive was closed",
    FOREIGN: "the lease belongs to another agent",
    PREEMPTED: "a higher priority asked for the lease, and its time is over",
}


@dataclass(frozen=True, slots=True, eq=False)
class Watcher:
    """Who wants to know. All are called from whichever thread finds out, and must be quick."""

    lost: Callable[[], None]
    at_risk: Callable[[], None]
    preempt_asked: Callable[[], None] = lambda: None


class Hold:
    def __init__(self, seen: Seen, *, clock: Callable[[], float] = boot_s) -> None:
        self.id = seen.view.id
        self.token = seen.view.token
        self.warned = False
        self.preempt_asked = seen.view.preempt_asked  # then no renewal moves its end any more
        # Why it is over, as soon as it is.
        self.reason = None if seen.view.status == "active" else seen.view.ended_reason or seen.view.status
        self._trust = seen.trust  # what was promised for the longest
        self._newest = seen.trust  # what was promised last
        self._ttl_s = seen.ttl_s
        self._clock = clock
        self._watchers: list[Watcher] = []  # one for each block that is open on it
        self._asked: tuple[Watcher, ...] = ()  # those who know that it is asked for
        self._over: threading.Event | None = None  # made for whoever waits for the end
        self._lock = threading.RLock()  # a handler of signals may use the lease that it has interrupted the use of
        self._pid = os.getpid()

    @property
    def entries(self) -> int:
        """How many blocks are open on it. As long as there are any, the keeper renews it."""
        return len(self._watchers)

    @property
    def ttl_s(self) -> float:
        return self._ttl_s

    @property
    def trusted_until(self) -> float:
        return self._trust.until

    @property
    def stop_at(self) -> float:
        """A kept lease stops its work in time to be done; for one that is not kept nobody is there to be stopped."""
        if not self.entries:
            return self._trust.until
        return self._trust.soft_stop_at(self._ttl_s)

    def watched(self) -> Watched:
        return Watched(self._newest.at_risk_from(self._ttl_s), self.stop_at, self.warned)

    def renew_at(self, *, chance: float) -> float:
        """A lease that was got back with little of its time left cannot wait for a third of its ttl."""
        ttl_s = min(self._ttl_s, self._trust.remaining_s)
        return self._newest.confirmed_at + keeping.period_s(ttl_s, chance=chance)

    # What happened

    def confirm(self, trust: Trust, *, ttl_s: float | None = None) -> bool:
        """A reply promised more time. False if it came too late to matter."""
        with self._lock:
            now = self._clock()
            if self.reason is not None or not trust.live(now) or (self.entries and now >= self.stop_at):
                return False
            self._ttl_s = ttl_s or self._ttl_s
            self._newest = max(self._newest, trust, key=lambda promise: promise.confirmed_at)
            # A promise is never taken back; a reply that took longer only tells less about it.
            self._trust = max(self._trust, trust, key=lambda promise: promise.until)
            self.warned = False
            return True

    def warn(self) -> None:
        self.warned = True
        for watcher in tuple(self._watchers):
            watcher.at_risk()

    def ask_back(self) -> None:
        """A higher priority has asked for it. Whoever watches is told, once."""
        with self._lock:
            self.preempt_asked = True
            news = [watcher for watcher in self._watchers if watcher not in self._asked]
            self._asked = tuple(self._watchers)
        for watcher in news:
            watcher.preempt_asked()

    def lose(self, reason: str) -> bool:
        """It is over against our will. Whoever watches is told, once."""
        if not self._end(reason):
            return False
        for watcher in tuple(self._watchers):
            watcher.lost()
        return True

    def release(self) -> bool:
        """It is over because we are done; false if it was before."""
        return self._end(RELEASED)

    def _end(self, reason: str) -> bool:
        with self._lock:
            if self.reason is not None:
                return False
            self.reason = reason
            self._tell_end()
            return True

    def _tell_end(self) -> None:
        if self._over is not None:
            self._over.set()

    # Who looks

    def enter(self, watcher: Watcher) -> bool:
        """False if it was over by then: the last one inside may just have left."""
        with self._lock:
            if self.reason is not None:
                return False
            self._watchers.append(watcher)
            return True

    def leave(self, watcher: Watcher) -> bool:
        """Whether nobody is inside after it; then the hold is over. Twice is as good as once."""
        with self._lock:
            if self._watchers == [watcher]:
                self.reason = self.reason or RELEASED  # first of all: an interrupt may come at any moment
                self._tell_end()
            if watcher in self._watchers:
                self._watchers.remove(watcher)
            return not self._watchers and self.reason is not None

    @property
    def inherited(self) -> bool:
        """Whether this is the copy that a fork made of its parent's hold. Nobody may ever free its lock."""
        return self._pid != os.getpid()

    @property
    def over(self) -> bool:
        """Looks at the clock itself: after a pause of the whole process, work may run before the keeper does."""
        if self.reason is not None or self.inherited:
            return True
        if self._clock() < self.stop_at:
            return False
        self.lose(TRUST_ENDED)
        return True

    @property
    def lost(self) -> bool:
        return self.over and self.reason != RELEASED

    @property
    def remaining_s(self) -> float:
        return 0.0 if self.over else max(0.0, self._trust.until - self._clock())

    def wait_over(self, timeout_s: float | None) -> bool:
        """Wait until it is over, but not longer than `timeout_s`; true if it is."""
        give_up_at = None if timeout_s is None else self._clock() + timeout_s
        while not self.over:
            now = self._clock()
            if give_up_at is not None and now >= give_up_at:
                return False
            until = self.stop_at if give_up_at is None else min(self.stop_at, give_up_at)
            # A renewal may move the stop while we wait, and the clock of `wait` stops when the machine sleeps.
            self._end_to_come().wait(min(until - now, 1.0))
        return True

    def _end_to_come(self) -> threading.Event:
        with self._lock:
            if self._over is None:
                self._over = threading.Event()
            if self.reason is not None:
                self._over.set()  # it has come, between the look and now
            return self._over

    def failure(self) -> LeaseLost:
        reason = FORKED if self.inherited else self.reason or TRUST_ENDED
        # That trust ended is how it was taken, then, not why.
        return lease_lost(PREEMPTED if self.preempt_asked and reason == TRUST_ENDED else reason, self.token)


def lease_lost(reason: str, token: int) -> LeaseLost:
    message = MESSAGES.get(reason, f"the lease has ended: {reason}")
    return LeaseLost(message, code="lease_lost", response={"reason": reason, "token": token})
