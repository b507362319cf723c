"""The servers that are measured: how each is installed, started and set up. All write to disk before they answer."""

from collections.abc import Iterable

import install

from peers import etcd, ours, postgres, public, redis, zookeeper
from peers.base import Peer, Server, running

__all__ = ["ALL", "Peer", "Server", "offered", "running"]

_LISTED = (ours.PEER, redis.PEER, postgres.PEER, etcd.PEER, zookeeper.PEER, public.PEER)
ALL = {peer.key: peer for peer in _LISTED}


def offered(wanted: Iterable[str]) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that can be started here, installed if need be; and why the others cannot."""
    chosen = {key: peer for key, peer in ALL.items() if key in wanted}
    install.packages(peer.package for peer in chosen.values() if peer.package and peer.missing() is not None)
    reasons = {key: reason for key, peer in chosen.items() if (reason := peer.missing()) is not None}
    return {key: peer for key, peer in chosen.items() if key not in reasons}, reasons
