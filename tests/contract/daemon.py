"""What every server of these tests is: a process of an unprivileged user, in a folder that goes with it."""

import os
import pwd
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, TypeVar

STOP_S_MAX = 60.0
LOOK_S = 0.01


@dataclass
class Daemon(ABC):
    """One process. It is ended by its pid."""

    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    numbers: Iterator[int] = field(default_factory=count, init=False)  # of its places

    users: ClassVar[tuple[str, ...]]  # who it may run as: the first that there is
    ends_by: ClassVar[int] = signal.SIGKILL  # nobody will look at what it would write
    start_s_max: ClassVar[float] = 60.0

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """What starts it, after what that reads has been written."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves."""

    def start(self) -> None:
        self.launch()
        self.wait()

    def launch(self) -> None:
        words = as_user(self.users, *self.command())
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)

    def wait(self) -> None:
        """Until it serves."""
        ends_at = time.monotonic() + self.start_s_max
        while not self.answers():
            assert self.process is not None
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_S)
            if self.process.poll() is not None or time.monotonic() > ends_at:
                self.stop()
                raise RuntimeError(f"{type(self)} did not start: {self.log.read_text()[-500:]}")

    def stop(self, how: int | None = None) -> None:
        if self.process is not None:
            self.process.send_signal(how or self.ends_by)
            try:
                self.process.wait(STOP_S_MAX)
            finally:
                self.process.kill()
                self.process.wait()
                self.process = None


D = TypeVar("D", bound=Daemon)


def account(users: Sequence[str]) -> pwd.struct_passwd:
    known = {each.pw_name: each for each in pwd.getpwall()}
    return next(known[name] for name in users if name in known)


def as_user(users: Sequence[str], *words: str | Path) -> list[str]:
    """Some refuse to run as root, and none needs to."""
    command = [str(word) for word in words]
    if os.geteuid() != 0:
        return command
    user = account(users)
    return ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", *command]


def give(users: Sequence[str], *paths: str | Path) -> None:
    """To the one that is to write there."""
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, account(users).pw_uid, account(users).pw_gid)


@contextmanager
def own_folder(users: Sequence[str], parent: Path | None = None) -> Iterator[Path]:
    """Not one of pytest's: those are for their owner alone, and here that is another user."""
    with TemporaryDirectory(prefix=f"openintent-{users[0]}-", dir=parent, ignore_cleanup_errors=True) as name:
        give(users, name)
        yield Path(name)


@contextmanager
def serving(*servers: D) -> Iterator[tuple[D, ...]]:
    """From their start to their end; of several, none answers before most of them are there."""
    try:
        for server in servers:
            server.launch()
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.stop()
