"""The JSON Schema for editors: it takes what `load` takes."""

import json

import jsonschema_rs
import pytest
from filewords import BROKEN, DOCS, RIGHT, documents, yaml_blocks
from hypothesis import given
from hypothesis import strategies as st

from openintent.workflows.checking import load
from openintent.workflows.problems import Problems
from openintent.workflows.reading import plain, read
from openintent.workflows.schema import DIALECT, schema, text

VALIDATOR = jsonschema_rs.validator_for(schema())
# What no schema can say: that another place has what is named here, what an expression means, how long `90s` is.
BEYOND = ("wait for each other", "there is no step", "depends on itself", "does not list", "does not depend")
BEYOND += ("in its initial_state", "that a value can come from", "cannot use", "expected step.key", "found 30s")
# Files in which all that is wrong is a matter of shape: whatever key or value it is, an editor can tell.
SHAPES = [path for path in BROKEN if path.stem in {"agents_as_list", "booleans", "bounds", "durations", "governance"}]
SHAPES += [path for path in BROKEN if path.stem in {"keys_misspelt", "leasing", "missing_parts", "names_of_steps"}]
SHAPES += [
    path for path in BROKEN if path.stem in {"numbers_and_texts", "outputs", "retry", "steps_as_list", "version"}
]


def values(document: str):
    node = read(document, Problems())
    assert node is not None
    return plain(node)


def test_it_is_the_committed_one(request):
    path = DOCS / "workflow.schema.json"
    if request.config.getoption("--rewrite-traces"):
        path.write_text(text(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text()
    assert json.loads(text())["$schema"] == DIALECT


def test_it_is_a_schema():
    jsonschema_rs.meta.validate(schema())


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_it_takes_every_right_file(path):
    VALIDATOR.validate(values(path.read_text(encoding="utf-8")))


def test_it_takes_the_example_of_the_page_and_those_of_the_documents():
    for document in [*yaml_blocks(DOCS / "workflow-files.md"), *documents()]:
        VALIDATOR.validate(values(document))


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_it_refuses_what_has_the_wrong_shape(path):
    assert not VALIDATOR.is_valid(values(path.read_text(encoding="utf-8")))


# Every part of a right file, replaced by something that may or may not stand there.

EVERYTHING = values((RIGHT[0].parent / "everything.yaml").read_text(encoding="utf-8"))
VALUES = [None, True, False, 0, 1, 0.5, -1, 10**7, 2.0, "", "yes", "30s", "a", "a b", "fetch", "fetch.rows", "linear"]
VALUES += [
    [],
    ["a"],
    ["a", "a"],
    [1],
    {},
    {"a": "any"},
    {"a": 1},
    {"": 1},
    {"llm": 1},
    {"a b": {}},
    {"_assignments": 1},
]


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from places(item, (*path, at))


def replaced(value, path, new):
    if not path:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@given(st.sampled_from(sorted(places(EVERYTHING), key=str)), st.sampled_from(VALUES))
def test_it_takes_whatever_is_right_and_leaves_to_load_only_what_it_cannot_say(path, new):
    changed = replaced(EVERYTHING, path, new)
    errors = load(json.dumps(changed), name="x").errors
    if not errors:
        VALIDATOR.validate(changed)
    elif VALIDATOR.is_valid(changed):
        assert [str(one) for one in errors if not any(words in one.message for words in BEYOND)] == []
