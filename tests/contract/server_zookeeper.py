"""ZooKeeper from Debian's package, as an unprivileged user, with data that goes with the folder."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from ports import free_ports

PACKAGE = "zookeeper"
JAR = Path("/usr/share/java/zookeeper.jar")
# Its own list lacks some of what TLS needs, although Debian installs it.
CLASSES = ":".join(str(JAR.with_name(f"{name}.jar")) for name in ("zookeeper", "netty-codec", "netty-resolver"))
USERS = ("zookeeper", "nobody")
START_S_MAX = 40.0
STOP_S_MAX = 20.0
LOOK_S = 0.05
WORD_S_MAX = 0.5

# Little memory, and soon there.
JAVA = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dzookeeper.admin.enableServer=false",
)
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def missing() -> str | None:
    return None if JAR.exists() and shutil.which("java") else PACKAGE


def as_user(*words: str | Path) -> list[str]:
    """It would run as root, but need not."""
    command = [str(word) for word in words]
    if os.geteuid() != 0:
        return command
    user = user_of()
    return ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", *command]


def user_of() -> pwd.struct_passwd:
    known = {each.pw_name: each for each in pwd.getpwall()}
    return next(known[name] for name in USERS if name in known)


@dataclass
class Server:
    """One member, of an ensemble if there are lines for one."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    number: int = 1
    port: int = field(default_factory=lambda: free_ports(1)[0])
    java: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    places: Iterator[int] = field(default_factory=count)

    @property
    def data(self) -> Path:
        return self.folder / f"data{self.number}"

    @property
    def log(self) -> Path:
        return self.folder / f"log{self.number}"

    def url(self, path: str = "place", options: str = "") -> str:
        return f"zookeeper://127.0.0.1:{self.port}/{path}{options}"

    def fresh_url(self) -> str:
        return self.url(f"tests/place{next(self.places)}")

    def launch(self) -> None:
        self.data.mkdir(exist_ok=True)
        (self.data / "myid").write_text(f"{self.number}\n")
        if os.geteuid() == 0:
            for path in (self.data, self.data / "myid"):
                os.chown(path, user_of().pw_uid, user_of().pw_gid)
        settings = {
            "tickTime": "500",
            "initLimit": "10",
            "syncLimit": "4",
            "dataDir": str(self.data),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "srvr,isro",
        } | self.settings
        config = self.folder / f"zoo{self.number}.cfg"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = as_user("java", *JAVA, *self.java, "-cp", CLASSES, MAIN, config)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def start(self) -> None:
        self.launch()
        self.wait_for(lambda: "Mode:" in self.says(b"srvr"))

    def wait_for(self, ready: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + START_S_MAX
        while not ready():
            assert self.process is not None
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_S)
            if self.process.poll() is not None or time.monotonic() > ends_at:
                raise RuntimeError(f"ZooKeeper did not start: {self.log.read_text()[-500:]}")

    def says(self, word: bytes) -> str:
        """The answer to one of its words of four letters; nothing while it does not serve."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), WORD_S_MAX) as line:
            line.sendall(word)
            return b"".join(iter(lambda: line.recv(4_096), b"")).decode()
        return ""

    def leads(self) -> bool:
        return "Mode: leader" in self.says(b"srvr")

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_S_MAX)
            finally:
                self.process.kill()
                self.process.wait()
                self.process = None


@contextmanager
def own_folder() -> Iterator[Path]:
    """Not one of pytest's: those are for their owner alone, and here that is another user."""
    with TemporaryDirectory(prefix="openintent-zookeeper-", ignore_cleanup_errors=True) as name:
        if os.geteuid() == 0:
            os.chown(name, user_of().pw_uid, user_of().pw_gid)
        yield Path(name)


@contextmanager
def started(**settings: str) -> Iterator[Server]:
    with own_folder() as folder:
        server = Server(folder, settings)
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGKILL)


RUNNING: list[Server] = []  # for tests that need more of it than a place


@contextmanager
def running(folder: Path) -> Iterator[Callable[[], str]]:
    with started() as server:
        RUNNING.append(server)
        yield server.fresh_url


@contextmanager
def running_ensemble(members: int = 3) -> Iterator[list[Server]]:
    """Members that lose the others go on for those who only want to read."""
    ports = free_ports(3 * members)
    peers = {
        f"server.{n + 1}": f"127.0.0.1:{ports[3 * n + 1]}:{ports[3 * n + 2]};127.0.0.1:{ports[3 * n]}"
        for n in range(members)
    }
    with own_folder() as folder:
        java = ("-Dreadonlymode.enabled=true",)
        servers = [Server(folder, peers, n + 1, ports[3 * n], java) for n in range(members)]
        try:
            for server in servers:
                server.launch()
            for server in servers:
                server.wait_for(lambda server=server: "Mode: " in server.says(b"srvr"))  # type: ignore[misc]
            yield servers
        finally:
            for server in servers:
                server.stop(signal.SIGKILL)


def url_of(servers: list[Server], path: str = "place", options: str = "") -> str:
    return f"zookeeper://{','.join(f'127.0.0.1:{server.port}' for server in servers)}/{path}{options}"
