"""The disk that power is cut from: what may be left of what was asked of it, and that nothing asked of it is missed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import powerchild
import pytest
from powerdisk import SECTORS, Image, Journal, Sync, SyncFolder, Truncate, Write

A, B, C = (letter * 1_500 for letter in (b"a", b"b", b"c"))
FATES = 300


def left(journal: Journal, seed: int = 1) -> list[Image]:
    """What many cuts at the end of a journal leave."""
    end = len(journal.steps)
    return [image for _, image in journal.cuts([end], Random(seed), fates=FATES)]


def started() -> Journal:
    return Journal(Image({"f": A}))


def test_what_was_synced_is_there():
    journal = started()
    for step in (Write(0, 0, B), Truncate(0, 1_000), Write(0, 1_000, C), Sync(0)):
        journal.add(step)
    assert {image.files["f"] for image in left(journal)} == {B[:1_000] + C}


def test_of_what_was_not_synced_there_may_be_all_or_nothing_or_whole_sectors():
    journal = started()
    journal.add(Write(0, 0, B))
    contents = {image.files["f"] for image in left(journal)}
    assert {A, B} < contents
    assert all(
        content[at : at + 512] in {A[:512], B[:512], A[:476], B[:476]} for content in contents for at in (0, 512, 1024)
    )
    assert any(image.torn for image in left(journal))
    assert SECTORS[0] == 512


def test_a_later_write_may_be_there_without_an_earlier_one():
    journal = started()
    journal.add(Write(0, 0, b"x"))
    journal.add(Write(0, 1_000, b"y"))
    seen = {(image.files["f"][0:1], image.files["f"][1_000:1_001]) for image in left(journal)}
    assert seen == {(b"a", b"a"), (b"x", b"a"), (b"a", b"y"), (b"x", b"y")}


def test_a_file_may_have_grown_without_its_bytes():
    journal = started()
    journal.add(Write(0, 1_500, B))
    ends = {image.files["f"][1_500:] for image in left(journal)}
    assert {b"", B, bytes(1_500)} < ends
    assert any(end.strip(b"\0ab") for end in ends), "and with what was on the disk before"


def test_a_name_comes_and_goes_only_when_the_folder_is_synced():
    journal = started()
    new = journal.create("g")
    journal.add(Write(new, 0, B))
    journal.add(Sync(new))
    journal.rename({"f": None})
    seen = {tuple(sorted(image.files)) for image in left(journal)}
    assert seen == {(), ("f",), ("g",), ("f", "g")}
    journal.add(SyncFolder())
    assert [image.files for image in left(journal)] == [{"g": B}] * FATES


def test_a_rename_is_all_or_nothing():
    journal = started()
    journal.rename({"g": 0, "f": None})
    assert {tuple(image.files) for image in left(journal)} == {("f",), ("g",)}


def test_the_seed_decides():
    journal = started()
    journal.add(Write(0, 700, B))
    assert left(journal, 1) == left(journal, 1) != left(journal, 2)


# What the kernel was asked for, by strace, and what the journal says, both of one process.

CALL = re.compile(r"^(?P<call>\w+)\((?:\d+<(?P<file>[^>]*)>|\"(?P<name>[^\"]*)\")(?P<rest>.*)\) += 0*(?P<result>\d+)")
TRACED = {"pwrite64": "write", "ftruncate": "truncate", "fdatasync": "sync", "fsync": "sync", "unlink": "unlink"}


def traced(lines: list[str], folder: Path) -> list[str]:
    """The calls that concern the folder, in the words of `powerchild`."""
    found = []
    for match in filter(None, map(CALL.match, lines)):
        path = Path(match["file"] or match["name"])
        if folder not in (path, path.parent) or path.name.endswith("-shm") or match["call"] not in TRACED:
            continue
        numbers = {"write": match["rest"].rsplit(",", 2)[1:], "truncate": match["rest"].split(",")[1:]}
        word = TRACED[match["call"]]
        shown = powerchild.FOLDER if path == folder else path.name
        found.append(" ".join([word, shown, *(number.strip() for number in numbers.get(word, []))]))
    return found


def test_the_journal_is_what_the_kernel_was_asked_for(tmp_path):
    strace = shutil.which("strace")
    if strace is None:
        assert "CI" not in os.environ, "strace is not installed"
        pytest.skip("strace is not installed")
    folder, trace = tmp_path / "home", tmp_path / "trace"
    folder.mkdir()
    calls = f"trace={','.join(TRACED)}"
    command = [strace, "-y", "-e", calls, "-s", "0", "-o", trace, sys.executable, powerchild.__file__, folder]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    asked = traced(trace.read_text().splitlines(), folder)
    assert len(asked) > 100
    assert said == asked
