"""kazoo's `Lock`: cycles and hand-overs with a thread for each connection, and the two parts of a takeover."""

import threading
import time
from collections.abc import Callable

from kazoo.client import KazooClient
from pace import Window, arguments, tell

SESSIONS_MAX = 32  # beyond that, threads share them: each session takes three threads of its own


def sessions(port: int, count: int, timeout_s: float = 30.0) -> list[KazooClient]:
    found = [KazooClient(hosts=f"127.0.0.1:{port}", timeout=timeout_s) for _ in range(min(count, SESSIONS_MAX))]
    for each in found:
        each.start(timeout=30)
    return found


def in_threads(count: int, act: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=act, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def cycles(port: int, conns: int, seconds: float, warmup_s: float) -> Window:
    clients = sessions(port, conns)
    locks = [clients[number % len(clients)].Lock(f"/cycle/{number}") for number in range(conns)]

    def once(number: int) -> None:
        locks[number].acquire()
        locks[number].release()

    def go(number: int) -> None:
        while not window.over:
            began_s = time.perf_counter()
            once(number)
            window.add(began_s)

    in_threads(conns, once)  # which also makes the nodes
    window = Window(seconds, warmup_s)
    in_threads(conns, go)
    return window


def handovers(port: int, conns: int, seconds: float, warmup_s: float) -> Window:
    """From when a release begins until the next has it; only who has the lock touches `freed_s`."""
    clients = sessions(port, conns)
    path = f"/contend/{time.monotonic_ns()}"
    clients[0].ensure_path(path)
    freed_s = [0.0]
    window = Window(seconds, warmup_s)

    def go(number: int) -> None:
        lock = clients[number % len(clients)].Lock(path, str(number))
        while not window.over:
            lock.acquire()
            if freed_s[0]:
                window.add(freed_s[0])
            freed_s[0] = time.perf_counter()
            lock.release()

    in_threads(conns, go)
    return window


def hold(port: int, scope: str, ttl_s: float) -> None:
    """The session keeps itself alive."""
    (client,) = sessions(port, 1, ttl_s)
    client.Lock(f"/takeover/{scope}").acquire()
    tell(time.monotonic())
    time.sleep(3_600)


def wait(port: int, scope: str, ttl_s: float) -> None:
    (client,) = sessions(port, 1, ttl_s)
    tell(time.monotonic())
    client.Lock(f"/takeover/{scope}").acquire()
    tell(time.monotonic())


def main() -> None:
    told = arguments(__doc__, "cycle", "contend", "hold", "wait")
    if told.part in ("cycle", "contend"):
        measure = cycles if told.part == "cycle" else handovers
        tell(measure(told.port, told.conns, told.seconds, told.warmup).figures())
    else:
        (hold if told.part == "hold" else wait)(told.port, told.scope, told.ttl)


if __name__ == "__main__":
    main()
