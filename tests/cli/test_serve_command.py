import os
import signal
import socket
import subprocess

import pytest
from commandline import OPENINTENT, CommandLine, environment

cli = CommandLine()


def start(*words: object) -> subprocess.Popen[str]:
    command = [*OPENINTENT, "serve", *map(str, words)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_it_ends_without_a_word_and_with_success(tmp_path, number):
    with start("--port", 0, "--engine", f"sqlite:///{tmp_path}/leases.db", "--log-level", "warning") as server:
        assert server.stdout.readline().startswith("openintent is ready at http://127.0.0.1:")
        server.send_signal(number)
        out, err = server.communicate()
    assert (server.returncode, err) == (0, "")
    assert out.endswith("Stopped; all is stored.\n")


def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refused = cli("serve", "--port", port, "--engine", "memory:")
    assert (refused.code, refused.out) == (1, "")
    assert f"port {port} on 127.0.0.1 is in use" in refused.err
    assert f"--port {port + 1}" in refused.err


def test_an_engine_that_cannot_be_reached_is_named_with_what_to_do():
    with socket.socket() as nobody:  # bound, but nobody listens
        nobody.bind(("127.0.0.1", 0))
        place = f"redis://127.0.0.1:{nobody.getsockname()[1]}/0"
        refused = cli("serve", "--port", 0, "--engine", place, "--log-level", "error")
    assert (refused.code, refused.out) == (1, "")
    assert f"{place} cannot be reached" in refused.err
    assert "correct host and port in the URL" in refused.err
    assert "sqlite" not in refused.err


def test_a_taken_port_begins_no_term(tmp_path):
    database = tmp_path / "leases.db"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        refused = cli("serve", "--port", other.getsockname()[1], "--engine", f"sqlite:///{database}")
    assert "term began" not in refused.err


def test_a_database_in_use_names_the_server_that_has_it(tmp_path):
    engine = f"sqlite:///{tmp_path}/leases.db"
    with start("--port", 0, "--engine", engine) as server:
        url = server.stdout.readline().split()[-1]
        refused = cli("serve", "--port", 0, "--engine", engine)
        server.terminate()
        server.communicate()
    assert refused.code == 1
    assert f"is in use by the server with pid {server.pid} at {url}" in refused.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--engine", "oracle://x"], 2, "no engine for 'oracle://x'"),
        (["--engine", "sqlite:leases.db"], 2, "sqlite:///relative.db"),
        (["--engine", "memory:x"], 2, "has no name"),
        (["--engine", "sqlite:////no/such/folder/leases.db"], 1, "/no/such/folder"),
        (["--engine", "sqlite:////proc/leases.db"], 1, "cannot write /proc/leases.db.lock"),
        (["--port", "70000"], 2, "port: must be from 0 to 65535"),
        (["--host", "192.0.2.1"], 2, "only loopback"),
        (["--config", "/no/such/file.toml"], 2, "No such file"),
    ],
)
def test_what_keeps_it_from_starting_is_said_in_a_line(words, code, said):
    refused = cli("serve", *words)
    assert (refused.code, refused.out) == (code, "")
    assert said in refused.err


def test_all_that_is_wrong_with_the_settings_is_said_at_once(tmp_path):
    config = tmp_path / "server.toml"
    config.write_text('prot = 9000\nport = "many"\n')
    refused = cli("serve", "--config", config)
    assert refused.code == 2
    assert "prot: no such setting" in refused.err
    assert "port: " in refused.err


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_folder_that_is_not_writable_is_said(tmp_path):
    tmp_path.chmod(0o500)
    refused = cli("serve", "--engine", f"sqlite:///{tmp_path}/leases.db", "--port", 0)
    assert refused.code == 1
    assert "Permission denied" in refused.err
