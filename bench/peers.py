"""The servers that are measured, each started on loopback with its data in a folder that goes when it ends.

Every one writes to disk before it answers. One that is not installed is left out, and said so.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

START_S_MAX = 30.0


class Peer(NamedTuple):
    name: str
    target: str  # what leaseload calls its protocol
    command: list[str]
    ready: str  # a URL that answers once it serves; "" where a connection is enough


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ours(port: int, folder: Path) -> Peer:
    command = [sys.executable, "-m", "openintent.cli", "serve", "--port", str(port), "--log-level", "warning"]
    engine = ["--engine", f"sqlite:///{folder}/ours.db"]
    return Peer("openintent-leases", "openintent", [*command, *engine], f"http://127.0.0.1:{port}/readyz")


def etcd(port: int, folder: Path) -> Peer | None:
    if shutil.which("etcd") is None:
        return None
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
    command = ["etcd", "--data-dir", f"{folder}/etcd", "--log-level", "error"]
    command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
    command += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    return Peer("etcd (JSON gateway)", "etcd", command, f"{client}/health")


def redis(port: int, folder: Path) -> Peer | None:
    if shutil.which("redis-server") is None:
        return None
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    return Peer("Redis (appendfsync always)", "redis", [*command, "--appendonly", "yes", "--appendfsync", "always"], "")


def public_openintent(port: int, folder: Path) -> Peer | None:
    """The public package of the same import name, from a virtual environment of its own."""
    home = os.environ.get("OPENINTENT_PUBLIC_VENV")
    if not home:
        return None
    command = [f"{home}/bin/openintent-server", "--host", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    command += ["--database-url", f"sqlite:///{folder}/public.db"]
    return Peer("public OpenIntent server", "openintent", command, f"http://127.0.0.1:{port}/docs")


ALL = {"ours": ours, "etcd": etcd, "redis": redis, "public": public_openintent}


@contextmanager
def running(name: str) -> Iterator[tuple[Peer, int] | None]:
    """A fresh server of this kind, or None where it is not installed."""
    port = free_port()
    with TemporaryDirectory() as folder:
        peer = ALL[name](port, Path(folder))
        if peer is None:
            yield None
            return
        process = subprocess.Popen(peer.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _await_ready(peer, port)
            yield peer, port
        finally:
            process.terminate()
            process.wait(10)


def _await_ready(peer: Peer, port: int) -> None:
    give_up_at = time.monotonic() + START_S_MAX
    while time.monotonic() < give_up_at:
        try:
            if not peer.ready:
                socket.create_connection(("127.0.0.1", port), 1).close()
            else:
                urllib.request.urlopen(peer.ready, timeout=1).close()  # noqa: S310  # our own loopback address
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"{peer.name} did not start within {START_S_MAX:.0f} s")
