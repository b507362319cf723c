"""etcd from Debian's package, as an unprivileged user, with data that goes with the folder."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from ports import free_ports

PACKAGE = "etcd-server"
USERS = ("etcd", "nobody")
START_S_MAX = 30.0
STOP_S_MAX = 20.0
LOOK_S = 0.01


def missing() -> str | None:
    return None if shutil.which("etcd") else PACKAGE


def as_user(*words: str | Path) -> list[str]:
    """It would run as root, but need not."""
    command = [str(word) for word in words]
    if os.geteuid() != 0:
        return command
    user = str(user_of().pw_uid)
    return ["setpriv", "--reuid", user, "--regid", str(user_of().pw_gid), "--clear-groups", *command]


def user_of() -> pwd.struct_passwd:
    known = {each.pw_name: each for each in pwd.getpwall()}
    return next(known[name] for name in USERS if name in known)


@dataclass
class Server:
    """One member, of a cluster of its own if it is not told another."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    name: str = "m0"
    ports: list[int] = field(default_factory=lambda: free_ports(2))
    cluster: str = ""
    secure: bool = False
    process: subprocess.Popen[bytes] | None = None
    places: Iterator[int] = field(default_factory=count)

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
        return self.url(f"place{next(self.places)}")

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
        return as_user("etcd", *(f"--{name}={value}" for name, value in settings.items()))

    def launch(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.folder)

    def start(self) -> None:
        self.launch()
        self.wait_for(self.is_healthy)

    def wait_for(self, ready: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + START_S_MAX
        while not ready():
            assert self.process is not None
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_S)
            if self.process.poll() is not None or time.monotonic() > ends_at:
                raise RuntimeError(f"etcd did not start: {self.log.read_text()[-500:]}")

    def is_healthy(self) -> bool:
        """With TLS only the port is looked at: who has no certificate is told nothing."""
        try:
            if self.secure:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return True
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return json.load(answer)["health"] == "true"
        except OSError:
            return False

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_S_MAX)
            finally:
                self.process.kill()
                self.process.wait()
                self.process = None

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
def folder_of_its_own() -> Iterator[Path]:
    """Not among pytest's: each run of pytest that begins shuts those for all but their owner."""
    with TemporaryDirectory(prefix="openintent-etcd-", ignore_cleanup_errors=True) as name:
        if os.geteuid() == 0:
            os.chown(name, user_of().pw_uid, user_of().pw_gid)
        yield Path(name)


@contextmanager
def started(*, secure: bool = False, **settings: str) -> Iterator[Server]:
    """Settings are those of its command line, with underscores."""
    named = {name.replace("_", "-"): value for name, value in settings.items()}
    with folder_of_its_own() as folder:
        server = Server(folder, named, secure=secure)
        try:
            server.start()
            yield server
        finally:
            server.stop()


RUNNING: list[Server] = []  # for tests that need more of it than a place


@contextmanager
def running(folder: Path) -> Iterator[Callable[[], str]]:
    with started() as server:
        RUNNING.append(server)
        yield server.fresh_url


@contextmanager
def running_cluster(members: int = 3) -> Iterator[list[Server]]:
    ports = free_ports(2 * members)
    with folder_of_its_own() as folder:
        servers = [Server(folder, name=f"m{n}", ports=ports[2 * n : 2 * n + 2]) for n in range(members)]
        whole = ",".join(f"{server.name}={server.peer}" for server in servers)
        try:
            for server in servers:
                server.cluster = whole
                server.launch()
            for server in servers:
                server.wait_for(server.is_healthy)
            yield servers
        finally:
            for server in servers:
                server.stop(signal.SIGKILL)


def url_of(servers: list[Server], prefix: str = "place", options: str = "") -> str:
    return f"etcd://{','.join(f'127.0.0.1:{server.port}' for server in servers)}/{prefix}{options}"
