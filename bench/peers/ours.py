"""Our own server, with SQLite, as `openintent serve` starts it."""

import sys
from importlib.metadata import version

from peers.base import Peer, Server, answers_at


def command(server: Server) -> list[str]:
    """`extra` are lines of the settings' file: limits that a workload needs larger than they are by default."""
    found = [sys.executable, "-m", "openintent.cli", "serve", "--port", str(server.port), "--log-level", "warning"]
    found += ["--engine", f"sqlite:///{server.folder}/ours.db"]
    if server.extra:
        config = server.folder / "config.toml"
        lines = [f"{name} = {value}" for name, value in server.extra.items()]
        config.write_text("\n".join(["[limits]", *lines, ""]), encoding="utf-8")
        found += ["--config", str(config)]
    return found


PEER = Peer(
    key="ours",
    title="openintent-leases",
    settings="as it is by default: SQLite, synchronous FULL",
    command=command,
    ready=answers_at("/readyz"),
    missing=lambda: None,
    version=lambda: version("openintent-leases"),
    target="openintent",
)
