"""The keeper's threads, with a transport that answers as the test says. Times are real, and short."""

import math
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest
from samples import seen_now

from openintent.client import keeper as keeper_module
from openintent.client import words as words_module
from openintent.client.calls import Call
from openintent.client.hold import Hold, Watcher
from openintent.client.keeper import Keeper
from openintent.client.replies import Reply
from openintent.clock import boot_s
from openintent.errors import Unavailable

pytestmark = pytest.mark.alone

# The leases are just long enough for a busy machine: their soft stops leave a third of a second to be late.
PATIENCE_S = 10.0


class Scripted:
    """A transport. `behave` makes the verdicts for one heartbeat, or raises, or takes its time."""

    def __init__(self, behave: Callable[[list[str]], list[dict]]) -> None:
        self.behave = behave
        self.listed: list[list[str]] = []
        self.beat = threading.Semaphore(0)

    def exchange(self, call: Call) -> Reply:
        sent_at = boot_s()
        ids = [lease["id"] for lease in call.body["leases"]]
        self.listed.append(ids)
        self.beat.release()
        body = {"status": "ok", "next_heartbeat_seconds": 1.0, "leases": self.behave(ids)}
        return Reply(200, msgspec.json.encode(body), sent_at)

    def close(self) -> None:
        pass

    def wait_beats(self, count: int) -> None:
        for _ in range(count):
            assert self.beat.acquire(timeout=PATIENCE_S)


def renewing(remaining_s: float) -> Callable[[list[str]], list[dict]]:
    return lambda ids: [{"id": id_, "verdict": "renewed", "remaining_seconds": remaining_s} for id_ in ids]


class Told:
    """What a watcher was told, and when."""

    def __init__(self) -> None:
        self.lost = threading.Event()
        self.at_risk = threading.Event()
        self.lost_at = 0.0
        self.asked = threading.Event()
        self.watcher = Watcher(self._lost, self.at_risk.set, self.asked.set)

    def _lost(self) -> None:
        self.lost_at = boot_s()
        self.lost.set()


@pytest.fixture
def keep() -> Iterator[Callable[..., tuple[Keeper, list[Hold], Told]]]:
    made = []

    def start(transport: Scripted, *ttls_s: float) -> tuple[Keeper, list[Hold], Told]:
        keeper, told = Keeper(lambda: transport, lambda: "a1"), Told()
        made.append(keeper)
        holds = [Hold(seen_now(ttl_s, f"L{index}")) for index, ttl_s in enumerate(ttls_s)]
        for hold in holds:
            hold.enter(told.watcher)
            keeper.add(hold)
        return keeper, holds, told

    yield start
    for keeper in made:
        keeper.close()


def test_renewals_keep_a_lease_alive(keep):
    transport = Scripted(renewing(1.2))
    _, (hold,), told = keep(transport, 1.2)
    transport.wait_beats(4)
    assert not hold.over
    assert not told.lost.is_set()


def test_a_lost_verdict_ends_it_at_once(keep):
    transport = Scripted(lambda ids: [{"id": ids[0], "verdict": "lost", "reason": "revoked"}])
    _, (hold,), told = keep(transport, 0.6)
    assert told.lost.wait(PATIENCE_S)
    assert hold.reason == "revoked"
    assert told.lost_at < hold.stop_at


def test_a_lease_that_is_asked_for_is_renewed_and_its_watcher_told(keep):
    asked = {"verdict": "preempt_asked", "remaining_seconds": 30.0, "reason": "ops"}
    transport = Scripted(lambda ids: [{"id": id_, **asked} for id_ in ids])
    _, (hold,), told = keep(transport, 0.6)
    assert told.asked.wait(PATIENCE_S)
    assert hold.preempt_asked
    assert hold.trusted_until > boot_s() + 20
    assert not told.lost.is_set()


def test_a_heartbeat_that_hangs_delays_no_soft_stop(keep):
    release = threading.Event()
    transport = Scripted(lambda _: (release.wait(PATIENCE_S), [])[1])
    _, (hold,), told = keep(transport, 1.2)
    stop_at, until = hold.stop_at, hold.trusted_until
    assert told.lost.wait(PATIENCE_S)
    release.set()
    assert stop_at <= told.lost_at < until
    assert told.at_risk.is_set()


def test_a_log_that_hangs_delays_no_soft_stop_and_no_heartbeat(keep, monkeypatch):
    release, began, written = threading.Event(), threading.Event(), []

    def hang(_level: int, message: str, *_: object) -> None:
        written.append(message)
        began.set()
        release.wait(PATIENCE_S)

    monkeypatch.setattr(words_module.logger, "log", hang)
    failures = iter([Unavailable(), Unavailable()])

    def fail_first(ids: list[str]) -> list[dict]:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return [*renewing(60.0)([ids[0]]), {"id": ids[1], "verdict": "lost", "reason": "revoked"}]

    transport = Scripted(fail_first)
    _, (kept, ended), told = keep(transport, 1.8, 1.8)
    stop_at = kept.stop_at
    assert told.lost.wait(PATIENCE_S)
    assert told.lost_at < stop_at
    assert (ended.reason, kept.over) == ("revoked", False)
    assert began.wait(PATIENCE_S)
    assert written == ["heartbeat failed tries=%d error=%s"]
    release.set()


def test_a_heartbeat_that_hangs_does_not_delay_the_next(keep):
    release = threading.Event()
    first = threading.Event()

    def hang_once(ids: list[str]) -> list[dict]:
        if not first.is_set():
            first.set()
            release.wait(PATIENCE_S)
        return renewing(1.8)(ids)

    transport = Scripted(hang_once)
    _, (hold,), _ = keep(transport, 1.8)
    transport.wait_beats(4)
    assert not hold.over
    release.set()


def test_a_late_reply_revives_nothing(keep):
    release = threading.Event()
    answered = threading.Event()

    def answer_late(ids: list[str]) -> list[dict]:
        release.wait(PATIENCE_S)
        answered.set()
        return renewing(60.0)(ids)

    _, (hold,), told = keep(Scripted(answer_late), 0.6)
    assert told.lost.wait(PATIENCE_S)
    release.set()
    assert answered.wait(PATIENCE_S)
    assert hold.over
    assert not hold.confirm(seen_now(60.0).trust)


def test_failures_are_retried_quickly(keep):
    failures = iter([Unavailable(), Unavailable(), OSError("so it is")])

    def fail_first(ids: list[str]) -> list[dict]:
        failure = next(failures, None)
        if failure is not None:
            raise failure
        return renewing(1.8)(ids)

    transport = Scripted(fail_first)
    _, (hold,), told = keep(transport, 1.8)
    transport.wait_beats(5)
    assert not told.lost.is_set()
    assert not hold.over


def test_all_leases_go_in_one_heartbeat(keep):
    transport = Scripted(renewing(1.5))
    keep(transport, *[1.5] * 1_000)
    transport.wait_beats(1)
    assert len(transport.listed[0]) == 1_000


def test_a_heartbeat_lists_no_more_than_the_server_takes(keep, monkeypatch):
    monkeypatch.setattr(keeper_module, "LEASES_PER_HEARTBEAT_MAX", 4)
    transport = Scripted(renewing(0.6))
    keep(transport, *[0.6] * 10)
    transport.wait_beats(3)
    assert [len(ids) for ids in transport.listed[:3]] == [4, 4, 2]


def test_one_lost_lease_does_not_harm_the_others(keep):
    def lose_first(ids: list[str]) -> list[dict]:
        return [{"id": "L0", "verdict": "lost", "reason": "expired"}, *renewing(1.2)([i for i in ids if i != "L0"])]

    transport = Scripted(lose_first)
    _, (first, second), _ = keep(transport, 1.2, 1.2)
    transport.wait_beats(3)
    assert first.over
    assert not second.over
    assert transport.listed[1] == ["L1"]


def test_what_was_dropped_is_renewed_no_more(keep):
    transport = Scripted(renewing(1.2))
    keeper, (first, _), _ = keep(transport, 1.2, 1.2)
    keeper.drop(first)
    transport.wait_beats(1)
    assert transport.listed == [["L1"]]


def test_the_thread_ends_when_nothing_is_held(keep, monkeypatch):
    monkeypatch.setattr(keeper_module, "LINGER_S", 0.01)
    keeper, (hold,), _ = keep(Scripted(renewing(0.3)), 0.3)
    thread = keeper._thread
    keeper.drop(hold)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    keeper.add(Hold(seen_now(0.3)))
    assert keeper._thread.is_alive()


def test_one_lease_after_another_wakes_nobody_up(keep, monkeypatch):
    """A worker that takes a thousand leases a second should not pay for a thousand changes of threads."""
    keeper, (hold,), _ = keep(Scripted(renewing(60.0)), 60.0)
    keeper.drop(hold)
    give_up_at = boot_s() + PATIENCE_S
    while keeper._wake_at == math.inf:
        assert boot_s() < give_up_at
    woken = []
    monkeypatch.setattr(keeper._changed, "notify_all", lambda: woken.append(boot_s()))
    for _ in range(200):
        keeper.add(hold)
        keeper.drop(hold)
    assert len(woken) <= 2  # it may just have looked by itself


def test_a_short_lease_wakes_the_thread_that_had_nothing_to_do(keep, monkeypatch):
    monkeypatch.setattr(keeper_module, "SLEEP_S_MAX", PATIENCE_S)
    transport = Scripted(renewing(1.2))
    keeper, (hold,), told = keep(transport, 60.0)
    keeper.drop(hold)
    give_up_at = boot_s() + PATIENCE_S
    while keeper._wake_at == math.inf:
        assert boot_s() < give_up_at
    short = Hold(seen_now(1.2, "short"))
    short.enter(told.watcher)
    keeper.add(short)
    transport.wait_beats(2)
    assert not short.over


def test_closing_ends_what_was_kept(keep):
    keeper, (hold,), told = keep(Scripted(renewing(60.0)), 60.0)
    keeper.close()
    assert told.lost.is_set()
    assert hold.reason == "client_closed"
    with pytest.raises(RuntimeError, match="closed"):
        keeper.add(hold)


def test_threads_that_cannot_be_had_do_not_end_the_watching(keep, monkeypatch):
    _, (hold,), told = keep(Scripted(renewing(0.6)), 0.6)

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(keeper_module.threading, "Thread", refuse)
    assert told.lost.wait(PATIENCE_S)
    assert hold.reason == "trust_ended"


def test_a_thread_that_could_not_be_had_once_is_asked_for_again(keep, monkeypatch):
    """Else nobody would watch over any lease of this client, and work would go on while another has the scope."""
    keeper, _, _ = keep(transport := Scripted(renewing(0.6)))
    told, hold = Told(), Hold(seen_now(0.6, "L1"))
    hold.enter(told.watcher)
    with monkeypatch.context() as starved, pytest.raises(RuntimeError):
        starved.setattr(threading.Thread, "start", _refuse)
        keeper.add(hold)
    keeper.add(hold)
    transport.wait_beats(2)


def _refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
