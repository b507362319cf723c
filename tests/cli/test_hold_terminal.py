"""`hold` at a terminal: the command can read it, and what is typed reaches the command."""

import os
import pty
import sys
from collections.abc import Sequence

import pytest
from commandline import OPENINTENT, environment


class AtTerminal:
    def __init__(self, url: str, *words: str, program: Sequence[str] = OPENINTENT, columns: int = 160) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = environment(url, TERM="xterm", COLUMNS=str(columns))
            os.execvpe(program[0], [*program, *words], env)  # noqa: S606  # no shell is wanted
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait_for(self, text: str) -> None:
        while text not in self.seen:
            self.seen += os.read(self.fd, 4_096).decode()

    def finish(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def at_terminal(server_url):
    return lambda *words, **options: AtTerminal(server_url, *words, **options)


def test_the_command_can_read_what_is_typed(at_terminal, space):
    script = "echo ready; read line; echo got $line"
    terminal = at_terminal("hold", "build", "--space", space, "--", "sh", "-c", script)
    terminal.wait_for("ready")
    terminal.type("hello\n")
    terminal.wait_for("got hello")
    assert terminal.finish() == 0


def test_ctrl_z_gives_the_shell_its_prompt_back_and_fg_goes_on(server_url, space):
    hold = " ".join([*OPENINTENT, "hold", "build", "--space", space])
    shell = AtTerminal(server_url, program=["sh", "-i"])
    shell.type(f"{hold} -- sh -c 'echo rea\\dy; read first; echo had $first; read line; echo got $line'\n")
    shell.wait_for("ready")
    # Whoever reads has the terminal. Before that it may be stopped for want of it, and what lets it go on again would
    # take back a Ctrl-Z that came meanwhile.
    shell.type("one\n")
    shell.wait_for("had one")
    shell.type("\x1a")
    shell.wait_for("the lease is lost and the command killed")
    shell.seen = ""
    shell.type("fg; echo code $?; exit\n")
    shell.wait_for(
        f"--space {space}"
    )  # the shell says what it goes on with; before that it would read the next line itself
    shell.type("hello\n")
    shell.wait_for("got hello")
    shell.wait_for("code 0")
    assert shell.finish() == 0


def test_ctrl_c_is_for_the_command_and_ends_hold_with_it(at_terminal, rival, space):
    terminal = at_terminal("hold", "build", "--space", space, "--", "sh", "-c", "echo ready; exec sleep 600")
    terminal.wait_for("ready")
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert rival.get_leases(space=space) == []


def test_the_terminal_is_given_back(at_terminal, space):
    inner = f"{sys.executable} -m openintent.cli hold build --space {space} -- true"
    terminal = at_terminal("hold", "outer", "--space", space, "--", "sh", "-c", f"{inner}; read line; echo got $line")
    terminal.type("hello\n")
    terminal.wait_for("got hello")
    assert terminal.finish() == 0


def test_waiting_shows_who_holds_it_and_the_place_in_the_queue(at_terminal, rival, space):
    lease = rival.acquire_lease(space=space, scope="build", ttl_seconds=60)
    terminal = at_terminal("hold", "build", "--space", space, "--", "echo", "ran")
    terminal.wait_for("held by rival")
    terminal.wait_for("we are next")
    rival.release_lease(lease)
    terminal.wait_for("ran")
    assert terminal.finish() == 0


def test_tables_have_bars_on_a_terminal(at_terminal, rival, space):
    rival.acquire_lease(space=space, scope="build", ttl_seconds=60)
    terminal = at_terminal("leases", "ls", "--space", space)
    terminal.wait_for("rival")
    terminal.wait_for("━━")
    assert terminal.finish() == 0


@pytest.mark.parametrize("columns", [1, 40, 80])
def test_a_terminal_that_is_too_narrow_for_a_table_breaks_no_word_and_drops_no_column(
    at_terminal, rival, space, columns
):
    lease = rival.acquire_lease(space=space, scope="deploy/web", ttl_seconds=60, purpose="nightly")
    terminal = at_terminal("leases", "ls", "--space", space, columns=columns)
    terminal.wait_for("nightly")
    row = terminal.seen.splitlines()[-1]
    assert row.split()[:3] == ["deploy/web", "rival", str(lease.token)]
    assert row.endswith(f"space:{space}  {lease.id}  nightly")
    assert terminal.finish() == 0
