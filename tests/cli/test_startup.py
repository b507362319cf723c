import subprocess
import sys

import pytest
from click.testing import CliRunner

from openintent.cli import main

HEAVY = "uvicorn starlette apsw uvloop"

COMMANDS = [
    [],
    ["serve"],
    ["hold"],
    ["run"],
    ["leases"],
    ["intents"],
    *([name] for name in ("backup", "cluster", "completion", "demo", "doctor", "restore", "schema")),
    *(["leases", name] for name in ("ls", "show", "acquire", "renew", "release", "revoke", "watch")),
    *(["intents", name] for name in ("ls", "show", "new")),
    ["agent", "run"],
    *(["workflow", name] for name in ("run", "status")),
]


def loaded(code: str) -> list[str]:
    """Which of the heavy modules are loaded after this code has run."""
    asked = f"import sys\n{code}\nprint('loaded:', *[m for m in {HEAVY!r}.split() + ['rich'] if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


def test_help_loads_neither_a_server_nor_tables():
    assert loaded("from openintent.cli import main\nmain(['--help'], standalone_mode=False)") == []


def test_a_command_waits_for_none_of_the_others():
    code = "from openintent.cli import main\nmain(['completion', 'bash'], standalone_mode=False)"
    there = "[name for name in COMMANDS if COMMANDS[name] in sys.modules]"
    asked = f"import sys\nfrom openintent.cli.root import COMMANDS\n{code}\nprint({there})"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['completion']"


def test_hold_loads_neither_a_server_nor_tables():
    assert loaded("import openintent.cli.holding") == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_has_an_example_or_names_its_commands(words):
    shown = CliRunner().invoke(main, [*words, "--help"])
    assert shown.exit_code == 0
    assert "Example" in shown.output or "Commands:" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 110


@pytest.mark.parametrize("words", [words for words in COMMANDS if words not in (["leases"], ["intents"])], ids=" ".join)
def test_every_help_documents_its_exit_codes(words):
    assert "Exit codes" in CliRunner().invoke(main, [*words, "--help"]).output
