"""Programs that share a database file, each in a process of its own, to be watched, stopped and killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from openintent.clock import boot_s
from openintent.engines.lockfile import look

HERE = Path(__file__).parent
ANSWER_S_MAX = 30.0
PATIENCE_S = 40.0

# The HTTP library leaves a socket that could not connect to the collector, and there is no way to close it for it.
UNCLOSED = r"ignore:unclosed <socket.socket fd=\d+, family=1,:ResourceWarning"


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would tell a program where to go."""
    return {name: value for name, value in os.environ.items() if not name.startswith("OPENINTENT_")} | more


class Program:
    """A script of this folder. It says what it does in lines of JSON, and ends when its input does."""

    def __init__(self, script: str, *words: object, heard: threading.Condition | None = None) -> None:
        command = [sys.executable, "-X", "faulthandler", str(HERE / f"{script}.py"), *map(str, words)]
        self.heard = heard or threading.Condition()
        self.said: list[dict[str, Any]] = []
        self.killed_at: float | None = None  # just before; after `dead_at` it did nothing any more
        self.dead_at: float | None = None
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # The last line of a program that was killed may be half a one.
            if line.endswith("\n"):
                with self.heard:
                    self.said.append(json.loads(line))
                    self.heard.notify_all()
        with self.heard:
            self.heard.notify_all()

    def wait_for(self, kind: str, *, after: float = 0.0) -> dict[str, Any]:
        """The first thing of this kind that it says after that moment."""
        found = self.await_(lambda: next(self.of(kind, after=after), None), f"say {kind}")
        assert found is not None
        return found

    def of(self, kind: str, *, after: float = 0.0) -> Iterator[dict[str, Any]]:
        first = bisect_right(self.said, after, key=lambda said: said["at"])
        return (said for said in islice(self.said, first, None) if said["kind"] == kind)

    def await_(self, what: Callable[[], Any], name: str) -> Any:
        with self.heard:
            self.heard.wait_for(lambda: what() or not self._reader.is_alive() or self.ended, PATIENCE_S)
            found = what()
        assert found, f"{self.pid} did not {name}: {self.said[-3:]} {self._why()}"
        return found

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def _why(self) -> str:
        if self._reader.is_alive() and not self.ended:
            self._process.send_signal(signal.SIGABRT)  # it shows where all its threads are
        assert self._process.stderr is not None
        return f"and ended with {self._process.wait(ANSWER_S_MAX)}: {self._process.stderr.read()}"

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def kill(self) -> float:
        """kill -9; when that was."""
        self.killed_at = boot_s()
        self._process.kill()
        self._process.wait(ANSWER_S_MAX)
        self.dead_at = boot_s()
        self._close()
        return self.killed_at

    def finish(self) -> str:
        """Let it end by itself. What it said on stderr, which is nothing if all is well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(ANSWER_S_MAX)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.pid} did not end {self._why()}") from None
        assert self._process.stderr is not None
        said = self._process.stderr.read()
        self._close()
        assert code == 0, said
        return said

    def _close(self) -> None:
        self._reader.join(ANSWER_S_MAX)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def clean_up(self) -> None:
        if not self.ended:
            self.kill()
        self._close()


class Company:
    """All programs of a test; nothing of them is left behind."""

    def __init__(self) -> None:
        self.heard = threading.Condition()
        self.programs: list[Program] = []

    def start(self, script: str, *words: object) -> Program:
        self.programs.append(Program(script, *words, heard=self.heard))
        return self.programs[-1]

    def living(self) -> list[Program]:
        return [program for program in self.programs if not program.ended]

    def clean_up(self) -> None:
        for program in self.programs:
            program.clean_up()


@contextmanager
def company() -> Iterator[Company]:
    found = Company()
    try:
        yield found
    finally:
        found.clean_up()


def grantor_pid(database: Path) -> int | None:
    """The process that serves the file and has said so, if there is one."""
    seen = look(database)
    return seen.entry.pid if seen is not None and seen.in_use and seen.entry.address else None


def say(kind: str, **more: object) -> None:
    """For the scripts: one line, in one write, so that a kill cannot mix two of them."""
    line: Mapping[str, object] = {"kind": kind, "at": boot_s(), **more}
    os.write(1, (json.dumps(line) + "\n").encode())
