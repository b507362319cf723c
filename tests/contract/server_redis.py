"""Redis from Debian's package, as an unprivileged user, with data that goes with the folder."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from ports import free_port
from redis import Redis
from redis.exceptions import RedisError

PACKAGE = "redis-server"
USER = "redis"
START_S_MAX = 20.0
START_TRIES = 3
STOP_S_MAX = 20.0
LOOK_S = 0.01

DURABLE = {"appendonly": "yes", "appendfsync": "always", "save": ""}


def missing() -> str | None:
    return None if shutil.which("redis-server") else PACKAGE


def as_user(*words: str) -> list[str]:
    if os.geteuid() != 0:
        return [*words]
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", *words]


@dataclass
class Server:
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    bus: int = field(default_factory=free_port)  # on which the nodes of a cluster speak to each other
    process: subprocess.Popen[bytes] | None = None
    numbers: Iterator[int] = field(default_factory=count)

    def url(self, options: str = "") -> str:
        return f"redis://127.0.0.1:{self.port}/0{options}"

    def fresh_url(self, options: str = "") -> str:
        return self.url(f"?prefix=p{next(self.numbers)}{options}")

    def start(self) -> None:
        make_reachable(self.folder)
        chosen = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.folder)}
        chosen |= {"cluster-port": str(self.bus)} | DURABLE | self.settings
        words = [word for name, value in chosen.items() for word in (f"--{name}", value)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(as_user("redis-server", *words), stdout=log, stderr=log, cwd=self.folder)
        ends_at = time.monotonic() + START_S_MAX
        while not self.answers():
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_S)
            if self.process.poll() is not None or time.monotonic() > ends_at:
                self.stop()
                raise RuntimeError(f"it did not start: {(self.folder / 'log').read_text()[-500:]}")

    def answers(self) -> bool:
        try:
            return self.run("INFO", "persistence")["loading"] == 0
        except RedisError as error:
            return "NOAUTH" in str(error) or "Authentication" in str(error)

    def stop(self, how: int = signal.SIGKILL) -> None:
        """By its pid. It would ignore a kinder signal while it writes its first file."""
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_S_MAX)
            finally:
                self.process.kill()
                self.process.wait()
                self.process = None

    def run(self, *words: str | bytes | int, **options: Any) -> Any:
        """One command, as an operator would give it."""
        with self.client(**options) as client:
            return client.execute_command(*words)

    @contextmanager
    def client(self, **options: Any) -> Iterator[Redis]:
        client = Redis(host="127.0.0.1", port=self.port, protocol=2, retry=None, **options)
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def set(self, **settings: str) -> Iterator[None]:
        """While this lasts, a setting is another; an underscore stands for a hyphen."""
        names = {name.replace("_", "-"): value for name, value in settings.items()}
        before = {name: self.run("CONFIG", "GET", name)[1] for name in names}
        try:
            for name, value in names.items():
                self.run("CONFIG", "SET", name, value)
            yield
        finally:
            for name, value in before.items():
                self.run("CONFIG", "SET", name, value)
            # A file that was switched on again is good only when it has been written anew.
            while self.run("INFO", "persistence")["aof_rewrite_in_progress"]:
                pass


def make_reachable(folder: Path) -> None:
    """Its user has to get there, and to write there: pytest's folders are for their owner alone."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        user = pwd.getpwnam(USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
        for parent in folder.parents:
            if parent.stat().st_mode & 0o011 != 0o011 and parent.stat().st_uid == 0:
                parent.chmod(parent.stat().st_mode | 0o011)


@contextmanager
def started(folder: Path, **settings: str) -> Iterator[Server]:
    """An underscore in the name of a setting stands for a hyphen."""
    for left in reversed(range(START_TRIES)):
        server = Server(folder, {name.replace("_", "-"): value for name, value in settings.items()})
        try:
            server.start()
            break
        except RuntimeError:  # somebody else had the port by then
            if left == 0:
                raise
    try:
        yield server
    finally:
        server.stop()


RUNNING: list[Server] = []  # for tests that need more of it than a place


@contextmanager
def running(folder: Path) -> Iterator[Callable[[], str]]:
    with started(folder) as server:
        RUNNING.append(server)
        yield server.fresh_url
