"""etcd from Debian's package, as an unprivileged user, with data that goes with the folder."""

import json
import shutil
import socket
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from daemon import Daemon, own_folder, serving
from ports import free_ports

PACKAGE = "etcd-server"
USERS = ("etcd", "nobody")


def missing() -> str | None:
    return None if shutil.which("etcd") else PACKAGE


@dataclass
class Server(Daemon):
    """One member, of a cluster of its own if it is not told another."""

    users = USERS

    settings: dict[str, str] = field(default_factory=dict)
    name: str = "m0"
    ports: list[int] = field(default_factory=lambda: free_ports(2))
    cluster: str = ""
    secure: bool = False

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def peer(self) -> str:
        return f"http://127.0.0.1:{self.ports[1]}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def url(self, prefix: str = "place", options: str = "") -> str:
        return f"etcd{'s' if self.secure else ''}://127.0.0.1:{self.port}/{prefix}{options}"

    def fresh_url(self) -> str:
        return self.url(f"place{next(self.numbers)}")

    def command(self) -> list[str]:
        client = f"http{'s' if self.secure else ''}://127.0.0.1:{self.port}"
        settings = {
            "name": self.name,
            "data-dir": str(self.folder / self.name),
            "log-level": "error",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": self.peer,
            "initial-advertise-peer-urls": self.peer,
            "initial-cluster": self.cluster or f"{self.name}={self.peer}",
            "heartbeat-interval": "50",
            "election-timeout": "500",
        } | self.settings
        return ["etcd", *(f"--{name}={value}" for name, value in settings.items())]

    def answers(self) -> bool:
        """With TLS only the port is looked at: who has no certificate is told nothing."""
        try:
            if self.secure:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return True
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return json.load(answer)["health"] == "true"
        except OSError:
            return False

    def ask(self, path: str, **body: object) -> dict[str, object]:
        """What etcd itself says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), 10) as answer:
            found: dict[str, object] = json.load(answer)
            return found

    def keys(self, first: str) -> list[bytes]:
        """Those that begin so."""
        asked = {"key": first.encode(), "range_end": first[:-1].encode() + bytes([first.encode()[-1] + 1])}
        encoded = {name: b64encode(value).decode() for name, value in asked.items()}
        found = self.ask("/v3/kv/range", **encoded, keys_only=True).get("kvs", [])
        assert isinstance(found, list)
        return [b64decode(each["key"]) for each in found]

    def leads(self) -> bool:
        said = self.ask("/v3/maintenance/status")
        header = said["header"]
        assert isinstance(header, dict)
        return said["leader"] == header["member_id"]


@contextmanager
def started(*, secure: bool = False, **settings: str) -> Iterator[Server]:
    """Settings are those of its command line, with underscores."""
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    with own_folder(USERS) as folder, serving(Server(folder, named, secure=secure)) as (server,):
        yield server


RUNNING: list[Server] = []  # for tests that need more of it than a place


@contextmanager
def running(folder: Path) -> Iterator[Callable[[], str]]:
    with started() as server:
        RUNNING.append(server)
        yield server.fresh_url


@contextmanager
def running_cluster(members: int = 3) -> Iterator[list[Server]]:
    ports = free_ports(2 * members)
    with own_folder(USERS) as folder:
        servers = [Server(folder, name=f"m{n}", ports=ports[2 * n : 2 * n + 2]) for n in range(members)]
        for server in servers:
            server.cluster = ",".join(f"{each.name}={each.peer}" for each in servers)
        with serving(*servers):
            yield servers


def url_of(servers: list[Server], prefix: str = "place", options: str = "") -> str:
    return f"etcd://{','.join(f'127.0.0.1:{server.port}' for server in servers)}/{prefix}{options}"
