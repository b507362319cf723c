"""A program that holds leases, checks that it may write, and is stopped right then; what it prints are its writes.

Run as: pausedholder.py NAME COUNT http PORT PATH | redis PORT
"""

import asyncio
import json
import os
import signal
import sys
from time import monotonic

from peer import HOLDERS, Grant, Locks
from peerchecks import PAUSE_TTL_S, eventually


def client(spelled: list[str]) -> Locks:
    if spelled[0] == "http":
        from peerhttp import HttpLocks

        return HttpLocks(int(spelled[1]), spelled[2])
    from peerredis import RedisLocks

    return RedisLocks(int(spelled[1]))


def may_write(grant: Grant) -> bool:
    return monotonic() < grant.sent_at + PAUSE_TTL_S


async def main(name: str, count: int, spelled: list[str]) -> None:
    locks = client(spelled)
    grants = await asyncio.gather(*(eventually(locks, f"{name}-{n}", HOLDERS[0], PAUSE_TTL_S) for n in range(count)))
    sure = [grant for grant in grants if may_write(grant)]
    os.kill(os.getpid(), signal.SIGSTOP)  # between the check and the act: where no check of its own can help
    for grant in sure:
        sys.stdout.write(json.dumps([grant.resource, grant.token]) + "\n")
    await locks.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
