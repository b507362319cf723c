"""The key file, and the keys in force."""

import os
import threading
from datetime import timedelta

import pytest
from key_words import NOON, Ring, make_key, problems_of, write_keys

from openintent.server import keys
from openintent.server.auth import Gate
from openintent.server.keys import BadKeyFile, Principal, changing, contents, load, parse, rendered

HOUR = timedelta(hours=1)
HUSH = "hush"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "leases.db.keys"


# The file


def test_what_is_written_is_read_again(file):
    stored = [make_key(operator=True)[1], make_key(agents=("ada", "ci-*"), expires=HOUR, revoked=HOUR)[1]]
    write_keys(file, *stored)
    assert load(file) == stored


def test_the_file_has_no_secret_and_only_its_owner_may_read_it(file):
    text, stored = make_key(secret=HUSH)
    write_keys(file, stored)
    assert text.endswith(f".{HUSH}")
    assert HUSH.encode() not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_change_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it(file):
    write_keys(file, make_key()[1])
    before = file.read_bytes()
    with pytest.raises(ZeroDivisionError), changing(file) as known:
        known.clear()
        raise ZeroDivisionError
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_disk_that_refuses_leaves_the_file_as_it_was(file, monkeypatch):
    write_keys(file, make_key()[1])
    before = file.read_bytes()

    def full(_fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keys.os, "fsync", full)
    with pytest.raises(BadKeyFile, match="No space left"):
        write_keys(file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_no_change_gets_lost_among_many_at_once(file):
    def add(count):
        for _ in range(count):
            with changing(file) as known:
                known.append(make_key()[1])

    threads = [threading.Thread(target=add, args=(10,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load(file)) == 40


def test_who_changes_keys_does_not_wait_for_ever(file, monkeypatch):
    monkeypatch.setattr(keys, "LOCK_S_MAX", 0.05)
    with changing(file), pytest.raises(BadKeyFile, match="another program"), changing(file):
        pass


def test_a_link_to_the_file_stays_a_link(file, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(file)
    write_keys(link, make_key()[1])
    assert link.is_symlink()
    assert len(load(file)) == 1


LINE = b'{"id":"abcd","name":"ci","sha256":"%s","created":"2026-11-16T12:00:00Z"' % (b"0" * 64)


def test_a_person_may_write_comments_and_empty_lines():
    assert [key.name for key in parse(b"# mine\n\n" + LINE + b"}\n  \n")] == ["ci"]


@pytest.mark.parametrize(
    "line",
    [
        b"oi_abcd.a-whole-key",
        b"[]",
        LINE,
        LINE + b',"operater":true}',
        LINE + b',"operator":true,"agents":["a"]}',
        LINE + b',"agents":["a*b"]}',
        LINE + b',"agents":[""]}',
        LINE + b',"expires":"2026-11-16"}',
        LINE + b',"expires":"2026-11-16T12:00:00"}',
        LINE.replace(b'"ci"', b'"\\u0007"') + b"}",
        LINE.replace(b'"ci"', b'""') + b"}",
        LINE.replace(b"abcd", b"a.b") + b"}",
        LINE.replace(b"000", b"0") + b"}",
        b"\xff\xfe",
    ],
)
def test_a_line_that_is_no_key_is_refused_by_its_number_and_not_quoted(line):
    with pytest.raises(BadKeyFile, match="line 2: ") as wrong:
        parse(b"#\n" + line)
    assert "a-whole-key" not in str(wrong.value)


def test_two_keys_of_one_id_are_refused():
    with pytest.raises(BadKeyFile, match="one id"):
        parse((LINE + b"}\n") * 2)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_that_others_may_read_or_change_is_refused_with_what_to_do(file, mode):
    write_keys(file, make_key()[1])
    file.chmod(mode)
    with pytest.raises(BadKeyFile, match=f"chmod 600 {file}"):
        contents(file)


def test_a_pipe_a_folder_and_a_flood_are_refused_at_once(file):
    os.mkfifo(file, 0o600)
    with pytest.raises(BadKeyFile, match="is not a file"):
        contents(file)
    file.unlink()
    file.mkdir(0o700)
    with pytest.raises(BadKeyFile):
        contents(file)
    file.rmdir()
    file.touch(0o600)
    os.truncate(file, keys.FILE_BYTES_MAX + 1)
    with pytest.raises(BadKeyFile, match="more than"):
        contents(file)


# Who a key stands for


@pytest.mark.parametrize(
    ("agents", "may", "may_not"),
    [
        (None, ["ada", "eve", "anonymous"], []),
        (("ada",), ["ada", "ada~1", "ada~1~2", "ada~"], ["ad", "adam", "adam~1", "Ada", "eve", "ada*", "~ada", "~1"]),
        (("ada~1", "~1"), ["ada~1", "~1"], ["ada", "ada~2", "ada~1~2", "~1~2"]),
        (("ci-*",), ["ci-", "ci-1", "ci-a/b"], ["ci", "Ci-1", "xci-1"]),
        (("bob", "ad*"), ["bob", "ad", "ada"], ["bobby", "a", "eve"]),
        (("*",), ["ada", "eve"], []),
        ((), [], ["ada", "", "nobody"]),
    ],
)
def test_a_principal_may_act_as_the_agents_it_is_bound_to(agents, may, may_not):
    principal = Principal("p", agents=agents)
    assert [agent for agent in [*may, *may_not] if principal.may_act_as(agent)] == may


def test_nothing_that_is_shown_of_a_key_has_its_secret_or_its_digest(file):
    text, stored = make_key(secret=HUSH)
    write_keys(file, stored)
    ring = Ring(file)
    shown = repr([stored, ring, ring.find_text(text), Gate(ring), vars(Gate(ring))])
    assert HUSH not in shown
    assert stored.sha256 not in shown


# The keys in force


def test_a_key_is_known_by_its_whole_text_only(file):
    text, stored = make_key("ci")
    other, other_stored = make_key("other")
    write_keys(file, stored, other_stored)
    ring = Ring(file)
    assert ring.find_text(text).name == "ci"
    wrong = [text[:-1], text + "x", text.upper(), text.split(".")[0], text.split(".")[1], stored.sha256, ""]
    swapped = f"{text.split('.')[0]}.{other.split('.')[1]}"
    digest_as_secret = f"{text.split('.')[0]}.{stored.sha256}"
    assert [each for each in [*wrong, swapped, digest_as_secret, text.replace(".", "..")] if ring.find_text(each)] == []


def test_digests_are_compared_in_constant_time_and_for_unknown_keys_too(file, monkeypatch):
    text, stored = make_key()
    write_keys(file, stored)
    ring = Ring(file)
    compared = []

    def compare(one, other):
        compared.append((len(one), len(other)))
        return False

    monkeypatch.setattr(keys, "compare_digest", compare)
    assert ring.find_text(text) is None  # nothing else decides
    assert ring.find_text("oi_nobody.x") is None
    assert ring.find_text("garbage") is None
    assert compared == [(32, 32)] * 3


def test_the_comparison_is_the_one_that_takes_the_same_time_for_all():
    import hmac

    assert keys.compare_digest is hmac.compare_digest


def test_a_key_ends_on_its_day_without_a_change_of_the_file(file):
    text, stored = make_key(now=NOON, expires=HOUR)
    write_keys(file, stored)
    ring = Ring(file)
    ring.day = NOON + HOUR - timedelta(seconds=1)
    ring.look()
    assert ring.find_text(text)
    ring.day = NOON + HOUR
    ring.look()
    assert ring.find_text(text) is None
    assert ring.end_of(text.encode()) == "expired"


def test_only_the_bearer_learns_what_became_of_a_key(file):
    text, stored = make_key(now=NOON, revoked=-HOUR)
    write_keys(file, stored)
    ring = Ring(file)
    assert ring.end_of(text.encode()) == "revoked"
    assert ring.end_of(text[:-1].encode()) is None


def test_changes_are_followed_and_who_was_let_in_stands_or_falls_with_its_key(file):
    old, old_stored = make_key("old")
    new, new_stored = make_key("new")
    write_keys(file, old_stored)
    ring = Ring(file)
    let_in = ring.find_text(old)
    assert ring.find_text(new) is None
    write_keys(file, old_stored, new_stored)
    ring.look()
    assert ring.find_text(old)
    assert ring.find_text(new)
    assert ring.stands(let_in)
    write_keys(file, new_stored)
    ring.look()
    assert ring.find_text(old) is None
    assert not ring.stands(let_in)


def test_two_changes_of_one_size_in_one_instant_are_both_seen(file):
    texts, stored = zip(*(make_key("same") for _ in range(20)), strict=True)
    ring = Ring(file)
    for text, one in zip(texts, stored, strict=True):
        file.write_bytes(rendered([one]))
        file.chmod(0o600)
        os.utime(file, ns=(0, 0))
        ring.look()
        assert ring.find_text(text)


@pytest.mark.parametrize("trouble", ["broken", "loose", "folder"])
def test_a_file_that_cannot_be_read_leaves_the_keys_as_they_were_and_is_told_once(file, caplog, trouble):
    text, stored = make_key()
    write_keys(file, stored)
    ring = Ring(file)
    file.unlink()
    if trouble == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"{" if trouble == "broken" else rendered([]))
        file.chmod(0o600 if trouble == "broken" else 0o644)
    ring.look()
    ring.look()
    assert ring.find_text(text)
    assert [str(file) in line for line in problems_of(caplog)] == [True]


def test_a_key_ends_on_its_day_also_while_the_file_cannot_be_read(file):
    text, stored = make_key(now=NOON, expires=HOUR)
    write_keys(file, stored)
    ring = Ring(file)
    let_in = ring.find_text(text)
    file.chmod(0o644)
    ring.look()
    assert ring.stands(let_in)
    ring.day = NOON + HOUR
    ring.look()
    assert ring.find_text(text) is None
    assert not ring.stands(let_in)


def test_a_mended_file_is_taken_again(file):
    text, stored = make_key()
    write_keys(file, stored)
    ring = Ring(file)
    file.write_bytes(b"{")
    ring.look()
    file.write_bytes(rendered([]))
    ring.look()
    assert ring.find_text(text) is None


@pytest.mark.parametrize("how", ["gone", "empty", "revoked"])
def test_once_in_force_keys_never_give_way_to_an_open_house(file, caplog, how):
    text, stored = make_key()
    write_keys(file, stored)
    ring = Ring(file)
    if how == "gone":
        file.unlink()
    else:
        write_keys(file, *([make_key(now=NOON, revoked=-HOUR)[1]] if how == "revoked" else []))
    ring.look()
    assert ring.in_force
    assert ring.find_text(text) is None
    assert ["nobody is let in" in line for line in problems_of(caplog)] == [True]


@pytest.mark.parametrize("content", [b"", b"{"])
def test_the_first_file_ends_the_open_house_also_if_it_cannot_be_read(file, content):
    ring = Ring(file)
    assert not ring.in_force
    file.touch(0o600)
    file.write_bytes(content)
    ring.look()
    assert ring.in_force


def test_where_keys_are_a_must_a_missing_file_opens_nothing(file):
    assert Ring(file, in_force=True).in_force
