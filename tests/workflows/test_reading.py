"""Reading YAML: what words mean, where they stand, and how little is done for a file that means harm."""

import time

import pytest
import yaml

from openintent.workflows import reading
from openintent.workflows.checking import load, load_file
from openintent.workflows.problems import PROBLEMS_MAX, Place, Problems
from openintent.workflows.reading import BYTES_MAX, DEPTH_MAX, NODES_MAX, Entries, Scalar, plain, read


def value(text: str):
    problems = Problems()
    node = read(text, problems)
    assert problems.found == []
    assert node is not None
    return plain(node)


def said(text: str) -> list[str]:
    problems = Problems()
    read(text, problems)
    return [str(problem) for problem in problems.in_order()]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("~", None),
        ("", None),
        ("null", None),
        ("'null'", "null"),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("+3", 3),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ('"a\\tb"', "a\tb"),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_words_mean_what_yaml_1_2_says(written, meant):
    found = value(f"a: {written}")["a"]
    assert (found, type(found)) == (meant, type(meant))


def test_every_key_and_value_knows_its_place():
    tree = read("a:\n  b: [x, 'y']\n", Problems())
    assert isinstance(tree, Entries)
    inner = tree.node("a")
    assert isinstance(inner, Entries)
    assert (tree.place, tree.entries["a"].key.place, inner.entries["b"].key.place) == (
        Place(1, 1),
        Place(1, 1),
        Place(2, 3),
    )
    listed = inner.node("b")
    assert isinstance(listed, reading.Items)
    assert [item.place for item in listed.items] == [Place(2, 7), Place(2, 10)]
    last = listed.items[1]
    assert isinstance(last, Scalar)
    assert last.inside(0) == Place(2, 11)


def test_places_count_characters_and_not_bytes():
    assert said("ä: [é, *x]") == ["1:8: error: the alias *x is not known here"]


def test_a_mark_at_the_beginning_of_a_file_is_no_character(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfa: \xff")
    (problem,) = load_file(tmp_path / "a.yaml").problems
    assert str(problem) == "1:4: error: the byte 0xFF is not UTF-8"
    assert said("\ufeffa: *x") == ["1:4: error: the alias *x is not known here"]


def test_characters_that_no_yaml_has_are_named_with_their_place():
    assert said("a: b\nc: d\x00") == ["2:5: error: the character U+0000 may not stand in YAML"]
    assert said("a: \ud800") == ["1:4: error: the character U+D800 may not stand in YAML"]


def test_half_a_character_from_an_escape_is_refused_by_both_parsers(monkeypatch):
    assert len(said('a: "\\ud800"')) == 1
    monkeypatch.setattr(reading, "LOADER", yaml.SafeLoader)
    assert said('a: "\\ud800"') == ["1:4: error: this text has half a character in it"]


def test_a_pair_of_escapes_for_one_character_is_told_how_to_write_it():
    problems = Problems()
    read('a: "\\ud83d\\ude00"', problems)
    assert problems.found[0].hint == "write the character itself, or \\U and eight digits"
    assert value('a: "\\U0001F600 😀"') == {"a": "😀 😀"}


def test_json_may_be_indented_with_tabs():
    assert value('{\n\t"a": [\n\t\t1,\t2\n\t]\n}') == {"a": [1, 2]}


# Files that mean harm


def bomb(levels: int) -> str:
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


HARMFUL = {
    "aliases of aliases": (bomb(9), 300),
    "a thousand levels of aliases": (bomb(1000), 300),
    "nothing but aliases": ("a: &a [x]\nb: [" + "*a, " * 200_000 + "]", 300),
    "merged keys": ("a: &a {x: 1}\n" + "".join(f"k{n}: {{<<: *a}}\n" for n in range(50_000)), 1_000),
    "brackets in brackets": ("[" * 500_000, DEPTH_MAX + 10),
    "lists in lists": ("- " * 500_000, DEPTH_MAX + 10),
    "mappings in mappings": ("{a: " * 200_000, 2 * DEPTH_MAX + 10),
    "a huge file": ("a: " + "x" * 5_000_000, 0),
    "a huge word": ("a: " + "x" * (BYTES_MAX - 10), 10),
    "many keys": ("".join(f"k{n}: 1\n" for n in range(90_000)), NODES_MAX + 10),
    "many items": ("[" + "1," * 400_000 + "]", NODES_MAX + 10),
    "the same key over and over": ("a: 1\n" * 200_000, 2 * PROBLEMS_MAX + 10),
    "a long number": ("a: " + "9" * 1_000_000, 10),
}


@pytest.fixture
def parsed(monkeypatch):
    """Counts what the parser is asked for."""
    events = []

    class Counting(reading.LOADER):
        def get_event(self):
            events.append(1)
            return super().get_event()

    monkeypatch.setattr(reading, "LOADER", Counting)
    return events


@pytest.mark.parametrize("what", HARMFUL)
def test_a_file_that_means_harm_is_refused_with_little_work(what, parsed, figures):
    text, events_max = HARMFUL[what]
    began = time.perf_counter()
    checked = load(text, name="x")
    took_ms = (time.perf_counter() - began) * 1000
    assert checked.workflow is None
    assert checked.errors
    assert len(checked.problems) <= PROBLEMS_MAX + 1
    assert len(parsed) <= events_max
    figures.add(f"harmful YAML: {what}", bytes=len(text), events=len(parsed), took_ms=round(took_ms, 1))


def test_a_large_workflow_is_not_harmful():
    steps = "".join(
        f"  s{n}: {{assign: a, depends_on: [{f's{n - 1}' if n else ''}], retry: {{max_attempts: 2}}}}\n"
        for n in range(1000)
    )
    checked = load(f'openintent: "1.0"\ninfo: {{name: x}}\nworkflow:\n{steps}', name="x")
    assert checked.problems == []
    assert checked.workflow is not None
    assert len(checked.workflow.steps) == 1000
