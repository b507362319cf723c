"""Keys on a real server: changes act within a second on open connections, and nothing unsafe starts."""

import http.client
import os
import subprocess
import sys
from contextlib import closing
from time import monotonic

import pytest
from serverprocess import ServerProcess

from openintent import OpenIntentClient
from openintent.errors import AuthenticationError, PermissionError_
from openintent.server.keys import load

ACTS_S_MAX = 1.0
PATIENCE_S = 20.0

# A path for each lane: the second is not hot. What they answer to who is let in.
LANES = {"hot": ("/api/v1/intents/nobody", 404), "asgi": ("/api/v1/leases", 200)}


@pytest.fixture
def process(tmp_path):
    """A server that the test starts."""
    found = ServerProcess(tmp_path / "leases.db")
    try:
        yield found
    finally:
        found.kill()


def keys(server, command, *words):
    """`openintent keys` on the file beside the server's database; what it prints."""
    engine = ["--engine", f"sqlite:///{server.database}"]
    run = [sys.executable, "-m", "openintent.cli", "keys", command, *words, *engine]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OPENINTENT_")}
    return subprocess.run(run, env=clean, capture_output=True, text=True, check=True).stdout.strip()


def key_file(server):
    return server.database.with_name(f"{server.database.name}.keys")


class Line:
    """One connection that is kept, and the key that is shown on it."""

    def __init__(self, server, lane, key=None):
        self.http = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self.http.connect()
        self.socket = self.http.sock
        self.path, self.welcome = LANES[lane]
        self.headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def ask(self):
        self.http.request("GET", self.path, headers=self.headers)
        with self.http.getresponse() as reply:
            reply.read()
            return reply.status

    def wait_for(self, status):
        """How many seconds until it is answered so, all on one connection, with nothing but the opposite before."""
        began = monotonic()
        before = {self.welcome} if status == 401 else {401, 429}
        while (got := self.ask()) != status:
            assert got in before
            assert monotonic() - began < PATIENCE_S
        assert self.http.sock is self.socket
        return monotonic() - began

    def close(self):
        self.http.close()


@pytest.mark.alone
@pytest.mark.parametrize("lane", LANES)
def test_revocation_acts_within_a_second_on_a_connection_that_is_open(process, lane):
    key, other = keys(process, "add", "ci", "-q"), keys(process, "add", "other", "-q")
    process.start()
    with closing(Line(process, lane, key)) as line, closing(Line(process, lane, other)) as bystander:
        assert line.ask() == line.welcome
        keys(process, "revoke", "ci")
        assert line.wait_for(401) < ACTS_S_MAX
        assert bystander.ask() == bystander.welcome


@pytest.mark.alone
@pytest.mark.parametrize("lane", LANES)
def test_a_new_key_is_good_within_a_second(process, lane):
    keys(process, "add", "first")
    process.start()
    with closing(Line(process, lane)) as line:
        assert line.ask() == 401
        line.headers = {"X-API-Key": keys(process, "add", "second", "-q")}
        assert line.wait_for(line.welcome) < ACTS_S_MAX


@pytest.mark.alone
@pytest.mark.parametrize("lane", LANES)
def test_the_first_key_ends_dev_mode_within_a_second(server, lane):
    with closing(Line(server, lane)) as line:
        assert line.ask() == line.welcome
        key = keys(server, "add", "first", "-q")
        assert line.wait_for(401) < ACTS_S_MAX
        line.headers = {"X-API-Key": key}
        assert line.ask() == line.welcome


def test_a_lease_lives_through_the_rotation_of_its_key(process):
    old = keys(process, "add", "ci", "--agent", "ci", "-q")
    process.start()
    with client(process, old, "ci") as before:
        lease = before.acquire_lease(before.create_intent("Deploy").id, "deploy", ttl_seconds=60)
        new = keys(process, "rotate", "ci", "-q")
        with closing(Line(process, "asgi", new)) as line:
            line.wait_for(line.welcome)
        with client(process, new, "ci") as after:
            assert after.renew_lease(lease.id).token == lease.token
            assert before.renew_lease(lease.id).token == lease.token
            keys(process, "revoke", load(key_file(process))[0].id)
            with closing(Line(process, "asgi", old)) as line:
                line.wait_for(401)
            with pytest.raises(AuthenticationError):
                before.renew_lease(lease.id)
            assert after.renew_lease(lease.id).token == lease.token
            with pytest.raises(PermissionError_):
                after.revoke_lease(lease.id, "no operator")


def client(server, key, agent):
    return OpenIntentClient(f"http://127.0.0.1:{server.port}", api_key=key, agent_id=agent)


def test_a_file_that_is_gone_lets_nobody_in_and_one_that_is_back_does(process):
    key = keys(process, "add", "ci", "-q")
    process.start()
    kept = key_file(process).rename(key_file(process).with_name("kept"))
    with closing(Line(process, "hot", key)) as line, closing(Line(process, "hot")) as keyless:
        line.wait_for(401)
        assert keyless.ask() == 401
        kept.rename(key_file(process))
        line.wait_for(line.welcome)
    assert "key file gone" in process.log.read_text()


def test_a_broken_file_changes_nothing_and_is_told(process):
    key = keys(process, "add", "ci", "-q")
    process.start()
    with key_file(process).open("a") as file:
        file.write("half a li")
    with closing(Line(process, "hot", key)) as line:
        began = monotonic()
        while "key file refused" not in process.log.read_text():
            assert line.ask() == line.welcome
            assert monotonic() - began < PATIENCE_S
        assert line.ask() == line.welcome
    assert "half a li" not in process.log.read_text()


def test_keys_outlive_a_crash_of_the_server(process):
    key = keys(process, "add", "ci", "-q")
    process.start()
    process.kill()
    process.start()
    with closing(Line(process, "hot", key)) as line, closing(Line(process, "hot")) as keyless:
        assert (line.ask(), keyless.ask()) == (line.welcome, 401)


# Starting


def refusal(process, *flags):
    """What a server that does not start says, and its exit code."""
    done = subprocess.run([*process.command, *flags], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_server_does_not_start_with_a_key_file_that_others_may_read_or_change(process, mode):
    keys(process, "add", "ci")
    key_file(process).chmod(mode)
    code, said = refusal(process)
    assert code == 1
    assert f"chmod 600 {key_file(process)}" in said
    assert not process.database.exists()


def test_a_server_does_not_start_with_a_key_file_that_it_cannot_understand(process):
    keys(process, "add", "ci")
    with key_file(process).open("a") as file:
        file.write('{"id": "x"}\n')
    code, said = refusal(process)
    assert code == 1
    assert "line 3" in said


def test_a_server_does_not_start_on_the_network_without_keys_or_without_tls(process):
    abroad = ["--host", "192.0.2.1"]
    code, said = refusal(process, *abroad, "--behind-tls")
    assert code == 2
    assert "openintent keys add" in said
    keys(process, "add", "ci")
    code, said = refusal(process, *abroad)
    assert code == 2
    assert "--behind-tls" in said
    # With both it would start: this machine only does not have that address.
    code, said = refusal(process, *abroad, "--behind-tls")
    assert code == 1
    assert "cannot listen on 192.0.2.1" in said


def test_a_server_does_not_start_without_the_key_file_that_it_was_told(process):
    code, said = refusal(process, "--keys", str(process.database.with_name("missing")))
    assert code == 2
    assert "there is no file" in said


def test_the_start_up_text_says_whether_keys_are_needed(process):
    for expected in ("mode    dev: this machine only", "mode    keys: every request needs one of"):
        with subprocess.Popen(process.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            said = ""
            for line in server.stdout:
                said += line
                if line.startswith("Stop with"):
                    break
            server.terminate()
        assert expected in said
        keys(process, "add", "ci")
