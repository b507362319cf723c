"""Acquires like those before: they must be read as if none had come before them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.model import Limits
from openintent.server import bodies, wishes
from openintent.server.problems import Refused
from openintent.server.wishes import Wishes

COMPACT = (",", ":")
SPACED = (", ", ": ")


def body(separators: tuple[str, str] = COMPACT, **said: Any) -> bytes:
    return json.dumps(said, separators=separators, ensure_ascii=False).encode()


def read(known: Wishes, raw: bytes) -> Any:
    """What it is taken for: a scope and a wish, or the words of a refusal."""
    try:
        return known.read(raw)
    except Refused as refused:
        return refused.status, refused.problem


PRACTICE = [
    body(scope="a", ttl_seconds=5),
    body(SPACED, scope="a", ttl_seconds=5),
    body(ttl_seconds=5, scope="a"),
    body(scope="a"),
    body(scope="a", mode="exclusive", priority=3, preempt=True, reentrant=True, wait_seconds=2.5),
    body(scope='a"b\\'),
    body(scope="a", metadata={"scope": "a"}),
    body(metadata={"scope": "a"}, scope="a"),
    body(scope="a", purpose="p", agent_id="ada"),
    body(ttl_seconds=5),
    b"{}",
    b"",
    b'{"scope" :"a"}',
]


def practised() -> Wishes:
    known = Wishes(Limits())
    for each in PRACTICE:
        read(known, each)
    return known


def test_what_stands_around_a_scope_is_read_once(monkeypatch):
    known = Wishes(Limits())
    scope, first = known.read(body(scope="a/b", ttl_seconds=5, wait_seconds=1))
    assert (scope, first.ttl_ms, first.wait_ms) == ("a/b", 5_000, 1_000)
    monkeypatch.setattr(bodies, "decode", None)  # whoever asks it now fails
    assert known.read(body(scope="another one", ttl_seconds=5, wait_seconds=1)) == ("another one", first)


def test_libraries_that_leave_a_space_are_known_too(monkeypatch):
    known = Wishes(Limits())
    known.read(body(SPACED, scope="a", ttl_seconds=5))
    monkeypatch.setattr(bodies, "decode", None)
    assert known.read(body(SPACED, scope="b", ttl_seconds=5))[0] == "b"


def test_a_wish_becomes_what_is_asked_of_the_ledger():
    said = {"priority": 3, "reentrant": True, "purpose": "p", "metadata": {"k": 1}}
    lengths = {"ttl_seconds": 5, "max_hold_seconds": 60, "progress_seconds": 7, "cooldown_seconds": 2}
    scope, wish = Wishes(Limits()).read(body(scope="a", **said, **lengths))
    ask = wish.ask("space:s", scope, "ada")
    assert (ask.space, ask.scope, ask.holder, ask.ttl_ms, ask.priority) == ("space:s", "a", "ada", 5_000, 3)
    assert (ask.reentrant, ask.purpose, ask.metadata) == (True, "p", {"k": 1})
    assert (ask.max_hold_ms, ask.progress_ms, ask.cooldown_ms) == (60_000, 7_000, 2_000)


ODD = [
    b'{"scope":"x"b\\\\"}',
    b'{"scope":"\\u0061","ttl_seconds":5}',
    b'{"scope":"a\\","ttl_seconds":5}',
    b'{"scope":"","ttl_seconds":5}',
    b'{"scope":"\x07","ttl_seconds":5}',
    b'{"scope":"\xff","ttl_seconds":5}',
    b'{"scope":"a","ttl_seconds":5',
    b'{"scope":"a","ttl_seconds":5}}',
    b'{"scope":"a","scope":"b","ttl_seconds":5}',
    b'{"ttl_seconds":5}',
    b'"scope":"a"',
    b'"scope":"a',
    b'{"ttl_seconds":5}"scope":"a',
    b'{"ttl_seconds":5}"scope":"a"',
    b'{}"scope":"a',
    b'{"scope" :"a"}"scope":"b',
    b"",
    body(scope="é", ttl_seconds=5),
    body(scope="x" * 513, ttl_seconds=5),
    body(scope="/".join("a" * 33), ttl_seconds=5),
    body(scope="a", ttl_seconds=0),
    body(scope="a", mode="shared"),
    body(metadata={"scope": "b"}, scope="a"),
    body(scope="b", metadata={"scope": "a"}),
    body(scope="a", purpose='"scope":"b"'),
]


@pytest.mark.parametrize("raw", ODD)
def test_whatever_is_odd_is_read_by_the_reader_of_json(raw):
    known = practised()
    fresh = read(Wishes(Limits()), raw)
    assert read(known, raw) == fresh
    assert read(known, raw) == fresh


scopes = st.text(max_size=6) | st.sampled_from(["a", 'a"', "\\", "a\\", "*", "a/**", "é", "\n"])
values = st.fixed_dictionaries(
    {"scope": scopes},
    optional={
        "ttl_seconds": st.sampled_from([5, 0, "5"]),
        "metadata": st.fixed_dictionaries({"scope": scopes}),
        "purpose": st.sampled_from(["p", '"scope":"a"', '"scope":"']),
        "mode": st.sampled_from(["exclusive", "shared", '"scope":"a"']),
        "priority": st.integers(),
    },
)


@given(st.lists(values, min_size=1, max_size=4), values, st.sampled_from([COMPACT, SPACED]), st.data())
def test_a_body_means_the_same_whatever_came_before_it(before, said, separators, data):
    known = practised()
    for each in before:
        read(known, body(separators, **each))
    shuffled = dict(data.draw(st.permutations(list(said.items()))))
    raw = body(separators, **shuffled)
    cut = data.draw(st.integers(0, len(raw)) | st.just(len(raw)))
    assert read(known, raw[:cut]) == read(Wishes(Limits()), raw[:cut])


def test_what_is_remembered_has_a_bound(monkeypatch):
    monkeypatch.setattr(wishes, "WISHES_MAX", 3)
    known = Wishes(Limits())
    for ttl in range(1, 9):
        known.read(body(scope="a", ttl_seconds=ttl))
        assert len(known._known) <= 3
    known.read(body(scope="a" * wishes.WISH_BYTES_MAX, ttl_seconds=99))
    assert not any(b"99" in after for _, after in known._known)
