"""PostgreSQL from Debian's package, as an unprivileged user, with data that goes with the folder."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from daemon import Daemon, as_user, own_folder, serving
from ports import free_port

PACKAGE = "postgresql"
USERS = (USER,) = ("postgres",)
GUARDED = "guarded"  # a user who needs a password
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


@dataclass
class Server(Daemon):
    """SIGINT is its fast way to end, SIGQUIT is what a crash leaves."""

    users = USERS
    ends_by = signal.SIGQUIT

    port: int = field(default_factory=free_port)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", options: str = "") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}{options}"

    def make(self) -> None:
        options = ["-U", USER, "--auth=trust", "-E", "UTF8", "--no-sync", "--wal-segsize=1"]
        init = as_user(USERS, program("initdb"), "-D", self.data, *options)
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"host all {GUARDED} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")

    def command(self) -> list[str | Path]:
        chosen = [word for name, value in SMALL.items() for word in ("-c", f"{name}={value}")]
        return [program("postgres"), "-D", self.data, "-p", str(self.port), "-h", "127.0.0.1", "-k", "", *chosen]

    def answers(self) -> bool:
        return answers(self.url())

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


@dataclass
class Pooler(Daemon):
    """PgBouncer with fewer sessions than it has clients."""

    users = USERS

    bouncer: str
    of: Server
    port: int = field(default_factory=free_port)

    def command(self) -> list[str | Path]:
        chosen = {"listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "", "auth_type": "any"}
        chosen |= {"pool_mode": "transaction", "default_pool_size": 2}
        lines = ["[databases]", f"postgres = host=127.0.0.1 port={self.of.port} user={USER}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in chosen.items()]
        (self.folder / "ini").write_text("\n".join([*lines, ""]))
        return [self.bouncer, self.folder / "ini"]

    def answers(self) -> bool:
        return answers(f"postgresql://{USER}@127.0.0.1:{self.port}/postgres")


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    with own_folder(USERS, MEMORY if roomy else None) as folder:
        yield folder


@contextmanager
def started() -> Iterator[Server]:
    with folder_in_memory() as folder:
        server = Server(folder)
        server.make()
        with serving(server):
            yield server


@contextmanager
def standby_of(server: Server, *, streams: bool = False) -> Iterator[Server]:
    """One that hears nothing of its primary any more, unless it streams from it."""
    with folder_in_memory() as folder:
        standby = Server(folder)
        options = ["-D", standby.data, "-d", server.url(), "-c", "fast", "--no-sync", *["-R"] * streams]
        subprocess.run(as_user(USERS, program("pg_basebackup"), *options), check=True, cwd=folder)
        (standby.data / "standby.signal").touch()
        with serving(standby):
            yield standby


@contextmanager
def pooler(server: Server) -> Iterator[int]:
    """Gives its port."""
    bouncer = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if bouncer is None:
        assert "CI" not in os.environ, "pgbouncer is not installed"
        pytest.skip("pgbouncer is not installed")
    with folder_in_memory() as folder, serving(Pooler(folder, bouncer, server)) as (pool,):
        yield pool.port


RUNNING: list[Server] = []  # for tests that need more of it than a place


@contextmanager
def running(_folder: Path) -> Iterator[Callable[[], str]]:
    with started() as server:
        RUNNING.append(server)
        yield server.fresh_url
