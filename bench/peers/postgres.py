"""PostgreSQL: a lease is a row, taken and given back by an UPDATE; pgbench makes the load."""

import shutil
import signal
import subprocess
from pathlib import Path

from peers.base import Peer, Server, answers_to

CONNECTIONS_MAX = 1_100
# A startup packet with a protocol that nobody speaks: who serves already answers with an error.
KNOCK = b"\x00\x00\x00\x08\x00\x09\x00\x00"


def programs() -> Path | None:
    """Where the newest installed version has its programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("postgres")
    return Path(elsewhere).resolve().parent if elsewhere else None


def program(name: str) -> str:
    home = programs()
    assert home is not None
    return str(home / name)


def prepare(server: Server) -> None:
    init = [program("initdb"), "-D", f"{server.folder}/data", "-U", "bench", "--auth=trust", "--encoding=UTF8"]
    subprocess.run(server.as_user(init), check=True, stdout=subprocess.DEVNULL, cwd=server.folder)


def command(server: Server) -> list[str]:
    found = [program("postgres"), "-D", f"{server.folder}/data", "-p", str(server.port), "-h", "127.0.0.1"]
    return [*found, "-k", str(server.folder), "-c", f"max_connections={CONNECTIONS_MAX}"]


def version() -> str:
    said = subprocess.run([program("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[2]


PEER = Peer(
    key="postgres",
    title="PostgreSQL, row leases",
    settings=f"`max_connections` {CONNECTIONS_MAX}, else its defaults; pgbench with prepared statements",
    command=command,
    ready=answers_to(KNOCK, b"E"),
    missing=lambda: (
        None if programs() else "PostgreSQL is not installed (Debian packages postgresql, postgresql-contrib)"
    ),
    version=version,
    prepare=prepare,
    package="postgresql",
    user="postgres",
    stop_signal=signal.SIGINT,  # its fast way to stop
)
