"""Where the server takes its settings from, and what it says of those that cannot be right."""

import os
import subprocess
import sys

import pytest

from openintent.model import Limits
from openintent.server.auth import Gate, is_loopback
from openintent.server.exchange import Exchange
from openintent.server.problems import Refused
from openintent.server.settings import BadSettings, Settings, load


@pytest.fixture
def toml(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "openintent.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def faults_of(flags=(), config=None, env=()) -> list[str]:
    with pytest.raises(BadSettings) as raised:
        load(dict(flags), config=config, env=dict(env))
    return str(raised.value).split("\n")


def test_without_anything_said_the_defaults_hold():
    assert load({}, env={}) == Settings()
    assert (Settings().host, Settings().port, Settings().engine) == ("127.0.0.1", 8000, "sqlite:///openintent.db")


def test_flags_win_over_environment_over_file_over_defaults(toml):
    config = toml('port = 1001\nlog_level = "error"\nengine = "memory:"\nstop_seconds = 7')
    env = {"OPENINTENT_PORT": "1002", "OPENINTENT_LOG_LEVEL": "debug"}
    settings = load({"port": 1003, "log_level": None, "host": None}, config=config, env=env)
    assert (settings.port, settings.log_level, settings.engine, settings.stop_seconds, settings.host) == (
        1003,
        "debug",
        "memory:",
        7.0,
        "127.0.0.1",
    )


def test_the_file_may_be_named_in_the_environment_and_a_flag_names_another(toml, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text("port = 2", encoding="utf-8")
    env = {"OPENINTENT_CONFIG": toml("port = 1")}
    assert load({}, env=env).port == 1
    assert load({}, config=str(other), env=env).port == 2


def test_environment_values_are_read_as_what_they_stand_for():
    env = {"OPENINTENT_STOP_SECONDS": "0.5", "OPENINTENT_CONNECTIONS_MAX": "5000", "OPENINTENT_HOST": ""}
    settings = load({}, env=env)
    assert (settings.stop_seconds, settings.connections_max, settings.host) == (0.5, 5000, "127.0.0.1")


def test_limits_are_a_table_of_the_file_and_keep_their_other_defaults(toml):
    limits = load({}, config=toml("[limits]\nttl_ms_max = 90000"), env={}).limits
    assert limits == Limits(ttl_ms_max=90_000)


def test_everything_wrong_is_said_at_once(toml):
    config = toml('colour = "red"\nstop_seconds = "soon"\n[limits]\nttl_ms_maximum = 5\nttl_ms_min = "x"')
    env = {"OPENINTENT_PORT": "many", "OPENINTENT_LOG_LEVEL": "loud"}
    faults = faults_of({"host": "0.0.0.0"}, config, env)  # noqa: S104  # this is what must be refused
    assert sorted(fault.split(":")[0] for fault in faults) == [
        "colour",
        "host",
        "limits.ttl_ms_maximum",
        "limits.ttl_ms_min",
        "log_level",
        "port",
        "stop_seconds",
    ]


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("port = 65536", "port"),
        ("port = -1", "port"),
        ("port = true", "port"),
        ("port = 80.5", "port"),
        ("stop_seconds = nan", "stop_seconds"),
        ("stop_seconds = -1", "stop_seconds"),
        ('log_level = "INFO"', "log_level"),
        ('log_format = "xml"', "log_format"),
        ("shed_new_ms = 100", "shed_new_ms"),
        ("shed_new_ms = 2000", "shed_new_ms"),
        ("shed_commit_ms = 0", "shed_commit_ms"),
        ("connections_reserved = -1", "connections_reserved"),
        ("limits = 5", "limits"),
        ("[limits]\nttl_ms_min = 0", "limits"),
        ("[limits]\nttl_ms_default = 10", "limits"),
        ("[limits]\nttl_ms_max = 1000", "limits"),
        ("connections_max = 5", "connections_per_address_max"),
        ("connections_per_address_max = 0", "connections_per_address_max"),
    ],
)
def test_a_setting_that_cannot_be_right_is_refused(toml, text, about):
    assert [fault.split(":")[0] for fault in faults_of(config=toml(text))] == [about]


def test_a_file_that_cannot_be_read_is_named(toml, tmp_path):
    missing = str(tmp_path / "missing.toml")
    assert faults_of(config=missing)[0].startswith(missing)
    broken = toml("port = = 1")
    assert faults_of(config=broken)[0].startswith(broken)


LOOPBACK = ["localhost", "127.0.0.1", "127.8.9.10", "::1"]
ELSEWHERE = ["0.0.0.0", "::", "192.168.1.5", "example.org", "127.example.org", "127.1", ""]  # noqa: S104


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_addresses_are_served(host):
    assert is_loopback(host)
    assert load({"host": host}, env={}).host == host


@pytest.mark.parametrize("host", ELSEWHERE)
def test_no_other_address_is_served_without_keys(host):
    assert not is_loopback(host)
    assert "loopback" in faults_of({"host": host})[0]


def test_the_command_says_all_that_is_wrong_and_starts_nothing():
    env = os.environ | {"OPENINTENT_HOST": "192.168.1.5", "OPENINTENT_PORT": "70000"}
    command = [sys.executable, "-m", "openintent.cli", "serve", "--engine", "memory:"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 2
    assert "port: must be from 0 to 65535" in done.stderr
    assert "host: without configured keys only loopback addresses are served" in done.stderr
    assert done.stdout == ""


# Who may come in


def knock(**headers: str) -> Exchange:
    """A request of which only the headers matter."""
    return Exchange(None, "GET", "/", "", {name.encode(): value.encode() for name, value in headers.items()})


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LocalHost"])
def test_this_machine_may_come_in_by_its_own_names(host):
    Gate().check(knock(host=host, origin=f"http://{host}"))


def test_a_program_that_names_neither_host_nor_origin_may_come_in():
    Gate().check(knock())


TRICKS = ["evil.example", "127.evil.example", "localhost.evil.example", "0x7f.1", "[::1", "", "[::1]]x", "x@localhost"]


@pytest.mark.parametrize("host", TRICKS)
def test_another_name_for_this_machine_is_a_trick(host):
    gate = Gate()
    for headers in ({"host": host}, {"host": "localhost", "origin": f"http://{host}"}):
        with pytest.raises(Refused) as refused:
            gate.check(knock(**headers))
        assert (refused.value.status, refused.value.problem.error.code) == (403, "forbidden")
