"""The procedures, with neither transport nor clock: a test plays the driver."""

import msgspec
import pytest
from samples import promise, seen

from openintent.client import calls, flows
from openintent.client.calls import Call, Wish
from openintent.client.flows import Now, Pause
from openintent.client.replies import Page
from openintent.errors import LeaseConflictError, LeaseLost, NotFoundError, OutcomeUnknown, Unavailable, WaitTimeout

WISH = Wish(space="intent:i1", scope="deploy", ttl_s=30.0)
WAITING = Wish(space="intent:i1", scope="deploy", ttl_s=30.0, wait_s=25.0)
READ = calls.get_intent("i1")
REVOKE = calls.revoke("L1", reason="why not")


class Play:
    """Drives a flow by hand. Calls are kept; the clock moves by the pauses and by what the test says."""

    def __init__(self, flow) -> None:
        self._flow = flow
        self.now = 0.0
        self.sent: list[Call] = []
        self.pauses: list[Pause] = []
        self.result = None
        self.done = False
        self._ask = next(flow)

    def answer(self, *answers) -> "Play":
        """Answers to the next calls: a value, or an exception; a pair lets so many seconds pass first."""
        for answer in answers:
            self._until_call()
            self.sent.append(self._ask)
            delay_s, what = answer if isinstance(answer, tuple) else (0.0, answer)
            self.now += delay_s
            self._step(what)
        self._until_call()
        return self

    def _until_call(self) -> None:
        while not self.done and not isinstance(self._ask, Call):
            if isinstance(self._ask, Pause):
                self.pauses.append(self._ask)
                self.now += self._ask.at_most_s
            self._step(self.now if isinstance(self._ask, Now) else None)

    def _step(self, what) -> None:
        try:
            self._ask = self._flow.throw(what) if isinstance(what, Exception) else self._flow.send(what)
        except StopIteration as done:
            self.result, self.done = done.value, True


def acquire(wish: Wish = WISH, patience_s: float = 30.0) -> Play:
    return Play(flows.acquire(wish, attempt="t1", patience_s=patience_s))


def patiently(call: Call, patience_s: float = 30.0) -> Play:
    return Play(flows.patiently(call, patience_s=patience_s))


def attempts(play: Play) -> set[str | None]:
    return {call.headers.get("Idempotency-Key") for call in play.sent}


# Patience


def test_what_did_not_happen_is_tried_again():
    play = patiently(READ).answer(Unavailable(), Unavailable(), "the intent")
    assert play.result == "the intent"
    assert [call.path for call in play.sent] == ["/intents/i1"] * 3


def test_the_pauses_double_up_to_a_bound():
    play = patiently(READ, patience_s=1e9).answer(*[Unavailable()] * 9)
    assert [pause.at_most_s for pause in play.pauses] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert {pause.at_least_s for pause in play.pauses} == {0.0}


def test_a_thousand_failures_are_no_error_of_arithmetic():
    assert flows.backoff(5_000) == Pause(0.0, flows.BACKOFF_S_MAX)


def test_the_servers_wish_for_quiet_is_honoured():
    play = patiently(READ).answer(Unavailable(response={"retry_after_seconds": 2.5}), "the intent")
    assert play.pauses == [Pause(2.5, 2.6)]


def test_patience_ends():
    with pytest.raises(Unavailable):
        patiently(READ, patience_s=3.0).answer((4.0, Unavailable()))


def test_a_wish_for_quiet_beyond_the_patience_ends_it_at_once():
    with pytest.raises(Unavailable):
        patiently(READ).answer(Unavailable(response={"retry_after_seconds": 60}))


def test_that_no_server_is_there_is_said_soon():
    with pytest.raises(Unavailable):
        patiently(READ).answer((6.0, Unavailable(code="unreachable")))


def test_a_limit_is_an_answer():
    with pytest.raises(Unavailable):
        patiently(READ).answer(Unavailable(code="limit_reached"))


def test_an_unknown_outcome_is_repeated_only_if_twice_is_once():
    assert patiently(READ).answer(OutcomeUnknown(), "the intent").result == "the intent"
    with pytest.raises(OutcomeUnknown):
        patiently(REVOKE).answer(OutcomeUnknown())


def test_a_refusal_goes_to_the_caller():
    with pytest.raises(LeaseConflictError):
        acquire().answer(LeaseConflictError())


def test_no_try_outlives_the_patience_by_much():
    play = patiently(READ, patience_s=4.0).answer((3.5, Unavailable()), "the intent")
    assert [call.timeout_s for call in play.sent] == [4.0, flows.TRY_S_MIN]


# Acquiring


def test_a_retried_acquire_is_the_same_attempt():
    play = acquire().answer(OutcomeUnknown(), Unavailable(), seen())
    assert attempts(play) == {"t1"}
    assert len({str(call.body) for call in play.sent}) == 1
    assert play.result == seen()


def test_every_slice_of_a_wait_is_the_same_attempt():
    play = acquire(WAITING).answer((8.4, WaitTimeout()), (8.4, WaitTimeout()), seen(promise(16.8)))
    assert attempts(play) == {"t1"}
    assert [call.body["wait_seconds"] for call in play.sent] == pytest.approx([25 / 3, 25 / 3, 25 - 16.8])


def test_no_slice_is_longer_than_ten_seconds():
    for wait_s in (0.5, 10.0, 10.1, 25.0, 299.0, 86_400.0):
        assert flows.even_slice_s(wait_s) <= flows.SLICE_S_MAX


def test_a_slice_is_given_more_time_than_it_waits():
    play = acquire(WAITING).answer(seen())
    assert play.sent[0].timeout_s > play.sent[0].body["wait_seconds"]


@pytest.mark.parametrize(("patience_s", "spare_s"), [(30.0, 5.0), (2.0, 2.0), (0.1, flows.TRY_S_MIN)])
def test_an_answer_to_a_wait_may_be_no_later_than_the_patience(patience_s, spare_s):
    play = acquire(WAITING, patience_s).answer(seen())
    assert play.sent[0].timeout_s == play.sent[0].body["wait_seconds"] + spare_s


def test_waiting_goes_on_at_least_once_a_second():
    play = acquire(WAITING).answer(*[Unavailable(code="unreachable")] * 12, seen(promise(11.0)))
    assert max(pause.at_most_s for pause in play.pauses) <= 1.0
    assert play.done


def test_a_waiter_that_is_sent_away_early_takes_a_breath():
    play = acquire(WAITING).answer(WaitTimeout(), WaitTimeout(), seen(promise(1.0)))
    assert [pause.at_most_s for pause in play.pauses] == [0.1, 0.2]


def test_the_last_slice_is_still_a_wait():
    play = acquire(WAITING).answer((24.9999, WaitTimeout()), seen(promise(25.0)))
    assert play.sent[-1].body["wait_seconds"] == flows.SLICE_S_MIN


def test_whoever_gives_up_waiting_leaves_the_queue():
    play = acquire(WAITING).answer((25.0, WaitTimeout()))
    assert play._ask.method == "DELETE"
    assert play._ask.path == "/intents/i1/leases?attempt=t1"
    with pytest.raises(WaitTimeout):
        play.answer(None)


def test_whoever_gives_up_on_an_unknown_outcome_takes_it_back():
    play = acquire().answer((31.0, OutcomeUnknown()))
    assert play._ask.path == "/intents/i1/leases?attempt=t1"
    with pytest.raises(OutcomeUnknown):
        play.answer(Unavailable())


def test_giving_up_a_reentrant_attempt_leaves_the_outer_lease_alone():
    wish = Wish(space="intent:i1", reentrant=True)
    with pytest.raises(OutcomeUnknown):
        Play(flows.acquire(wish, attempt="t1", patience_s=30.0)).answer((31.0, OutcomeUnknown()))


def test_a_grant_that_was_heard_of_late_is_renewed_first():
    play = acquire().answer((29.0, seen()))
    assert play._ask.method == "PATCH"
    assert play._ask.path == "/leases/L1"
    assert play.answer(seen(promise(29.0))).result == seen(promise(29.0))


def test_a_grant_that_was_heard_of_too_late_is_lost():
    with pytest.raises(LeaseLost):
        acquire().answer((31.0, seen()), LeaseLost())


def test_a_grant_after_a_wait_counts_from_the_end_of_the_wait():
    play = acquire(WAITING).answer((9.0, seen(promise(waited_s=8.9))))
    assert play.done


# Many at once

TRIED = [(Wish(space="intent:i1", scope=scope, ttl_s=30.0), f"t-{scope}") for scope in "abc"]


def acquire_all() -> Play:
    return Play(flows.acquire_all(TRIED, patience_s=30.0))


def parts(play: Play) -> list[list[tuple[str, str]]]:
    """What each batch asked for, and under which attempt."""
    bodies = [msgspec.json.decode(msgspec.json.encode(call.body)) for call in play.sent if call.path == "/batch"]
    return [[(part["body"]["scope"], part["attempt"]) for part in body["requests"]] for body in bodies]


def test_a_batch_of_which_no_answer_came_is_repeated_under_the_same_attempts():
    play = acquire_all().answer(OutcomeUnknown(), Unavailable(), [seen(), seen(), seen()])
    assert play.result == [seen(), seen(), seen()]
    assert parts(play) == [[("a", "t-a"), ("b", "t-b"), ("c", "t-c")]] * 3


def test_only_what_did_not_happen_is_tried_again():
    shed, held = Unavailable(response={"retry_after_seconds": 2.0}), LeaseConflictError()
    play = acquire_all().answer([shed, held, OutcomeUnknown()], [Unavailable(), seen()], [seen()])
    assert parts(play)[1:] == [[("a", "t-a"), ("c", "t-c")], [("a", "t-a")]]
    assert play.pauses[0] == Pause(2.0, 2.1)
    assert play.result == [seen(), held, seen()]


def test_a_limit_is_an_answer_in_its_place():
    limit = Unavailable(code="limit_reached")
    play = acquire_all().answer([limit, seen(), seen()])
    assert play._ask.path == "/intents/i1/leases?attempt=t-a"  # as after any failure
    assert play.answer(None).result == [limit, seen(), seen()]


def test_what_fails_to_the_end_is_given_up_and_the_others_stay():
    failed = OutcomeUnknown()
    play = acquire_all().answer((31.0, [failed, seen(promise(31.0)), LeaseConflictError()]))
    assert play._ask.path == "/intents/i1/leases?attempt=t-a"
    play.answer(Unavailable())
    assert (play.result[0], play.result[1]) == (failed, seen(promise(31.0)))


def test_a_failure_of_the_whole_is_that_of_each_and_giving_up_takes_no_longer_than_for_one():
    play = acquire_all().answer((31.0, OutcomeUnknown()), (2.0, OutcomeUnknown()))
    assert play.done
    assert {type(each) for each in play.result} == {OutcomeUnknown}


def test_grants_that_were_heard_of_late_are_renewed_together():
    fresh = seen(promise(29.0))
    play = acquire_all().answer((29.0, [seen(lease_id="L1"), fresh, seen(lease_id="L3")]), [fresh, LeaseLost()])
    renewals = msgspec.json.decode(msgspec.json.encode(play.sent[1].body))["requests"]
    assert [(part["method"], part["path"]) for part in renewals] == [
        ("PATCH", "/api/v1/leases/L1"),
        ("PATCH", "/api/v1/leases/L3"),
    ]
    assert play.result[:2] == [fresh, fresh]
    assert isinstance(play.result[2], LeaseLost)


# Pages


def test_all_pages_are_read():
    flow = flows.every(
        lambda at: calls.list_leases(agent_id=None, space=None, status="active", after=at), patience_s=30.0
    )
    play = Play(flow).answer((0.0, Page([seen()], "7")), (0.0, Page([seen()])))
    assert play.result == [seen(), seen()]
    assert play.sent[1].path.endswith("after=7")


# Taking away


def test_what_is_gone_after_a_try_without_an_answer_was_taken_away():
    play = Play(flows.remove(calls.delete_intent("i"), patience_s=30.0))
    assert play.answer(OutcomeUnknown(), NotFoundError()).done


def test_what_was_never_there_is_not_found():
    with pytest.raises(NotFoundError):
        Play(flows.remove(calls.delete_intent("i"), patience_s=30.0)).answer(NotFoundError())
