"""Our own server, as `openintent serve` starts it: with SQLite, if no other engine is named."""

import sys
from importlib.metadata import version

from peers.base import Peer, Server, answers_at

SETTINGS = ("leader_ttl_seconds",)  # the others are limits


def command(server: Server) -> list[str]:
    """`extra` is what a workload needs other than it is by default: settings, and limits."""
    found = [sys.executable, "-m", "openintent.cli", "serve", "--port", str(server.port), "--log-level", "warning"]
    found += ["--engine", engine(server)]
    config = server.folder / "config.toml"
    config.write_text(_config(server.extra), encoding="utf-8")
    return [*found, "--config", str(config)]


def _config(extra: dict[str, str]) -> str:
    lines = {name: f"{name} = {value}" for name, value in extra.items() if name != "engine"}
    settings = [lines.pop(name) for name in SETTINGS if name in lines]
    return "\n".join([*settings, "[limits]", *lines.values(), ""])


def engine(server: Server) -> str:
    return server.extra.get("engine") or f"sqlite:///{server.folder}/ours.db"


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
