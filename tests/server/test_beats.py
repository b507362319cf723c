"""Heartbeats like those before: they must be read and answered as if none had come before them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.core.answers import Verdicts
from openintent.model import Limits
from openintent.server import beats
from openintent.server.beats import Beat, Beats
from openintent.server.problems import Refused

LEASES = [{"id": "a", "token": 1}, {"id": 'b"\\é', "token": 2}]
HELD = (("a", 1), ('b"\\é', 2))


def body(**said: Any) -> bytes:
    return json.dumps(said).encode()


def told(
    beat: Beat, left_ms: list[int], lost: dict[int, str] | None = None, asked: dict[int, str] | None = None
) -> Any:
    verdicts = Verdicts(beat.held, left_ms, lost or {}, next_ms=1, asked=asked or {})
    return json.loads(msgspec.json.encode(beat.told(verdicts)))


def renewed(lease_id: str, left_s: float) -> dict[str, Any]:
    return {"id": lease_id, "verdict": "renewed", "remaining_seconds": left_s, "reason": None}


def lost(lease_id: str, reason: str) -> dict[str, Any]:
    return {"id": lease_id, "verdict": "lost", "remaining_seconds": 0.0, "reason": reason}


def test_the_same_body_of_the_same_agent_is_read_once():
    known = Beats(Limits())
    first = known.read("ann", body(leases=LEASES))
    assert first.held == HELD
    assert known.read("ann", body(leases=LEASES)) is first
    assert known.read("bob", body(leases=LEASES)) is not first


def test_any_other_body_is_read_anew():
    known = Beats(Limits())
    known.read("ann", body(leases=LEASES))
    assert known.read("ann", body(leases=LEASES[:1])).held == HELD[:1]
    assert known.read("ann", body(leases=LEASES)).held == HELD


@pytest.mark.parametrize(
    ("said", "load"),
    [
        ({}, None),
        ({"current_load": 3, "tasks_in_progress": 4}, 3),
        ({"tasks_in_progress": 4}, 4),
        ({"tasks_in_progress": ["x", "y"]}, 2),
    ],
)
def test_how_much_an_agent_has_to_do_is_what_it_says_or_how_many_tasks_it_names(said, load):
    known = Beats(Limits())
    assert [known.read("ann", body(**said)).load for _ in range(2)] == [load, load]


@pytest.mark.parametrize("wrong", [b"{", b'{"leases":1}', body(leases=[{"id": "a", "token": 1}] * 3)])
def test_what_is_refused_is_refused_each_time_and_nothing_is_forgotten_for_it(wrong):
    known = Beats(Limits(leases_per_heartbeat_max=2))
    good = known.read("ann", body(leases=LEASES))
    for _ in range(2):
        with pytest.raises(Refused):
            known.read("ann", wrong)
    assert known.read("ann", body(leases=LEASES)) is good


def test_each_lease_has_its_verdict_in_the_order_of_the_list():
    beat = Beats(Limits()).read("ann", body(leases=LEASES))
    assert told(beat, [60_000, 1]) == [renewed("a", 60.0), renewed('b"\\é', 0.001)]
    assert told(beat, [60_000, 0], {1: "expired"}) == [renewed("a", 60.0), lost('b"\\é', "expired")]
    asked = renewed("a", 60.0) | {"verdict": "preempt_asked", "reason": "ops"}
    assert told(beat, [60_000, 0], {1: "expired"}, {0: "ops"}) == [asked, lost('b"\\é', "expired")]


verdicts = st.lists(
    st.tuples(st.sampled_from([1, 500, 60_000]), st.sampled_from([None, "expired", "revoked", "asked"])),
    min_size=2,
    max_size=2,
)


@given(st.lists(verdicts, max_size=5))
def test_what_is_told_does_not_depend_on_what_was_told_before(story):
    seen = Beats(Limits()).read("ann", body(leases=LEASES))
    for rows in story:
        left_ms = [ms if reason in (None, "asked") else 0 for ms, reason in rows]
        asked = {place: reason for place, (_, reason) in enumerate(rows) if reason == "asked"}
        gone = {place: reason for place, (_, reason) in enumerate(rows) if reason and reason != "asked"}
        fresh = Beats(Limits()).read("ann", body(leases=LEASES))
        assert told(seen, left_ms, gone, asked) == told(fresh, left_ms, gone, asked)


def test_an_agent_that_names_nothing_is_told_nothing():
    assert told(Beats(Limits()).read("ann", b""), []) == []


def test_what_is_remembered_has_a_bound(monkeypatch):
    room = 3
    monkeypatch.setattr(beats, "BEATS_BYTES_MAX", room * (beats.BEAT_BYTES + beats.BYTES_PER_BODY_BYTE * 2))
    known = Beats(Limits())
    remembered = {n: known.read(f"agent-{n}", b"{}") for n in range(room)}
    assert all(known.read(f"agent-{n}", b"{}") is beat for n, beat in remembered.items())
    for _ in range(9):  # one that changes takes the place of its own
        known.read("agent-0", b"")
        known.read("agent-0", b"{}")
    assert known.read("agent-1", b"{}") is remembered[1]
    known.read("one-more", b"{}")
    assert known.read("agent-1", b"{}") is not remembered[1]
    assert known.read("one-more", b"{}") is known.read("one-more", b"{}")
