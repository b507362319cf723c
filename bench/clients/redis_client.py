"""redis-py's `Lock`: cycles in one process, and a holder and a waiter for the takeover."""

import asyncio
import time

import redis
import redis.asyncio
from pace import Window, arguments, repeat, tell

TTL_S = 30


def cycles(port: int, seconds: float) -> Window:
    client = redis.Redis(port=port)
    lock = client.lock("sync", timeout=TTL_S)

    def act() -> None:
        assert lock.acquire(blocking=False)
        lock.release()

    act()
    window = Window(seconds)
    repeat(window, act)
    return window


async def cycles_async(port: int, seconds: float, tasks: int) -> Window:
    client = redis.asyncio.Redis(port=port)

    async def go(number: int) -> None:
        lock = client.lock(f"async-{number}", timeout=TTL_S)
        while not window.over:
            began_s = time.perf_counter()
            assert await lock.acquire(blocking=False)
            await lock.release()
            window.add(began_s)

    await client.ping()
    window = Window(seconds)
    await asyncio.gather(*map(go, range(tasks)))
    await client.aclose()
    return window


def hold(port: int, scope: str, ttl_s: float) -> None:
    """It has no keeper, so it is extended here as ours would be."""
    lock = redis.Redis(port=port).lock(scope, timeout=ttl_s)
    assert lock.acquire(blocking=False)
    tell(time.monotonic())
    while True:
        time.sleep(ttl_s / 3)
        lock.extend(ttl_s, replace_ttl=True)


def wait(port: int, scope: str, ttl_s: float) -> None:
    lock = redis.Redis(port=port).lock(scope, timeout=ttl_s)
    tell(time.monotonic())
    assert lock.acquire(blocking=True, blocking_timeout=60)
    tell(time.monotonic())


def main() -> None:
    told = arguments(__doc__, "sync", "async", "hold", "wait")
    if told.part == "sync":
        tell(cycles(told.port, told.seconds).figures())
    elif told.part == "async":
        tell(asyncio.run(cycles_async(told.port, told.seconds, told.tasks)).figures())
    else:
        (hold if told.part == "hold" else wait)(told.port, told.scope, told.ttl)


if __name__ == "__main__":
    main()
