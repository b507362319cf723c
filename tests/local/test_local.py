"""What `openintent.local` is to the program that calls it."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from programs import UNCLOSED, environment, grantor_pid

import openintent
from openintent import AsyncOpenIntentClient, OpenIntentClient
from openintent.engines.lockfile import look
from openintent.exceptions import LeaseConflictError, OpenIntentError

HEAVY = ("uvicorn", "starlette", "apsw", "uvloop", "openintent.server", "openintent.embedded")

pytestmark = pytest.mark.filterwarnings(UNCLOSED)


def test_two_agents_of_one_program_exclude_each_other(database):
    with openintent.local(database, "ada") as ada, openintent.local(database, "bob") as bob:
        with ada.lease(space="s", scope="x") as lease:
            with pytest.raises(LeaseConflictError) as refused:
                bob.acquire_lease(space="s", scope="x")
            assert refused.value.current_holder == "ada"
        assert bob.acquire_lease(space="s", scope="x").token > lease.token


def test_the_last_client_that_is_closed_ends_the_service(database):
    first, second = openintent.local(database), OpenIntentClient(f"sqlite:///{database}")
    first.list_intents()
    second.list_intents()
    first.close()
    assert grantor_pid(database) == os.getpid()
    second.list_intents()
    second.close()
    assert not look(database).in_use
    with openintent.local(database) as again:
        again.list_intents()


def test_a_request_that_is_under_way_then_does_not_begin_it_again(database):
    holder, waiter = openintent.local(database, "ada"), openintent.local(database, "bob")
    holder.acquire_lease(space="s", scope="x")
    told: list[BaseException] = []

    def wait() -> None:
        try:
            waiter.acquire_lease(space="s", scope="x", wait_seconds=30)
        except BaseException as broken:  # noqa: BLE001  # whatever it is, it must end
            told.append(broken)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not holder.get_queue(space="s", scope="x"):
        pass
    waiter.close()
    holder.close()
    waiting.join(timeout=30)
    assert len(told) == 1
    assert not look(database).in_use


def test_a_thread_that_could_not_be_had_once_is_asked_for_again(database, monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with openintent.local(database) as client:
        with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="can't start new thread"):
            patched.setattr(threading.Thread, "start", refuse)
            client.list_intents()
        client.list_intents()
    assert not look(database).in_use


def test_a_client_that_asked_nothing_has_touched_nothing(database):
    with openintent.local(database):
        pass
    assert list(database.parent.iterdir()) == []


@pytest.mark.anyio
async def test_both_kinds_of_client_share_a_file(database):
    ada = AsyncOpenIntentClient(f"sqlite:///{database}", agent_id="ada")
    async with ada, ada.lease(space="s", scope="x"):
        with openintent.local(database, "bob") as bob, pytest.raises(LeaseConflictError):
            bob.acquire_lease(space="s", scope="x")


def test_all_that_it_makes_is_for_this_user_alone(database):
    os.umask(before := os.umask(0))
    assert before != 0o077, "this test needs a umask that is not private by itself"
    with openintent.local(database) as client:
        client.list_intents()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in database.parent.iterdir()}
    assert {"leases.db", "leases.db.lock", "leases.db.sock"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def test_the_environment_may_name_a_file(database, monkeypatch):
    monkeypatch.setenv("OPENINTENT_URL", f"sqlite:///{database}")
    with OpenIntentClient() as client:
        client.list_intents()
        assert client.base_url == f"sqlite:///{database}"
        assert str(database) in repr(client)


def test_a_relative_name_means_one_file_wherever_the_program_goes(database, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(database.parent)
    with openintent.local("leases.db") as client:
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        client.list_intents()
        assert grantor_pid(database) == os.getpid()


def test_the_example_runs():
    example = Path(__file__).parents[2] / "examples" / "local_lease.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True, env=environment())
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == ["ada", "bob"]
    assert done.stderr == ""


# Mistakes


@pytest.mark.parametrize("name", ["memory:", ":memory:", "sqlite:///:memory:", "sqlite:///", "sqlite:x"])
def test_what_is_no_file_is_refused_at_once(name):
    with pytest.raises(ValueError, match=r"name a file|names no file"):
        openintent.local(name)


def test_a_folder_that_does_not_exist_is_refused_at_once(database):
    with pytest.raises(ValueError, match="does not exist"):
        openintent.local(database / "deeper" / "leases.db")
    with pytest.raises(ValueError, match="is a folder"):
        openintent.local(database.parent)


def test_a_file_is_no_alternative_to_a_server(database):
    with pytest.raises(ValueError, match="no alternative"):
        OpenIntentClient([f"sqlite:///{database}", "http://localhost:8000"])


def test_a_file_of_another_program_is_left_alone_and_the_next_try_is_a_new_one(database):
    database.write_text("not a database, but somebody's work", encoding="utf-8")
    with openintent.local(database) as client:
        with pytest.raises(OpenIntentError, match="is not a database"):
            client.list_intents()
        assert "somebody's work" in database.read_text(encoding="utf-8")
        database.unlink()
        assert client.list_intents() == []


# What is around the file


@pytest.fixture
def short_folder():
    """The tests' own folders have names that are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="oi-") as folder:
        yield Path(folder)


def test_a_name_too_long_for_a_socket_works_all_the_same(tmp_path, short_folder, programs, monkeypatch):
    folder = tmp_path / ("deep" * 20)
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime := short_folder))
    with openintent.local(folder / "leases.db", "a") as client:
        client.acquire_lease(space="s", scope="x")
        address = look(folder / "leases.db").entry.address
        assert address.startswith(f"unix:{runtime}/openintent-")
        assert stat.S_IMODE(Path(address.removeprefix("unix:")).parent.stat().st_mode) == 0o700
        # Wherever the other program would have put its own.
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        other = programs.start("puppet", folder / "leases.db", "b")
        other.wait_for("ready")
        other.tell("acquire y 30")
        other.wait_for("acquired")
        assert len(client.get_leases(space="s")) == 2


def test_a_folder_that_others_can_open_is_no_place_for_a_socket(tmp_path, monkeypatch):
    folder = tmp_path / ("deep" * 20)
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / f"openintent-{os.getuid()}").mkdir(mode=0o755)
    with openintent.local(folder / "leases.db") as client, pytest.raises(OpenIntentError, match="only you can open"):
        client.list_intents()


def test_a_socket_left_by_a_program_that_was_killed_is_no_obstacle(database):
    database.with_name("leases.db.sock").write_text("left", encoding="utf-8")
    with openintent.local(database) as client:
        assert client.list_intents() == []
        assert look(database).entry.address == f"unix:{database}.sock"


def test_who_deletes_the_lock_file_makes_another_program_the_grantor_and_nobody_is_lost(database, programs):
    with openintent.local(database, "a") as client:
        token = client.acquire_lease(space="s", scope="x").token
        database.with_name("leases.db.lock").unlink()
        other = programs.start("puppet", database, "b")
        other.wait_for("ready")
        other.tell("acquire y 30")
        assert other.wait_for("acquired")["token"] > token
        # Our own server has lost the file and says so; the client finds the one that has it.
        assert client.acquire_lease(space="s", scope="z").token > token
        assert grantor_pid(database) == other.pid
    assert database.with_name("leases.db.sock").exists(), "the socket of the other one"
    other.tell("acquire w 30")


# What is loaded


def test_who_only_imports_or_makes_a_client_loads_no_server(database):
    code = f"""
import sys, openintent
client = openintent.local({str(database)!r})
client.close()
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert done.stdout == "[]\n"


def test_the_settings_of_the_program_are_left_alone(database):
    code = f"""
import gc, logging, signal, sys, openintent
def settings():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    return sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count(), handlers, logging.root.handlers
before = settings()
with openintent.local({str(database)!r}) as client:
    client.list_intents()
    assert settings() == before
assert settings() == before
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment())
