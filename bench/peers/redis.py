"""Redis that syncs every write before it answers."""

from peers.base import Peer, Server, answers_to, needs, said_by


def command(server: Server) -> list[str]:
    found = ["redis-server", "--port", str(server.port), "--bind", "127.0.0.1", "--dir", str(server.folder)]
    return [*found, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]


PEER = Peer(
    key="redis",
    title="Redis, appendfsync always",
    settings="`appendonly yes`, `appendfsync always`, no snapshots",
    command=command,
    ready=answers_to(b"PING\r\n", b"+PONG"),  # while it loads it says something else
    missing=needs("redis-server", "redis-server"),
    version=said_by("redis-server", "--version", word=2),
    target="redis",
    package="redis-server",
)
