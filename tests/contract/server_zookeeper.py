"""ZooKeeper from Debian's package, as an unprivileged user, with data that goes with the folder."""

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from daemon import Daemon, give, own_folder, serving
from ports import free_port, free_ports
from proving import size

PACKAGE = "zookeeper"
JAR = Path("/usr/share/java/zookeeper.jar")
# Its own list lacks some of what TLS needs, although Debian installs it.
CLASSES = ":".join(str(JAR.with_name(f"{name}.jar")) for name in ("zookeeper", "netty-codec", "netty-resolver"))
USERS = ("zookeeper", "nobody")
WORD_S_MAX = 0.5

# Little memory, and soon there; it has all that is stored in it.
MEMORY_MB = max(192, size("engine_records", 3_000) // 100)
JAVA = (
    f"-Xmx{MEMORY_MB}m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dzookeeper.admin.enableServer=false",
)
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def missing() -> str | None:
    return None if JAR.exists() and shutil.which("java") else PACKAGE


@dataclass
class Server(Daemon):
    """One member, of an ensemble if there are lines for one."""

    users = USERS

    settings: dict[str, str] = field(default_factory=dict)
    number: int = 1
    port: int = field(default_factory=free_port)
    java: tuple[str, ...] = ()

    @property
    def data(self) -> Path:
        return self.folder / f"data{self.number}"

    @property
    def log(self) -> Path:
        return self.folder / f"log{self.number}"

    def url(self, path: str = "place", options: str = "") -> str:
        return f"zookeeper://127.0.0.1:{self.port}/{path}{options}"

    def fresh_url(self) -> str:
        return self.url(f"tests/place{next(self.numbers)}")

    def command(self) -> list[str | Path]:
        self.data.mkdir(exist_ok=True)
        (self.data / "myid").write_text(f"{self.number}\n")
        give(USERS, self.data, self.data / "myid")
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
        return ["java", *JAVA, *self.java, "-cp", CLASSES, MAIN, config]

    def answers(self) -> bool:
        return "Mode: " in self.says(b"srvr")

    def says(self, word: bytes) -> str:
        """The answer to one of its words of four letters; nothing while it does not serve."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), WORD_S_MAX) as line:
            line.sendall(word)
            return b"".join(iter(lambda: line.recv(4_096), b"")).decode()
        return ""

    def leads(self) -> bool:
        return "Mode: leader" in self.says(b"srvr")


@contextmanager
def started(**settings: str) -> Iterator[Server]:
    with own_folder(USERS) as folder, serving(Server(folder, settings)) as (server,):
        yield server


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
    with own_folder(USERS) as folder:
        java = ("-Dreadonlymode.enabled=true",)
        servers = [Server(folder, peers, n + 1, ports[3 * n], java) for n in range(members)]
        with serving(*servers):
            yield servers


def url_of(servers: list[Server], path: str = "place", options: str = "") -> str:
    return f"zookeeper://{','.join(f'127.0.0.1:{server.port}' for server in servers)}/{path}{options}"
