"""What answers mean."""

import msgspec
import pytest

from openintent import errors
from openintent.client import replies
from openintent.client.replies import Reply
from openintent.client.values import Event, TokenCheck
from openintent.errors import LeaseConflictError, OpenIntentError, OutcomeUnknown, Unavailable

DAY = "2026-11-15T12:00:00.000000"
LEASE = {
    "id": "L1", "intent_id": "i1", "space": "intent:i1", "agent_id": "a1", "scope": "*", "mode": "exclusive",
    "status": "active", "token": 7, "ttl_seconds": 60.0, "remaining_seconds": 58.0, "expires_at": DAY,
    "acquired_at": DAY, "created_at": DAY, "waited_seconds": 4.0, "a_field_of_the_future": 1,
}  # fmt: skip


def reply(body: object, status: int = 200, **more) -> Reply:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Reply(status, raw, 100.0, **more)


@pytest.mark.parametrize("code", sorted(errors.BY_CODE))
def test_every_code_becomes_its_class(code):
    kind = errors.BY_CODE[code]
    body = {"error": {"code": code, "message": "so it is"}, "detail": "x", "message": "so it is"}
    found = replies.problem(reply(body, kind.status))
    assert type(found) is kind
    assert (found.code, found.message) == (code, "so it is")


@pytest.mark.parametrize("status", sorted(replies.BY_STATUS))
def test_without_a_code_the_status_decides(status):
    found = replies.problem(reply(b"<html>proxy</html>", status))
    assert type(found) is replies.BY_STATUS[status]
    assert found.status_code == status
    assert str(found)


@pytest.mark.parametrize("status", [408, 500, 502, 504, 520, 522, 524, 599])
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"error": {"code": ["not", "ours"]}}'])
def test_a_gateway_that_got_no_answer_leaves_it_open(status, body):
    assert isinstance(replies.problem(reply(body, status)), OutcomeUnknown)


def test_a_status_that_nobody_expected_is_still_an_error():
    with pytest.raises(OpenIntentError):
        replies.nothing(reply(b"", 302))


def test_the_exact_time_to_retry_wins_over_the_header():
    body = {"error": {"code": "overloaded", "message": "m"}, "retry_after_seconds": 0.2}
    found = replies.problem(reply(body, 429, retry_after="1"))
    assert isinstance(found, Unavailable)
    assert found.retry_after == 0.2
    bare = replies.problem(reply(b"", 503, retry_after="3"))
    assert isinstance(bare, Unavailable)
    assert bare.retry_after == 3.0


def test_the_holder_is_named():
    body = {"error": {"code": "lease_held", "message": "m"}, "current_holder": "a2", "queue_length": 3}
    found = replies.problem(reply(body, 409))
    assert isinstance(found, errors.LeaseConflictError)
    assert (found.current_holder, found.queue_length) == ("a2", 3)


def test_only_an_acquire_counts_the_wait():
    """Elsewhere the field tells of another request; it would stretch trust."""
    assert replies.granted(reply(LEASE)).trust.confirmed_at == 104.0
    assert replies.lease(reply(LEASE)).trust.confirmed_at == 100.0
    assert replies.leases(reply({"leases": [LEASE]})).items[0].trust.confirmed_at == 100.0


def test_an_answer_that_is_no_answer_says_so():
    for body in (b"", b"<html>", b"[]", b"\xff\xfe"):
        with pytest.raises(OpenIntentError, match="not understood"):
            replies.lease(reply(body))


def test_dates_are_aware():
    event = {"id": "1", "seq": 1, "event_type": "x", "actor": "a1", "created_at": DAY}
    assert replies.reading(Event)(reply(event)).created_at.tzinfo is not None


def test_a_token_that_is_not_live_is_false():
    assert not replies.reading(TokenCheck)(reply({"valid": False, "live_token": 9}))
    assert replies.reading(TokenCheck)(reply({"valid": True, "live_token": 9}))


# Batches


def test_each_part_of_a_batch_is_read_as_it_would_be_by_itself():
    held = {"error": {"code": "lease_held"}}
    told = reply({"answers": [{"status": 200, "body": LEASE}, {"status": 409, "body": held}]})
    granted, refused = replies.each([replies.granted] * 2, told)
    assert granted == replies.granted(reply(LEASE))
    assert granted.trust.sent_at == told.sent_at
    assert isinstance(refused, LeaseConflictError)


def test_another_number_of_answers_than_of_requests_is_no_answer():
    with pytest.raises(OpenIntentError, match="1 answers to 2 requests"):
        replies.each([replies.granted] * 2, reply({"answers": [{"status": 200, "body": LEASE}]}))
