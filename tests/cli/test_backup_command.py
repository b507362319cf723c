import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest
from commandline import OPENINTENT, CommandLine, environment

from openintent import OpenIntentClient

cli = CommandLine()
pytestmark = pytest.mark.slow  # each test makes databases, copies them, and starts servers on them

READY = re.compile(r"openintent is ready at (\S+)")


class Serving:
    """A server on a database, with one client."""

    def __init__(self, database: Path) -> None:
        command = [*OPENINTENT, "serve", "--port", "0", "--engine", f"sqlite:///{database}", "--log-level", "error"]
        self.process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        ready = READY.match(self.process.stdout.readline())
        self.url = ready.group(1)
        self.client = OpenIntentClient(self.url, agent_id="a")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.close()
        with self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate()


@pytest.fixture
def database(tmp_path) -> Path:
    return tmp_path / "leases.db"


@pytest.fixture
def engine(database) -> str:
    return f"sqlite:///{database}"


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "leases.backup"


def test_a_copy_is_made_beside_a_running_server_and_says_what_is_in_it(database, engine, file):
    with Serving(database) as serving:
        serving.client.create_intent("one", id="one")
        lease = serving.client.acquire_lease("one", "build")
        done = cli("backup", file, "--engine", engine, "--json")
        assert serving.client.get_lease(lease.id).is_active
    assert done.code == 0, done.err
    told = done.json
    assert told["bytes"] == file.stat().st_size
    assert (told["leases"], told["intents"], told["term"], told["token"]) == (1, 1, 1, lease.token)
    assert told["events"] == told["seq"] > 0


def test_people_are_told_the_same_in_words(database, engine, file):
    with Serving(database) as serving:
        serving.client.create_intent("one", id="one")
        done = cli("backup", file, "--engine", engine)
        pid = serving.process.pid
    assert done.code == 0
    assert f"{file} is a copy of {database}" in done.out
    assert re.search(r"^intents +1$", done.out, re.MULTILINE)
    assert f"the server with pid {pid} went on" in done.err
    assert f"openintent restore {file}" in done.err


def test_without_a_server_too(database, engine, file, tmp_path):
    with Serving(database) as serving:
        serving.client.create_intent("one", id="one")
    done = cli("backup", file, "--engine", engine)
    assert "no server was running" in done.err
    assert {path.name for path in tmp_path.iterdir()} == {"leases.db", "leases.db.lock", "leases.backup"}


def test_the_engine_may_come_from_the_environment_or_the_servers_file(database, engine, file, tmp_path):
    with Serving(database):
        pass
    assert cli("backup", file, OPENINTENT_ENGINE=engine).code == 0
    config = tmp_path / "server.toml"
    config.write_text(f'engine = "{engine}"\n')
    assert cli("backup", tmp_path / "second", "--config", config).code == 0


def test_what_was_copied_comes_back_and_what_came_later_is_gone(database, engine, file):
    with Serving(database) as serving:
        serving.client.create_intent("one", id="one", initial_state={"n": 1})
        assert cli("backup", file, "--engine", engine).code == 0
        serving.client.patch_state("one", {"n": 2})
        later = serving.client.acquire_lease("one", "build")
    done = cli("restore", file, "--engine", engine, "--force", "--json")
    assert done.code == 0, done.err
    assert done.json["kept"] == f"{database}.before-restore-1"
    with Serving(database) as serving:
        assert serving.client.get_intent("one").state == {"n": 1}
        assert serving.client.get_leases("one") == []
        lease = serving.client.acquire_lease("one", "build")
    assert lease.token > done.json["next_token_above"] > later.token


def test_a_restore_explains_itself(database, engine, file):
    with Serving(database) as serving:
        serving.client.create_intent("one", id="one")
    cli("backup", file, "--engine", engine)
    done = cli("restore", file, "--engine", engine, "--force")
    assert f"{database} is that of {file} again" in done.out
    assert "Tokens go on above" in done.out
    assert f"kept as {database}.before-restore-1" in done.out
    assert "are forgotten" in done.err
    assert time.strftime("%Y-") in done.out


def test_a_restore_to_a_new_place_needs_no_force(database, engine, file, tmp_path):
    with Serving(database) as serving:
        serving.client.create_intent("one", id="one")
    cli("backup", file, "--engine", engine)
    done = cli("restore", file, "--engine", f"sqlite:///{tmp_path}/new.db")
    assert (done.code, "kept" in done.out) == (0, False)
    with Serving(tmp_path / "new.db") as serving:
        assert serving.client.get_intent("one").title == "one"


def test_a_restore_is_refused_while_a_server_has_the_database(database, engine, file):
    with Serving(database) as serving:
        cli("backup", file, "--engine", engine)
        refused = cli("restore", file, "--engine", engine, "--force")
        assert refused.code == 1
        assert f"in use by the server with pid {serving.process.pid} at {serving.url}" in refused.err
        assert "stop that server first" in refused.err
        serving.client.create_intent("still here")


def test_a_database_that_is_there_is_not_replaced_by_mistake(database, engine, file, tmp_path):
    with Serving(database):
        cli("backup", file, "--engine", engine)
    refused = cli("restore", file, "--engine", engine)
    assert refused.code == 1
    assert f"there is a database {database}" in refused.err
    assert "--force" in refused.err
    assert not (tmp_path / "leases.db.before-restore-1").exists()


def test_a_copy_that_is_there_is_not_overwritten_by_mistake(database, engine, file):
    with Serving(database):
        pass
    file.write_text("precious")
    refused = cli("backup", file, "--engine", engine)
    assert (refused.code, file.read_text()) == (1, "precious")
    assert f"{file} exists" in refused.err
    assert "--force" in refused.err
    assert cli("backup", file, "--engine", engine, "--force").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["backup", "x", "--engine", "memory:"], 1, "memory"),
        (["backup", "x", "--engine", "sqlite:x.db"], 2, "sqlite:///relative.db"),
        (["backup", "x", "--engine", "sqlite:////no/such/leases.db"], 1, "there is no database /no/such/leases.db"),
        (["backup", "x", "--engine", "sqlite:////proc"], 1, "/proc is not a file"),
        (["backup", "/no/such/x", "--engine", "sqlite:////etc/hostname"], 1, "the folder /no/such does not exist"),
        (["backup", "/", "--engine", "sqlite:////etc/hostname"], 1, "/ is a folder"),
        (["backup", "x", "--engine", "sqlite:////etc/passwd"], 1, "/etc/passwd is not a database"),
        (["backup"], 2, "FILE"),
        (["restore", "/no/such/x"], 1, "there is no file /no/such/x"),
        (["restore", "/proc"], 1, "/proc is not a file"),
        (["restore", "/etc/passwd", "--engine", "sqlite:////no/such/x.db"], 1, "the folder /no/such does not exist"),
        (["restore", "x", "--config", "/no/such.toml"], 2, "No such file"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line_or_two(words, code, said):
    refused = cli(*words)
    assert (refused.code, refused.out) == (code, "")
    assert said in refused.err


def test_what_is_no_copy_of_ours_is_refused(tmp_path, engine, database):
    text = tmp_path / "text"
    text.write_text("hello " * 1_000)
    refused = cli("restore", text, "--engine", engine)
    assert (refused.code, database.exists()) == (1, False)
    assert f"{text} is not a database" in refused.err


def test_a_problem_is_json_if_that_was_asked_for(tmp_path):
    refused = cli("backup", tmp_path / "x", "--engine", f"sqlite:///{tmp_path}/none.db", "--json")
    assert (refused.code, refused.out) == (1, "")
    assert '"message": "there is no database' in refused.err
