"""Reading bodies: whatever bytes arrive, the outcome is a value or a problem that can be shown."""

import json
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent import wire
from openintent.core.values import weigh
from openintent.model import Limits
from openintent.server import bodies, problems
from openintent.server.problems import Refused

SHAPES = [
    wire.AcquireBody,
    wire.EventBody,
    wire.GuardBody,
    wire.HeartbeatBody,
    wire.IntentBody,
    wire.ProgressBody,
    wire.RenewBody,
    wire.RevokeBody,
    wire.StateBody,
    wire.StatusBody,
]
NAMES = sorted(
    {field.name for shape in SHAPES for field in msgspec.structs.fields(shape)} | {"", "a", 'q"', "b\\", "é"}
)
TEXT = st.sampled_from(["", "a", 'say "x"', "back\\", "\\", '"', "é\u2028", "*"]) | st.text(max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | TEXT, below, max_size=4),
    max_leaves=12,
)


@st.composite
def texts(draw):
    """JSON as somebody could write it: names repeated, characters escaped or not, blanks here and there."""
    return _written(draw, draw(VALUES))


def _written(draw, value):
    if isinstance(value, dict):
        pairs = list(value.items()) * draw(st.sampled_from([1, 1, 1, 2]))
        blank = draw(st.sampled_from(["", " ", "\n"]))
        return (
            "{" + f",{blank}".join(f"{_quoted(draw, key)}:{blank}{_written(draw, item)}" for key, item in pairs) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_written(draw, item) for item in value) + "]"
    return _quoted(draw, value) if isinstance(value, str) else json.dumps(value)


def _quoted(draw, text):
    if draw(st.booleans()):
        return json.dumps(text, ensure_ascii=draw(st.booleans()))
    return '"' + "".join(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else char for char in text) + '"'


def outcome(shape, body):
    """The value, or the problem as it would be sent."""
    try:
        value, ignored = bodies.decode_loosely(shape, body)
    except Refused as refused:
        return json.loads(problems.encode(refused.problem))
    assert b"\r\n" not in ignored[:-2]
    msgspec.msgpack.encode(value)  # an engine can store it
    return value


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.binary(max_size=60) | texts().map(lambda text: text.encode(errors="surrogatepass")))
def test_any_bytes_become_a_value_or_a_problem(shape, data):
    outcome(shape, data)


@given(data=texts())
def test_a_name_given_twice_is_always_found_and_never_imagined(data):
    repeated = []

    def collect(pairs):
        repeated.extend(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)

    try:
        body = b'{"checkpoint": %b}' % data.encode()
        msgspec.msgpack.encode(msgspec.json.decode(body))
    except (UnicodeEncodeError, msgspec.DecodeError, OverflowError):
        return  # refused for another reason
    json.loads(data, object_pairs_hook=collect)
    told = outcome(wire.ProgressBody, body)
    kinds = {fault["type"] for fault in told["detail"]} if isinstance(told, dict) else set()
    assert kinds == ({"repeated"} if repeated else set())


@pytest.mark.parametrize(
    "text",
    [
        r'{"a": 1, "a": 1}',
        r'{"a": 1, "\u0061": 1}',
        r'{"a": 1, "a": 1, "b": "\u0022\u0022"}',  # written again, it has as many quotes as before
        r'{"a": "\\", "a": "\\", "b": "\u0022"}',
        r'{"\\": 1, "\u005c": 1}',
        r'[[{"deep": {"a": 1, "a": {}}}]]',
    ],
)
def test_a_name_given_twice_cannot_hide(text):
    told = outcome(wire.ProgressBody, f'{{"checkpoint": {text}}}'.encode())
    assert [fault["type"] for fault in told["detail"]] == ["repeated"]


@pytest.mark.parametrize(
    "text", [r'{"a": "\u005c", "b": "\u0022"}', r'{"a": "\/", "b\\": "\""}', '["a", "a"]', r'"\u0022"']
)
def test_a_name_given_once_is_fine_however_it_is_written(text):
    body = f'{{"checkpoint": {text}}}'.encode()
    assert outcome(wire.ProgressBody, body).checkpoint == json.loads(text)


WITH_A_NUMBER = {
    wire.AcquireBody: '{"metadata": {"n": [%d]}}',
    wire.EventBody: '{"event_type": "c", "payload": {"n": %d}}',
    wire.IntentBody: '{"title": "t", "colour": %d}',
    wire.ProgressBody: '{"checkpoint": [{"n": %d}]}',
    wire.StateBody: '{"state": {"n": %d}}',
}


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
@pytest.mark.parametrize("shape", WITH_A_NUMBER)
def test_an_integer_that_no_engine_can_store_is_refused_wherever_it_is(shape, number):
    told = outcome(shape, (WITH_A_NUMBER[shape] % number).encode())
    assert [fault["type"] for fault in told["detail"]] == ["range"]


@pytest.mark.parametrize("depth", [10, 60, 300, 900, 5_000, 100_000])
def test_depth_is_refused_and_never_a_crash(depth):
    for body in (b'{"checkpoint": ' + b"[" * depth + b"]" * depth + b"}", b'{"checkpoint": ' + b'{"a":' * depth):
        outcome(wire.ProgressBody, body)
        outcome(wire.AcquireBody, body)


def test_many_faults_are_cut_off():
    body = json.dumps({f"field{number}": 1 for number in range(5_000)}).encode()
    assert len(outcome(wire.AcquireBody, body)["detail"]) == bodies.FAULTS_MAX


def test_what_is_too_deep_to_store_is_weighed_out():
    checks = bodies.Checks(Limits())
    value = []
    for _ in range(80):
        value = [value]
    checks.size("metadata", value, 1_000)
    assert checks.faults[0][2] == "too_deep"
    assert weigh([[]]) > 0
