"""The public server of the same protocol, from a virtual environment of its own."""

import subprocess

import install

from peers.base import Peer, Server, answers_at, apart


def command(server: Server) -> list[str]:
    found = [f"{install.public()}/bin/openintent-server", "--host", "127.0.0.1", "--port", str(server.port)]
    return [*found, "--log-level", "error", "--database-url", f"sqlite:///{server.folder}/public.db"]


def version() -> str:
    code = "from importlib.metadata import version; print(version('openintent'))"
    words = [f"{install.public()}/bin/python", "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=apart()).stdout.strip()


PEER = Peer(
    key="public",
    title="public OpenIntent server",
    settings="as it is by default: SQLite",
    command=command,
    ready=answers_at("/docs"),
    missing=lambda: None if install.public() else f"pip cannot install {install.PUBLIC}",
    version=version,
    target="openintent",
)
