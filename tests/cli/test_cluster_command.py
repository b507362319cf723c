import signal
import subprocess

from commandline import OPENINTENT, environment


def test_a_server_alone_is_the_whole_cluster(cli, server_url):
    headline, header, row = cli("cluster").out.splitlines()
    assert headline == f"{server_url} leads in term 1, on memory"
    assert header.split() == ["SERVER", "ROLE", "HEARD", "OF"]
    assert row.split() == [server_url, "grantor", "0.0", "s", "ago"]


def test_the_answer_is_shown_as_json(cli, server_url):
    told = cli("cluster", "--json").json
    assert (told["leader"], told["role"]) == (server_url, "grantor")
    assert [member["url"] for member in told["members"]] == [server_url]


def test_watch_looks_again_and_ends_with_ctrl_c(server_url):
    command = [*OPENINTENT, "cluster", "--watch", "--json"]
    with subprocess.Popen(command, env=environment(server_url), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    assert all(f'"leader": "{server_url}"' in line for line in lines)


def test_no_server_is_said(cli):
    assert cli("cluster", "--url", "http://127.0.0.1:1").code == 69
