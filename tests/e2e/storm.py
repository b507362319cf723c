"""A storm of acquires, as a program: `storm.py PORT CONNECTIONS SECONDS`. It prints how many were answered with what.

Each connection sends as many requests at once as the server takes, and the next ones as soon as it has the answers: far
more than can be served. Answers are counted, not read, because the storm must cost less than what it does.
"""

import asyncio
import json
import re
import resource
import sys
from collections import Counter
from contextlib import suppress
from time import monotonic

import uvloop

AT_ONCE = 16
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def wave(rider: int, number: int) -> bytes:
    """Acquires of scopes that nobody holds, and that lapse soon."""
    requests = b""
    for scope in range(number, number + AT_ONCE):
        body = b'{"scope": "%d/%d", "ttl_seconds": 1}' % (rider, scope)
        requests += (
            b"POST /api/v1/spaces/storm/leases HTTP/1.1\r\nHost: localhost\r\nX-Agent-ID: rider-%d\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (rider, len(body), body)
        )
    return requests


async def ride(port: int, rider: int, until: float, seen: Counter[str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    with suppress(OSError):
        while monotonic() < until:
            writer.write(wave(rider, number))
            number += AT_ONCE
            answers: list[bytes] = []
            rest = b""
            while len(answers) < AT_ONCE:
                chunk = await reader.read(1 << 20)
                if not chunk:
                    seen["closed"] += 1
                    return
                found = STATUS.findall(rest + chunk)
                rest = (rest + chunk)[-12:] if not STATUS.search((rest + chunk)[-12:]) else b""
                answers += found
            seen.update(status.decode() for status in answers)
    writer.close()


async def main(port: int, connections: int, seconds: float) -> None:
    seen: Counter[str] = Counter()
    until = monotonic() + seconds
    await asyncio.gather(*(ride(port, rider, until, seen) for rider in range(connections)))
    print(json.dumps(seen))  # noqa: T201  # this is what it is for


if __name__ == "__main__":
    limit, limit_max = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit_max, limit_max))
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
