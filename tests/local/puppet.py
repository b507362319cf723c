"""Does with a file what it is told, line by line, and says what came of it. When its input ends, so does it."""

import os
import sys

from programs import say

import openintent


class Puppet:
    def __init__(self, database: str, name: str) -> None:
        self.client = openintent.local(database, name)
        self.client.list_intents()
        say("ready")

    def acquire(self, scope: str, ttl: str) -> None:
        lease = self.client.acquire_lease(space="s", scope=scope, ttl_seconds=float(ttl))
        say("acquired", token=lease.token, agent=lease.agent_id)

    def close(self) -> None:
        self.client.close()
        say("closed")

    def fork(self) -> None:
        """A child that does nothing but be there, with copies of all that is open here."""
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            os.read(self._never(), 1)
        say("forked", pid=pid)

    def fork_and_acquire(self, scope: str) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                self.acquire(scope, "30")
                self.client.close()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        say("child ended")

    def _never(self) -> int:
        """A pipe on which nothing comes: both ends are ours."""
        reader, self._writer = os.pipe()
        return reader


def main(database: str, name: str) -> None:
    puppet = Puppet(database, name)
    for line in sys.stdin:
        word, *rest = line.split()
        getattr(puppet, word)(*rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
