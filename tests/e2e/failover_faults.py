"""What goes wrong with the server that leads, and with the engine below all of them.

A fault is a block: it strikes when the block is entered, and is mended when it is left. It says when it struck, on the
clock of `monotonic`.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import monotonic
from typing import Protocol

from servercluster import Cluster
from serverprocess import ServerProcess

Fault = Callable[[Cluster], AbstractAsyncContextManager[float]]


# Of the one that leads. After each of these a later term begins.


def ended(how: Callable[[ServerProcess], None]) -> Fault:
    @asynccontextmanager
    async def fault(cluster: Cluster) -> AsyncIterator[float]:
        leader = await cluster.leader()
        struck_at = monotonic()
        await asyncio.to_thread(how, leader)
        yield struck_at
        await asyncio.to_thread(leader.start)

    return fault


def stop(server: ServerProcess) -> None:
    assert server.stop() == 0


@asynccontextmanager
async def cut_off(cluster: Cluster) -> AsyncIterator[float]:
    """From its engine, until another has taken over."""
    leader = await cluster.leader()
    struck_at = monotonic()
    cluster.cut_off(leader)
    yield struck_at
    await cluster.leader(besides=leader)
    cluster.heal(leader)


@asynccontextmanager
async def freeze(cluster: Cluster) -> AsyncIterator[float]:
    """Until another has taken over."""
    leader = await cluster.leader()
    struck_at = monotonic()
    leader.signal(signal.SIGSTOP)
    try:
        yield struck_at
        await cluster.leader(besides=leader)
    finally:
        leader.signal(signal.SIGCONT)


OF_LEADER: Mapping[str, Fault] = {
    "kill": ended(ServerProcess.kill),
    "hand_over": ended(stop),
    "cut": cut_off,
    "freeze": freeze,
}


# Of an engine that is one server: it is back when the block begins


class Restartable(Protocol):
    def start(self) -> None: ...

    def stop(self, how: int) -> None: ...


def restarted(server: Restartable, how: signal.Signals) -> Fault:
    @asynccontextmanager
    async def fault(_cluster: Cluster) -> AsyncIterator[float]:
        struck_at = monotonic()
        await asyncio.to_thread(server.stop, how)
        await asyncio.to_thread(server.start)
        yield struck_at

    return fault


@asynccontextmanager
async def connections_cut(cluster: Cluster) -> AsyncIterator[float]:
    struck_at = monotonic()
    cluster.reset_links()
    yield struck_at
