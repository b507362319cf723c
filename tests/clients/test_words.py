"""What goes to the log, on a thread of its own. The log is a list, or a handler that misbehaves."""

import threading
from collections.abc import Callable, Iterator

import pytest

from openintent.client import words as words_module
from openintent.client.words import Words

PATIENCE_S = 10.0


class Log:
    """The lines that were written; `behave` is the user's handler."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.written = threading.Semaphore(0)
        self.behave: Callable[[], object] = lambda: None

    def log(self, _level: int, message: str, *args: object) -> None:
        self.lines.append(message % args)
        self.written.release()
        self.behave()

    def wait_lines(self, count: int) -> None:
        for _ in range(count):
            assert self.written.acquire(timeout=PATIENCE_S)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    log = Log()
    monkeypatch.setattr(words_module, "logger", log)
    yield log
    log.behave = lambda: None


def test_lines_are_written_in_the_order_in_which_they_were_said(log):
    words = Words()
    for number in range(50):
        words.warning("line %d", number)
    log.wait_lines(50)
    assert log.lines == [f"line {number}" for number in range(50)]


def test_behind_a_handler_that_hangs_only_so_many_lines_wait_and_these_are_the_newest(log, monkeypatch):
    monkeypatch.setattr(words_module, "UNSAID_MAX", 3)
    words, release = Words(), threading.Event()
    log.behave = lambda: release.wait(PATIENCE_S)
    words.warning("first")
    log.wait_lines(1)
    for number in range(5):
        words.warning("line %d", number)
    release.set()
    log.wait_lines(3)
    assert log.lines == ["first", "line 2", "line 3", "line 4"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_handler_that_fails_does_not_silence_the_next_line(log, monkeypatch):
    failed = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: failed.set())
    words = Words()
    log.behave = lambda: 1 / 0
    words.warning("first")
    assert failed.wait(PATIENCE_S)
    words.warning("second")
    log.wait_lines(2)
    assert log.lines == ["first", "second"]


def test_a_line_for_which_no_thread_was_to_be_had_is_written_with_the_next(log, monkeypatch):
    words = Words()
    with monkeypatch.context() as starved:
        starved.setattr(threading.Thread, "start", _refuse)
        words.warning("first")
    assert log.lines == []
    words.warning("second")
    log.wait_lines(2)
    assert log.lines == ["first", "second"]


def _refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
