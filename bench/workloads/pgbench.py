"""Leases as rows of PostgreSQL: what pgbench is told, and what it says."""

import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import load
import stats
from peers import Server
from peers.postgres import program
from results import Figures

ROWS_PER_CLIENT = 100
CLIENTS_MAX = 1_024
SCHEMA = f"""
CREATE TABLE lease (scope int PRIMARY KEY, holder int, token bigint NOT NULL DEFAULT 0, deadline timestamptz);
CREATE TABLE state (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 1, step bigint NOT NULL DEFAULT 0);
INSERT INTO lease (scope) SELECT generate_series(0, {CLIENTS_MAX * ROWS_PER_CLIENT - 1});
INSERT INTO state (id) SELECT generate_series(0, {CLIENTS_MAX - 1});
VACUUM ANALYZE;
"""
# Two transactions: between them a holder works. An UPDATE that finds no row was refused.
CYCLE = """
\\set scope :client_id * ROWS + random(0, ROWS - 1)
UPDATE lease SET holder = :client_id, token = token + 1, deadline = now() + interval '30 s'
 WHERE scope = :scope AND (holder IS NULL OR deadline < now()) RETURNING token \\gset
UPDATE lease SET holder = NULL WHERE scope = :scope AND holder = :client_id AND token = :token;
""".replace("ROWS", str(ROWS_PER_CLIENT))
STATE = """
SELECT version FROM state WHERE id = :client_id \\gset
UPDATE state SET version = version + 1, step = :version WHERE id = :client_id AND version = :version;
"""
RATE = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
FAILED = re.compile(r"^number of failed transactions: (\d+)", re.MULTILINE)


def furnish(server: Server) -> None:
    command = ["psql", "-q", "-h", "127.0.0.1", "-p", str(server.port), "-U", "bench", "-d", "postgres"]
    # One by one: VACUUM does not run together with others.
    for statement in filter(str.strip, SCHEMA.split(";")):
        subprocess.run([*command, "-c", statement], check=True, stdout=subprocess.DEVNULL)


def measured(server: Server, script: str, *, clients: int, seconds: float) -> Callable[[], Figures]:
    return lambda: run(server, script, clients=clients, seconds=seconds)


def run(server: Server, script: str, *, clients: int, seconds: float) -> Figures:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "script.sql"
        file.write_text(script, encoding="utf-8")
        command = [program("pgbench"), "-n", "-M", "prepared", "-f", str(file), "-T", str(max(1, round(seconds)))]
        command += ["-c", str(clients), "-j", "1", "-l", "--log-prefix", f"{folder}/log"]
        command += ["-h", "127.0.0.1", "-p", str(server.port), "-U", "bench", "postgres"]
        before_s = children_s()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise load.LoadFailed(done.stderr.strip().splitlines()[-1])
        times_ms = logged_ms(Path(folder))
        return figures(done.stdout, times_ms) | {"client_cpu": (children_s() - before_s) / max(1, round(seconds))}


def children_s() -> float:
    import resource  # noqa: PLC0415  # there is none on some platforms

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def logged_ms(folder: Path) -> list[float]:
    """The third word of a line of pgbench's log is how long a transaction took, in microseconds."""
    found = []
    for log in folder.glob("log.*"):
        for line in log.read_text(encoding="utf-8").splitlines():
            with suppress(IndexError, ValueError):
                found.append(int(line.split()[2]) / 1_000)
    return found


def figures(said: str, times_ms: list[float]) -> Figures:
    rate, failed = RATE.search(said), FAILED.search(said)
    if rate is None or not times_ms:
        raise load.LoadFailed("pgbench completed nothing in that time")
    return {
        "per_s": float(rate[1]),
        "p50_ms": stats.percentile(times_ms, 0.5),
        "p99_ms": stats.percentile(times_ms, 0.99),
        "errors": float(failed[1]) if failed else 0.0,
    }
