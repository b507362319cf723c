"""The guides, as their readers follow them: every example, in order, against a server at the usual address.

A page becomes one program. Its Python is in it word for word; a block below `name.py`: or `name.yaml`: is a file beside
it; a command is run when its turn has come, and one that runs until it is stopped runs on to the end of the page, as
in the reader's second terminal.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from serverprocess import ServerProcess

from openintent import agents
from openintent.agents.decorators import AgentArguments

DOCS = Path(__file__).resolve().parent.parent / "docs"
# The name of a file, the language, the words; a block without a language is printed word for word, `text` is not.
BLOCK = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

PRELUDE = """
import atexit, pathlib, subprocess

running_on = []
atexit.register(lambda: [process.kill() for process in running_on])

def command(text):
    print("$", text, end="", flush=True)
    if text.startswith("openintent agent run"):
        running_on.append(subprocess.Popen(["sh", "-c", "exec " + text]))
    else:
        subprocess.run(["sh", "-ec", text], check=True)

def stop():
    for process in running_on:
        process.terminate()
    assert [process.wait(20) for process in running_on] == [0] * len(running_on)
"""


def blocks(page: str) -> list[tuple[str, str, str]]:
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def program(page: str) -> str:
    lines = []
    for name, language, text in blocks(page):
        if name:
            lines.append(f"pathlib.Path({name!r}).write_text({text!r})")
        elif language == "python":
            lines.append(text)
        elif language not in ("", "text"):
            assert language == "sh", f"{page}: a block of {language} without the name of a file"
            lines.append(f"command({text!r})")
    return "\n".join([PRELUDE, *lines, "stop()"])


@pytest.fixture
def follow(tmp_path):
    """Runs a program as a reader would; what it printed."""
    server = ServerProcess(tmp_path / "guide.db")
    server.start()

    def run(text: str) -> str:
        (tmp_path / "guide.py").write_text(text, encoding="utf-8")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = os.environ | {"OPENINTENT_URL": f"http://127.0.0.1:{server.port}", "PATH": path}
        outcome = subprocess.run(
            [sys.executable, "-u", "guide.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome.stdout

    yield run
    server.kill()


@pytest.mark.slow
def test_every_python_block_of_the_guide_runs_after_the_ones_before_it(follow):
    python = [text for _, language, text in blocks("guide.md") if language == "python"]
    assert len(python) >= 8
    printed = follow("\n".join(python))
    assert "ada holds it; try again in" in printed
    assert "refused: " in printed
    assert "only one nightly job on this machine" in printed


def in_order(wanted: list[str], lines: list[str]) -> bool:
    rest = iter(lines)
    return all(line in rest for line in wanted)


@pytest.mark.slow
def test_every_example_of_the_guide_to_agents_runs_after_the_ones_before_it(follow):
    printed = follow(program("agents.md"))
    lines = printed.splitlines()
    shown = [text for _, language, text in blocks("agents.md") if not language]
    # What runs in the background says something now and then, also in between.
    assert [text for text in shown if not in_order(text.splitlines(), lines)] == [], printed
    for line in ["Hello, world!", "parked", "9", "stopped: revoked", "2", "3", "True", "into Dutch, for writer"]:
        assert line in lines
    assert "all is complete" in printed


@pytest.mark.slow
def test_every_example_of_the_guide_to_workflows_runs_after_the_ones_before_it(follow):
    lines = follow(program("workflows.md")).splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("STEP "))) + 1 :][:4]
    assert [re.sub(r"~\w+|[\d.]+ s ", "", row).split()[:4] for row in table] == [
        ["fetch", "done", "2/3", "fetcher"],
        ["analyse", "done", "1/2", "guesser"],
        ["alarm", "skipped", "-", "writer"],
        ["publish", "done", "1", "writer"],
    ]
    assert "Daily report: completed, 4 of 4 steps, run tuesday" in lines
    assert "True It goes up." in lines
    assert "Outcome(run_id='thursday', completed=False, why='the run was abandoned')" in lines


def test_the_guide_to_agents_names_every_handler_and_every_option():
    page = (DOCS / "agents.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    handlers = {name for name in agents.__all__ if name.startswith("on_")}
    assert {name for name in handlers if not any(f"`@{name}" in row for row in rows)} == set()
    assert {name for name in AgentArguments.__annotations__ if not any(f"`{name}`" in row for row in rows)} == set()


def test_the_agent_in_the_readme_is_that_of_the_guide():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (greeter,) = [text for name, _, text in blocks("agents.md") if name == "greeter.py"]
    assert f"```python\n{greeter}```" in readme
