"""`openintent export`, `import` and `move`, as people run them."""

import asyncio
import json
from hashlib import sha256
from pathlib import Path

import pytest
from commandline import CommandLine
from engine_words import opened
from moving_words import HEAD, fill, ledger

from openintent.engines.lockfile import LockFile

cli = CommandLine()


@pytest.fixture
def engine(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/old.db"

    async def make() -> None:
        async with opened(url) as engine:
            await fill(engine, ledger(20))

    asyncio.run(make())
    return url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def other(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new.db"


def test_people_are_told_what_was_done_and_what_to_do_next(engine, other, file):
    out = cli("export", file, "--engine", engine)
    assert out.code == 0, out.err
    assert f"{file} has all of it, checked and on the disk" in out.out
    assert f"openintent import {file} --engine URL" in out.err
    done = cli("import", file, "--engine", other)
    assert done.code == 0, done.err
    assert f"{other} has all of it, read back and compared" in done.out
    assert "Tokens go on above 10000" in done.out
    assert "never both" in done.err


def test_programs_are_told_the_same_as_json(engine, other, file):
    out = cli("export", file, "--engine", engine, "--json").json
    assert out["engine"] == "sqlite"
    assert (out["records"], out["intents"], out["events"], out["token"]) == (21, 11, 10, HEAD.token)
    done = cli("import", file, "--engine", other, "--json").json
    assert done["records"] == 21
    assert done["next_token_above"] > HEAD.token
    assert done["sha256"] == out["sha256"]


def test_the_file_can_be_checked_and_read_by_other_programs(engine, file):
    cli("export", file, "--engine", engine)
    *lines, last = file.read_bytes().splitlines(keepends=True)
    assert json.loads(last) == {"records": len(lines) - 1, "sha256": sha256(b"".join(lines)).hexdigest()}
    assert json.loads(lines[0])["head"]["token"] == HEAD.token
    assert [json.loads(line)[0] for line in lines[1:3]] == ["i/n0000000é☂", "i/n0000001é☂"]


def test_both_at_once(engine, other):
    done = cli("move", "--from", engine, "--to", other, "--json")
    assert (done.code, done.json["records"], done.json["engine"]) == (0, 21, other), done.err


def test_the_engine_may_come_from_the_environment_or_the_servers_file(engine, other, file, tmp_path):
    assert cli("export", file, OPENINTENT_ENGINE=engine).code == 0
    config = tmp_path / "server.toml"
    config.write_text(f'engine = "{other}"\n')
    assert cli("import", file, "--config", config).code == 0


def refused(*words: object) -> str:
    done = cli(*words)
    assert done.code == 1, done.out
    return done.err


def test_what_cannot_be_is_refused_in_a_line_with_what_to_do(engine, other, file, tmp_path):
    assert "there is no database" in refused("export", file, "--engine", other)
    assert not Path(other.removeprefix("sqlite:///")).exists()
    assert "lives as long as its server" in refused("export", file, "--engine", "memory:")
    assert "lives as long as its server" in refused("import", file, "--engine", "memory:")
    assert "does not exist" in refused("export", tmp_path / "no" / "file", "--engine", engine)
    assert "there is no file" in refused("import", tmp_path / "none", "--engine", other)
    file.write_text("hello\n")
    assert "name another file" in refused("export", file, "--engine", engine)
    assert "not a file that `openintent export` has made" in refused("import", file, "--engine", other)
    assert cli("export", tmp_path / "new", "--engine", "mongodb://x").code == 2


def test_an_engine_that_is_not_empty_is_refused_as_it_is(engine, file):
    assert cli("export", file, "--engine", engine).code == 0
    before = cli("export", file.with_name("one"), "--engine", engine, "--json").json
    said = refused("import", file, "--engine", engine)
    assert "not empty" in said
    assert "name an empty one" in said
    after = cli("export", file.with_name("two"), "--engine", engine, "--json").json
    assert (before["records"], before["token"]) == (after["records"], after["token"])


def test_a_database_in_use_is_refused_with_who_has_it(engine, file):
    lock = LockFile(Path(engine.removeprefix("sqlite:///")))
    lock.announce("http://127.0.0.1:9")
    said = refused("export", file, "--engine", engine)
    lock.release()
    assert "at http://127.0.0.1:9" in said
    assert "stop that server first" in said


def test_a_password_is_not_shown(file, engine):
    cli("export", file, "--engine", engine)
    done = cli("import", file, "--engine", "redis://ann:secret@127.0.0.1:1/0?timeout=1")
    assert done.code == 1
    assert "secret" not in done.out + done.err
