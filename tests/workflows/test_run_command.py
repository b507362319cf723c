"""`openintent run` and `openintent workflow status`, as people type them."""

import json
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest
from commandline import OPENINTENT, CommandLine, environment

from openintent import OpenIntentClient
from openintent.cli.workflow_screen import Teller, in_tree
from openintent.workflows.progress import Progress, StepProgress

pytestmark = pytest.mark.slow

FILE = """
openintent: "1.0"
info: {{name: "{name}"}}
workflow:
  fetch:
    title: Fetch
    assign: fetcher-{name}
    retry: {{max_attempts: 3, backoff: linear, base_delay_seconds: 0.05}}
  process:
    title: Process
    assign: processor-{name}
    depends_on: [fetch]
    inputs: {{rows: fetch.rows, day: $trigger.day}}
    retry: {{max_attempts: 1}}
  repair:
    title: Repair
    assign: processor-{name}
    depends_on: [process]
    skip_when: process.sum == 6
"""
AGENTS = """
from openintent.agents import Agent, on_assignment

failures = []

@Agent("fetcher-{name}")
class Fetcher:
    @on_assignment
    async def fetch(self, intent):
        if len(failures) < 2:
            failures.append(1)
            raise ConnectionError("the source is away")
        return {{"rows": 3}}

@Agent("processor-{name}")
class Processor:
    @on_assignment
    async def process(self, intent):
        if intent.state["day"] == "sunday":
            raise ValueError("closed")
        return {{"sum": intent.state["rows"] * 2}}

@Agent("unmade-{name}")
class Unmade:
    def __init__(self):
        raise RuntimeError("no configuration")
"""
WITH = ("--with", "crew:Fetcher", "--with", "crew:Processor")
WITH_FILE = ("--with", "crew.py:Fetcher", "--with", "./crew.py:Processor")
SOON_S = 20


@pytest.fixture
def cli(server_url, tmp_path, monkeypatch):
    """In a folder with a workflow file and its agents, which are nobody else's."""
    monkeypatch.chdir(tmp_path)
    name = f"w{os.urandom(3).hex()}"
    (tmp_path / "p.yaml").write_text(FILE.format(name=name))
    (tmp_path / "crew.py").write_text(AGENTS.format(name=name))
    return CommandLine(server_url)


def run_of(cli):
    """The id of the run that the file means."""
    return cli("workflow", "status", "p.yaml", "--json").json["run_id"]


def test_a_file_is_run_to_its_end_and_each_change_has_a_line(cli):
    run = cli("run", "p.yaml", "--input", "day=monday", *WITH)
    assert run.code == 0, run.err
    words = [line.split()[:2] for line in run.out.splitlines()]
    assert ["process", "done"] in words
    assert ["repair", "skipped"] in words
    assert "again after 0.05 s: ConnectionError: the source is away" in run.out
    assert "again after 0.1 s" in run.out
    assert run.out.splitlines()[-1].split(",")[0].endswith(": completed")


def test_json_has_an_object_for_each_change_and_one_for_the_end(cli):
    run = cli("workflow", "run", "p.yaml", "--input", "day=monday", "--json", *WITH_FILE)
    *changes, end = map(json.loads, run.out.splitlines())
    assert (run.code, end["outcome"], end["run_id"]) == (0, "completed", run_of(cli))
    assert {change["step"]["name"] for change in changes} == {"fetch", "process", "repair"}
    retried = [change["step"]["retry_in_seconds"] for change in changes if change["step"]["retry_in_seconds"]]
    assert retried == [0.05, 0.1]
    assert {step["name"]: step["status"] for step in end["steps"]} == {
        "fetch": "done",
        "process": "done",
        "repair": "skipped",
    }


def test_of_several_addresses_any_will_do_also_for_the_agents(cli):
    run = cli("run", "p.yaml", "--input", "day=monday", "--url", f"http://127.0.0.1:1,{cli.url}", *WITH)
    assert run.code == 0, run.err


def test_a_run_that_fails_says_why_and_exits_with_1(cli):
    run = cli("run", "p.yaml", "--input", "day=sunday", "--run", f"sunday-{os.urandom(3).hex()}", *WITH)
    assert run.code == 1
    assert "ValueError: closed" in run.out
    assert run.out.splitlines()[-1].endswith("process, repair did not succeed")


def test_a_run_that_has_ended_is_shown_and_a_new_one_must_be_asked_for(cli):
    assert cli("run", "p.yaml", "--input", "day=monday", *WITH).code == 0
    again = cli("run", "p.yaml")
    assert again.code == 0
    assert "has ended already; --new begins a new one" in again.err
    new = cli("run", "p.yaml", "--new", "--input", "day=monday", "--json", *WITH)
    assert json.loads(new.out.splitlines()[-1])["run_id"].startswith(f"{run_of(cli)}-")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "no.yaml"), 2, "No such file"),
        (("run", "crew.py"), 2, "workflow validate crew.py"),
        (("run", "p.yaml", "--run", "a", "--new"), 2, "exclude each other"),
        (("run", "p.yaml", "--with", "crew"), 2, "write module:Class or file.py:Class"),
        (("run", "p.yaml", "--with", "nowhere.py:Fetcher"), 2, "there is no file nowhere.py"),
        (("run", "p.yaml", "--with", "nowhere:Fetcher"), 2, "there is no module nowhere"),
        (("run", "p.yaml", "--with", "crew:Nobody"), 2, "Nobody"),
        (("run", "p.yaml", "--with", "crew:Unmade"), 1, "Unmade cannot be made: RuntimeError: no configuration\n"),
        (("run", "p.yaml", "--with", "crew:failures"), 2, "failures in crew is no agent"),
        (("run", "p.yaml", "--input", "day"), 2, "write key=value"),
        (("run", "p.yaml", "--url", "http://127.0.0.1:1"), 69, "no server could be reached"),
        (("workflow", "status", "nothing"), 1, "there is no run nothing"),
        (("workflow", "status", "p.yaml"), 1, "begin it with: openintent run p.yaml"),
    ],
)
def test_what_cannot_be_is_told(cli, words, code, said):
    run = cli(*words)
    assert run.code == code
    assert said in run.err


def test_the_status_of_an_intent_that_is_no_run_is_refused(cli, server_url):
    with OpenIntentClient(server_url) as client:
        intent = client.create_intent("Mine")
    run = cli("workflow", "status", intent.id)
    assert run.code == 1
    assert "is no run of a workflow" in run.err


@contextmanager
def started(url, *words):
    with subprocess.Popen(
        [*OPENINTENT, *words],
        env=environment(url),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process, words):
    """Until it says so on stderr, among other things."""
    while words not in (line := process.stderr.readline()):
        assert line, f"it ended without {words!r}"


def test_interrupted_it_says_how_to_go_on_and_the_same_command_goes_on(cli, server_url):
    with started(server_url, "run", "p.yaml", "--input", "day=monday") as process:
        assert process.stdout.readline().split() == ["fetch", "open"]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SOON_S)
    assert process.returncode == 130
    assert f"go on with: openintent run p.yaml --run {run_of(cli)}" in err
    assert "Traceback" not in err
    assert cli("run", "p.yaml", *WITH).code == 0  # at once: the lease was given back


def test_a_second_command_stands_by_and_goes_on_when_the_first_is_killed(cli, server_url):
    with started(server_url, "run", "p.yaml", "--input", "day=monday", "--ttl", "1") as first:
        assert first.stdout.readline().split() == ["fetch", "open"]
        with started(server_url, "run", "p.yaml", "--ttl", "1", *WITH[:2]) as second:
            wait_for(second, "standing by")
            first.kill()
            wait_for(second, "leading now")
            with started(server_url, "run", "p.yaml", *WITH[2:]) as third:
                assert third.wait(SOON_S) == second.wait(SOON_S) == 0


def test_told_to_end_it_gives_the_lease_back(cli, server_url):
    with started(server_url, "run", "p.yaml") as process:
        assert process.stdout.readline().split() == ["fetch", "open"]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SOON_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    with OpenIntentClient(server_url) as client:
        assert client.list_coordinator_leases(intent_id=run_of(cli)) == []


def test_detached_it_goes_on_without_us(cli, tmp_path):
    begun = cli("run", "p.yaml", "--input", "day=monday", "--detach", "--json", *WITH)
    assert begun.code == 0, begun.err
    watched = cli("workflow", "status", begun.json["run_id"], "--watch", "--json")
    assert json.loads(watched.out.splitlines()[-1])["outcome"] == "completed"
    assert (tmp_path / begun.json["log"]).exists()


# What is shown


def a_step(name, after=None, **more):
    common = {"title": name, "agent": "w", "holder": "", "attempts_max": None, "retry_in_seconds": 0.0, "depth": 0}
    told = {"status": "open", "attempt": 0, "elapsed_seconds": None, "why": "", **more}
    return StepProgress(name=name, after=after, **common, **told)


def test_a_step_is_shown_below_what_it_waits_for():
    steps = [a_step("c", "b"), a_step("a"), a_step("b", "a"), a_step("d"), a_step("e", "a")]
    assert [(level, step.name) for level, step in in_tree(steps)] == [(0, "a"), (1, "b"), (2, "c"), (1, "e"), (0, "d")]


def test_that_time_passes_is_no_change(capsys):
    teller = Teller(as_json=False)
    for step in [
        a_step("a", status="waiting"),
        a_step("a", elapsed_seconds=1.0),
        a_step("a", elapsed_seconds=2.0),
        a_step("a", status="running", attempt=1, elapsed_seconds=3.0),
    ]:
        teller.tell(Progress(run_id="r", name="n", status="running", why="", steps=[step]))
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [["a", "open"], ["a", "running"]]
