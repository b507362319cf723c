"""A server as a process: on a free port of loopback, its data in a folder that goes with it."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import machine

START_S_MAX = 120.0
STOP_S_MAX = 60.0
LOOK_S = 0.005


@dataclass(frozen=True)
class Peer:
    """A kind of server."""

    key: str
    title: str
    settings: str  # for the report: all that is not its default
    command: Callable[["Server"], list[str]]
    ready: Callable[["Server"], bool]
    missing: Callable[[], str | None]  # why it cannot be started here
    version: Callable[[], str]
    prepare: Callable[["Server"], None] = lambda _server: None  # before the first start
    target: str = ""  # what leaseload calls its protocol; "" where others make the load
    package: str = ""  # Debian's
    user: str = ""  # who it must run as, if we are root
    stop_signal: int = signal.SIGTERM


@dataclass
class Server:
    """One that runs, or did."""

    peer: Peer
    port: int
    folder: Path
    extra: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> float:
        """Start it and wait until it serves; how long that took, in seconds."""
        began_s = time.monotonic()
        with (self.folder / "log").open("ab") as log:
            words, env = self.as_user(self.peer.command(self)), apart() if self.peer.key != "ours" else None
            self.process = subprocess.Popen(words, stdout=log, stderr=log, env=env)
        while not self.peer.ready(self):
            if self.process.poll() is not None or time.monotonic() - began_s > START_S_MAX:
                raise SystemExit(f"{self.peer.title} did not start: {self.last_words()}")
            time.sleep(LOOK_S)
        return time.monotonic() - began_s

    def stop(self, with_signal: int | None = None) -> None:
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            self.process.send_signal(with_signal or self.peer.stop_signal)
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def as_user(self, command: list[str]) -> list[str]:
        if not self.peer.user or os.geteuid() != 0:
            return command
        return ["setpriv", "--reuid", self.peer.user, "--regid", self.peer.user, "--clear-groups", *command]

    def last_words(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-500:].strip()

    def processor_s(self) -> float:
        return machine.processor_s(self.pid)

    def resident_bytes(self) -> int:
        return machine.resident_bytes(self.pid)


@contextmanager
def running(peer: Peer, data: Path, **extra: str) -> Iterator[Server]:
    """A fresh server. `extra` is for the peer's own command: settings that a workload needs."""
    with TemporaryDirectory(dir=data, prefix=f"bench-{peer.key}-") as name:
        server = Server(peer, free_port(), Path(name), extra)
        if peer.user and os.geteuid() == 0:
            home = pwd.getpwnam(peer.user)
            os.chown(name, home.pw_uid, home.pw_gid)
        peer.prepare(server)
        try:
            server.start()
            yield server
        finally:
            server.stop()


# Words for peers


def apart() -> dict[str, str]:
    """The environment without what leads Python to our package: the public one has its name."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers_at(path: str) -> Callable[[Server], bool]:
    """Ready when this path answers."""

    def ready(server: Server) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=5):  # loopback
                return True
        except OSError:
            return False

    return ready


def answers_to(question: bytes, answer: bytes) -> Callable[[Server], bool]:
    """Ready when it answers this on a bare connection."""

    def ready(server: Server) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", server.port), 5) as line:
                line.sendall(question)
                return line.recv(64).startswith(answer)
        except OSError:
            return False

    return ready


def needs(program: str, package: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        return None if shutil.which(program) else f"{program} is not installed (Debian package {package})"

    return missing


def said_by(*command: str, word: int) -> Callable[[], str]:
    """The word of what a program says when asked for its version."""

    def version() -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).split()[word].removeprefix("v=")

    return version
