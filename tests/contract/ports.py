"""Ports for servers that tests start."""

import random
import socket
from contextlib import ExitStack, suppress

# Not those that the system gives to connections: such a one may be taken between the look and the start of the server,
# or while that is down for a moment.
PORTS = range(15_000, 32_000)


def free_ports(number: int) -> list[int]:
    found: list[int] = []
    with ExitStack() as probes:
        for port in random.SystemRandom().sample(PORTS, 200):
            if len(found) == number:
                return found
            probe = probes.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
    raise RuntimeError("no port is free")


def free_port() -> int:
    return free_ports(1)[0]
