"""The doctor: each check fed with facts, and the whole of it on this machine."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from commandline import CommandLine

from openintent.cli import doctor_checks as checks
from openintent.cli.doctor_checks import Finding, examine
from openintent.cli.doctor_disk import Database, Header, database_facts, filesystem_of, sync_facts
from openintent.cli.doctor_facts import Clock, Facts, Package, gather, is_plain_build
from openintent.cli.doctor_net import Neighbour, ask, neighbour
from openintent.engines.lockfile import Entry, LockFile, Look
from openintent.engines.sqlite_database import Store
from openintent.engines.sqlite_file import APPLICATION_ID, SCHEMA_VERSION
from openintent.server.keys import issued
from openintent.server.settings import Settings

cli = CommandLine()

PATH = Path("/data/leases.db")
OURS = Header(is_sqlite=True, application=APPLICATION_ID, format=SCHEMA_VERSION)
SOUND = Database(
    PATH, exists=True, header=OURS, bytes=5_000, free_bytes=1 << 40, filesystem="ext4", sync_ms=0.4,
    lock=Look(Path("/data/leases.db.lock"), in_use=False, damaged=False, entry=Entry(count=3)),
)  # fmt: skip
FINE = Facts(
    python=(3, 12, 1),
    optimized=False,
    plain=False,
    package=Package("/lib/openintent", command="/bin/openintent", scripts="/bin"),
    env={},
    settings=Settings(),
    faults=(),
    config=None,
    clock=Clock(has_boot_clock=True, went_on=True, wall_s=1_800_000_000.0),
    files_max=100_000,
    here=Neighbour("http://127.0.0.1:8000", "nobody"),
    database=SOUND,
)


def found(check: checks.Check, **changed: Any) -> Finding:
    """What a check says first, of a machine on which all else is fine."""
    return next(check(replace(FINE, **changed)))


def with_database(**changed: Any) -> dict[str, Database]:
    return {"database": replace(SOUND, **changed)}


def server(**changed: Any) -> Neighbour:
    return replace(Neighbour("http://h:1", "ours", version=FINE.package.version, ready=True, term=4), **changed)


def test_a_sound_machine_has_no_findings_but_good_ones():
    findings = examine(FINE)
    assert {finding.level for finding in findings} == {"ok"}
    assert {"python", "package", "settings", "port", "database", "lock", "sync", "clock", "limits"} <= {
        finding.about for finding in findings
    }


BAD = [
    (checks.python, {"python": (3, 10, 9)}, "problem", "3.10.9 is too old"),
    (checks.python, {"plain": True}, "note", "3.12.1 was compiled without optimizations"),
    (checks.package, {"package": replace(FINE.package, is_ours=False)}, "problem", "another program in /lib"),
    (checks.package, {"package": replace(FINE.package, public="0.17.0", public_folder="/x")}, "note", "0.17.0"),
    (
        checks.package,
        {"package": replace(FINE.package, public="0.17.0", public_folder="/lib/openintent")},
        "problem",
        "installed as well",
    ),
    (checks.command, {"package": replace(FINE.package, command=None)}, "note", "no command"),
    (checks.command, {"package": replace(FINE.package, command="/x/openintent")}, "note", "another Python"),
    (checks.settings, {"faults": ("port: must be",)}, "problem", "port: must be"),
    (checks.environment, {"env": {"OPENINTENT_PROT": "1"}}, "note", "OPENINTENT_PROT is set"),
    (checks.port, {"here": Neighbour("http://h:1", "other", "rude")}, "problem", "another program answers at http://h"),
    (checks.port, {"here": Neighbour("http://h:1", "unusable", "reserved")}, "problem", "reserved"),
    (checks.port, {"here": server(ready=False)}, "problem", "not ready"),
    (checks.port, {"here": server(version="9.9")}, "note", "9.9"),
    (checks.server, {"there": [Neighbour("http://t:1", "nobody", "refused")]}, "problem", "nobody answers"),
    (checks.server, {"there": [Neighbour("http://t:1", "other", "odd")]}, "problem", "no server of ours"),
    (checks.database, {"database": None, "settings": Settings(engine="memory:")}, "note", "all is gone"),
    (checks.database, with_database(folder_exists=False), "problem", "the folder /data does not exist"),
    (checks.database, with_database(is_file=False), "problem", "not a file"),
    (checks.database, with_database(folder_writable=False), "problem", "/data cannot be written"),
    (checks.database, with_database(readable=False), "problem", "cannot be read"),
    (checks.database, with_database(writable=False), "problem", "leases.db cannot be written"),
    (checks.database, with_database(header=Header(is_sqlite=False)), "problem", "not a database"),
    (checks.database, with_database(header=replace(OURS, application=1)), "problem", "another program"),
    (checks.database, with_database(header=replace(OURS, format=SCHEMA_VERSION + 1)), "problem", "newer openintent"),
    (checks.lock, with_database(lock_error="Permission denied"), "problem", "Permission denied"),
    (checks.lock, with_database(lock=Look(PATH, in_use=False, damaged=True, entry=Entry())), "note", "is damaged"),
    (checks.lock, with_database(lock=None), "note", "no lock file"),
    (checks.filesystem, with_database(filesystem="nfs4"), "problem", "nfs4"),
    (checks.filesystem, with_database(filesystem="fuse.sshfs"), "problem", "fuse.sshfs"),
    (checks.filesystem, with_database(filesystem="tmpfs"), "note", "a reboot loses"),
    (checks.filesystem, with_database(filesystem="overlay"), "note", "container"),
    (checks.disk, with_database(free_bytes=1 << 20), "problem", "1.0 MiB"),
    (checks.disk, with_database(free_bytes=500 << 20), "note", "500.0 MiB"),
    (checks.sync, with_database(sync_ms=None, sync_error="Input/output error"), "problem", "Input/output error"),
    (checks.sync, with_database(sync_ms=300.0), "note", "300 ms"),
    (checks.clock, {"clock": Clock(has_boot_clock=False, went_on=True, wall_s=1.8e9)}, "problem", "never steps"),
    (checks.clock, {"clock": Clock(has_boot_clock=True, went_on=False, wall_s=1.8e9)}, "problem", "never steps"),
    (checks.date, {"there": [server(ahead_s=-90.0)]}, "note", "90.0 s behind"),
    (checks.date, {"here": server(ahead_s=7_300.0)}, "note", "2 h 01 m ahead"),
    (checks.limits, {"files_max": 1_024}, "note", "1,024 open files are allowed"),
]


@pytest.mark.parametrize(("check", "changed", "level", "said"), BAD, ids=[f"{row[0].__name__}-{row[3]}" for row in BAD])
def test_what_is_wrong_is_found_and_has_a_remedy(check, changed, level, said):
    finding = found(check, **changed)
    assert (finding.level, said in finding.message) == (level, True), finding
    assert finding.remedy


GOOD = [
    (checks.port, {"here": None}, "any free port"),
    (checks.port, {"here": server()}, "ready, term 4"),
    (checks.server, {"there": [server()]}, "answers at http://h:1"),
    (checks.environment, {"env": {"OPENINTENT_URL": "http://h:1", "HOME": "/"}}, "sets OPENINTENT_URL"),
    (checks.environment, {"env": {"OPENINTENT_CONNECTIONS_MAX": "9"}}, "sets OPENINTENT_CONNECTIONS_MAX"),
    (checks.settings, {"config": "/etc/o.toml"}, "from /etc/o.toml"),
    (checks.database, with_database(exists=False, header=None), "does not exist yet"),
    (checks.database, {"database": None, "settings": Settings(engine="etcd://h")}, "etcd keeps no file"),
    (
        checks.lock,
        with_database(lock=Look(PATH, in_use=True, damaged=False, entry=Entry(pid=77, address="http://h:1"))),
        "pid 77 at http://h:1",
    ),
    (checks.date, {"there": [server(ahead_s=0.2)]}, "same date"),
    (checks.limits, {"files_max": -1}, "any number of open files"),
]


@pytest.mark.parametrize(("check", "changed", "said"), GOOD, ids=[f"{row[0].__name__}-{row[2]}" for row in GOOD])
def test_what_is_right_is_said(check, changed, said):
    finding = found(check, **changed)
    assert (finding.level, said in finding.message) == ("ok", True), finding


def test_a_misspelt_variable_is_recognized():
    assert "OPENINTENT_PORT" in found(checks.environment, env={"OPENINTENT_PROT": "1"}).remedy
    assert "unset it" in found(checks.environment, env={"OPENINTENT_QQQQQQQ": "1"}).remedy


def test_a_clock_of_long_ago_is_only_noted():
    wrong = list(checks.clock(replace(FINE, clock=Clock(has_boot_clock=True, went_on=True, wall_s=0.0))))
    assert [finding.level for finding in wrong] == ["ok", "note"]
    assert "1970-01-01" in wrong[1].message


def test_python_without_assertions_is_a_problem():
    assert [finding.level for finding in checks.python(replace(FINE, optimized=True))] == ["ok", "problem"]


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        ({"CONFIG_ARGS": "'--enable-shared'", "PGO_PROF_USE_FLAG": "-fprofile-use"}, True),
        ({"CONFIG_ARGS": "'--enable-optimizations'", "PGO_PROF_USE_FLAG": "-fprofile-use"}, False),
        ({"CONFIG_ARGS": "'--enable-shared'", "PGO_PROF_USE_FLAG": ""}, False),
        ({}, False),
    ],
    ids=["pyenv", "python.org", "Debian", "Windows"],
)
def test_how_python_was_compiled_is_seen_by_what_it_says_of_itself(told: dict[str, str], plain: bool):
    assert is_plain_build(told.get) is plain


def test_the_server_that_is_asked_is_not_told_twice():
    both = replace(FINE, here=server(), there=[server()])
    assert list(checks.server(both)) == []


# Facts


MOUNTS = [
    "server:/x /data nfs4 rw 0 0",
    "/dev/sda1 / ext4 rw 0 0",
    "tmpfs /data/fast\\040disk tmpfs rw 0 0",
    "/dev/sdb1 /dat xfs rw 0 0",
]


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib", "ext4"),
        ("/data", "nfs4"),
        ("/data/deep/er", "nfs4"),
        ("/data/fast disk/x", "tmpfs"),
        ("/dat", "xfs"),
    ],
)
def test_a_folder_is_on_the_file_system_that_is_mounted_nearest(folder, kind):
    assert filesystem_of(Path(folder), mounts=MOUNTS) == kind


def test_where_mounts_are_not_told_nothing_is_known():
    assert filesystem_of(Path("/data"), mounts=[]) is None


def test_a_real_database_is_described_without_being_opened(tmp_path):
    database = tmp_path / "leases.db"
    Store(database).close()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    facts = database_facts(f"sqlite:///{database}")
    assert (facts.header, facts.bytes, facts.lock) == (OURS, database.stat().st_size, None)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_who_has_the_database_is_seen_and_a_damaged_lock_file_too(tmp_path):
    database = tmp_path / "leases.db"
    Store(database).close()
    lock = LockFile(database)
    lock.announce("http://127.0.0.1:9")
    assert database_facts(f"sqlite:///{database}").lock.in_use
    lock.release()
    seen = database_facts(f"sqlite:///{database}").lock
    assert (seen.in_use, seen.damaged, seen.entry.address) == (False, False, "http://127.0.0.1:9")
    lock.path.write_bytes(b"x" * 8_192)
    assert database_facts(f"sqlite:///{database}").lock.damaged


def test_a_sync_is_timed_and_leaves_nothing(tmp_path):
    took_ms, error = sync_facts(tmp_path)
    assert error is None
    assert 0 < took_ms < 10_000
    assert list(tmp_path.iterdir()) == []
    assert sync_facts(tmp_path / "none") == (None, "No such file or directory")


@contextmanager
def web_server() -> Iterator[int]:
    """Somebody else's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            yield other.server_port
        finally:
            other.shutdown()
            thread.join()


def test_another_program_on_the_port_is_told_from_a_server_of_ours(server_url):
    with web_server() as port:
        assert neighbour("127.0.0.1", port).who == "other"
    ours = ask(server_url)
    assert (ours.who, ours.ready) == ("ours", True)
    assert ours.term > 0
    assert abs(ours.ahead_s) < 5


def test_a_free_port_is_free_and_one_that_cannot_be_had_is_said():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert neighbour("127.0.0.1", port).who == "nobody"
    assert neighbour("192.0.2.7", port).who in {"unusable", "other"}  # an address of nobody
    for url in ("ftp://x", "http://[::1", "http://x:port", "http://x:99999"):
        assert ask(url).who == "unusable"


def test_settings_that_are_wrong_are_told_and_the_rest_is_still_looked_at(tmp_path):
    config = tmp_path / "o.toml"
    config.write_text("prot = 1\n")
    facts = gather({"engine": f"sqlite:///{tmp_path}/l.db", "port": 0}, config=str(config), env={})
    assert any("prot" in fault for fault in facts.faults)
    assert facts.database.path == tmp_path / "l.db"


# The command


def test_on_a_fresh_place_nothing_is_a_problem(tmp_path):
    done = cli("doctor", "--engine", f"sqlite:///{tmp_path}/leases.db", "--port", 0)
    assert done.code == 0, done.out
    assert "Nothing is a problem." in done.out
    assert list(tmp_path.iterdir()) == []


def test_a_problem_is_an_exit_code_and_has_a_remedy_below_it():
    done = cli("doctor", "--engine", "sqlite:////no/such/leases.db", "--port", 0)
    assert done.code == 1
    assert "the folder /no/such does not exist" in done.out
    assert "-> mkdir -p /no/such" in done.out
    assert "1 problem" in done.out


def test_as_json_each_finding_is_an_object(tmp_path):
    done = cli("doctor", "--engine", f"sqlite:///{tmp_path}/leases.db", "--port", 0, "--json", OPENINTENT_PROT="1")
    assert (done.code, done.json["ok"]) == (0, True)
    environment = next(finding for finding in done.json["findings"] if finding["about"] == "environment")
    assert environment["level"] == "note"
    assert "OPENINTENT_PORT" in environment["remedy"]


def test_a_server_of_ours_is_no_problem_and_said(server_url, tmp_path):
    port = server_url.rpartition(":")[2]
    done = cli("doctor", "--engine", f"sqlite:///{tmp_path}/leases.db", "--port", port)
    assert done.code == 0, done.out
    assert f"answers at {server_url}, ready, term " in done.out
    assert "has the same date" in done.out


def test_of_several_servers_that_commands_would_ask_each_is_looked_at(server_url):
    urls = f"http://127.0.0.1:1,{server_url}"
    done = cli("doctor", "--engine", "memory:", "--port", 0, OPENINTENT_URL=urls, OPENINTENT_API_KEY="no\nkey")
    assert done.code == 1
    assert "nobody answers at OPENINTENT_URL=http://127.0.0.1:1" in done.out
    assert f"answers at {server_url}, ready, term " in done.out


def test_the_public_package_beside_ours_is_noticed(tmp_path):
    other = tmp_path / "openintent-0.17.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: openintent\nVersion: 0.17.0\n")
    done = cli("doctor", "--engine", "memory:", "--port", 0, PYTHONPATH=str(tmp_path))
    assert "the package `openintent` 0.17.0 is installed as well" in done.out
    assert "pip uninstall openintent" in done.out


def test_keys_are_counted_and_a_key_file_that_lets_nobody_in_is_a_problem():
    _, good = issued("ci", key_id="aaaa", secret=str(PATH), now=datetime(2026, 1, 1, tzinfo=UTC))
    ended = msgspec.structs.replace(good, expires=datetime(2026, 2, 1, tzinfo=UTC))
    assert found(checks.keys).level == "ok"
    assert found(checks.keys, keys=[good, ended]).message == "1 good, 1 ended"
    assert found(checks.keys, keys=[ended]).level == "problem"
    assert "nobody is let in" in (found(checks.keys, keys=[ended]).remedy or "")
    assert found(checks.keys, keys="line 1: not JSON").level == "problem"


def test_a_key_file_that_others_can_read_is_found(tmp_path: Path):
    (tmp_path / "leases.db.keys").write_text("# none\n")
    (tmp_path / "leases.db.keys").chmod(0o644)
    outcome = cli("doctor", "--engine", f"sqlite:///{tmp_path / 'leases.db'}", "--port", "0")
    assert outcome.code == 1
    assert "chmod 600" in outcome.out
