"""strace beside a server: see each call by which it changes the disk, end it at one, or let that fail.

A server has a process of its own for its file, with one thread, which opens the database when the server starts and
then commits; but while nobody is in a hurry (`hurry`) the server commits by itself. strace counts the calls of each
name by itself: a `Point` is exact. Where that process ends, the server is ended, too (`end_together`): by itself it
would go on with another one, which is for other tests.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple

import pytest
from rawhttp import Connection
from serverprocess import ServerProcess

from openintent.core.timers import HURRY_MS
from openintent.engines.apart_child import PROGRAM

# By the first all files come into being; by the last the process tells the server that it is done.
CALLS = ("openat", "pwrite64", "fsync", "fdatasync", "ftruncate", "unlink", "sendto")
TRACED = "trace=" + ",".join(CALLS)
KILLED = b"+++ killed by SIGKILL +++\n"
BIRTH_S_MAX = 30.0
SITE = Path(__file__).with_name("site")  # where Python finds what is to be done first in each process


class Point(NamedTuple):
    """Before the nth call of that name."""

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
        if creates if call == "openat" else call != before or call != "sendto":
            found.append(Point(call, seen[call]))
        before = call
    return found


def traced_from_birth(log: Path, *how: str) -> dict[str, str]:
    """Settings with which a server's process for its file runs under strace."""
    command = ["strace", "-D", "-q", "-o", str(log), "-e", TRACED, *how]
    return {"PYTHONPATH": str(SITE), "STRACED": json.dumps(command)}


def committer(server: ServerProcess) -> int | None:
    """The process that commits, if there is one yet."""
    with suppress(FileNotFoundError):  # the server is no more
        for child in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text(encoding="ascii").split():
            if PROGRAM in Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8"):
                return int(child)
    return None


async def born(server: ServerProcess) -> int:
    """The process that commits, as soon as there is one."""
    async with asyncio.timeout(BIRTH_S_MAX):
        while True:
            found = committer(server)
            if found is not None:
                return found
            await asyncio.sleep(0.002)


async def end_together(server: ServerProcess, log: Path) -> None:
    """End the server as soon as its process for the file was killed, before another one has begun."""
    pid = server.pid
    while not was_killed(log):  # noqa: ASYNC110  # strace says when
        await asyncio.sleep(0.002)
    with suppress(ProcessLookupError):  # without that process it need not even have started
        os.kill(pid, signal.SIGKILL)


def was_killed(log: Path) -> bool:
    """Whether that is the last thing in a log."""
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(KILLED)))
        return file.read() == KILLED
    return False


async def hurry(connection: Connection, space: str = "hurry") -> bool:
    """From now on, for some 15 s, and after each restart, the process for the file makes all commits. Whether so."""
    body = {"scope": f"{monotonic_ns()}", "ttl_seconds": 0.75 * HURRY_MS / 1_000}
    return (await connection.call("POST", f"/spaces/{space}/leases", body)).ok


class Tracer:
    """Traces processes from construction until `end`, or until they are no more."""

    def __init__(self, processes: Sequence[int], log: Path | str, *how: str) -> None:
        traced = [word for process in processes for word in ("-p", str(process))]
        command = ["strace", *traced, "-o", str(log), "-e", TRACED, *how]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for _ in processes:
            said = self._process.stderr.readline()
            assert said.endswith("attached\n"), said

    def end(self) -> None:
        """The process goes on by itself."""
        self._process.terminate()
        with self._process as process:
            process.wait()


@contextmanager
def tracing(process: int, log: Path | str, *how: str) -> Iterator[Tracer]:
    tracer = Tracer([process], log, *how)
    try:
        yield tracer
    finally:
        tracer.end()
