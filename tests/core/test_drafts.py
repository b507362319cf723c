"""Patches that share what they do not touch, against patches on a deep copy."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import World

from openintent.core.answers import BadPatch, IntentSeen, TooLarge
from openintent.core.values import DEPTH_MAX, BadStep, Draft, TooDeep, fingerprint, touched, weigh
from openintent.model import Limits, Patch

keys = st.sampled_from(["a", "b", "0", "1", "long name", "é"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(0, 9), st.floats(0, 1), st.text(max_size=3))
values = st.recursive(
    scalars,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(keys, below, max_size=3)),
    max_leaves=6,
)
states = st.dictionaries(keys, values, max_size=4)
paths = st.lists(st.one_of(keys, st.sampled_from(["2", "٣", "-1"])), min_size=1, max_size=4).map(tuple)
steps = st.builds(Patch, st.sampled_from(["set", "set", "append", "remove"]), paths, values)


def apply_plainly(state: dict[str, Any], step: Patch) -> dict[str, Any]:
    root = deepcopy(state)
    node: Any = root
    for segment in step.path[:-1]:
        if step.op != "remove" and isinstance(node, dict):
            node.setdefault(segment, {})
        node = node[slot_in(node, segment)]
    slot, value = slot_in(node, step.path[-1]), deepcopy(step.value)
    there = slot in node if isinstance(node, dict) else slot < len(node)
    if step.op == "remove" and there:
        del node[slot]
    elif step.op == "append" and there and isinstance(node[slot], list):
        node[slot].append(value)
    elif step.op == "append" and not there and isinstance(node, dict):
        node[slot] = [value]
    elif step.op == "set" and (there or isinstance(node, dict)):
        node[slot] = value
    else:
        raise LookupError
    return root


def slot_in(node: Any, segment: str) -> Any:
    if isinstance(node, dict):
        return segment
    if isinstance(node, list) and segment in {"0", "1", "2"}:
        return int(segment)
    raise LookupError


def result_of(state: dict[str, Any], steps: list[Patch]) -> dict[str, Any] | None:
    for step in steps:
        try:
            state = apply_plainly(state, step)
        except LookupError:
            return None
    return state


@given(states, st.lists(steps, max_size=6))
def test_a_draft_is_what_a_deep_copy_would_be(state, steps):
    before, wanted_before = deepcopy(state), deepcopy(steps)
    draft, failed = Draft(state, weigh(state)), False
    try:
        for step in steps:
            draft.apply(step)
    except BadStep:
        failed = True
    expected = result_of(state, steps)
    assert failed == (expected is None)
    if expected is not None:
        assert repr(draft.root) == repr(expected)
        assert draft.size == weigh(expected)
    assert repr(state) == repr(before)
    assert repr(steps) == repr(wanted_before)


@given(states, st.lists(steps, min_size=1, max_size=6))
def test_a_refused_patch_changes_nothing(state, steps):
    world = World()
    world.create("i1", state=state)
    before = deepcopy(state)
    answer = world.patch("i1", *[(step.op, "/".join(step.path), step.value) for step in steps])
    intent = world.books.intents["i1"]
    if isinstance(answer, BadPatch):
        assert (repr(intent.state), intent.version) == (repr(before), 1)
    else:
        assert answer == IntentSeen(intent)
        assert intent.version == 2
    assert intent.state_bytes == weigh(intent.state)


def nested(depth: int) -> Any:
    return 1 if depth == 0 else {"k": nested(depth - 1)}


def test_a_value_may_be_deep_but_not_deeper():
    assert weigh(nested(DEPTH_MAX - 1)) > 0
    with pytest.raises(TooDeep):
        weigh(nested(DEPTH_MAX))


@pytest.mark.parametrize(
    "step",
    [
        ("set", "/".join("k" * DEPTH_MAX), 1),
        ("set", "/".join("k" * (DEPTH_MAX - 1)), {"k": 1}),
        ("append", "/".join("k" * (DEPTH_MAX - 1)), 1),
        ("append", "list", nested(DEPTH_MAX - 2)),
        ("set", "a/b", nested(DEPTH_MAX - 2)),
    ],
)
def test_steps_cannot_build_a_state_that_could_not_be_read_back(step):
    world = World()
    world.create("i1", state={"list": [], "n": 1})
    assert isinstance(world.patch("i1", ("set", "n", 2), step), BadPatch)
    world.commit()
    world.crash()
    assert world.books.intents["i1"].state == {"list": [], "n": 1}


def test_the_deepest_path_is_one_that_can_be_read_back():
    world = World()
    world.create("i1")
    deepest = "/".join("k" * (DEPTH_MAX - 1))
    assert isinstance(world.patch("i1", ("set", deepest, 1)), IntentSeen)
    assert isinstance(world.patch("i1", ("set", f"{deepest}/k", 1)), BadPatch)
    assert world.patch("i1", ("set", "k" * 2, 1), ("set", f"l/{deepest}", 1)).index == 1
    world.commit()
    world.crash()
    assert isinstance(world.patch("i1", ("remove", deepest)), IntentSeen)


def test_a_fingerprint_tells_values_apart_and_nothing_else():
    assert fingerprint("lease", {"a": 1}) == fingerprint("lease", {"a": 1})
    assert len({fingerprint(value) for value in (1, 1.0, "1", True, None, [1], {"a": 1})}) == 7


STEPS = [
    Patch("set", ("new",), "value"),
    Patch("set", ("map", "k"), [1, 2]),
    Patch("set", ("far", "away"), 1),
    Patch("set", ("list", "0"), "longer than before"),
    Patch("append", ("list",), {"x": "y"}),
    Patch("append", ("new",), "first"),
    Patch("remove", ("map", "k")),
    Patch("remove", ("list", "1")),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.op} {'/'.join(step.path)}")
def test_after_each_step_the_draft_knows_its_size(step):
    state = {"map": {"k": {"deep": "v"}}, "list": ["a", [3]], "rest": None}
    draft = Draft(state, weigh(state))
    draft.apply(step)
    assert draft.size == weigh(draft.root)


def test_an_item_that_is_appended_may_just_reach_the_depth_that_is_allowed():
    value: Any = 1
    for _ in range(DEPTH_MAX - 3):
        value = [value]
    draft = Draft({"list": []}, 10)
    draft.apply(Patch("append", ("list",), value))
    with pytest.raises(TooDeep, match=f"nested deeper than {DEPTH_MAX} levels"):
        draft.apply(Patch("append", ("list",), [value]))


def test_a_state_may_be_as_large_as_allowed_and_not_a_byte_larger():
    state = {"a": "12345"}
    world = World(Limits(state_bytes_max=weigh(state)))
    assert isinstance(world.create("i1", state=state), IntentSeen)
    assert isinstance(world.patch("i1", ("set", "a", "54321")), IntentSeen)
    assert isinstance(world.patch("i1", ("set", "a", "123456")), TooLarge)
    assert isinstance(world.create("i2", state={"a": "123456"}), TooLarge)


@pytest.mark.parametrize(
    ("op", "path", "expected"),
    [
        ("set", "a", "a"),
        ("set", "a/b", "a/b"),
        ("set", "items/1", "items/1"),
        ("set", "items/01/deep", "items/1/deep"),
        ("set", "items/x/y", "items/x/y"),  # will be refused
        ("set", "items/007", "items/7"),
        ("set", "items/0/a/b", "items/0/a/b"),
        ("remove", "items/01", "items"),  # the others move
        ("remove", "items/1/deep", "items/1/deep"),
        ("remove", "a", "a"),
    ],
)
def test_a_step_touches_what_its_path_means_and_not_how_it_is_spelt(op, path, expected):
    state = {"a": {"b": 1}, "items": ["x", {"deep": 1}, "z"]}
    assert "/".join(touched(state, Patch(op, tuple(path.split("/"))))) == expected
