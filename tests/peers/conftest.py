"""Which peers are asked: at the quick size ours alone, at the size of the proof all of them."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from peer import Locks, Peer
from peerhttp import Ours, Public
from peerinstall import debian_program, public_server
from peerredis import SYNCED, RedisPeer

MAKERS: dict[str, Callable[[Path], Peer]] = {
    "ours": Ours,
    "public": lambda folder: Public(folder, program=public_server()),
    "redis": lambda folder: RedisPeer(folder, program=debian_program("redis-server", "redis-server")),
    "redis-synced": lambda folder: RedisPeer(
        folder, program=debian_program("redis-server", "redis-server"), options=SYNCED
    ),
}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}  # the load must not be slower than what it loads


@pytest.fixture(params=MAKERS if "PROOF_PEER_ROUNDS" in os.environ else ["ours"])
def idle_peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    peer = MAKERS[request.param](tmp_path)
    yield peer
    peer.kill()


@pytest.fixture
async def peer(idle_peer: Peer) -> Peer:
    assert await idle_peer.start()
    return idle_peer


@pytest.fixture
async def locks(peer: Peer) -> AsyncIterator[Locks]:
    locks = peer.locks()
    yield locks
    await locks.aclose()
