"""The demo: the story and its sum from made-up events, and the whole of it as people run it."""

import os
import pty
import re
import secrets
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from commandline import OPENINTENT, CommandLine, environment

from openintent.cli.demo import screen
from openintent.cli.demo.scene import Accident, Scene
from openintent.client.values import Event

cli = CommandLine()
START = datetime(2027, 1, 1, tzinfo=UTC)
MARK = "DEMO_TEST_MARK"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Log:
    """Writes what a server would."""

    def __init__(self) -> None:
        self.scene = Scene(START)
        self._seq = 0

    def _event(self, seconds: float, kind: str, **payload: object) -> None:
        self._seq += 1
        event = Event(
            id=str(self._seq), seq=self._seq, event_type=kind, actor="x", created_at=at(seconds), payload=payload
        )
        self.scene.hear([event])

    def granted(self, seconds: float, holder: str, token: int, scope: str = "build") -> None:
        self._event(seconds, "lease_acquired", scope=scope, holder=holder, token=token)

    def ended(self, seconds: float, token: int, reason: str = "released", scope: str = "build") -> None:
        self._event(seconds, "lease_released", scope=scope, token=token, reason=reason)


def killed(token: int, *, expires: float) -> Accident:
    return Accident("killed", "ada", "build", token, "L", at(1), at(expires))


# The story


def test_each_hand_over_has_a_line_that_names_both():
    log = Log()
    log.granted(0.5, "ada", 1)
    log.ended(1.0, 1)
    log.granted(1.0, "bob", 2)
    assert [(line.at_s, line.text) for line in log.scene.lines] == [
        (0.5, "build: ada has it, token 1"),
        (1.0, "build: ada gave it back, bob has it now, token 2"),
    ]
    assert (log.scene.grants, log.scene.hand_overs, log.scene.broken) == (2, 1, [])


def test_a_takeover_is_counted_from_the_end_of_the_ttl():
    log = Log()
    log.granted(0.5, "ada", 1)
    accident = killed(1, expires=3.0)
    log.scene.strike(accident)
    log.ended(3.004, 1, "expired")
    log.granted(3.004, "bob", 2)
    assert (accident.successor.holder, accident.after_s) == ("bob", pytest.approx(2.004))
    assert accident.after_ttl_ms == pytest.approx(4.0)
    assert (log.scene.lapsed, log.scene.lines[-1].mood) == (1, "good")
    assert "bob takes over, token 2, 4 ms after the ttl of ada" in log.scene.lines[-1].text


def test_the_end_of_another_scope_is_no_takeover():
    log = Log()
    log.granted(0.5, "ada", 1)
    accident = killed(1, expires=3.0)
    log.scene.strike(accident)
    log.granted(0.6, "cyd", 2, scope="docs")
    log.ended(0.8, 2, scope="docs")
    log.granted(0.9, "bob", 3, scope="docs")
    assert accident.successor is None


def test_two_holders_at_a_time_would_be_noticed():
    log = Log()
    log.granted(0.5, "ada", 1)
    log.granted(0.6, "bob", 2)
    assert log.scene.broken == ["build was granted to bob while ada had it"]


def test_a_token_that_falls_would_be_noticed():
    log = Log()
    log.granted(0.5, "ada", 5)
    log.granted(0.6, "bob", 5, scope="docs")
    assert log.scene.broken == ["token 5 was granted after 5"]


@pytest.mark.parametrize(("state", "broken"), [("refused", 0), ("written", 1)])
def test_a_late_write_must_be_refused(state, broken):
    log = Log()
    log.scene.strike(Accident("hung", "ada", "build", 7, "L", at(1), at(3)))
    log.scene.late_write(at(4), {"state": state, "token": 6})  # of another lease
    assert log.scene.accidents[0].refused is None
    log.scene.late_write(at(4), {"state": state, "token": 7, "live_token": 9})
    assert log.scene.accidents[0].refused == (state == "refused")
    assert len(log.scene.broken) == broken


def test_a_broken_promise_is_in_the_sum():
    log = Log()
    log.granted(0.5, "ada", 1)
    log.granted(0.6, "bob", 2)
    assert screen.told(log.scene, seconds=5)["ok"] is False


# The real thing


@pytest.fixture
def mark() -> str:
    return secrets.token_hex(8)


def running(mark: str) -> list[int]:
    """The processes that carry the mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # ended meanwhile, or somebody else's
            continue
    return found


@contextmanager
def started(mark: str, *words: object, **pipes: int) -> Iterator[subprocess.Popen[str]]:
    command = [*OPENINTENT, "demo", *map(str, words)]
    env = environment(**{MARK: mark, "TERM": "xterm"})
    with subprocess.Popen(command, env=env, text=True, stdin=subprocess.DEVNULL, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()
            for left in running(mark):  # only after a failure is there any
                with suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)


@pytest.mark.slow
def test_the_demo_shows_a_takeover_and_a_refused_write_and_leaves_nothing(mark):
    done = cli("demo", "--seconds", 8, "--json", **{MARK: mark})
    assert done.code == 0, done
    told = done.json
    assert (told["ok"], told["broken"], told["lapsed"] >= 2) == (True, [], True)
    assert told["grants"] >= 6
    assert told["tokens"][1] - told["tokens"][0] + 1 == told["grants"]
    for kind in ("killed", "hung"):
        assert told[kind]["successor"] not in (None, told[kind]["agent"])
        assert told[kind]["successor_token"] > told[kind]["token"]
        assert told[kind]["after_ttl_ms"] < 2_000  # one or two, on a machine that has nothing else to do
    assert told["hung"]["stale_write_refused"] is True
    assert running(mark) == []


@pytest.mark.slow
def test_without_a_terminal_each_thing_that_happens_is_a_line(mark):
    done = cli("demo", "--seconds", 8, **{MARK: mark})
    assert done.code == 0, done
    assert re.search(r"^ +\d+\.\d\d s  \w+: \w+ gave it back, \w+ has it now, token \d+$", done.out, re.MULTILINE)
    assert re.search(r"is killed with kill -9, in the middle of", done.out)
    assert re.search(r"wakes up and writes with token \d+: refused", done.out)
    assert "What happened in 8 s" in done.out
    assert "\x1b" not in done.out


@pytest.mark.slow
def test_in_a_terminal_it_is_one_picture_that_changes(mark):
    ours, theirs = pty.openpty()
    with started(mark, "--seconds", 8, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = read_all(ours)
        assert process.wait() == 0
    assert "WAITING, IN ORDER" in seen
    assert "\x1b[1A" in seen  # the cursor goes back up
    assert "(killed)" in seen
    assert "What happened in 8 s" in seen


def read_all(fd: int) -> str:
    pieces = []
    try:
        while piece := os.read(fd, 65_536):
            pieces.append(piece)
    except OSError:  # how a terminal says that nobody writes to it any more
        pass
    os.close(fd)
    return b"".join(pieces).decode(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_ends_all_that_it_started(mark, number, code):
    with started(mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = next(line for line in process.stdout if "token 1" in line)
        assert len(running(mark)) == 8, first  # the demo, the server, six agents
        process.send_signal(number)
        _, err = process.communicate()
    assert (process.returncode, "Traceback" in err) == (code, False)
    assert running(mark) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux can wait for processes that are not ours")
def test_a_demo_that_is_killed_leaves_nothing_running(mark):
    with started(mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        next(line for line in process.stdout if "token 1" in line)
        others = [os.pidfd_open(pid) for pid in running(mark) if pid != process.pid]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        ended = [bool(select.select([other], [], [], 10.0)[0]) for other in others]
        for other in others:
            os.close(other)
    assert ended == [True] * 7


def test_a_server_that_cannot_start_is_said_with_its_last_words(tmp_path):
    (tmp_path / "uvicorn.py").write_text("raise ImportError('no uvicorn today')\n")
    refused = cli("demo", "--json", PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert (refused.code, refused.out) == (1, "")
    assert "server of the demo did not start" in refused.err
    assert "no uvicorn today" in refused.err


def test_too_short_a_demo_is_refused():
    assert cli("demo", "--seconds", 1).code == 2
