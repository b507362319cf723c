"""No command prints the password of an engine: not when it works, not when it fails, not in what is wrong with it."""

import pytest
from click.testing import CliRunner
from commandline import CommandLine

from openintent.cli.root import main
from openintent.cli.serve import _announce
from openintent.server.settings import Settings

SECRET = "canary"  # noqa: S105  # it is looked for

# Nobody listens there; and ways to write a password that are wrong.
URLS = (
    f"redis://ann:{SECRET}@127.0.0.1:1/0?timeout=0.2",
    f"postgresql://ann:{SECRET}@127.0.0.1:1/db?timeout=0.2",
    f"postgresql://127.0.0.1:1/db?user=ann&password={SECRET}&timeout=0.2",
    f"etcd://ann:{SECRET}@127.0.0.1:1/prefix?timeout=0.2",
    f"zookeeper://127.0.0.1:1/path?auth=digest:ann:{SECRET}&timeout=0.2",
    f"redis://ann:x?{SECRET}@127.0.0.1:1/0",
    f"etcd://ann:x?{SECRET}@127.0.0.1:1/prefix",
    f"redis:/ann:{SECRET}@127.0.0.1:1",
    f"mongodb://ann:{SECRET}@127.0.0.1:1",
)
COMMANDS = (
    "backup copy --engine URL",
    "restore copy --engine URL",
    "export file --engine URL",
    "import file --engine URL",
    "move --from URL --to sqlite:///new.db",
    "move --from sqlite:///old.db --to URL",
    "doctor --engine URL --port 0",
    "doctor --engine URL --port 0 --json",
    "keys list --engine URL",
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """With something at each of the names that are told."""
    monkeypatch.chdir(tmp_path)
    for name in ("copy", "file", "old.db"):
        (tmp_path / name).write_bytes(b"nothing")


@pytest.mark.slow  # each engine is asked in vain
@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_password(command, url, caplog):
    words = [word.replace("URL", url) for word in command.split()]
    done = CliRunner().invoke(main, words)
    assert done.exit_code in (1, 2), "there is nothing at that place"
    assert done.output, "then nothing is shown by this test"
    assert SECRET not in done.output
    assert SECRET not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("url", URLS)
def test_a_server_that_cannot_start_does_not_say_it_either(url):
    done = CommandLine()("serve", "--engine", url, "--port", "0", "--log-level", "debug")
    assert done.code in (1, 2)
    assert done.err
    assert SECRET not in done.out + done.err


def test_a_settings_file_is_not_repeated_either(tmp_path):
    (tmp_path / "server.toml").write_text(f'engine = "redis://ann:{SECRET}@127.0.0.1:1/0"\nprot = 8000\n')
    done = CliRunner().invoke(main, ["serve", "--config", "server.toml"])
    assert (done.exit_code, "prot" in done.output, SECRET in done.output) == (2, True, False)


@pytest.mark.parametrize("url", URLS)
def test_a_server_that_is_ready_shows_its_engine_without(url, capsys):
    _announce("http://127.0.0.1:8000", Settings(engine=url), [])
    shown = capsys.readouterr().out
    assert SECRET not in shown
    assert "***" in shown
