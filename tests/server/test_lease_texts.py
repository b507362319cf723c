"""A lease that is written in one go against the view of it."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openintent.model import Lease
from openintent.server.lease_texts import LeaseTexts, released
from openintent.server.memo import Memo
from openintent.server.views import Views
from openintent.wire import LeaseView, ReleasedView

DAY_MS = 24 * 3_600_000
SPECIAL = [
    {"cooldown_ms": 1_500},
    {"metadata": {"step": 1}},
    {"purpose": 'to "write"'},
    {"checkpoint": {"page": 7}},
    {"max_hold_ms": 60_000},
    {"progress_ms": 5_000},
    {"preempt_reason": "bob"},
    {"status": "expired", "ended_at_ms": 1_700_000_000_001, "ended_reason": "max_hold"},
]

names = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(' "\\/'), min_size=1, max_size=12)
spaces = st.builds("{}{}".format, st.sampled_from(["intent:", "space:", "coordinator:intent:"]), names)
some_ms = st.integers(0, 30 * DAY_MS)


class Calendar:
    date_offset_ms = 1_700_000_000_000


@pytest.fixture(scope="module")
def views():
    return Views(Calendar())


@pytest.fixture(scope="module")
def texts(views):
    return LeaseTexts(views)


def a_lease(space="intent:report", scope="draft", holder="ann", *, ttl_ms=60_000, deadline_ms=61_234, **special):
    granted_at_ms = Calendar.date_offset_ms + 1_234
    return Lease("0190cafe", space, scope, holder, 7, ttl_ms, ttl_ms, deadline_ms, granted_at_ms, **special)


@example('intent:"1"', 'the "draft"', "back\\slash", 60_000, 61_234, 59_999)
@given(spaces, names, names, some_ms, some_ms, some_ms)
def test_the_text_of_a_lease_is_its_view_to_the_byte(views, texts, space, scope, holder, ttl_ms, deadline_ms, left_ms):
    lease = a_lease(space, scope, holder, ttl_ms=ttl_ms, deadline_ms=deadline_ms)
    assert texts.lease(lease, left_ms) == msgspec.json.encode(views.lease_with(lease, left_ms))


@pytest.mark.parametrize("special", [{}, *SPECIAL], ids=lambda special: next(iter(special), "nothing"))
@pytest.mark.parametrize("waited_ms", [0, 250])
def test_what_is_special_about_a_lease_is_told(views, texts, special, waited_ms):
    lease = a_lease(**special)
    text = texts.lease(lease, 59_000, waited_ms)
    assert text == msgspec.json.encode(views.lease_with(lease, 59_000, waited_ms))
    usual = msgspec.json.decode(texts.lease(a_lease(), 59_000), type=LeaseView)
    assert (msgspec.json.decode(text, type=LeaseView) == usual) == (not special and not waited_ms)


def test_every_field_that_may_be_special_makes_the_text_another_one():
    """A field that is added to the view must be looked at by whoever writes the text."""
    told = {field.name for field in msgspec.structs.fields(LeaseView) if not field.required}
    tried = {"released_at", "ended_reason", "waited_seconds", "max_hold_seconds", "progress_seconds"}
    tried |= {"cooldown_seconds", "checkpoint", "metadata", "purpose", "preempt_asked"}
    assert told == tried


@pytest.mark.parametrize(("status", "reason"), [("released", "released"), ("expired", "no_progress")])
def test_so_is_that_of_a_release(status, reason):
    lease = a_lease(status=status, ended_reason=reason)
    assert released(lease) == msgspec.json.encode(ReleasedView("Lease released", lease.id, status, reason))


def test_a_memo_makes_a_thing_once_and_forgets_when_it_is_full():
    made = []
    memo = Memo(lambda key: made.append(key) or key * 2, 2)
    assert [memo[1], memo[1], memo[2], memo[2]] == [2, 2, 4, 4]
    assert (made, dict(memo)) == ([1, 2], {1: 2, 2: 4})
    assert (memo[3], dict(memo)) == (6, {3: 6})
