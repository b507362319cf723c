"""A holder that is stopped between its check and its write, while another takes over."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from time import monotonic

from peer import NOT_OFFERED, Locks, Peer, python_path
from peerchecks import LATE_S, PAUSE_TTL_S, B, Counted, Progress, eventually, until

PROGRAM = Path(__file__).with_name("pausedholder.py")
PER_PROCESS = 10  # all of them granted well before the first one ends
END_S_MAX = 20.0


class Store:
    """What the leases protect. It refuses what a token shows to be stale; without tokens it has nothing to go by."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def write(self, resource: str, token: int | None) -> bool:
        if token is None:
            return True
        if token < self._newest.get(resource, 0):
            return False
        self._newest[resource] = token
        return True


async def pauses(peer: Peer, *, rounds: int, progress: Progress) -> Counted:
    """Each round is one lease whose holder is stopped for longer than its ttl, and then writes."""
    store = Store()
    late = stale = 0
    async with aclosing(peer.locks()) as locks:
        for first in range(0, rounds, PER_PROCESS):
            count = min(PER_PROCESS, rounds - first)
            writes = await _written_late(peer, locks, store, name=f"pause-{first}", count=count)
            late += len(writes)
            stale += sum(store.write(resource, token) for resource, token in writes)
            progress(first + count, rounds)
    tokens = "offered" if peer.fences else NOT_OFFERED
    return {"pauses": rounds, "late_writes": late, "stale_writes_accepted": stale, "fencing_tokens": tokens}


def _holder(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **python_path()})


async def _written_late(
    peer: Peer, locks: Locks, store: Store, *, name: str, count: int
) -> list[tuple[str, int | None]]:
    with _holder(name, str(count), *peer.spelled()) as paused:
        try:
            _, status = await asyncio.to_thread(os.waitpid, paused.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), f"the holder ended with {status}"
            await until(monotonic() + PAUSE_TTL_S + LATE_S)
            for n in range(count):
                successor = await eventually(locks, f"{name}-{n}", B)
                assert store.write(successor.resource, successor.token)
            paused.send_signal(signal.SIGCONT)
            said, _ = paused.communicate(timeout=END_S_MAX)
        finally:
            paused.kill()
    return [(resource, token) for resource, token in map(json.loads, said.splitlines())]
