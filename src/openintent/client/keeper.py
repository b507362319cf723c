"""Keeps the leases of one client alive, and stops their work in time when it cannot.

One thread watches the deadlines of all kept leases and decides by `keeping.next_step`. It never sends: each heartbeat
is tried on a thread of its own, so that one which hangs, in a socket or in a name lookup, delays no soft stop and
not even the next try; nor does it write to the log itself, which may hang as well. The authority on a lease is the
server; where it is silent, the boot clock is.

Promised: every watcher is told before trust ends. Not promised: that what it does about it takes no time.
"""

import math
import os
import threading
from collections.abc import Callable, Container, Mapping
from typing import Final

from openintent.chance import SPREAD
from openintent.client import calls, keeping
from openintent.client.drivers import Transport
from openintent.client.hold import CLIENT_CLOSED, TRUST_ENDED, Hold
from openintent.client.keeping import Renew, Sleep, Stop, Warn
from openintent.client.replies import Beat
from openintent.client.words import Words
from openintent.clock import boot_s
from openintent.errors import Unavailable

# The clock of `Condition.wait` stands still while the machine sleeps, ours does not: after waking up, leases that
# died in the meantime are noticed this soon.
SLEEP_S_MAX: Final = 0.5
# How long the thread stays when nothing is held: a worker takes one lease after another.
LINGER_S: Final = 1.0
# Tries that hang beyond their time are left behind; more of them than this would be a leak.
TRIES_MAX: Final = 4
# Words about leases that come within so much time are followed by one heartbeat.
WORD_S: Final = 0.05
# The server takes no more in one heartbeat.
LEASES_PER_HEARTBEAT_MAX: Final = 10_000


def _chance() -> float:
    return SPREAD.random()


class Keeper:
    """Holds are added when a block is entered and dropped when it is left. Any thread may do so."""

    def __init__(self, transport: Callable[[], Transport], agent_id: Callable[[], str]) -> None:
        self._make_transport = transport
        self._agent_id = agent_id
        self._start_anew()

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        # Taken as it is, and not through the condition, whose methods an interrupt can leave with the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._words = Words()
        self._holds: dict[str, Hold] = {}
        self._thread: threading.Thread | None = None
        self._transport: Transport | None = None
        self._renew_at = 0.0
        self._wake_at = math.inf
        self._needed_until = 0.0
        self._word_at = 0.0
        self._failures = 0
        self._tries = 0
        self._closed = False

    # For the clients

    def add(self, hold: Hold) -> None:
        if self._pid != os.getpid():
            self._start_anew()  # a forked child has neither its parent's thread nor its leases
        with self._lock:
            self._ensure_thread()
            due = hold.renew_at(chance=_chance())
            self._renew_at = min(self._renew_at, due) if self._holds else due
            self._holds[hold.id] = hold
            self._needed_until = boot_s() + LINGER_S
            # Waking up looks at every lease; a thousand new ones in a row are not worth a thousand looks.
            if min(self._renew_at, hold.watched().at_risk_at) < self._wake_at:
                self._changed.notify_all()

    def drop(self, hold: Hold) -> None:
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._holds.get(hold.id) is hold:
                del self._holds[hold.id]
                self._needed_until = boot_s() + LINGER_S

    def hasten(self, hold: Hold) -> None:
        """It may have been renewed for less time than before, and then the next heartbeat is due sooner."""
        if self._pid != os.getpid():
            return
        with self._lock:
            due = hold.renew_at(chance=_chance())
            if self._holds.get(hold.id) is hold and due < self._renew_at:
                self._renew_at = due
                self._changed.notify_all()

    def heard_of(self, lease_id: str) -> None:
        """Word has come that it may have ended. Only the server can tell: it is asked now, not when it is time."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if lease_id in self._holds:
                self._word_at = boot_s()
                self._renew_at = min(self._renew_at, self._word_at + WORD_S)
                self._changed.notify_all()

    def close(self) -> None:
        if self._pid != os.getpid():
            return
        with self._lock:
            self._closed = True
            holds, self._holds = list(self._holds.values()), {}
            transport, self._transport = self._transport, None
            self._changed.notify_all()
        for hold in holds:
            hold.lose(CLIENT_CLOSED)
        if transport is not None:
            transport.close()

    def _ensure_thread(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._thread is None:
            thread = threading.Thread(target=self._watch_safely, name="openintent-keeper", daemon=True)
            thread.start()  # if the system has none left, the next lease tries again
            self._thread = thread

    # The watching thread

    def _watch_safely(self) -> None:
        try:
            self._watch()
        except BaseException:
            self.close()  # better no lease than one that nobody watches
            raise

    def _watch(self) -> None:
        while True:
            with self._lock:
                if self._closed or (not self._holds and boot_s() >= self._needed_until):
                    self._thread = None
                    return
                step = self._next_step()
                if isinstance(step, Sleep):
                    self._sleep(min(step.seconds, SLEEP_S_MAX))
                    continue
                concerned = self._take(step)
            self._obey(step, concerned)

    def _sleep(self, seconds: float) -> None:
        self._wake_at = boot_s() + seconds
        self._changed.wait(seconds)
        self._wake_at = math.inf

    def _next_step(self) -> Stop | Warn | Renew | Sleep:
        if not self._holds:
            return Sleep(SLEEP_S_MAX)  # the next lease is hardly in such a hurry; if it is, it wakes us up
        watched = {id_: hold.watched() for id_, hold in self._holds.items()}
        return keeping.next_step(now=boot_s(), leases=watched, renew_at=self._renew_at)

    def _take(self, step: Stop | Warn | Renew) -> list[Hold]:
        """Under the lock: which holds the step concerns. What is stopped is renewed no more."""
        if isinstance(step, Stop):
            return [self._holds.pop(id_) for id_ in step.ids]
        if isinstance(step, Warn):
            return [self._holds[id_] for id_ in step.ids]
        # If nothing is heard of this try in its time, it counts as failed, and the next one goes out.
        self._failures += 1
        self._renew_at = boot_s() + keeping.try_s(self._ttl_s()) + self._retry_s()
        return list(self._holds.values())

    def _obey(self, step: Stop | Warn | Renew, concerned: list[Hold]) -> None:
        if isinstance(step, Renew):
            self._start_try(concerned)
            return
        for hold in concerned:
            if isinstance(step, Stop):
                self._lose(hold, TRUST_ENDED)
            else:
                hold.warn()
                self._words.warning("lease at risk id=%s token=%s", hold.id, hold.token)

    def _lose(self, hold: Hold, reason: str) -> None:
        if hold.lose(reason):
            self._words.warning("lease lost id=%s token=%s reason=%s", hold.id, hold.token, reason)

    def _ttl_s(self) -> float:
        return min(hold.ttl_s for hold in self._holds.values())

    def _retry_s(self) -> float:
        return keeping.retry_s(self._ttl_s(), failures=self._failures)

    # A try, on its own thread

    def _start_try(self, holds: list[Hold]) -> None:
        with self._lock:
            if self._tries >= TRIES_MAX or self._closed:
                return
            self._tries += 1
        try:
            threading.Thread(target=self._try, args=(holds,), name="openintent-heartbeat", daemon=True).start()
        except RuntimeError as exc:  # no thread is to be had; the watching must go on all the same
            self._failed(exc)
            self._ended_try()

    def _try(self, holds: list[Hold]) -> None:
        try:
            self._beat(holds)
        except Exception as exc:  # noqa: BLE001  # whatever it was, the lease was not renewed, and time decides
            self._failed(exc)
        finally:
            self._ended_try()

    def _ended_try(self) -> None:
        with self._lock:
            self._tries -= 1
            self._changed.notify_all()

    def _beat(self, holds: list[Hold]) -> None:
        sent_at = boot_s()
        for first in range(0, len(holds), LEASES_PER_HEARTBEAT_MAX):
            listed = {hold.id: hold for hold in holds[first : first + LEASES_PER_HEARTBEAT_MAX]}
            self._judge(self._send(listed), listed)
        with self._lock:
            self._failures = 0
            if self._holds:
                self._renew_at = self._next_beat_at(sent_at, {hold.id for hold in holds})

    def _send(self, listed: Mapping[str, Hold]) -> Beat:
        body = {"leases": [{"id": hold.id, "token": hold.token} for hold in listed.values()]}
        timeout_s = keeping.try_s(min(hold.ttl_s for hold in listed.values()))
        call = calls.heartbeat(self._agent_id(), body, timeout_s=timeout_s)
        return call.parse(self._own_transport().exchange(call))

    def _own_transport(self) -> Transport:
        """A connection of its own: the user's requests must not hold up a heartbeat."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            if self._transport is None:
                self._transport = self._make_transport()
            return self._transport

    def _judge(self, beat: Beat, listed: Mapping[str, Hold]) -> None:
        for verdict in beat.heartbeat.leases:
            hold = listed.get(verdict.id)
            if hold is not None and verdict.verdict == "lost":
                self.drop(hold)
                self._lose(hold, verdict.reason or "lost")
            elif hold is not None:
                hold.confirm(beat.trust(verdict))
                if verdict.verdict == "preempt_asked":
                    hold.ask_back()

    def _next_beat_at(self, sent_at: float, listed: Container[str]) -> float:
        """One period after the last; sooner for what came while it was under way: a lease with little time, a word."""
        newcomers = [hold.renew_at(chance=_chance()) for id_, hold in self._holds.items() if id_ not in listed]
        word = [self._word_at + WORD_S] if self._word_at >= sent_at else []
        return min([sent_at + keeping.period_s(self._ttl_s(), chance=_chance()), *newcomers, *word])

    def _failed(self, exc: Exception) -> None:
        with self._lock:
            if not self._holds or self._closed:
                return
            self._words.warning("heartbeat failed tries=%d error=%s", self._failures, exc)
            retry_after_s = exc.retry_after if isinstance(exc, Unavailable) else None
            self._renew_at = keeping.retry_at(
                now=boot_s(),
                ttl_s=self._ttl_s(),
                failures=self._failures,
                stop_at=min(hold.stop_at for hold in self._holds.values()),
                retry_after_s=retry_after_s,
            )
