"""Our SDK: cycles in one process, and a holder and a waiter for the takeover."""

import asyncio
import time
import uuid

from pace import Window, arguments, repeat, tell

from openintent import AsyncOpenIntentClient, OpenIntentClient

SPACE = "bench"
TTL_S = 30


def cycles(url: str, seconds: float) -> Window:
    with OpenIntentClient(url, agent_id="sync") as client:

        def act() -> None:
            client.release_lease(client.acquire_lease(space=SPACE, scope="sync", ttl_seconds=TTL_S))

        act()
        window = Window(seconds)
        repeat(window, act)
    return window


async def cycles_async(url: str, seconds: float, tasks: int) -> Window:
    async with AsyncOpenIntentClient(url, agent_id="async") as client:

        async def act(scope: str) -> None:
            await client.release_lease(await client.acquire_lease(space=SPACE, scope=scope, ttl_seconds=TTL_S))

        async def go(number: int) -> None:
            while not window.over:
                began_s = time.perf_counter()
                await act(f"async-{number}")
                window.add(began_s)

        await act("async-0")
        window = Window(seconds)
        await asyncio.gather(*map(go, range(tasks)))
    return window


def hold(url: str, scope: str, ttl_s: float) -> None:
    with (
        OpenIntentClient(url, agent_id=f"holder-{uuid.uuid4()}") as client,
        client.lease(space=SPACE, scope=scope, ttl=ttl_s),
    ):
        tell(time.monotonic())
        time.sleep(3_600)


def wait(url: str, scope: str, ttl_s: float) -> None:
    with OpenIntentClient(url, agent_id=f"waiter-{uuid.uuid4()}") as client:
        tell(time.monotonic())
        client.acquire_lease(space=SPACE, scope=scope, ttl_seconds=ttl_s, wait_seconds=60)
        tell(time.monotonic())


def main() -> None:
    told = arguments(__doc__, "sync", "async", "hold", "wait")
    url = f"http://127.0.0.1:{told.port}"
    if told.part == "sync":
        tell(cycles(url, told.seconds).figures())
    elif told.part == "async":
        tell(asyncio.run(cycles_async(url, told.seconds, told.tasks)).figures())
    else:
        (hold if told.part == "hold" else wait)(url, told.scope, told.ttl)


if __name__ == "__main__":
    main()
