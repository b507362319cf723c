"""A keeper in slow motion: the test is its thread, and time passes only where the keeper waits."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import msgspec
import pytest
from samples import promise, seen

from openintent.client import keeper as keeper_module
from openintent.client import words as words_module
from openintent.client.calls import Call
from openintent.client.hold import Hold, Watcher
from openintent.client.keeper import Keeper
from openintent.client.replies import Reply

START = 1_000.0
AGENT = "ann"
ROUNDS_MAX = 10_000  # a keeper that goes round without waiting must fail a test, not hang it


@dataclass
class Sent:
    """One heartbeat."""

    at: float
    ids: list[str]
    call: Call


@dataclass
class Told:
    at: float
    what: str
    lease: str


class Enough(Exception):
    """The time that the test wanted to see has passed."""


class Waiting:
    """In the place of a condition: who waits moves the clock, past what the test put into that time."""

    def __init__(self, slow: "Slow") -> None:
        self._slow = slow
        self._rounds = 0
        self._notified = False

    def notify_all(self) -> None:
        self._notified = True

    def wait(self, seconds: float) -> None:
        slow, until = self._slow, self._slow.now + seconds
        self._notified = False
        while slow.planned and slow.planned[0][0] <= min(until, slow.end):
            slow.now, act = slow.planned.pop(0)
            act()
            if self._notified:
                return
        if until > slow.end:
            raise Enough
        slow.now = until

    def wait_for(self, needed: Callable[[], bool], seconds: float) -> bool:
        self._rounds += 1
        assert self._rounds < ROUNDS_MAX
        if not needed():
            self.wait(seconds)
        return needed()


class Slow:
    """`behave` makes the verdicts for one heartbeat, or raises. With `hanging`, heartbeats start and do not go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.end = START
        self.planned: list[tuple[float, Callable[[], object]]] = []
        self.behave: Callable[[list[str]], list[dict]] = self.renewing(30.0)
        self.watching = False
        self.hanging = False
        self.hung: list[Callable[[], None]] = []
        self.sent: list[Sent] = []
        self.told: list[Told] = []
        self.transports = 0
        self.closed = 0
        monkeypatch.setattr(keeper_module, "boot_s", lambda: self.now)
        monkeypatch.setattr(keeper_module, "_chance", lambda: 0.5)
        threads = SimpleNamespace(Thread=self._thread, RLock=contextlib.nullcontext, Condition=lambda _: Waiting(self))
        monkeypatch.setattr(keeper_module, "threading", threads)
        at_once = SimpleNamespace(Thread=lambda *, target, name, daemon: _Started(target), Lock=threading.Lock)
        monkeypatch.setattr(words_module, "threading", at_once)
        self.keeper = Keeper(self._transport, lambda: AGENT)

    # What the keeper is given

    def _thread(self, *, target: Callable[..., None], args: tuple = (), name: str, daemon: bool) -> "_Started":
        assert daemon, f"{name} would keep the process from ending"
        if name == "openintent-keeper":
            assert target == self.keeper._watch_safely
            return _Started(self._watch)
        assert name == "openintent-heartbeat"
        go_on = lambda: target(*args)  # noqa: E731  # it is put away, or called
        return _Started(lambda: self.hung.append(go_on)) if self.hanging else _Started(go_on)

    def _watch(self) -> None:
        self.watching = True

    def _transport(self) -> "Slow":
        self.transports += 1
        return self

    def exchange(self, call: Call) -> Reply:
        sent_at = self.now
        ids = [lease["id"] for lease in call.body["leases"]]
        self.sent.append(Sent(sent_at - START, ids, call))
        body = {"status": "ok", "next_heartbeat_seconds": 1.0, "leases": self.behave(ids)}
        return Reply(200, msgspec.json.encode(body), sent_at)

    def close(self) -> None:
        self.closed += 1

    @staticmethod
    def renewing(remaining_s: float) -> Callable[[list[str]], list[dict]]:
        return lambda ids: [{"id": id_, "verdict": "renewed", "remaining_seconds": remaining_s} for id_ in ids]

    # What the test does

    def hold(self, lease_id: str = "L1", *, ttl_s: float = 30.0, remaining_s: float | None = None) -> Hold:
        """A lease that was granted this moment, and is kept from now on."""
        trust = promise(sent_at=self.now, remaining_s=ttl_s if remaining_s is None else remaining_s)
        hold = Hold(seen(trust, lease_id=lease_id, ttl_s=ttl_s), clock=lambda: self.now)
        hold.enter(Watcher(lambda: self._tell("lost", lease_id), lambda: self._tell("at risk", lease_id)))
        self.keeper.add(hold)
        return hold

    def _tell(self, what: str, lease: str) -> None:
        self.told.append(Told(self.now - START, what, lease))

    def plan(self, seconds: float, act: Callable[[], object]) -> None:
        """Have something happen so many seconds after the start, while the keeper waits. In order of time."""
        self.planned.append((START + seconds, act))

    def run_until(self, seconds: float) -> None:
        """Do all that the keeper does up to so many seconds after the start."""
        self.end = START + seconds
        if self.watching:
            with contextlib.suppress(Enough):
                self.keeper._watch()
                self.watching = False
        self.now = self.end

    @property
    def beats(self) -> list[float]:
        return [sent.at for sent in self.sent]


@dataclass
class _Started:
    start: Callable[[], None]
