"""`openintent agent run`: as people run it, in the folder where their agents are."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from commandline import OPENINTENT, CommandLine, environment

from openintent.cli.replicating import QUICK_MAX, QUICK_S, RESTART_S_MAX, Deaths

SOON_S = 20.0

MODULE = """
import os
from openintent.agents import Agent, on_assignment
from beside import WORD

@Agent("NAME", lease_ttl=5, complete=True)
class Worker:
    @on_assignment
    async def handle(self, intent):
        return {"word": WORD, "ttl": self.settings.lease_ttl, "by": self.agent_id, "pid": os.getpid()}

@Agent("NAME-slow", complete=True)
class Slow:
    @on_assignment
    async def handle(self, intent):
        import asyncio
        await self.patch_state(intent.id, {"begun": True})
        await asyncio.sleep(0.5)

@Agent("NAME-fixed", instance="one")
class Fixed: ...

@Agent("NAME-broken")
class Broken:
    def __init__(self):
        raise RuntimeError("no")

class Plain: ...
"""


@pytest.fixture
def folder(tmp_path, space, monkeypatch):
    """Where the agents are, and where the commands are run."""
    (tmp_path / "team.py").write_text(MODULE.replace("NAME", space))
    (tmp_path / "beside.py").write_text("WORD = 'hello'")
    (tmp_path / "wrong.py").write_text("\n\n1 / 0\n")
    (tmp_path / "syntax.py").write_text("def\n")
    (tmp_path / "lacking.py").write_text("import notthere\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(server_url, folder) -> Iterator:
    started: list[subprocess.Popen[str]] = []

    def run(*words) -> subprocess.Popen[str]:
        command = [*OPENINTENT, "agent", "run", *map(str, words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(
            subprocess.Popen(command, env=environment(server_url), text=True, start_new_session=True, **pipes)
        )
        return started[-1]

    yield run
    for process in started:
        with process:
            process.kill()


def who_runs(process, count=1):
    """The instances that say so."""
    return [process.stdout.readline().removesuffix(" runs\n") for _ in range(count)]


def ended(process):
    out, err = process.communicate(timeout=SOON_S)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def completed(rival, intent):
    """The intent, when it is."""
    with rival.subscribe_intent(intent.id, after=0) as stream:
        for _ in stream:
            found = rival.get_intent(intent.id)
            if found.status == "completed":
                return found
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("module", ["team", "team.py", "./team.py"])
def test_an_agent_is_found_by_its_module_or_its_file(start, rival, space, module):
    process = start(f"{module}:Worker", "--ttl", "7")
    (instance,) = who_runs(process)
    done = completed(rival, rival.create_intent("It", assign=space))
    process.send_signal(signal.SIGTERM)
    code, out, _ = ended(process)
    assert (code, out) == (0, "")
    assert {key: done.state[key] for key in ("word", "ttl", "by")} == {"word": "hello", "ttl": 7.0, "by": instance}
    assert rival.get_agent_record(instance).status == "deregistered"


def test_several_agents_run_in_one_process_and_ctrl_c_drains_them(start, rival, space):
    process = start("team:Worker", "team:Slow", "--drain", "10")
    assert [each.partition("~")[0] for each in who_runs(process, 2)] == [space, f"{space}-slow"]
    intent = rival.create_intent("It", assign=f"{space}-slow")
    with rival.subscribe_intent(intent.id, after=0) as stream:
        next(event for event in stream if rival.get_intent(intent.id).state.get("begun"))
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 0
    assert rival.get_intent(intent.id).status == "completed"


WRONG = {
    "team": "team: write module:Class or file.py:Class",
    "nowhere:Worker": "there is no module nowhere, neither in this folder nor installed",
    "nowhere.py:Worker": "there is no file nowhere.py",
    "team:Nobody": "team has no Nobody; its agents: Worker, Slow, Fixed, Broken",
    "team:Plain": "Plain in team is no agent: decorate the class with @Agent(...)",
    "team:WORD": "WORD in team is no agent: decorate the class with @Agent(...)",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_said_in_one_line(folder, name):
    refused = CommandLine()("agent", "run", name)
    assert (refused.code, refused.out, refused.err) == (2, "", f"openintent: {WRONG[name]}\n")


def test_a_file_is_loaded_once_for_all_its_agents(folder):
    (folder / "twice.py").write_text("print('loaded')\nfrom team import Worker\n")
    refused = CommandLine()("agent", "run", "twice.py:Worker", "./twice.py:Nobody")
    assert (refused.code, refused.out) == (2, "loaded\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wrong:Worker", "wrong cannot be loaded: ZeroDivisionError: division by zero ({folder}/wrong.py, line 3)"),
        ("syntax.py:Worker", "syntax.py cannot be loaded: SyntaxError: invalid syntax ({folder}/syntax.py, line 1)"),
        ("lacking:Worker", "lacking cannot be loaded: ModuleNotFoundError: No module named 'notthere'"),
        ("team:Broken", "Broken cannot be made: RuntimeError: no"),
    ],
)
def test_what_cannot_be_loaded_is_said_with_its_place(folder, name, said):
    refused = CommandLine()("agent", "run", name)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"openintent: {said.format(folder=folder)}")


def test_one_instance_cannot_be_several_replicas(folder):
    refused = CommandLine()("agent", "run", "team:Fixed", "--replicas", "2")
    assert (refused.code, refused.out) == (2, "")
    assert "replicas need one each" in refused.err


def test_a_wrong_address_is_said(folder):
    refused = CommandLine()("agent", "run", "team:Worker", "--url", "gopher://x")
    assert refused.code == 2
    assert refused.err.startswith("openintent: not the address of a server: 'gopher://x'")


# Replicas


@pytest.mark.slow
def test_replicas_are_instances_of_their_own_and_one_that_dies_is_started_again(start, rival, space):
    process = start("team:Worker", "--replicas", "2")
    first = set(who_runs(process, 2))
    assert len(first) == 2
    victim = completed(rival, rival.create_intent("It", assign=space)).state
    os.kill(victim["pid"], signal.SIGKILL)
    (third,) = who_runs(process)
    assert third not in first
    pid_of(rival, third)
    process.send_signal(signal.SIGTERM)
    code, _, err = ended(process)
    assert code == 0
    assert f"replica {victim['pid']} ended by signal 9; another begins in 0.1 s" in err
    statuses = {each: rival.get_agent_record(each).status for each in (*first, third)}
    assert {each for each, status in statuses.items() if status != "deregistered"} == {victim["by"]}


@pytest.mark.slow
def test_replicas_that_were_drained_are_not_wanted_any_more(start, rival):
    process = start("team:Worker", "--replicas", "1")
    (instance,) = who_runs(process)
    os.kill(pid_of(rival, instance), signal.SIGTERM)
    code, out, err = ended(process)
    assert (code, out) == (0, "")
    assert "another begins" not in err


def pid_of(rival, instance):
    """As it registered itself, which it does right after it has said that it runs."""
    while True:
        found = [each for each in rival.list_agents() if each.agent_id == instance]
        if found:
            return found[0].metadata["pid"]


@pytest.mark.slow
def test_replicas_drain_when_whoever_started_them_was_killed(start, rival, space):
    process = start("team:Slow", "--replicas", "2")
    instances = who_runs(process, 2)
    for each in instances:
        pid_of(rival, each)
    process.kill()
    process.communicate(timeout=SOON_S)  # it ends when the last of them has let go of it
    assert {rival.get_agent_record(each).status for each in instances} == {"deregistered"}


@pytest.mark.slow
def test_replicas_that_cannot_begin_are_given_up(start):
    process = start("team:Broken", "--replicas", "1")
    code, out, err = ended(process)
    assert (code, out) == (1, "")
    assert err.count("Broken cannot be made: RuntimeError: no") == QUICK_MAX
    assert "5 times in a row at once; giving up" in err


def test_the_delay_before_another_begins_grows_and_has_a_bound():
    deaths = Deaths()
    delays = [deaths.delay_s(QUICK_S - 0.1) for _ in range(QUICK_MAX)]
    assert delays == [0.1, 0.2, 0.4, 0.8, None]
    assert Deaths(quick=3).delay_s(QUICK_S) == 0.1
    assert max(filter(None, delays)) <= RESTART_S_MAX
