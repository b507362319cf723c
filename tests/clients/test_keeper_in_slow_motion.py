"""What the keeper does second by second, on a clock that the test moves. Its threads are tested in test_keeper.py."""

import logging
import os

import pytest
from samples import promise
from slowmotion import AGENT, START, Slow

from openintent.client import keeper as keeper_module
from openintent.errors import Unavailable

about = pytest.approx


@pytest.fixture
def slow(monkeypatch) -> Slow:
    return Slow(monkeypatch)


def fail(ids):
    raise Unavailable("not now")


# Renewing


def test_a_lease_is_renewed_each_third_of_its_ttl_counted_from_when_the_last_one_was_sent(slow):
    slow.behave = lambda ids: (setattr(slow, "now", slow.now + 1.0), slow.renewing(30.0)(ids))[1]
    slow.hold()
    slow.run_until(45.0)
    assert slow.beats == about([10.0, 20.0, 30.0, 40.0])
    assert slow.told == []


def test_a_heartbeat_says_who_holds_what_and_how_long_it_may_take(slow):
    slow.hold("L1")
    slow.hold("L2", ttl_s=12.0)
    slow.run_until(4.0)
    (sent,) = slow.sent
    assert sent.call.path == f"/agents/{AGENT}/heartbeat"
    assert sent.call.body == {"leases": [{"id": "L1", "token": 7}, {"id": "L2", "token": 7}]}
    assert sent.call.timeout_s == about(2.0)  # by the shortest of them


def test_the_shortest_lease_sets_the_pace(slow):
    slow.hold("long", ttl_s=60.0)
    slow.hold("short", ttl_s=6.0)
    slow.hold("middle", ttl_s=30.0)
    slow.run_until(6.5)
    assert slow.beats == about([2.0, 4.0, 6.0])


def test_a_lease_renewed_for_less_time_than_before_sets_the_pace_from_then_on(slow):
    hold = slow.hold("L1", ttl_s=60.0)
    slow.plan(5.0, lambda: hold.confirm(promise(sent_at=slow.now, remaining_s=60.0), ttl_s=6.0))
    slow.plan(5.0, lambda: slow.keeper.hasten(hold))
    slow.run_until(9.5)
    assert slow.beats == about([7.0, 9.0])


def test_after_an_empty_spell_the_pace_is_that_of_the_newcomer(slow):
    short = slow.hold("short", ttl_s=6.0)
    slow.keeper.drop(short)
    slow.hold("long", ttl_s=60.0)
    slow.run_until(21.0)
    assert slow.beats == about([20.0])


def test_a_lease_that_comes_while_a_heartbeat_is_under_way_waits_for_no_whole_period(slow):
    def answer(ids):
        if "late" not in ids:
            slow.hold("late", ttl_s=30.0, remaining_s=3.0)
        return slow.renewing(30.0)(ids)

    slow.behave = answer
    slow.hold()
    slow.run_until(11.5)
    assert slow.beats == about([10.0, 11.0])


def test_a_word_about_a_lease_is_followed_by_a_heartbeat_and_many_by_one(slow):
    for lease_id in ("L1", "L2", "L3"):
        slow.hold(lease_id)
        slow.plan(2.0, lambda lease_id=lease_id: slow.keeper.heard_of(lease_id))
    slow.plan(2.02, lambda: slow.keeper.heard_of("L1"))
    slow.run_until(12.0)
    assert slow.beats == about([2.0 + keeper_module.WORD_S])


def test_a_word_about_a_lease_that_is_not_kept_here_means_nothing(slow):
    slow.hold()
    slow.plan(2.0, lambda: slow.keeper.heard_of("L9"))
    slow.run_until(9.0)
    assert slow.beats == []


def test_a_word_that_comes_while_a_heartbeat_is_under_way_is_followed_by_another(slow):
    def answer(ids):
        if len(slow.sent) == 1:
            slow.keeper.heard_of("L1")
        return slow.renewing(30.0)(ids)

    slow.behave = answer
    slow.hold()
    slow.run_until(15.0)
    assert slow.beats == about([10.0, 10.0 + keeper_module.WORD_S])


def test_a_renewal_moves_the_end_of_trust_by_what_it_promised(slow):
    hold = slow.hold()
    slow.run_until(10.0)
    assert hold.trusted_until == about(START + 10.0 + 29.9)


def test_the_pace_goes_on_with_those_that_are_left(slow):
    slow.behave = lambda ids: [{"id": id_, "verdict": "lost", "reason": "revoked"} for id_ in ids]
    slow.hold()
    slow.run_until(60.0)
    assert slow.beats == about([10.0])


def test_all_heartbeats_go_over_one_connection(slow):
    slow.hold()
    slow.run_until(31.0)
    assert len(slow.sent) == 3
    assert slow.transports == 1


def test_many_leases_are_listed_in_turns_each_once(slow, monkeypatch):
    monkeypatch.setattr(keeper_module, "LEASES_PER_HEARTBEAT_MAX", 2)
    for n in range(5):
        slow.hold(f"L{n}")
    slow.run_until(10.0)
    assert [sent.ids for sent in slow.sent] == [["L0", "L1"], ["L2", "L3"], ["L4"]]


# Waiting


def test_a_short_lease_that_comes_while_the_keeper_sleeps_wakes_it(slow):
    slow.hold("long", ttl_s=60.0)
    slow.plan(0.2, lambda: slow.hold("short", ttl_s=0.3))
    slow.run_until(0.35)
    assert slow.beats == about([0.3])


def test_a_lease_that_is_at_risk_from_the_start_wakes_the_keeper(slow):
    slow.hold("first", ttl_s=60.0)
    slow.plan(0.1, lambda: slow.hold("short", ttl_s=60.0, remaining_s=0.3))
    slow.run_until(0.15)
    assert [(each.what, each.lease) for each in slow.told] == [("lost", "short")]


def test_long_leases_that_come_while_the_keeper_sleeps_let_it_sleep(slow, monkeypatch):
    looks = []
    look = slow.keeper._next_step
    monkeypatch.setattr(slow.keeper, "_next_step", lambda: (looks.append(slow.now - START), look())[1])
    slow.hold("long", ttl_s=60.0)
    for n in range(1, 5):
        slow.plan(n / 10, lambda n=n: slow.hold(f"L{n}", ttl_s=60.0))
    slow.run_until(1.1)
    assert looks == about([0.0, 0.5, 1.0])  # what died while the machine slept is noticed this soon


def test_the_thread_lingers_a_second_for_the_next_lease_and_ends(slow):
    slow.plan(0.6, lambda: slow.keeper.drop(hold))
    slow.plan(1.9, lambda: slow.hold("next"))
    hold = slow.hold()
    slow.run_until(1.95)
    slow.keeper.drop(slow.keeper._holds["next"])
    slow.run_until(2.9)
    assert slow.keeper._thread is not None
    slow.run_until(4.1)
    assert slow.keeper._thread is None
    slow.hold("later")
    slow.run_until(15.0)
    assert slow.sent[-1].ids == ["later"]


# Failing


def test_failures_are_told_and_retried_until_the_soft_stop(slow, caplog):
    slow.behave = fail
    hold = slow.hold()
    slow.run_until(60.0)
    assert slow.beats == about([10.0, 10.25, 10.75, 11.75, 13.75, 16.75, 19.75, 22.75])
    assert [(each.at, each.what) for each in slow.told] == [(about(20.0), "at risk"), (about(24.9), "lost")]
    assert hold.reason == "trust_ended"
    failed = [f"heartbeat failed tries={n} error=not now" for n in range(1, 9)]
    at_risk = "lease at risk id=L1 token=7"
    assert caplog.messages == [*failed[:7], at_risk, failed[7], "lease lost id=L1 token=7 reason=trust_ended"]
    assert {record.name for record in caplog.records} == {"openintent.client"}
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_after_a_success_failures_count_from_one_again(slow):
    answers = iter([fail, fail, slow.renewing(30.0), fail, slow.renewing(30.0)])

    def answer(ids):
        return next(answers)(ids)

    slow.behave = answer
    slow.hold()
    slow.run_until(21.5)
    assert slow.beats == about([10.0, 10.25, 10.75, 20.75, 21.0])


def test_the_servers_wish_for_quiet_is_honoured_in_time_for_the_first_soft_stop(slow):
    waits_s = iter([4.0, 60.0])

    def put_off(ids):
        raise Unavailable("not now", response={"retry_after_seconds": next(waits_s)})

    slow.behave = put_off
    slow.hold("long", ttl_s=60.0)
    slow.hold("short", ttl_s=30.0)
    slow.run_until(19.8)
    assert slow.beats == about([10.0, 14.0])
    slow.behave = slow.renewing(30.0)
    slow.run_until(20.0)
    assert slow.beats == about([10.0, 14.0, 19.9])  # one more try before the soft stop at 24.9


def test_what_fails_when_nothing_is_held_any_more_sets_no_time(slow):
    slow.hanging = True
    slow.behave = fail
    hold = slow.hold()
    slow.run_until(10.0)
    slow.keeper.drop(hold)
    slow.hung.pop()()
    slow.hanging = False
    slow.behave = slow.renewing(30.0)
    slow.hold("next")
    slow.run_until(20.5)
    assert slow.beats == about([10.0, 20.0])


# Hanging


def test_a_heartbeat_that_hangs_for_its_time_is_followed_by_the_next(slow):
    slow.hanging = True
    slow.hold()
    slow.run_until(10.0)
    assert len(slow.hung) == 1
    slow.run_until(15.2)
    assert len(slow.hung) == 1
    slow.run_until(15.3)
    assert len(slow.hung) == 2
    slow.run_until(20.7)
    assert len(slow.hung) == 2
    slow.run_until(20.8)
    assert len(slow.hung) == 3


def test_no_more_than_four_heartbeats_hang_at_a_time(slow):
    def hold_another_four() -> None:
        for n in range(4):
            slow.hold(f"L{n}")
            slow.run_until(slow.now - START + 25.0)

    slow.hanging = True
    hold_another_four()
    assert len(slow.hung) == 4
    slow.hung.pop()()
    slow.hung.pop()()
    hold_another_four()
    assert len(slow.hung) == 4


def test_a_try_that_cannot_start_counts_as_one_that_failed(slow, monkeypatch, caplog):
    slow.hold()

    def refuse(**_: object) -> None:
        raise RuntimeError("no thread")

    monkeypatch.setattr(keeper_module.threading, "Thread", refuse)
    slow.run_until(16.0)
    assert len(caplog.messages) == 5  # more than may hang at a time
    assert caplog.messages[0] == "heartbeat failed tries=1 error=no thread"


# Losing


def test_a_lost_verdict_ends_its_lease_with_the_servers_reason_and_no_other(slow, caplog):
    def lose_first(ids):
        return [{"id": "L1", "verdict": "lost", "reason": "revoked"}, *slow.renewing(30.0)(ids[1:])]

    slow.behave = lose_first
    lost, kept = slow.hold("L1"), slow.hold("L2")
    slow.run_until(10.0)
    assert (lost.reason, kept.reason) == ("revoked", None)
    assert [each.lease for each in slow.told] == ["L1"]
    assert caplog.messages == ["lease lost id=L1 token=7 reason=revoked"]
    slow.behave = slow.renewing(30.0)
    slow.run_until(20.0)
    assert slow.sent[-1].ids == ["L2"]


def test_a_lost_verdict_without_a_reason_is_lost_all_the_same(slow):
    slow.behave = lambda ids: [{"id": "L1", "verdict": "lost"}]
    hold = slow.hold()
    slow.run_until(10.0)
    assert hold.reason == "lost"


def test_a_verdict_on_a_lease_that_was_not_asked_for_means_nothing(slow):
    def answer(ids):
        strangers = [{"id": "x", "verdict": "lost", "reason": "expired"}, *slow.renewing(9.0)(["y"])]
        return [*strangers, *slow.renewing(30.0)(ids)]

    slow.behave = answer
    hold = slow.hold()
    slow.run_until(10.0)
    assert hold.trusted_until == about(START + 39.9)
    assert slow.told == []


def test_what_has_stopped_is_told_once_and_renewed_no_more(slow):
    slow.behave = fail
    slow.hold("first")
    slow.run_until(15.0)
    slow.hold("second")
    slow.run_until(26.0)
    assert [each.lease for each in slow.told if each.what == "lost"] == ["first"]
    assert slow.sent[-1].ids == ["second"]


def test_a_warning_is_repeated_only_after_a_renewal(slow):
    slow.behave = fail
    slow.hold()
    slow.run_until(21.0)
    slow.behave = slow.renewing(30.0)
    slow.run_until(23.0)
    slow.behave = fail
    slow.run_until(60.0)
    assert [each.what for each in slow.told] == ["at risk", "at risk", "lost"]


def test_a_late_drop_takes_no_newer_hold_of_the_same_lease_away(slow):
    old = slow.hold()
    slow.hold()
    slow.keeper.drop(old)
    slow.run_until(10.0)
    assert slow.sent[-1].ids == ["L1"]


# Ending


def test_a_closed_keeper_loses_what_it_kept_and_sends_nothing_more(slow):
    hold = slow.hold()
    slow.run_until(10.0)
    slow.hanging = True
    slow.run_until(20.0)
    slow.keeper.close()
    slow.hung.pop()()
    assert slow.beats == about([10.0])
    assert slow.closed == 1
    assert (hold.reason, slow.told[0].what) == ("client_closed", "lost")
    with pytest.raises(RuntimeError, match=r"^the client is closed$"):
        slow.hold("new")


def test_closing_twice_or_unused_is_fine(slow):
    slow.keeper.close()
    slow.keeper.close()
    assert slow.closed == 0


def test_a_keeper_that_breaks_loses_its_leases_and_says_why(slow, monkeypatch):
    hold = slow.hold()

    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(slow.keeper, "_watch", broken)
    with pytest.raises(ZeroDivisionError):
        slow.keeper._watch_safely()
    assert hold.reason == "client_closed"


def test_a_forked_child_starts_with_nothing_and_harms_nothing_of_its_parent(slow, monkeypatch):
    parents = slow.hold("parents")
    slow.run_until(10.0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    slow.keeper.drop(parents)
    slow.keeper.close()
    assert slow.closed == 0
    assert parents.reason is None
    slow.hold("childs")
    slow.run_until(20.0)
    assert slow.sent[-1].ids == ["childs"]
    assert slow.transports == 2
