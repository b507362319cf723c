"""The load: `leaseload`, kept connected so that servers are measured in turns, and programs that speak by libraries."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import install
from peers import Server
from results import Figures

HERE = Path(__file__).parent
LEASELOAD = HERE / "build" / "leaseload"
CLIENTS = HERE / "clients"
CLIENT_S_MAX = 300.0
LONG_TTL_S = 86_400  # for what must not lapse while others are measured


class LoadFailed(Exception):
    """The load could not be made; the message is the generator's."""


def build() -> None:
    LEASELOAD.parent.mkdir(exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", str(LEASELOAD), str(HERE / "leaseload.c"), "-lm"], check=True)


def command(server: Server, workload: str, **options: float | None) -> list[str]:
    found = [str(LEASELOAD), server.peer.target, workload, "--port", str(server.port)]
    for name, value in options.items():
        found += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)] if value is not None else []
    return found


class Loader:
    """A generator that is set up and waits to be told to measure."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.setup: dict[str, Any] = self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        if not text:
            assert self._process.stderr is not None
            raise LoadFailed(self._process.stderr.read().strip())
        found: dict[str, Any] = json.loads(text)
        return found

    def window(self) -> Figures:
        """Measure once."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return figures(self._line())


def figures(found: dict[str, Any]) -> Figures:
    latencies = {name: found[f"{name}_us"] / 1_000 for name in ("p50", "p99", "p999", "max")}
    return {
        "per_s": found["cycles_per_s"],
        "requests_per_s": found["requests_per_s"],
        **{f"{name}_ms": value for name, value in latencies.items()},
        **{name: float(found[name]) for name in ("errors", "overloaded", "retry_after", "client_cpu")},
    }


@contextmanager
def loader(server: Server, workload: str, **options: float | None) -> Iterator[Loader]:
    words = [*command(server, workload, **options), "--windows"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Loader(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def once(server: Server, workload: str, **options: float | None) -> dict[str, Any]:
    """A whole run by itself, such as one that only acquires and leaves what it holds."""
    done = subprocess.run(
        [*command(server, workload, **options), "--json"], capture_output=True, text=True, check=False
    )
    if not done.stdout:
        raise LoadFailed(done.stderr.strip())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def client_python(name: str) -> str:
    """Ours runs with our packages, the others with theirs."""
    return sys.executable if name in ("ours", "etcd", "readers") else str(install.clients())


def client(name: str, *arguments: str) -> Figures:
    """A program of bench/clients that measures and prints its figures."""
    words = [client_python(name), str(CLIENTS / f"{name}_client.py"), *arguments]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=CLIENT_S_MAX)
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"{name} did not end within {CLIENT_S_MAX:.0f} s") from None
    if done.returncode != 0:
        raise LoadFailed(done.stderr.strip()[-500:])
    found: Figures = json.loads(done.stdout)
    return found
