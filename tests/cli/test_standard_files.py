"""Stdin, stdout and stderr: closed, or with no room for what there is to say."""

import signal
import subprocess
import sys

import pytest
from commandline import OPENINTENT, Run, environment

FULL = "/dev/full"
needs_full_disk = pytest.mark.skipif(sys.platform != "linux", reason=f"only Linux has {FULL}")


def in_shell(redirection: str, *words: str, url: str | None = None) -> Run:
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *OPENINTENT, *words]
    done = subprocess.run(command, env=environment(url), capture_output=True, text=True, check=False)
    return Run(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_runs_under_its_lease_also_where_a_standard_file_is_closed(closing, space, server_url, tmp_path):
    script = f"echo ran > {tmp_path}/ran; exit 7"
    done = in_shell(closing, "hold", "build", "--space", space, "--", "sh", "-c", script, url=server_url)
    assert (done.code, (tmp_path / "ran").read_text()) == (7, "ran\n")


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-"])
def test_a_list_is_no_failure_where_nobody_reads_it(closing, space, server_url):
    done = in_shell(closing, "leases", "--space", space, url=server_url)
    assert done.code == 0, done.err


def test_a_server_ends_in_order_also_without_a_stdin():
    words = ["sh", "-c", 'exec "$@" <&-', "sh", *OPENINTENT, "serve", "--engine", "memory:", "--port", "0"]
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert "is ready" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert (process.returncode, "Assertion" in err) == (0, False), err


@needs_full_disk
@pytest.mark.parametrize("words", [["schema"], ["completion", "bash"], ["--help"], ["doctor", "--port", "0"]])
def test_what_cannot_be_printed_is_said_in_a_line_or_two(words):
    done = in_shell(f">{FULL}", *words)
    assert done.code == 1
    assert done.err.startswith("openintent: what there is to print cannot be written: No space left on device\n")
    assert "Traceback" not in done.err


@needs_full_disk
def test_that_nobody_can_be_told_changes_no_exit_code(space, server_url):
    words = ["hold", "build", "--space", space, "--wait", "0", "--", *OPENINTENT, "hold", "build", "--space", space]
    assert in_shell(f"2>{FULL}", *words, "--wait", "0", "--", "true", url=server_url).code == 75
    assert in_shell(f"2>{FULL}", "leases", url="http://127.0.0.1:1").code == 69
