import json
import os
import re
import subprocess
import threading

import pytest
from click.testing import CliRunner
from commandline import OPENINTENT, Run, environment

from openintent.cli import main
from openintent.server.keys import KEYS_MAX, KeyRing, changing, issued, load, today

KEY = re.compile(r"oi_[0-9a-f]{8}\.[A-Za-z0-9_-]{43}\n")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "keys"


def cli(*words, **env) -> Run:
    """The command in this process: it keeps nothing from one run to the next."""
    told = {name: None for name in os.environ if name.startswith("OPENINTENT_")} | env
    done = CliRunner().invoke(main, [*map(str, words)], env=told)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Run(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def keys(file):
    """Runs `openintent keys` on a file of the test's own."""
    return lambda command, *words: cli("keys", command, *words, "--file", file)


def find(file, text):
    ring = KeyRing(file)
    ring.open()
    return ring.find(text.strip().encode())


# Add


def test_a_new_key_is_all_that_is_printed_and_good_at_once(keys, file):
    made = keys("add", "ci")
    assert (made.code, bool(KEY.fullmatch(made.out))) == (0, True)
    assert find(file, made.out).name == "ci"
    assert "the only time" in made.err
    assert "the first one" in made.err
    assert made.out.strip() not in made.err
    assert "the first one" not in keys("add", "other").err


def test_quiet_is_the_key_and_not_a_word(keys):
    made = keys("add", "ci", "--quiet")
    assert KEY.fullmatch(made.out)
    assert made.err == ""


def test_no_two_keys_are_alike_and_none_is_stored(keys, file):
    texts = [keys("add", f"k{number}", "-q").out.strip() for number in range(3)]
    assert len({text.split(".")[1] for text in texts}) == 3
    assert not [text for text in texts if text.split(".")[1] in file.read_text()]
    assert file.stat().st_mode & 0o777 == 0o600


def test_json_has_the_key_and_its_rights(keys, file):
    told = keys("add", "ci", "--agent", "ci-*", "--agent", "bob", "--expires", "30d", "--json").json
    assert (told["name"], told["operator"], told["agents"], told["state"]) == ("ci", False, ["ci-*", "bob"], "active")
    stored = load(file)[0]
    assert (stored.expires - stored.created).days == 30
    assert find(file, told["key"]).may_act_as("ci-7")
    assert not find(file, told["key"]).may_act_as("eve")


def test_an_operators_key_may_do_everything(keys, file):
    made = find(file, keys("add", "ana", "--operator", "-q").out)
    assert made.operator
    assert made.may_act_as("anybody")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ci", "--operator", "--agent", "a"], "either operator or agents"),
        (["ci", "--agent", "a*b"], "only stand at the end"),
        (["ci", "--agent", ""], "1 to 512"),
        (["ci", "--expires", "soon"], "12h or 30d"),
        (["ci", "--expires", "0d"], "12h or 30d"),
        ([""], "name"),
        (["a\x1b[2J"], "printable"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_a_key_is_misuse_and_makes_no_file(keys, file, words, said):
    refused = keys("add", *words)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err
    assert not file.exists()


def test_two_keys_of_one_name_are_for_rotation_and_a_third_is_refused_with_advice(keys, file):
    assert [keys("add", "ci").code, keys("add", "ci").code] == [0, 0]
    before = file.read_bytes()
    refused = keys("add", "ci")
    assert (refused.code, refused.out) == (1, "")
    assert f"openintent keys revoke {load(file)[0].id}" in refused.err
    assert file.read_bytes() == before
    keys("revoke", load(file)[0].id)
    assert keys("add", "ci").code == 0


def test_the_longest_ended_key_makes_room_for_a_new_one_but_no_good_key_does(keys, file):
    def fill(**rights):
        made = [issued(f"k{n}", key_id=f"{n:08x}", secret="s", now=today(), **rights)[1] for n in range(KEYS_MAX)]  # noqa: S106  # only its digest matters
        with changing(file) as known:
            known[:] = made

    fill()
    refused = keys("add", "new")
    assert refused.code == 1
    assert f"there are {KEYS_MAX} keys" in refused.err
    fill(revoked=today())
    assert keys("add", "new").code == 0
    assert len(load(file)) == KEYS_MAX
    assert load(file)[0].name == "k1"


def test_keys_added_at_once_are_all_there(file):
    def add(number):
        command = [*OPENINTENT, "keys", "add", f"k{number}", "--file", str(file), "-q"]
        subprocess.run(command, env=environment(), capture_output=True, check=True)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key.name for key in load(file)} == {f"k{number}" for number in range(6)}


# Where


def test_keys_are_kept_beside_the_database(tmp_path):
    assert cli("keys", "add", "ci", "--engine", f"sqlite:///{tmp_path}/leases.db").code == 0
    assert [key.name for key in load(tmp_path / "leases.db.keys")] == ["ci"]
    config = tmp_path / "server.toml"
    # Where the server may not start yet for want of a key, its first key can be made.
    config.write_text(f'host = "192.0.2.1"\nengine = "sqlite:///{tmp_path}/other.db"\n')
    assert cli("keys", "add", "ci", "--config", config).code == 0
    assert cli("keys", "ls", "--json", OPENINTENT_KEYS=f"{tmp_path}/other.db.keys").json["keys"][0]["name"] == "ci"


def test_an_engine_without_a_file_needs_a_key_file(tmp_path):
    refused = cli("keys", "add", "ci", "--engine", "memory:")
    assert refused.code == 1
    assert "--file" in refused.err


def test_an_engine_without_a_file_is_named_without_its_password():
    refused = cli("keys", "add", "ci", "--engine", "postgresql://ann:secret@h/d")
    assert refused.code != 0
    assert "postgresql://ann:***@h/d" in refused.err
    assert "secret" not in refused.err


@pytest.mark.parametrize("command", [["add", "x"], ["ls"], ["revoke", "x"], ["rotate", "x"]])
def test_a_file_that_is_broken_or_open_to_others_is_left_alone(keys, file, command):
    file.write_text("{")
    file.chmod(0o600)
    assert "line 1" in keys(*command).err
    file.chmod(0o644)
    refused = keys(*command)
    assert refused.code == 1
    assert f"chmod 600 {file}" in refused.err
    assert file.read_text() == "{"


def test_a_folder_that_is_not_there_is_said(tmp_path):
    refused = cli("keys", "add", "ci", "--file", tmp_path / "no" / "keys", "--json")
    assert refused.code == 1
    assert "No such file" in json.loads(refused.err)["error"]["message"]


# List


def test_the_list_says_all_but_secrets(keys, file):
    text = keys("add", "ci", "--agent", "ci-*", "--expires", "1h", "-q").out.strip()
    keys("add", "ana", "--operator")
    keys("add", "old")
    keys("revoke", "old")
    for name in ("ls", "list"):
        shown = keys(name)
        assert [line.split()[:4] for line in shown.out.splitlines()[1:]] == [
            [key.id, key.name, "operator" if key.operator else "agent", "ci-*" if key.agents else "any"]
            for key in load(file)
        ]
        assert [line.split()[-1] for line in shown.out.splitlines()[1:]] == ["active", "active", "revoked"]
        assert text.split(".")[1] not in shown.out
    told = keys("ls", "--json")
    assert [key["state"] for key in told.json["keys"]] == ["active", "active", "revoked"]
    assert load(file)[0].sha256 not in told.out


def test_without_a_command_it_lists(file):
    shown = cli("keys", "--file", file)
    assert (shown.code, shown.out) == (0, "")
    assert "openintent keys add NAME" in shown.err
    assert not file.exists()


# Revoke


def test_a_key_is_revoked_by_its_id_or_its_name_and_again_without_harm(keys, file):
    first, second = (keys("add", name, "-q").out for name in ("a", "b"))
    assert keys("revoke", "a").code == 0
    assert keys("revoke", load(file)[1].id).code == 0
    assert find(file, first) is None
    assert find(file, second) is None
    before = load(file)
    assert keys("revoke", "a").code == 0
    assert load(file) == before


def test_one_of_two_keys_is_revoked_by_its_id(keys, file):
    old, new = (keys("add", "ci", "-q").out for _ in range(2))
    refused = keys("revoke", "ci")
    assert refused.code == 1
    assert all(key.id in refused.err for key in load(file))
    assert find(file, old)
    assert keys("revoke", load(file)[0].id).code == 0
    assert (find(file, old), find(file, new).name) == (None, "ci")
    keys("add", "ci")
    assert len(keys("revoke", "ci", "--all", "--json").json["keys"]) == 2
    assert find(file, new) is None


def test_a_key_that_is_not_there_is_said(keys, file):
    assert "there are no keys" in keys("revoke", "ci").err
    assert not file.exists()
    keys("add", "ana")
    refused = keys("revoke", "ci")
    assert refused.code == 1
    assert "there is no key 'ci'" in refused.err


# Rotate


def test_rotation_makes_a_second_key_with_the_same_rights(keys, file):
    old = keys("add", "ci", "--agent", "ci-*", "-q").out
    made = keys("rotate", "ci", "--old-for", "24h")
    assert KEY.fullmatch(made.out)
    before, after = load(file)
    assert (after.name, after.agents, after.expires) == ("ci", ("ci-*",), None)
    assert (before.expires - after.created).days == 1
    assert find(file, old)
    assert find(file, made.out)
    assert keys("rotate", "ci").code == 1  # a third
    assert len(load(file)) == 2


def test_rotation_never_makes_an_old_key_live_longer(keys, file):
    keys("add", "ci", "--expires", "1h")
    before = load(file)[0]
    keys("rotate", "ci", "--old-for", "24h")
    assert load(file)[0] == before


def test_who_has_no_key_cannot_rotate_it(keys):
    refused = keys("rotate", "ci")
    assert (refused.code, refused.out) == (1, "")
    assert "openintent keys add" in refused.err


# Help


@pytest.mark.parametrize("command", ["add", "ls", "revoke", "rotate"])
def test_every_help_has_examples_and_exit_codes(command):
    shown = cli("keys", command, "--help").out
    assert "Example" in shown
    assert "Exit codes" in shown
    assert max(map(len, shown.splitlines())) <= 110
