"""strace beside a server: see each call by which a thread changes the disk, end the process at one, or let it fail.

A server has two threads that touch its files. The first one opens the database when it starts, and then makes the
second, which alone commits. strace counts the calls of each thread and of each name by itself: a `Point` is exact.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from serverprocess import ServerProcess

# By the first all files come into being; by the last the committing thread tells the other one that it is done.
CALLS = ("openat", "pwrite64", "fsync", "fdatasync", "ftruncate", "unlink", "write")
BIRTH = ("clone", "clone3")  # of a thread
BIRTH_S_MAX = 30.0
HELD_US = 60_000_000  # longer than any birth: whoever holds a thread also lets it go


class Point(NamedTuple):
    """Before the nth call of that name by one thread."""

    call: str
    nth: int

    @property
    def killing(self) -> str:
        # The signal is there before the kernel has begun with the call, which then does not happen.
        return f"inject={self.call}:signal=SIGKILL:when={self.nth}"


def require_strace() -> None:
    if shutil.which("strace") is None:
        missing = "this needs strace"
        pytest.fail(missing) if "CI" in os.environ else pytest.skip(missing)


def points(log: Path, database: Path) -> list[Point]:
    """The calls in a log that change the disk, and those that say that it is done, in their order."""
    seen: Counter[str] = Counter()
    found = []
    before = ""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if (call := line.partition("(")[0]) not in CALLS:
            continue
        seen[call] += 1
        creates = "O_CREAT" in line and str(database) in line
        # Of several calls in a row that say that something was read, one is enough.
        if creates if call == "openat" else call != before or call != "write":
            found.append(Point(call, seen[call]))
        before = call
    return found


def first_thread(log: Path, *how: str) -> list[str]:
    """A wrapper that traces the thread which opens the database."""
    calls = [call for call in CALLS if call != "write"]  # it writes to the terminal, and to itself
    traced = "trace=" + ",".join([*calls, *BIRTH])
    return ["strace", "-D", "-qq", "-o", str(log), "-e", traced, *how]


def held_at_birth(log: Path) -> list[str]:
    """The same, and it is held in the moment when it has made the second one."""
    return first_thread(log, "-e", f"inject={','.join(BIRTH)}:delay_exit={HELD_US}:when=1")


def committer(server: ServerProcess) -> int | None:
    """The thread that commits, if there is one yet."""
    threads = {int(thread.name) for thread in Path(f"/proc/{server.pid}/task").iterdir()}
    return min(threads - {server.pid}, default=None)


async def born(server: ServerProcess) -> int:
    """The thread that commits, as soon as there is one."""
    async with asyncio.timeout(BIRTH_S_MAX):
        while True:
            thread = committer(server)
            if thread is not None:
                return thread
            await asyncio.sleep(0.002)


def let_go(server: ServerProcess) -> None:
    """End the tracer of the first thread, which then goes on by itself."""
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii")
    found = re.search(r"^TracerPid:\s*(\d+)$", status, re.MULTILINE)
    assert found is not None
    with suppress(ProcessLookupError):
        os.kill(int(found[1]), signal.SIGKILL)


class Tracer:
    """Traces one thread from construction until `end`, or until that thread is no more."""

    def __init__(self, thread: int, log: Path | str, *how: str) -> None:
        traced = "trace=" + ",".join(CALLS)
        command = ["strace", "-p", str(thread), "-o", str(log), "-e", traced, *how]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        assert said.endswith("attached\n"), said

    def end(self) -> None:
        """The thread goes on by itself."""
        self._process.terminate()
        with self._process as process:
            process.wait()


@contextmanager
def tracing(thread: int, log: Path | str, *how: str) -> Iterator[Tracer]:
    tracer = Tracer(thread, log, *how)
    try:
        yield tracer
    finally:
        tracer.end()
