"""One reader's place in a stream, with neither transport nor clock."""

import pytest

from openintent.client.following import RAISE, SKIP, Following, Told
from openintent.errors import EventsGone, NotFoundError, OpenIntentError, OutcomeUnknown, Unavailable

GREETING = b"retry: 200\nid: %d\n: connected\n\n"


def follow(*, after=None, types=None, on_gap=RAISE) -> Following:
    return Following("intent:i1", after=after, types=types, on_gap=on_gap, patience_s=30.0)


def event(seq: int, name: str = "comment") -> bytes:
    return b'id: %d\nevent: %b\ndata: {"seq": %d}\n\n' % (seq, name.encode(), seq)


def assignment(intent: str, place: int = 7) -> bytes:
    data = b'{"intent_id": "%b", "replayed": true}' % intent.encode()
    return b"id: %d\nevent: agent_assigned\ndata: %b\n\n" % (place, data)


def seqs(told: list[Told]) -> list[int]:
    return [each.seq for each in told]


def asked_after(following: Following) -> str | None:
    return following.call(now=0.0).headers.get("Last-Event-ID")


# Its place


def test_from_now_on_is_asked_for_by_naming_no_place():
    call = follow().call(now=0.0)
    assert call.path == "/subscribe/intents/i1"
    assert "Last-Event-ID" not in call.headers


def test_everything_that_is_kept_is_asked_for_by_0():
    call = follow(after=0).call(now=0.0)
    assert call.path == "/subscribe/intents/i1?after=0"
    assert "Last-Event-ID" not in call.headers


def test_the_next_connection_goes_on_after_the_last_event():
    following = follow(after=3)
    assert asked_after(following) == "3"
    assert seqs(following.read(event(5) + event(8))) == [5, 8]
    assert asked_after(following) == "8"


def test_somebodys_events_may_have_the_names_that_streams_have():
    following = follow(after=3)
    assert seqs(following.read(event(5, "closed") + event(6, "lease_queue") + event(7))) == [5, 6, 7]
    assert asked_after(following) == "7"


def test_a_greeting_and_a_ping_move_the_place():
    following = follow()
    assert following.read(GREETING % 5) == []
    assert asked_after(following) == "5"
    assert following.read(b": ping\nid: 9\n\n") == []
    assert asked_after(following) == "9"


def test_what_was_told_before_is_not_told_again():
    following = follow(after=5)
    assert seqs(following.read(event(4) + event(5) + event(6))) == [6]
    assert following.cursor == 6


def test_what_a_broken_connection_left_unfinished_is_forgotten():
    following = follow(after=5)
    following.read(event(6) + b"id: 7\ndata: {")
    following.call(now=0.0)
    assert seqs(following.read(event(7))) == [7]


def test_a_farewell_names_the_place_for_who_has_none():
    farewell = b'event: closed\ndata: {"reason": "stopping", "cursor": 12}\n\n'
    following = follow()
    assert following.read(farewell) == []
    assert following.cursor == 12
    behind = follow(after=3)
    behind.read(farewell)
    assert behind.cursor == 3


# What is wanted


def test_other_types_are_left_out_and_move_the_place():
    following = follow(after=0, types=["comment"])
    assert seqs(following.read(event(1) + event(2, "state_patched"))) == [1]
    assert following.cursor == 2


def test_the_end_of_a_lease_is_found_under_either_of_its_names():
    ends = event(1, "lease_expired") + event(2, "lease_revoked") + event(3, "lease_released")
    assert seqs(follow(after=0, types=["lease_released"]).read(ends)) == [1, 2, 3]
    assert seqs(follow(after=0, types=["lease_expired"]).read(ends)) == [1]


def test_lengths_of_queues_come_only_if_they_are_asked_for():
    length = b'event: lease_queue\ndata: {"queue_length": 2}\n\n'
    assert follow().read(length) == []
    assert follow(types=["lease_queue"]).read(length) == [Told(0, "lease_queue", '{"queue_length": 2}')]


# Open assignments


def test_open_assignments_are_told_once():
    following = follow()
    first = following.read(GREETING % 7 + assignment("a") + assignment("b") + event(8))
    assert [told.type for told in first] == ["agent_assigned", "agent_assigned", "comment"]
    following.call(now=0.0)
    assert seqs(following.read(GREETING % 8 + assignment("a") + assignment("b") + assignment("c") + event(9))) == [9]


def test_open_assignments_that_did_not_get_through_are_told_on_the_next_connection():
    following = follow()
    assert len(following.read(GREETING % 7 + assignment("a") + b"id: 7\nevent: agent_ass")) == 1
    following.call(now=0.0)
    (told,) = following.read(GREETING % 7 + assignment("a") + assignment("b"))
    assert '"b"' in told.data


def test_an_open_assignment_moves_no_place():
    following = follow(after=20)
    following.read(GREETING % 20 + assignment("a", place=3))
    assert following.cursor == 20


# When it ends


def test_a_server_says_how_long_it_wants_to_be_left_alone():
    following = follow()
    assert following.ended().at_most_s == 1.0
    following.read(GREETING % 1)
    assert following.ended().at_most_s == 0.2


def test_the_pauses_double_up_to_a_bound_until_something_is_heard():
    following = follow()
    following.read(GREETING % 1)
    assert [following.ended().at_most_s for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    following.read(event(2))
    assert following.ended().at_most_s == 0.2


def test_nobody_comes_back_sooner_than_the_server_said():
    following = follow()
    following.read(GREETING % 1)
    pause = following.failed(Unavailable(response={"retry_after_seconds": 3.0}), now=0.0)
    assert (pause.at_least_s, pause.at_most_s) == (3.0, 3.2)


def test_a_server_that_never_answered_is_not_waited_for_for_ever():
    following = follow()
    following.call(now=100.0)
    following.failed(Unavailable(), now=129.0)
    with pytest.raises(Unavailable):
        following.failed(Unavailable(), now=130.0)


def test_that_no_server_is_running_is_said_soon():
    following = follow()
    following.call(now=100.0)
    with pytest.raises(Unavailable):
        following.failed(Unavailable(code="unreachable"), now=105.0)


def test_a_server_that_did_answer_is_waited_for_as_long_as_it_takes():
    following = follow()
    following.call(now=0.0)
    following.read(GREETING % 1)
    for exc in (Unavailable(code="unreachable"), OutcomeUnknown(), OpenIntentError(status_code=500)):
        following.failed(exc, now=1e6)


def test_what_is_not_there_is_said_at_once():
    following = follow()
    following.call(now=0.0)
    with pytest.raises(NotFoundError):
        following.failed(NotFoundError(), now=0.0)
    following.read(GREETING % 1)
    with pytest.raises(NotFoundError):
        following.failed(NotFoundError(), now=0.0)


def test_a_gap_is_an_error_unless_it_may_be_skipped():
    gone = EventsGone(response={"oldest": 50})
    strict, following = follow(after=3), follow(after=3, on_gap=SKIP)
    strict.call(now=0.0)
    with pytest.raises(EventsGone):
        strict.failed(gone, now=0.0)
    following.failed(gone, now=0.0)
    assert seqs(following.read(event(50))) == [50]


def test_a_place_beyond_the_end_of_a_restored_log_begins_anew():
    following = follow(after=900, on_gap=SKIP)
    following.failed(EventsGone(response={"oldest": 50}), now=0.0)
    assert asked_after(following) is None
    assert seqs(following.read(GREETING % 60 + event(61))) == [61]


def test_a_stream_that_is_none_is_not_understood(monkeypatch):
    monkeypatch.setattr("openintent.client.sse.MESSAGE_BYTES_MAX", 100)
    following = follow()
    with pytest.raises(OpenIntentError, match="not understood") as wrong:
        following.read(b"<" * 200)
    with pytest.raises(OpenIntentError):  # and the next connection would be no better
        following.failed(wrong.value, now=0.0)
