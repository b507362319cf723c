"""Workflow files, right and broken, as `load` sees them."""

import json
import random
import re
import subprocess
import sys

import msgspec
import pytest
import yaml
from filewords import BROKEN, DOCS, RIGHT, documents, expectations, yaml_blocks
from hypothesis import given
from hypothesis import strategies as st

from openintent.agents.record import Leasing
from openintent.retrying import Retry
from openintent.wire import PolicyBody
from openintent.workflows import reading
from openintent.workflows.checking import load, load_file
from openintent.workflows.problems import PROBLEMS_MAX
from openintent.workflows.spec import Workflow
from openintent.workflows.tables import GOVERNANCE, LEASING, RETRY, SECTIONS

HEAD = 'openintent: "1.0"\ninfo: {name: Report}\n'


def right(text: str) -> Workflow:
    checked = load(text, name="a file")
    assert checked.problems == []
    assert checked.workflow is not None
    return checked.workflow


def one_step(rest: str) -> Workflow:
    return right(f"{HEAD}workflow: {{fetch: {{assign: a, {rest}}}}}")


# Broken files


def test_there_are_enough_broken_files_and_many_have_several_errors(figures):
    counts = [len(expectations(path.read_text(encoding="utf-8"))) for path in BROKEN]
    assert len(BROKEN) >= 40
    assert sum(count >= 2 for count in counts) >= 25
    found = sum(len(load_file(path).problems) for path in BROKEN)
    figures.add("broken workflow files", files=len(BROKEN), problems=sum(counts), found=found)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_all_that_is_wrong_is_said_with_its_place_and_nothing_else(path):
    expected = expectations(path.read_text(encoding="utf-8"))
    checked = load_file(path)
    left = list(checked.problems)
    for one in expected:
        met = next((problem for problem in left if one.is_met_by(problem)), None)
        assert met is not None, f"{one} is not among {[str(problem) for problem in checked.problems]}"
        left.remove(met)
    assert [str(problem) for problem in left] == []
    assert expected
    assert (checked.workflow is None) == any(one.severity == "error" for one in expected)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_problems_come_from_top_to_bottom_and_have_words(path):
    problems = load_file(path).problems
    assert [(one.line, one.column) for one in problems] == sorted((one.line, one.column) for one in problems)
    assert all(one.message.strip() and "\n" not in one.message for one in problems)


@pytest.mark.parametrize("path", [*BROKEN, *RIGHT], ids=lambda path: path.stem)
def test_the_plain_parser_says_the_same(path, monkeypatch):
    fast = load_file(path)
    monkeypatch.setattr(reading, "LOADER", yaml.SafeLoader)
    slow = load_file(path)
    assert slow.workflow == fast.workflow
    if not any("not YAML" in problem.message for problem in fast.problems):
        assert slow.problems == fast.problems


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("asign", "assign"),
        ("depend_on", "depends_on"),
        ("Title", "title"),
        ("time_out", "timeout"),
        ("output", "outputs"),
    ],
)
def test_a_misspelt_key_is_told_the_right_one(word, meant):
    (problem,) = load(f"{HEAD}workflow: {{a: {{assign: b}}, c: {{assign: d, {word}: x}}}}", name="x").errors
    assert problem.hint == f"did you mean {meant}?"


def test_a_misspelt_step_is_told_the_right_one():
    text = f"{HEAD}workflow: {{fetch: {{assign: b}}, send: {{assign: d, depends_on: fecth}}}}"
    (problem,) = load(text, name="x").problems
    assert (problem.hint, problem.path) == ("did you mean fetch?", "workflow.send.depends_on")


def test_more_problems_than_anybody_reads_are_not_listed():
    steps = "".join(f"  s{number}: {{}}\n" for number in range(300))
    problems = load(f"{HEAD}workflow:\n{steps}", name="x").problems
    assert len(problems) == PROBLEMS_MAX + 1
    assert "more to say" in problems[-1].message


def test_an_error_behind_more_warnings_than_anybody_reads_is_an_error():
    steps = "".join(f"  s{number}: {{assign: a, llm: x}}\n" for number in range(PROBLEMS_MAX + 50))
    warned = load(f"{HEAD}workflow:\n{steps}", name="x")
    assert (warned.errors, warned.workflow is None) == ([], False)
    checked = load(f"{HEAD}workflow:\n{steps}  last: {{}}\n", name="x")
    assert (len(checked.errors), checked.workflow) == (1, None)


@pytest.mark.parametrize("written", ["0", "0s", "0.0000001s", "0.0001ms"])
def test_a_time_that_is_no_time_is_refused(written):
    assert load(f"{HEAD}workflow: {{a: {{assign: x, timeout: {written}}}}}", name="x").errors


# Right files


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_a_right_file_has_no_problems_and_survives_being_stored(path):
    workflow = right(path.read_text(encoding="utf-8"))
    assert msgspec.json.decode(msgspec.json.encode(workflow), type=Workflow) == workflow


def test_the_yaml_of_the_documents_has_no_problems():
    if not documents():
        pytest.skip(reason="OPENINTENT_DOCS does not name the folder with the documents")
    (text,) = documents()
    fetch, process = right(text).steps
    assert (fetch.title, fetch.assign, fetch.depends_on) == ("Fetch Data", "fetcher", ())
    assert fetch.retry == Retry(max_attempts=3, backoff="exponential", base_delay_seconds=2.0)
    assert (process.depends_on, process.retry) == (
        ("fetch",),
        Retry(max_attempts=5, backoff="linear", base_delay_seconds=1.0),
    )


def test_the_example_of_the_page_has_no_problems():
    (text,) = yaml_blocks(DOCS / "workflow-files.md")
    assert [step.name for step in right(text).steps] == ["fetch", "analyse", "write"]


def test_both_dialects_of_retry_say_the_same():
    seconds = one_step("retry: {max_attempts: 4, backoff: constant, base_delay_seconds: 0.7, max_delay_seconds: 60}")
    millis = one_step("retry: {max_attempts: 4, backoff: fixed, initial_delay_ms: 700, max_delay_ms: 60000}")
    assert seconds == millis
    assert seconds.fingerprint == millis.fingerprint


@pytest.mark.parametrize(
    ("written", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("250ms", 0.25), ("2h", 7200), ("1d", 86400)]
)
def test_durations(written, seconds):
    step = one_step(f"timeout: {written}, leasing: {{scope: s, ttl: {written}}}").steps[0]
    assert (step.timeout_seconds, step.leasing) == (seconds, Leasing(scope="s", ttl=seconds))


@pytest.mark.parametrize(("written", "jitter"), [("true", 0.1), ("false", 0), ("0.4", 0.4), ("1", 1)])
def test_jitter_is_a_share_or_a_word(written, jitter):
    retry = one_step(f"retry: {{jitter: {written}}}").steps[0].retry
    assert retry is not None
    assert retry.jitter == jitter


def test_outputs_in_a_list_may_be_anything():
    assert one_step("outputs: [a, b]").steps[0].outputs == {"a": "any", "b": "any"}


def test_an_input_may_come_from_a_step_far_before():
    text = f"{HEAD}workflow: {{a: {{assign: x}}, b: {{assign: x, depends_on: a}}, "
    right(text + "c: {assign: x, depends_on: b, inputs: {v: a.value}, skip_when: not a.value}}")


def test_files_that_say_the_same_are_the_same_workflow():
    spread = 'info:\n  name: "Report"\nworkflow:\n  a:\n    assign: x\n    timeout: 60.0\nopenintent: "1.0"\n'
    assert right(spread) == right(f"{HEAD}workflow: {{a: {{timeout: 1m, assign: x}}}}")


def test_governance_is_a_policy_that_the_server_takes():
    workflow = right((RIGHT[0].parent / "everything.yaml").read_text(encoding="utf-8"))
    policy = msgspec.convert(workflow.governance, PolicyBody)
    assert (policy.write_scope, len(policy.allowed_agents)) == ("assigned_only", 4)
    assert workflow.timeout_seconds == 12 * 3600


# The tables, and what they must agree with


def names(record) -> set[str]:
    return {key.field for key in record.keys}


def test_the_tables_have_the_fields_of_the_values():
    fields = {kind: {field.name for field in msgspec.structs.fields(kind)} for kind in (Retry, Leasing, PolicyBody)}
    assert names(RETRY) == fields[Retry]
    assert names(LEASING) == fields[Leasing] - {"intent_id"}  # the runner's to say
    assert names(GOVERNANCE) - {"timeout_hours"} == fields[PolicyBody] - {"max_cost"}  # which no server counts


def test_the_page_lists_exactly_the_keys_that_there_are():
    page = (DOCS / "workflow-files.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (\*\*)?`(\w+)`", page, re.MULTILINE)
    shown = {"": "top", "info": "info", "workflow.STEP": "step", "workflow.STEP.outputs.NAME": "output"}
    shown |= {"workflow.STEP.retry": "retry", "workflow.STEP.leasing": "leasing", "agents.NAME": "agent"}
    there = [
        (shown.get(where, where), "**" if key.required else "", key.name)
        for where, record in SECTIONS.items()
        for key in record.keys
    ]
    assert sorted(rows) == sorted(there)
    ignored = {name for record in SECTIONS.values() for name in record.not_offered}
    section = page.split("## Not acted upon")[1]
    assert ignored == set(re.findall(r"`(\w+)`", section)) - {"validate", "leasing", "governance", "info"}


def test_nobody_loads_yaml_who_reads_no_file():
    asked = "import sys, openintent, openintent.cli.workflows, openintent.workflows.plan; print('yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# Whatever a file says

KEYS = sorted({key.name for record in SECTIONS.values() for key in record.keys} | {"llm", "a", "b"})
WORDS = st.sampled_from([*KEYS, "a.b", "$trigger.x", "a.x == 1", "yes", "1.0", "30s", "exponential", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=20,
)
YAMLISH = st.text(alphabet="abc01 \n\t:-?,[]{}&*!|>'\"%@`#~.$<=_\\é\ud800\x00\u2028\ufeff", max_size=200)


def assert_is_an_answer(text: str) -> None:
    checked = load(text, name="x")
    assert (checked.workflow is None) == bool(checked.errors)
    lines = reading.LINE_END.split(text)
    assert all(1 <= problem.line <= len(lines) + 1 and problem.column >= 1 for problem in checked.problems)


@given(YAMLISH | st.text())
def test_no_text_makes_it_raise(text):
    assert_is_an_answer(text)


@given(VALUES)
def test_no_value_makes_it_raise(value):
    assert_is_an_answer(json.dumps({"openintent": "1.0", "info": {"name": "x"}, "workflow": {"a": value, "b": value}}))
    assert_is_an_answer(json.dumps(value, ensure_ascii=False))


@given(st.sampled_from([*BROKEN, *RIGHT]), st.integers(), st.integers(1, 8))
def test_no_slip_of_a_finger_makes_it_raise(path, seed, slips):
    dice, letters = random.Random(seed), list(path.read_text(encoding="utf-8")[:3000])
    for _ in range(slips):
        at = dice.randrange(len(letters))
        letters[at : at + dice.randrange(3)] = dice.choice(
            [":", "\n", " ", "-", "[", "{", "'", '"', "&a ", "\t", "x", ""]
        )
    assert_is_an_answer("".join(letters))
