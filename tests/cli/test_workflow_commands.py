import json
import os
import pty
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from commandline import OPENINTENT, CommandLine, environment

from openintent.workflows.schema import schema

FILES = Path(__file__).parent.parent / "workflows"
RIGHT = FILES / "right" / "diamond.yaml"
WARNED = 'openintent: "1.0"\ninfo: {name: x}\nllm: {}\nworkflow: {a: {assign: b}}\n'

nobody = CommandLine("http://127.0.0.1:9")  # it needs no server


def test_a_right_file_is_right():
    run = nobody("workflow", "validate", RIGHT)
    assert (run.code, run.err) == (0, "")
    assert run.out == f'{RIGHT}: right: A "diamond", 5 steps\n'


def test_all_problems_are_said_with_file_line_and_column():
    broken = FILES / "broken" / "keys_misspelt.yaml"
    run = nobody("workflow", "validate", RIGHT, broken)
    assert (run.code, run.err) == (2, "")
    assert run.out.splitlines()[1:] == [
        f"{broken}:2:1: error: inf is not a key here",
        "  hint: did you mean info?",
        f"{broken}:4:1: error: worklow is not a key here",
        "  hint: did you mean workflow?",
        f"{broken}:6:1: error: agent is not a key here",
        "  hint: did you mean agents?",
    ]


def test_warnings_alone_are_no_problem_unless_one_is_strict(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(WARNED)
    run = nobody("workflow", "validate", file)
    assert run.code == 0
    assert f"{file}:3:1: warning: llm is not acted upon" in run.out
    assert f"{file}: right: x, 1 step\n" in run.out
    assert nobody("workflow", "validate", "--strict", file).code == 2
    assert nobody("workflow", "validate", "--strict", RIGHT).code == 0


def test_json_has_a_line_for_each_file():
    run = nobody("workflow", "validate", "--json", RIGHT, FILES / "broken" / "version.yaml")
    assert run.code == 2
    good, bad = map(json.loads, run.out.splitlines())
    assert good == {
        "file": str(RIGHT),
        "right": True,
        "steps": ["start", "left", "right", "end", "alone"],
        "problems": [],
    }
    assert (bad["right"], bad["steps"], len(bad["problems"])) == (False, None, 3)
    assert bad["problems"][0] == {
        "line": 1,
        "column": 13,
        "path": "openintent",
        "message": 'expected the text "1.0", found the text "2.0"',
        "hint": "did you mean 1.0?",
        "severity": "error",
    }


@pytest.mark.parametrize("command", ["validate", "graph"])
def test_a_file_that_is_not_there_is_said(command, tmp_path):
    run = nobody("workflow", command, tmp_path / "none.yaml")
    assert (run.code, run.out) == (1, "")
    assert run.err == f"openintent: {tmp_path / 'none.yaml'}: No such file or directory\n"


def test_nothing_in_a_file_reaches_the_terminal_as_a_command(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text('"\\e[31mred": 1\n')
    run = nobody("workflow", "validate", file)
    assert run.code == 2
    assert "\x1b" not in run.out
    assert "\\x1b[31mred is not a key here" in run.out


def on_a_terminal(*words: object) -> str:
    ours, theirs = pty.openpty()
    command = [*OPENINTENT, *map(str, words)]
    subprocess.run(command, stdout=theirs, env=environment(TERM="xterm", COLUMNS="300"), check=False)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # how the end of a terminal is told
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    return shown.decode()


def test_on_a_terminal_the_line_is_shown_with_a_mark_below_the_place():
    broken = FILES / "broken" / "unquoted_colon.yaml"
    shown = on_a_terminal("workflow", "validate", broken)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert plain != shown.splitlines()
    assert plain[0].startswith(f"{broken}:4:19: error: this is not YAML")
    assert plain[1].startswith("    4 |   description: Two: a report")
    assert plain[2] == " " * plain[1].index(": a report") + "^"
    assert plain[3].startswith("  hint: ")


def test_graph_draws_a_tree():
    run = nobody("workflow", "graph", RIGHT)
    assert (run.code, run.err) == (0, "")
    assert run.out.splitlines() == [
        'A "diamond"',
        "├─ start  -> a",
        '│  ├─ left  Left [<">]  -> b',
        "│  └─ right  -> c",
        "│     └─ end  -> d  (also after left)",
        "└─ alone  -> e f",
    ]


def test_a_step_stands_below_the_step_that_it_waits_for_longest():
    assert nobody("workflow", "graph", FILES / "right" / "everything.yaml").out.splitlines()[1:] == [
        "└─ fetch  Fetch the numbers  -> fetcher",
        "   └─ analyse  -> analyst",
        "      └─ write  -> writer  (also after fetch)",
    ]


def test_graph_draws_for_mermaid():
    lines = nobody("workflow", "graph", "--format", "mermaid", RIGHT).out.splitlines()
    assert lines[:3] == ["flowchart TD", '  s1["start<br/>a"]', '  s2["Left #91;#60;#34;#62;#93;<br/>b"]']
    assert lines[-4:] == ["  s1 --> s2", "  s1 --> s3", "  s3 --> s4", "  s2 --> s4"]


def test_graph_draws_for_graphviz():
    lines = nobody("workflow", "graph", "--format", "dot", RIGHT).out.splitlines()
    assert (lines[0], lines[-1]) == ('digraph "A \\"diamond\\"" {', "}")
    assert '  "left" [label="Left [<\\">]\\nb"];' in lines
    assert '  "right" -> "end";' in lines


def test_graph_of_a_broken_file_says_what_is_wrong():
    run = nobody("workflow", "graph", FILES / "broken" / "cycle_of_two.yaml")
    assert (run.code, run.out) == (2, "")
    assert "the steps wait for each other: one -> two -> one" in run.err


def test_a_long_chain_can_be_drawn(tmp_path):
    steps = "".join(f"  s{n}: {{assign: a, depends_on: [{f's{n + 1}' if n < 999 else ''}]}}\n" for n in range(1000))
    (tmp_path / "a.yaml").write_text(f'openintent: "1.0"\ninfo: {{name: x}}\nworkflow:\n{steps}')
    run = nobody("workflow", "graph", tmp_path / "a.yaml")
    assert (run.code, len(run.out.splitlines())) == (0, 1001)


def test_schema_prints_what_editors_need():
    run = nobody("workflow", "schema")
    assert (run.code, run.err) == (0, "")
    assert run.json == schema()


@pytest.mark.parametrize("words", [["validate"], ["graph"], ["schema"]], ids=" ".join)
def test_every_help_has_examples_and_exit_codes(words):
    run = nobody("workflow", *words, "--help")
    assert run.code == 0
    assert "Example" in run.out
    assert "Exit codes" in run.out
    assert max(map(len, run.out.splitlines())) <= 110
