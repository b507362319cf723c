import json
import signal
import subprocess

import pytest
from commandline import OPENINTENT, CommandLine, environment
from serverprocess import ServerProcess

from openintent import OpenIntentClient
from openintent.cli.happenings import happening


@pytest.fixture
def intent(rival, space):
    rival.create_intent("Write it", id=space)
    rival.patch_state(space, {"pages": 12, "author/name": "ana"})
    rival.set_status(space, None, "active", "go")
    rival.release_lease(rival.acquire_lease(space, "part", purpose="a look"))
    rival.log_event(space, "comment", {"text": "hello [bold]you[/]\x1b[31m"})
    return space


def test_a_log_is_shown_in_the_order_of_what_happened(cli, intent):
    header, *rows = cli("events", "--intent", intent).out.splitlines()
    assert header.split() == ["TIME", "SEQ", "TYPE", "ACTOR", "WHAT"]
    told = [row.split(maxsplit=5)[3:] for row in rows]
    assert [(kind, actor) for kind, actor, _ in told] == [
        ("intent_created", "rival"),
        ("state_patched", "rival"),
        ("status_changed", "rival"),
        ("lease_acquired", "rival"),
        ("lease_released", "rival"),
        ("comment", "rival"),
    ]
    words = [what for _, _, what in told]
    assert words[:3] == ["Write it", "pages, author/name (version 2)", "draft -> active: go"]
    assert words[3].endswith(": a look")
    assert words[4].endswith(", released")
    assert words[5] == r"hello [bold]you[/]\x1b[31m"


def test_it_can_be_narrowed(cli, intent):
    everything = cli("events", "--intent", intent, "--json").json
    assert cli("events", "--intent", intent, "--types", "comment,state_patched", "--json").json == [
        everything[1],
        everything[5],
    ]
    assert cli("events", "--intent", intent, "--limit", 2, "--json").json == everything[-2:]
    after = everything[1]["seq"]
    assert cli("events", "--intent", intent, "--after", after, "--limit", 2, "--json").json == everything[2:4]


def test_portfolios_agents_and_spaces_have_logs(cli, rival, space):
    rival.create_portfolio("Q3", id=space)
    rival.register_agent(f"agent-{space}")
    rival.acquire_lease(space=space, scope="deploy")
    assert cli("events", "--portfolio", space, "--json").json[0]["event_type"] == "portfolio_created"
    assert cli("events", "--agent", f"agent-{space}", "--json").json[0]["event_type"] == "agent.registered"
    assert cli("events", "--space", space, "--json").json[0]["payload"]["scope"] == "deploy"


def test_what_is_followed_comes_line_by_line_and_ends_after_the_limit(cli, intent):
    told = cli("events", "--intent", intent, "--follow", "--after", 0, "--limit", 3)
    assert told.code == 0
    assert [line.split()[3] for line in told.out.splitlines()] == ["intent_created", "state_patched", "status_changed"]
    lines = cli("events", "--intent", intent, "-f", "--after", 0, "--limit", 2, "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == cli("events", "--intent", intent, "--json").json[:2]


def test_places_exclude_each_other(cli):
    refused = cli("events", "--intent", "a", "--agent", "b")
    assert refused.code == 2
    assert "exclude each other" in refused.err


@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_an_unknown_intent_is_said(cli, follow):
    refused = cli("events", "--intent", "no-such-intent", *follow)
    assert (refused.code, refused.out) == (1, "")
    assert "Intent not found" in refused.err


def test_a_place_that_the_log_has_not_is_said(cli, intent):
    refused = cli("events", "--intent", intent, "--follow", "--after", 10**12)
    assert refused.code == 1
    assert "--after 0 begins with the oldest" in refused.err


@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_that_no_server_is_running_is_said(follow):
    refused = CommandLine("http://127.0.0.1:9")("events", *follow)
    assert refused.code == 69
    assert "openintent serve" in refused.err


@pytest.mark.slow
def test_following_goes_on_over_a_crash_and_ends_with_ctrl_c(tmp_path):
    server = ServerProcess(tmp_path / "leases.db")
    server.start()
    url = f"http://127.0.0.1:{server.port}"
    command = [*OPENINTENT, "events", "--space", "build", "--follow", "--after", "0", "--json"]
    try:
        with (
            OpenIntentClient(url) as client,
            subprocess.Popen(command, env=environment(url), stdout=subprocess.PIPE, text=True) as process,
        ):
            try:
                assert process.stdout is not None
                logged = [client.log_event(None, "comment", {"n": 1}, space="build")]
                told = [json.loads(process.stdout.readline())]
                server.kill()
                server.start()
                logged.append(client.log_event(None, "comment", {"n": 2}, space="build"))
                told.append(json.loads(process.stdout.readline()))
                process.send_signal(signal.SIGINT)
                assert process.wait(10) == 0
                assert [event["seq"] for event in told] == [event.seq for event in logged]
            finally:
                process.kill()
    finally:
        server.kill()


def test_what_there_are_no_words_for_is_shown_as_it_is():
    assert happening({"event_type": "odd", "payload": {"a": [1]}}) == '{"a": [1]}'
    assert len(happening({"event_type": "odd", "payload": {"a": "x" * 1_000}})) == 200
    assert happening({"event_type": "comment", "payload": {"note": "x"}}) == '{"note": "x"}'
    assert happening({"event_type": "lease_queue", "scope": "a", "queue_length": 2}) == "2 wait for a"


def test_how_a_lease_ended_is_told():
    ended = {"scope": "a", "holder": "ana", "token": 7, "reason": "revoked", "cause": "revoked", "note": "stuck"}
    assert happening({"event_type": "lease_released", "payload": ended}) == "a of ana, token 7, revoked: stuck"
    lapsed = {"scope": "a", "holder": "ana", "token": 7, "reason": "expired", "cause": "max_hold", "note": None}
    assert happening({"event_type": "lease_released", "payload": lapsed}) == "a of ana, token 7, expired (max_hold)"
