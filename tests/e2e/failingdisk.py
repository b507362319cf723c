"""A server whose disk fails on demand: it is full, or what its processes ask of it does not succeed."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serverprocess import ServerProcess
from straced import Tracer, committer, require_strace


@dataclass
class Storage:
    """Where a server keeps its file, and how to make writes there fail."""

    name: str
    server: ServerProcess
    squeeze: Callable[[], None]
    relieve: Callable[[], None]
    hurried: bool = False  # the process for the file is to make all commits, none the server by itself


def fill(ballast: Path) -> None:
    """Take every free block there is. What the server gives back later must be taken again."""
    with ballast.open("ab", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4_096))
            except OSError:
                return


@dataclass
class Injection:
    """Calls of the processes that commit fail, from `squeeze` to `relieve`."""

    server: ServerProcess
    how: str
    log: Path | str = os.devnull
    tracer: Tracer | None = None

    def squeeze(self) -> None:
        if self.tracer is None:
            process = committer(self.server)
            assert process is not None
            self.tracer = Tracer([process, self.server.pid], self.log, "-y", "-e", self.how)

    def relieve(self) -> None:
        if self.tracer is not None:
            self.tracer.end()
            self.tracer = None


@contextmanager
def injected(folder: Path, name: str, how: str, log: Path | str = os.devnull) -> Iterator[Storage]:
    require_strace()
    server = ServerProcess(folder / "leases.db")
    injection = Injection(server, how, log)
    try:
        yield Storage(name, server, injection.squeeze, injection.relieve)
    finally:
        server.kill()
        injection.relieve()
