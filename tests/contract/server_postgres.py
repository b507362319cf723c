"""PostgreSQL from Debian's package, as an unprivileged user, with data that goes with the folder."""

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
from tempfile import TemporaryDirectory

import psycopg
import pytest
from ports import free_port

PACKAGE = "postgresql"
USER = "postgres"
GUARDED = "guarded"  # a user who needs a password
START_S_MAX = 60.0
STOP_S_MAX = 60.0
LOOK_S = 0.01
# Here a sync costs nothing. What these tests are about is not the disk.
MEMORY = Path("/dev/shm")  # noqa: S108  # a folder of our own in it
MEMORY_BYTES_MIN = 2**31

# Nothing here is about safety: less memory, and no chores of its own while a test looks.
SMALL = {
    "shared_buffers": "16MB",
    "max_connections": "50",
    "max_wal_senders": "3",
    "min_wal_size": "4MB",
    "dynamic_shared_memory_type": "mmap",
}


def programs() -> Path | None:
    """Where the newest installed version has its programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    elsewhere = shutil.which("postgres")
    return found[-1].parent if found else Path(elsewhere).resolve().parent if elsewhere else None


def program(name: str) -> Path:
    home = programs()
    assert home is not None
    return home / name


def missing() -> str | None:
    return None if programs() else PACKAGE


def as_user(*words: str | Path) -> list[str]:
    """It refuses to run as root."""
    command = [str(word) for word in words]
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", *command]


@dataclass
class Server:
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", options: str = "") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}{options}"

    def make(self) -> None:
        init = as_user(
            program("initdb"), "-D", self.data, "-U", USER, "--auth=trust", "-E", "UTF8", "--no-sync", "--wal-segsize=1"
        )
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"host all {GUARDED} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")

    def start(self) -> None:
        chosen = [word for name, value in SMALL.items() for word in ("-c", f"{name}={value}")]
        words = as_user(
            program("postgres"), "-D", self.data, "-p", str(self.port), "-h", "127.0.0.1", "-k", "", *chosen
        )
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)
        wait_until(self.process, lambda: answers(self.url()), self.folder / "log")

    def stop(self, how: int = signal.SIGINT) -> None:
        """By its pid: SIGINT is its fast way, SIGQUIT is what a crash leaves, SIGKILL is one."""
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(STOP_S_MAX)
            finally:
                self.process.kill()
                self.process.wait()
                self.process = None

    def run(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def fresh_url(self, options: str = "") -> str:
        return self.url(options=f"?schema=s{next(self.numbers)}{options}")

    def fresh_database(self, options: str = "") -> str:
        name = f"d{next(self.numbers)}"
        self.run(f"CREATE DATABASE {name} {options}")
        return name

    @contextmanager
    def set(self, **settings: str) -> Iterator[None]:
        """For all sessions, also those that are open; as an operator would."""
        try:
            for name, value in settings.items():
                self.run(f"ALTER SYSTEM SET {name} = '{value}'")
            self._reload(settings)
            yield
        finally:
            for name in settings:
                self.run(f"ALTER SYSTEM RESET {name}")
            self._reload({})

    def _reload(self, wanted: dict[str, str]) -> None:
        """A new session has the new value only after the open ones were told of it."""
        mark = f"{next(self.numbers)}B"
        self.run(f"ALTER SYSTEM SET log_parameter_max_length = '{mark}'")  # nobody else cares for it
        self.run("SELECT pg_reload_conf()")
        while self.run("SHOW log_parameter_max_length") != [(mark,)]:
            pass
        assert all(self.run(f"SHOW {name}") == [(value,)] for name, value in wanted.items())


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def wait_until(process: subprocess.Popen[bytes], ready: Callable[[], bool], log: Path) -> None:
    ends_at = time.monotonic() + START_S_MAX
    while not ready():
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
        if process.poll() is not None or time.monotonic() > ends_at:
            raise RuntimeError(f"{process.args} did not start: {log.read_text()[-500:]}")


@contextmanager
def own_folder() -> Iterator[Path]:
    """Not one of pytest's: those are for their owner alone, and here that is another user."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    with TemporaryDirectory(prefix="openintent-postgres-", dir=MEMORY if roomy else None) as name:
        if os.geteuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(name, user.pw_uid, user.pw_gid)
        yield Path(name)


@contextmanager
def started() -> Iterator[Server]:
    with own_folder() as folder:
        server = Server(folder)
        server.make()
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # nobody will look at what it would write


@contextmanager
def standby_of(server: Server) -> Iterator[Server]:
    """One that hears nothing of its primary any more."""
    with own_folder() as folder:
        standby = Server(folder)
        copy = ["pg_basebackup", "-D", standby.data, "-d", server.url(), "-c", "fast", "--no-sync"]
        subprocess.run(as_user(program(copy[0]), *copy[1:]), check=True, cwd=folder)
        (standby.data / "standby.signal").touch()
        try:
            standby.start()
            yield standby
        finally:
            standby.stop(signal.SIGQUIT)


@contextmanager
def pooler(server: Server) -> Iterator[int]:
    """PgBouncer with fewer sessions than it has clients; gives its port."""
    bouncer = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if bouncer is None:
        assert "CI" not in os.environ, "pgbouncer is not installed"
        pytest.skip("pgbouncer is not installed")
    port = free_port()
    chosen = {"listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "", "auth_type": "any"}
    chosen |= {"pool_mode": "transaction", "default_pool_size": 2}
    lines = ["[databases]", f"postgres = host=127.0.0.1 port={server.port} user={USER}", "[pgbouncer]"]
    lines += [f"{name} = {value}" for name, value in chosen.items()]
    with own_folder() as folder, (folder / "log").open("ab") as log:
        (folder / "ini").write_text("\n".join([*lines, ""]))
        process = subprocess.Popen(as_user(bouncer, folder / "ini"), stdout=log, stderr=log)
        try:
            wait_until(process, lambda: answers(f"postgresql://{USER}@127.0.0.1:{port}/postgres"), folder / "log")
            yield port
        finally:
            process.terminate()
            process.wait(STOP_S_MAX)


RUNNING: list[Server] = []  # for tests that need more of it than a place


@contextmanager
def running(_folder: Path) -> Iterator[Callable[[], str]]:
    with started() as server:
        RUNNING.append(server)
        yield server.fresh_url
