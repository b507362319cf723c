import json
import os
import signal
import sys

import pytest
from commandline import OPENINTENT, CommandLine

from openintent import LeaseConflictError, OpenIntentClient
from openintent.clock import boot_s

# What it writes to descriptor 9 is its own pid and its lease; the child ignores what asks nicely, as it does.
STUBBORN = 'trap "" TERM; sleep 600 & echo $$ $OPENINTENT_LEASE_ID >&9; wait'


def leases_in(client: OpenIntentClient, space: str) -> list[str]:
    return [lease.agent_id for lease in client.get_leases(space=space)]


# What the command gets, and what comes back


def test_the_commands_exit_code_is_kept_and_the_lease_given_back(cli, rival, space):
    done = cli("hold", "build", "--space", space, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.code, done.out, done.err) == (7, "out\n", "err\n")
    assert leases_in(rival, space) == []


def test_a_command_that_a_signal_ended_has_the_shells_code(cli, space):
    assert cli("hold", "build", "--space", space, "--", "sh", "-c", "kill -USR1 $$").code == 128 + signal.SIGUSR1


def test_the_command_knows_its_lease(cli, rival, space, server_url):
    got = rival.acquire_lease(space=space, scope="before", ttl_seconds=5)
    script = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('OPENINTENT_')}))"
    told = cli("hold", "build", "--space", space, "--", sys.executable, "-c", script).json
    assert int(told["OPENINTENT_TOKEN"]) > got.token
    assert told["OPENINTENT_SCOPE"] == "build"
    assert told["OPENINTENT_SPACE"] == f"space:{space}"
    assert told["OPENINTENT_URL"] == server_url
    lease = rival.get_lease(told["OPENINTENT_LEASE_ID"])
    assert (lease.agent_id, lease.purpose) == (told["OPENINTENT_AGENT_ID"], sys.executable)


def test_two_runs_are_two_agents_even_inside_each_other(cli, space):
    inner = [sys.executable, "-m", "openintent.cli", "hold", "a/b", "--space", space, "--wait", "0", "--", "true"]
    refused = cli("hold", "a/**", "--space", space, "--", *inner)
    assert refused.code == 75


def test_without_a_place_it_is_the_default_space(cli):
    assert cli("hold", "x", "--", "sh", "-c", "echo $OPENINTENT_SPACE").out == "space:default\n"


def test_what_a_finished_command_left_in_the_background_is_left_alone(cli, space):
    done = cli("hold", "build", "--space", space, "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    os.kill(int(done.out), signal.SIGKILL)  # raises if it is gone
    assert done.code == 0
    assert "left processes in the background" in done.err


# Getting it


def test_a_held_scope_is_busy_and_names_the_holder(cli, rival, space):
    rival.acquire_lease(space=space, scope="build", ttl_seconds=60)
    busy = cli("hold", "build", "--space", space, "--wait", 0, "--", "echo", "never")
    assert (busy.code, busy.out) == (75, "")
    assert "rival holds a lease on 'build'" in busy.err


def test_a_wait_that_ends_without_it_is_busy_too_and_leaves_no_place_behind(cli, rival, space):
    rival.acquire_lease(space=space, scope="*", ttl_seconds=60)
    busy = cli("hold", "build", "--space", space, "--wait", 0.5, "--", "echo", "never")
    assert (busy.code, busy.out) == (75, "")
    assert "waiting for build" in busy.err
    assert "held by rival (as *)" in busy.err
    assert rival.get_queue(space=space) == []


def test_it_waits_for_the_holder_and_then_runs(holding, rival, space, server_url):
    lease = rival.acquire_lease(space=space, scope="build", ttl_seconds=60)
    held = holding.start(server_url, "build", "--space", space, script="echo $$ >&9; echo ran")
    assert "held by rival" in held.process.stderr.readline()
    rival.release_lease(lease)
    held.wait_running()
    done = held.finish()
    assert (done.code, done.out) == (0, "ran\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_whoever_stops_waiting_leaves_the_queue(holding, rival, space, server_url, number, code):
    rival.acquire_lease(space=space, scope="build", ttl_seconds=60)
    held = holding.start(server_url, "build", "--space", space, script="echo never")
    held.process.stderr.readline()
    held.process.send_signal(number)
    done = held.finish()
    assert (done.code, done.out, done.err) == (code, "", "")
    assert rival.get_queue(space=space) == []


def test_of_several_addresses_any_will_do_also_for_the_command(space, server_url):
    nobody = "http://127.0.0.1:1"
    inner = ["hold", "other", "--space", space, "--", "sh", "-c", "echo $OPENINTENT_URL"]
    run = CommandLine()("hold", "build", "--space", space, "--url", f"{nobody},{server_url}", "--", *OPENINTENT, *inner)
    assert (run.code, run.out) == (0, f"{nobody},{server_url}\n"), run.err


def test_without_a_server_it_says_so_and_runs_nothing():
    refused = CommandLine("http://127.0.0.1:9")("hold", "x", "--wait", 0, "--", "echo", "never")
    assert (refused.code, refused.out) == (69, "")
    assert "no server could be reached" in refused.err


def test_too_long_a_grace_is_refused(cli):
    refused = cli("hold", "x", "--ttl", 10, "--grace", 8, "--", "true")
    assert refused.code == 2
    assert "--ttl 16" in refused.err


@pytest.mark.parametrize(
    "words", [["--ttl", "0"], ["--wait", "-1"], ["--wait", "nan"], ["--grace", "-1"]], ids=" ".join
)
def test_times_that_cannot_be_are_refused(cli, words):
    assert cli("hold", "x", *words, "--", "true").code == 2


def test_with_json_what_goes_wrong_is_json(cli, rival, space):
    rival.acquire_lease(space=space, scope="build", ttl_seconds=60)
    busy = cli("hold", "build", "--space", space, "--wait", 0, "--json", "--", "true")
    assert json.loads(busy.err)["current_holder"] == "rival"
    missing = cli("hold", "build", "--space", space, "--json", "--", "no-such-command")
    assert json.loads(missing.err)["error"]["message"] == "no command no-such-command"


# Commands that cannot be started


def test_an_unknown_command_is_said_before_anything_is_taken(cli, rival, space):
    rival.acquire_lease(space=space, scope="build", ttl_seconds=60)
    refused = cli("hold", "build", "--space", space, "--", "no-such-command")
    assert refused.code == 127
    assert "no command no-such-command" in refused.err


def test_a_command_that_cannot_be_started_gives_the_lease_back(cli, rival, space, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    refused = cli("hold", "build", "--space", space, "--", script)
    assert refused.code == 127
    assert "No such file" in refused.err
    assert leases_in(rival, space) == []


def test_a_file_that_is_no_program_cannot_be_executed(cli, rival, space, tmp_path):
    text = tmp_path / "text"
    text.write_text("just words\n")
    assert cli("hold", "build", "--space", space, "--", text).code == 126
    text.chmod(0o755)
    assert cli("hold", "build", "--space", space, "--", text).code == 126
    assert leases_in(rival, space) == []


# Signals


def test_signals_are_passed_on_to_the_command(holding, space, server_url):
    script = 'trap "echo bye; exit 9" TERM; echo $$ >&9; while :; do sleep 0.05; done'
    held = holding.start(server_url, "build", "--space", space, script=script)
    held.wait_running()
    held.process.send_signal(signal.SIGTERM)
    done = held.finish()
    assert (done.code, done.out) == (9, "bye\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_whole_group_and_its_code_is_kept(holding, rival, space, server_url, number):
    # The pipe makes two of them; a shell's child in the background would ignore SIGINT.
    held = holding.start(server_url, "build", "--space", space, script="echo $$ >&9; sleep 600 | sleep 600")
    held.wait_running()
    held.process.send_signal(number)
    held.wait_dead()
    assert held.finish().code == 128 + number
    assert leases_in(rival, space) == []


# Losing it


def test_after_a_revocation_all_of_the_group_is_killed(holding, rival, space, server_url):
    held = holding.start(server_url, "build", "--space", space, "--ttl", 1.5, script=STUBBORN)
    _, lease_id = held.wait_running()
    rival.revoke_lease(lease_id, "stuck since noon")
    held.wait_dead()
    done = held.finish()
    assert done.code == 76
    assert "the lease on build was lost: revoked by rival: stuck since noon" in done.err


def test_when_a_higher_priority_asks_for_the_scope_that_is_said(holding, rival, space, server_url):
    held = holding.start(server_url, "build", "--space", space, "--ttl", 1.5, script=STUBBORN)
    held.wait_running()
    with pytest.raises(LeaseConflictError):
        rival.acquire_lease(space=space, scope="build", priority=1, preempt=True)
    assert "a higher priority asks for build: " in held.process.stderr.readline()


def test_a_command_is_asked_before_it_is_killed(holding, rival, space, server_url):
    script = 'trap "echo cleaned up >&9; exit 0" TERM; echo $$ $OPENINTENT_LEASE_ID >&9; while :; do sleep 0.05; done'
    held = holding.start(server_url, "build", "--space", space, "--ttl", 3, "--grace", 1.5, script=script)
    _, lease_id = held.wait_running()
    rival.revoke_lease(lease_id, "enough")
    assert held.wait_dead() == "cleaned up\n"
    assert held.finish().code == 76


def granted_until(client: OpenIntentClient, lease_id: str) -> float:
    """Before this moment, on our clock, the server does not grant it to another."""
    asked_at = boot_s()
    return asked_at + client.get_lease(lease_id).remaining_seconds


@pytest.mark.alone
def test_when_the_server_is_frozen_all_is_dead_before_the_lease_could_be_anothers(holding, frozen_server):
    url, server = frozen_server
    with OpenIntentClient(url) as client:
        held = holding.start(url, "build", "--ttl", 3, script=STUBBORN)
        _, lease_id = held.wait_running()
        until = granted_until(client, lease_id)  # it has only just been granted: no renewal is due for a while
        server.send_signal(signal.SIGSTOP)
        held.wait_dead()
        assert boot_s() < until
        done = held.finish()
        server.send_signal(signal.SIGCONT)
    assert done.code == 76
    assert "no renewal of the lease was confirmed in time" in done.err


@pytest.mark.alone
def test_when_the_server_is_gone_the_command_is_stopped(holding, frozen_server):
    url, server = frozen_server
    held = holding.start(url, "build", "--ttl", 1.5, script=STUBBORN)
    held.wait_running()
    server.kill()
    held.wait_dead()
    assert held.finish().code == 76


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_when_hold_itself_is_killed_or_stopped_all_is_dead_before_the_lease_could_be_anothers(
    holding, rival, space, server_url, number
):
    held = holding.start(server_url, "build", "--space", space, "--ttl", 3, script=STUBBORN)
    _, lease_id = held.wait_running()
    until = granted_until(rival, lease_id)
    held.process.send_signal(number)
    held.wait_dead()
    assert boot_s() < until


def test_a_long_command_keeps_its_lease(holding, rival, space, server_url):
    held = holding.start(server_url, "build", "--space", space, "--ttl", 1.5, script="echo $$ >&9; sleep 3")
    held.wait_running()
    held.wait_dead()
    done = held.finish()
    assert (done.code, done.err) == (0, "")
