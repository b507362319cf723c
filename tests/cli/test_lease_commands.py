import getpass
import json
import socket
import subprocess

import pytest
from commandline import OPENINTENT, CommandLine, environment

ME = f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture
def lease(rival, space):
    return rival.acquire_lease(space=space, scope="build", ttl_seconds=60, purpose="nightly [bold]run[/]")


def test_what_is_acquired_by_hand_can_be_renewed_and_released_by_hand(cli, space):
    got = cli("leases", "acquire", "deploy", "--space", space, "--ttl", 30, "--purpose", "a look", "--json")
    assert got.code == 0
    assert (got.json["agent_id"], got.json["scope"], got.json["purpose"]) == (ME, "deploy", "a look")
    renewed = cli("leases", "renew", got.json["id"], "--ttl", 90, "--json")
    assert (renewed.code, renewed.json["ttl_seconds"], renewed.json["token"]) == (0, 90.0, got.json["token"])
    released = cli("leases", "release", got.json["id"])
    assert (released.code, released.out) == (0, "released\n")
    again = cli("leases", "release", got.json["id"])
    assert (again.code, again.out) == (0, "released\n")


def test_acquiring_says_what_is_yours_and_how_to_give_it_back(cli, space):
    got = cli("leases", "acquire", "deploy", "--space", space)
    assert got.out.startswith("deploy is yours for 60.0 s: token ")
    assert "openintent leases release" in got.err


def test_a_held_scope_is_refused_with_its_holder_and_a_code_of_its_own(cli, lease):
    refused = cli("leases", "acquire", "build", "--space", lease.space)
    assert (refused.code, refused.out) == (75, "")
    assert "rival holds a lease on 'build'" in refused.err
    assert "--wait" in refused.err
    assert len(refused.err.splitlines()) == 2


def test_with_json_a_refusal_is_what_the_server_answered(cli, lease):
    refused = cli("leases", "acquire", "build", "--space", lease.space, "--wait", 0.2, "--json")
    assert refused.code == 75
    problem = json.loads(refused.err)
    assert (problem["error"]["code"], problem["current_holder"], problem["place"]) == ("wait_timeout", "rival", 1)


def test_ls_shows_who_holds_what_and_obeys_no_markup(cli, lease, space):
    shown = cli("leases", "ls", "--space", space)
    header, row = shown.out.splitlines()
    assert header.split() == ["SCOPE", "HOLDER", "TOKEN", "LEFT", "SPACE", "LEASE", "PURPOSE"]
    assert row.startswith("build  rival")
    assert row.endswith(f"space:{space}  {lease.id}  nightly [bold]run[/]")


def test_ls_without_a_terminal_has_neither_colours_nor_boxes(cli, lease):
    shown = cli("leases", "ls", FORCE_COLOR="1")
    assert "\x1b" not in shown.out
    assert shown.out.isascii()


def test_ls_can_be_narrowed_to_an_agent(cli, lease, space):
    assert cli("leases", "ls", "--agent", "rival", "--space", space, "--json").json["leases"][0]["id"] == lease.id
    assert cli("leases", "ls", "--agent", "nobody", "--space", space, "--json").json["leases"] == []


def test_the_environment_says_who_asks_and_not_what_is_listed(cli, lease, space):
    listed = cli("leases", "ls", "--space", space, "--json", OPENINTENT_AGENT_ID="somebody")
    assert [each["id"] for each in listed.json["leases"]] == [lease.id]


def test_leases_alone_lists_them_all(cli, lease):
    assert lease.id in cli("leases").out
    assert lease.id in [each["id"] for each in cli("leases", "--json").json["leases"]]


def test_ls_with_all_shows_ended_ones_too(cli, lease, rival, space):
    rival.release_lease(lease)
    assert cli("leases", "ls", "--space", space).out == ""
    ended = cli("leases", "ls", "--space", space, "--all")
    assert "released" in ended.out.splitlines()[1].split()


def test_all_needs_a_place(cli):
    refused = cli("leases", "ls", "--all")
    assert refused.code == 2
    assert "--intent or --space" in refused.err


def test_an_intent_that_does_not_exist_is_said(cli):
    refused = cli("leases", "ls", "--intent", "no-such-intent")
    assert refused.code == 1
    assert "Intent not found" in refused.err


def test_show_tells_the_story_of_a_lease(cli, lease, rival):
    revoked = cli("leases", "revoke", lease.id, "--reason", "stuck since noon", "--agent", "operator")
    assert (revoked.code, revoked.out) == (0, "revoked: rival no longer holds build\n")
    story = cli("leases", "show", lease.id)
    assert "status    revoked" in story.out
    assert f"acquired by rival with token {lease.token}" in story.out
    assert "revoked by operator: stuck since noon" in story.out
    told = cli("leases", "show", lease.id, "--json").json
    assert [event["event_type"] for event in told["timeline"]] == ["lease_acquired", "lease_released"]


def test_renewing_what_has_ended_says_so_with_a_code_of_its_own(cli, lease, rival):
    rival.release_lease(lease)
    lost = cli("leases", "renew", lease.id, "--agent", "rival")
    assert lost.code == 76
    assert "has ended: released" in lost.err


def test_a_lease_of_another_is_not_yours_to_release(cli, lease):
    refused = cli("leases", "release", lease.id)
    assert refused.code == 1
    assert f"no such lease of {ME}" in refused.err
    assert "--agent" in refused.err
    assert cli("leases", "release", lease.id, "--agent", "rival").out == "released\n"


def test_revoking_needs_a_reason(cli, lease):
    refused = cli("leases", "revoke", lease.id)
    assert refused.code == 2
    assert "--reason" in refused.err


def test_what_the_server_refuses_is_passed_on(cli, space):
    refused = cli("leases", "acquire", "x", "--space", space, "--ttl", 0.01)
    assert refused.code == 2
    assert "ttl_seconds: must be from 0.1" in refused.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["leases", "acquire", "x", "--ttl", "0"], "ttl cannot be 0"),
        (["leases", "acquire", "x", "--metadata", "a"], "write key=value"),
        (["leases", "ls", "--intent", "a", "--space", "b"], "exclude each other"),
        (["leases", "ls", "--url", "localhost:8000"], "not the address of a server"),
        (["leases", "show", "x", "--agent", "böse"], "not an agent id"),
    ],
)
def test_a_wrong_command_line_is_said_in_a_line(cli, words, said):
    refused = cli(*words)
    assert refused.code == 2
    assert said in refused.err


def test_control_characters_of_others_never_reach_the_terminal(cli, rival, space):
    lease = rival.acquire_lease(space=space, scope="x", purpose="\x1b[2Jgone")
    assert "\x1b" not in cli("leases", "ls", "--space", space).out
    assert "\\x1b[2Jgone" in cli("leases", "show", lease.id).out


def test_without_a_server_it_says_at_once_how_to_start_one():
    refused = CommandLine("http://127.0.0.1:9")("leases", "ls")
    assert refused.code == 69
    assert "no server could be reached at http://127.0.0.1:9" in refused.err
    assert "openintent serve" in refused.err


def test_watch_once_shows_the_leases_and_who_waits(cli, lease, server_url, space):
    command = [*OPENINTENT, "leases", "acquire", "build", "--space", space, "--wait", "30", "--agent", "patient"]
    with subprocess.Popen(command, env=environment(server_url), stdout=subprocess.PIPE) as waiter:
        seen = {"waiters": []}
        while not seen["waiters"]:
            seen = cli("leases", "watch", "--once", "--json", "--space", space).json
        waiter.kill()
    assert [each["id"] for each in seen["leases"]] == [lease.id]
    assert [each["agent_id"] for each in seen["waiters"]] == ["patient"]


def test_watch_once_is_a_table_for_people(cli, lease, space):
    header, row = cli("leases", "watch", "--once", "--space", space).out.splitlines()
    assert header.split() == ["SCOPE", "HOLDER", "TOKEN", "LEFT", "WAITING", "SPACE"]
    assert row.split()[0:2] == ["build", "rival"]


def test_watch_prints_a_line_for_each_look_and_ends_with_ctrl_c(server_url, lease, space):
    command = [*OPENINTENT, "leases", "watch", "--json", "--space", space, "--interval", "0.1"]
    with subprocess.Popen(command, env=environment(server_url), stdout=subprocess.PIPE, text=True) as process:
        looks = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(2)
        process.stdout.read()
    assert all(look["leases"][0]["id"] == lease.id for look in looks)
    assert process.returncode == 0
