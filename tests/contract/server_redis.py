"""Redis from Debian's package, as an unprivileged user, with data that goes with the folder."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daemon import Daemon, give
from ports import free_port
from redis import Redis
from redis.exceptions import RedisError

PACKAGE = "redis-server"
USERS = ("redis", "nobody")
START_TRIES = 3

DURABLE = {"appendonly": "yes", "appendfsync": "always", "save": ""}


def missing() -> str | None:
    return None if shutil.which("redis-server") else PACKAGE


@dataclass
class Server(Daemon):
    users = USERS

    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    bus: int = field(default_factory=free_port)  # on which the nodes of a cluster speak to each other

    def url(self, options: str = "") -> str:
        return f"redis://127.0.0.1:{self.port}/0{options}"

    def fresh_url(self, options: str = "") -> str:
        return self.url(f"?prefix=p{next(self.numbers)}{options}")

    def command(self) -> list[str]:
        make_reachable(self.folder)
        chosen = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.folder)}
        chosen |= {"cluster-port": str(self.bus)} | DURABLE | self.settings
        return ["redis-server", *(word for name, value in chosen.items() for word in (f"--{name}", value))]

    def answers(self) -> bool:
        try:
            return self.run("INFO", "persistence")["loading"] == 0
        except RedisError as error:
            return "NOAUTH" in str(error) or "Authentication" in str(error)

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
    give(USERS, folder)
    for parent in folder.parents if os.geteuid() == 0 else ():
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
