"""Every example, as its reader runs it: one command, no key, and it ends by itself."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from http_words import running_server

import openintent

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
STEPS = ("analyse", "archive", "fetch", "publish", "warn")


def told_by(
    *command: str | Path, url: str | None = None, cwd: Path = EXAMPLES, complains: str | None = None
) -> list[str]:
    """What a program prints. It must succeed, and complain about nothing else."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENINTENT_")}
    if url is not None:
        env["OPENINTENT_URL"] = url
    done = subprocess.run(
        [sys.executable, *command], env=env, cwd=cwd, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if complains is None or complains not in line] == []
    return done.stdout.splitlines()


def test_the_first_lease():
    with running_server() as url:
        told = told_by("first_lease.py", url=url)
    assert told == [
        "ada holds 'research' with token 1",
        "bob is refused: ada holds it",
        "bob holds 'research' with token 2",
        "the intent's state is {'research': 'done'}",
    ]


def test_the_smallest_agent():
    first, second = told_by("agent.py")
    assert re.fullmatch(r"greeter~[0-9a-f]{6} greets world under token 1", first)
    assert second == "ada reads 'Hello, world!'"


@pytest.mark.slow
def test_of_a_fleet_whose_reader_is_killed_another_reads_on():
    told = told_by("research_fleet.py")
    story, summary = told[: told.index("")], told[told.index("") + 1 :]
    (dead, book) = next(
        found.groups()
        for line in story
        if (found := re.fullmatch(r"(reader~\d) has read two chapters of (\w+), and is killed", line))
    )
    assert f"the lease of {dead} on {book} has lapsed" in story
    tokens = {line.split()[0]: int(re.search(r"with token (\d+)", line)[1]) for line in summary}
    assert len(tokens) == 6
    assert [line for line in summary if not re.match(r"\w+ +done by reader~\d with token \d+", line)] == [], told
    (again,) = [line for line in summary if line.startswith(book)]
    assert again.endswith("in 2 attempts")
    assert dead not in again
    taken = [int(line.rpartition(" ")[2]) for line in story if f" takes {book} with token" in line]
    assert taken[-1] == tokens[book] > taken[0]
    assert any(re.fullmatch(r"reader~\d reads on after chapter [23]", line) for line in story)


@pytest.mark.slow
def test_when_the_leading_planner_is_killed_the_other_leads_on():
    leads, killed, leads_now, late, *planned = told_by("coordinator_failover.py")
    dead, token = re.fullmatch(r"(planner~\d) leads with token (\d+)", leads).groups()
    new, larger = re.fullmatch(r"(planner~\d) leads with token (\d+)", leads_now).groups()
    assert killed == f"{dead} is killed"
    assert dead != new
    assert int(larger) > int(token)
    assert late == f"a late write of {dead} with token {token} is refused"
    weeks = {line.split()[0]: list(map(int, line.split()[4:])) for line in planned}
    assert weeks[dead] + weeks[new] == list(range(1, 13))
    assert len(weeks[dead]) >= 4


@pytest.mark.slow
def test_the_pipeline_fails_once_skips_a_step_and_completes(tmp_path):
    for name in ("pipeline.yaml", "agents.py"):
        shutil.copy(EXAMPLES / "pipeline" / name, tmp_path)
    text = (tmp_path / "pipeline.yaml").read_text(encoding="utf-8")
    command = re.search(r"^#   openintent (.*)$", text, re.MULTILINE)[1]
    told = told_by("-m", "openintent.cli", *shlex.split(command), cwd=tmp_path, complains="ConnectionError")
    ends = [line.split()[:2] for line in told if re.search(r" (done|skipped) ", line)]
    assert sorted(ends) == [[step, "skipped" if step == "warn" else "done"] for step in STEPS]
    assert any(line.startswith("fetch ") and "attempt 2/3" in line for line in told)
    assert told[-1].startswith("Weather report: completed, 5 of 5 steps")
    with openintent.local(tmp_path / "weather.db") as client:
        (published,) = [each for each in client.list_intents() if each.title == "Publish the report"]
    assert published.state["text"] == "9.75 degrees on average, of 4 readings"


def test_no_example_is_without_a_test():
    here = Path(__file__).parent
    tests = "".join((here / name).read_text(encoding="utf-8") for name in ("test_examples.py", "local/test_local.py"))
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if f'"{path.name}"' not in tests] == []
