import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import CommandLine, environment

cli = CommandLine()

SCRIPT = """
eval "$(openintent completion bash)"
COMP_WORDS=({words})
COMP_CWORD={at}
_openintent_completion openintent
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
PROGRAM = """#!{python}
from openintent.cli import main
main()
"""

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(tmp_path) -> Complete:
    """What bash offers when Tab is pressed at the end of the last word."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    program = tmp_path / "openintent"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)

    def offered(*words: str) -> list[str]:
        script = SCRIPT.format(words=" ".join(map(shlex.quote, words)), at=len(words) - 1)
        env = environment(PATH=f"{tmp_path}:{os.environ['PATH']}")
        command = [bash, "--norc", "--noprofile", "-c", script]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return offered


def test_bash_completes_commands(complete):
    assert {"backup", "completion", "demo", "doctor", "hold", "leases", "restore", "serve"} <= set(
        complete("openintent", "")
    )
    assert complete("openintent", "do") == ["doctor"]


def test_bash_completes_commands_of_groups_and_options(complete):
    assert complete("openintent", "leases", "acq") == ["acquire"]
    assert complete("openintent", "backup", "--eng") == ["--engine"]
    assert complete("openintent", "completion", "f") == ["fish"]


@pytest.mark.parametrize(("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete --")])
def test_each_shell_gets_its_own_script(shell, mark):
    done = cli("completion", shell)
    assert done.code == 0
    assert mark in done.out
    assert "_OPENINTENT_COMPLETE" in done.out


def test_a_shell_that_is_not_known_is_refused():
    refused = cli("completion", "tcsh")
    assert (refused.code, refused.out) == (2, "")
    assert "'bash', 'zsh', 'fish'" in refused.err


def test_the_help_says_where_to_put_it():
    shown = cli("completion", "--help").out
    assert {".bashrc", ".zshrc", "openintent.fish"} <= {Path(word.rstrip('"')).name for word in shown.split()}
