"""etcd, a single member, spoken to through its JSON gateway."""

from peers.base import Peer, Server, answers_at, free_port, needs, said_by

QUOTA = 8 * 2**30  # bytes; the default of 2 GB does not hold a million leases


def command(server: Server) -> list[str]:
    client, peer = f"http://127.0.0.1:{server.port}", f"http://127.0.0.1:{free_port()}"
    found = ["etcd", "--data-dir", f"{server.folder}/etcd", "--log-level", "error", "--quota-backend-bytes", str(QUOTA)]
    found += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
    return [*found, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]


PEER = Peer(
    key="etcd",
    title="etcd, JSON gateway",
    settings="one member; `quota-backend-bytes` 8 GB",
    command=command,
    ready=answers_at("/health"),
    missing=needs("etcd", "etcd-server"),
    version=said_by("etcd", "--version", word=2),
    target="etcd",
    package="etcd-server",
)
