"""The command line without a server."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from commandline import OPENINTENT, CommandLine, Run, environment
from programs import ANSWER_S_MAX, grantor_pid

import openintent
from openintent.cli import unnamed

# Says that it runs, and runs until it is let go.
SCRIPT = 'echo "$OPENINTENT_TOKEN $OPENINTENT_URL" > "$SAYS"; read -r _ < "$GO"'
# The command line on a machine where no server has the usual port, or some other program that we choose.
ELSEWHERE = (
    "import sys, openintent.cli.unnamed as u; u.SERVER = ('127.0.0.1', {port}); import openintent.cli as c; c.main()"
)

pytestmark = pytest.mark.timeout(120)


class Hold:
    """`openintent hold` with a command that can be waited for and let go."""

    def __init__(self, folder: Path, program: list[str], env: dict[str, str], *options: object) -> None:
        self._says, self._go = folder / "says", folder / "go"
        for pipe in (self._says, self._go):
            os.mkfifo(pipe)
        pipes = {"SAYS": str(self._says), "GO": str(self._go)}
        command = [*program, "hold", *map(str, options), "--", "sh", "-c", SCRIPT]
        self.process = subprocess.Popen(
            command, env={**env, **pipes}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def wait_running(self) -> tuple[int, str]:
        """Its token, and the address that the command was told."""
        token, url = self._says.read_text(encoding="utf-8").split()
        return int(token), url

    def let_go(self) -> Run:
        self._go.write_text("go\n", encoding="utf-8")
        return self.finish()

    def finish(self) -> Run:
        _, err = self.process.communicate(timeout=ANSWER_S_MAX)
        assert "Traceback" not in err, err
        return Run(self.process.returncode, "", err)

    def clean_up(self) -> None:
        with self.process as process, suppress(ProcessLookupError):
            process.kill()


class Holds:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.made: list[Hold] = []

    def __call__(self, *options: object, program: list[str] = OPENINTENT, **env: str) -> Hold:
        folder = self._folder / f"hold-{len(self.made)}"
        folder.mkdir()
        self.made.append(Hold(folder, program, environment(**env), *options))
        return self.made[-1]


@pytest.fixture
def hold(tmp_path) -> Iterator[Holds]:
    holds = Holds(tmp_path)
    try:
        yield holds
    finally:
        for each in holds.made:
            each.clean_up()


@pytest.fixture
def url(database) -> str:
    return f"sqlite:///{database}"


def test_two_holds_on_one_file_exclude_each_other(hold, url):
    first = hold("build", OPENINTENT_URL=url)
    token, told = first.wait_running()
    assert told == url
    refused = CommandLine(url)("hold", "build", "--wait", 0, "--", "echo", "never")
    assert (refused.code, refused.out) == (75, "")
    assert "holds a lease on 'build'" in refused.err
    assert first.let_go() == Run(0, "", "")
    again = CommandLine(url)("hold", "build", "--wait", 0, "--", "sh", "-c", "echo $OPENINTENT_TOKEN")
    assert again.code == 0
    assert int(again.out) > token


def test_a_hold_waits_for_the_one_before_it(hold, url):
    first = hold("build", OPENINTENT_URL=url)
    token, _ = first.wait_running()
    second = hold("build", "--url", url)
    assert "waiting for build" in second.process.stderr.readline()
    first.let_go()
    assert second.wait_running()[0] > token
    assert second.let_go().code == 0


def test_a_hold_that_is_killed_while_it_serves_the_others_leaves_them_their_leases(hold, url, database):
    first = hold("build", OPENINTENT_URL=url)
    first.wait_running()
    assert grantor_pid(database) == first.process.pid
    second = hold("deploy", "--ttl", 2, OPENINTENT_URL=url)
    second.wait_running()
    first.process.send_signal(signal.SIGKILL)
    first.process.wait(ANSWER_S_MAX)
    listed = CommandLine(url)("leases", "ls", "--json")
    assert {lease["scope"] for lease in listed.json["leases"]} == {"build", "deploy"}
    assert second.let_go() == Run(0, "", "")


def test_the_other_commands_take_a_file_too(hold, url):
    cli = CommandLine(url)
    assert cli("leases", "ls", "--json").json["leases"] == []
    first = hold("build", OPENINTENT_URL=url)
    first.wait_running()
    assert "build" in cli("leases", "ls").out
    assert cli("intents", "new", "Report").code == 0
    first.let_go()
    assert "Report" in CommandLine()("intents", "ls", "--url", url).out


def test_a_file_that_cannot_be_one_is_a_wrong_command_line(tmp_path):
    refused = CommandLine(f"sqlite:///{tmp_path}/none/leases.db")("leases", "ls")
    assert refused.code == 2
    assert "does not exist" in refused.err


# Without a word about where


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def elsewhere(port: int) -> list[str]:
    return [sys.executable, "-c", ELSEWHERE.format(port=port)]


def test_without_a_server_holds_use_a_file_of_the_users_and_say_so(hold, tmp_path):
    program, env = elsewhere(free_port()), {"XDG_STATE_HOME": str(tmp_path / "state")}
    first = hold("build", program=program, **env)
    _, told = first.wait_running()
    assert told == f"sqlite:///{tmp_path}/state/openintent/hold.db"
    second = hold("build", "--wait", 0, program=program, **env).finish()
    assert second.code == 75
    assert second.err.splitlines()[0] == f"openintent: others here do without a server: using {told}"
    assert re.fullmatch(rf"openintent: no server at \S+: using {told}\n", first.let_go().err)
    assert (tmp_path / "state" / "openintent").stat().st_mode & 0o077 == 0


def test_where_a_server_runs_it_is_used_unless_others_still_do_without(hold, tmp_path):
    program, env = elsewhere(port := free_port()), {"XDG_STATE_HOME": str(tmp_path / "state")}
    first = hold("build", program=program, **env)
    first.wait_running()
    with socket.create_server(("127.0.0.1", port)) as server:
        second = hold("build", "--wait", 0, program=program, **env).finish()
        assert second.code == 75, "it must not go where the first is unknown"
        first.let_go()
        third = hold("build", "--wait", 0, program=program, **env)
        server.settimeout(ANSWER_S_MAX)
        server.accept()[0].close()
        third.process.send_signal(signal.SIGTERM)
        assert "using sqlite" not in third.finish().err


def test_a_server_that_was_there_before_gets_the_time_to_come_back(monkeypatch):
    monkeypatch.setattr(unnamed, "SERVER", address := ("127.0.0.1", free_port()))
    assert not unnamed._server_answers(0.0)
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(unnamed._server_answers(ANSWER_S_MAX)))
    asking.start()
    asking.join(3 * unnamed.LOOK_S)
    assert asking.is_alive()
    with socket.create_server(address):
        asking.join(ANSWER_S_MAX)
    assert answers == [True]


def test_a_lease_of_a_hold_is_seen_by_programs(hold, url, database):
    first = hold("build", OPENINTENT_URL=url)
    token, _ = first.wait_running()
    with openintent.local(database) as client:
        assert [lease.token for lease in client.get_leases(space="default")] == [token]
    first.let_go()
