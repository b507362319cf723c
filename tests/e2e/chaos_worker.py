"""A user's program under chaos: it takes leases, works under them, writes to the store, and writes down what it does.

`chaos_worker.py URLS STORE_PORT NAME LOG plain|awaited`. It works between the words `go` and `rest` on its input, and
says `resting` when it has ended what it did; at the end of its input it ends.
"""

import asyncio
import json
import logging
import random
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from chaos_log import Log, Recorder, now_ns

from openintent import AsyncOpenIntentClient, Lease, OpenIntentClient
from openintent.client.lease import hold_of
from openintent.exceptions import LeaseConflictError, LeaseLost, OpenIntentError

SPACE = "chaos"
SCOPES = ("red", "green", "blue")
TTLS_S = (0.5, 0.7, 1.0)
WAITS_S = (0.0, 0.5, 1.2)
STEP_S = 0.02  # from one act to the next
HEEDLESS_SHARE = 0.08  # of the turns: they act seldom, and look at nothing in between
PATIENCE_S = 2.0
SLOW_SHARE = 0.1  # of the writes; the others are on their way for no time at all
IN_FLIGHT_TTLS_MAX = 3.0
CRUMB_S = 0.02  # nobody begins the next thing before the last one has left the processor


class Turn:
    """One block: what to ask for, and how long to work under it."""

    def __init__(self, chance: random.Random) -> None:
        self.scope = chance.choice(SCOPES)
        self.ttl_s = chance.choice(TTLS_S)
        self.wait_s = chance.choice(WAITS_S)
        self.heedless = chance.random() < HEEDLESS_SHARE
        self.step_s = chance.uniform(0.4, 1.2) * self.ttl_s if self.heedless else STEP_S
        self.steps = 2 if self.heedless else round(chance.uniform(0.05, 1.5) * self.ttl_s / STEP_S)

    def wish(self) -> dict[str, Any]:
        return {"space": SPACE, "scope": self.scope, "ttl": self.ttl_s, "wait_seconds": self.wait_s}


class Worker:
    def __init__(self, name: str, log: Path, store_port: int) -> None:
        self._log = Log(log, name)
        self._chance = random.Random(name)
        self._store = socket.create_connection(("127.0.0.1", store_port))
        self._acts = count()
        self.may_work = threading.Event()
        self._starts: SimpleQueue[bool] = SimpleQueue()  # one for each `go`: none may be missed
        Recorder(self._log).install()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for word in sys.stdin:
            if word == "go\n":
                self.may_work.set()
                self._starts.put(True)
            else:
                self.may_work.clear()
        self._starts.put(False)

    def next_turn(self) -> Turn | None:
        """None when the work is over. Between rounds it says that it rests, and waits."""
        if not self.may_work.is_set():
            print("resting", flush=True)  # noqa: T201  # this is what the harness waits for
            if not self._starts.get():
                return None
        return Turn(self._chance)

    @contextmanager
    def believing(self, lease: Lease, turn: Turn) -> Iterator[None]:
        """Belief begins with the first thing that the body can do and ends with the last, or with trust."""
        self._belief("start", lease, turn)
        try:
            yield
        finally:
            self._belief("end", lease, turn)

    def _belief(self, what: str, lease: Lease, turn: Turn) -> None:
        at = now_ns()
        self._log.say(belief=what, res=turn.scope, tok=lease.token, at=at, until=until_ns(lease))

    def act(self, lease: Lease, turn: Turn) -> None:
        """One thing that the lease protects.

        Who passes the check at a later moment would have passed it at this one: so this is when it may act. When it
        has acted may be any time later, if it is paused in between; that is what the store is for.
        """
        at = now_ns()
        lease.check()
        self._write(turn, lease.token)
        self._log.say(
            act=next(self._acts), res=turn.scope, tok=lease.token, at=at, done=now_ns(), until=until_ns(lease)
        )

    def _write(self, turn: Turn, token: int) -> None:
        slow = self._chance.random() < SLOW_SHARE
        in_flight_s = self._chance.uniform(0, IN_FLIGHT_TTLS_MAX) * turn.ttl_s if slow else 0.0
        write = {"p": self._log.name, "res": turn.scope, "tok": token, "in_flight_s": in_flight_s}
        self._store.sendall(json.dumps(write).encode() + b"\n")

    def ended(self, how: str) -> None:
        self._log.say(turn=how, at=now_ns())


def until_ns(lease: Lease) -> int:
    return round(hold_of(lease).trusted_until * 1e9)


def how(failure: OpenIntentError) -> str:
    if isinstance(failure, LeaseLost):
        return f"LeaseLost {failure.reason}"
    return "refused" if isinstance(failure, LeaseConflictError) else type(failure).__name__


def work(worker: Worker, url: str, name: str) -> None:
    with OpenIntentClient(url.split(","), agent_id=name, timeout=PATIENCE_S) as client:
        while (turn := worker.next_turn()) is not None:
            try:
                with client.lease(**turn.wish()) as lease, worker.believing(lease, turn):
                    for _ in range(turn.steps):
                        worker.act(lease, turn)
                        if turn.heedless:
                            threading.Event().wait(turn.step_s)
                        elif lease.lost.wait(turn.step_s):
                            break
                        if not worker.may_work.is_set():
                            break
                worker.ended("done")
            except OpenIntentError as failure:
                worker.ended(how(failure))
                threading.Event().wait(CRUMB_S)


async def work_awaited(worker: Worker, url: str, name: str) -> None:
    async with AsyncOpenIntentClient(url.split(","), agent_id=name, timeout=PATIENCE_S) as client:
        while (turn := await asyncio.to_thread(worker.next_turn)) is not None:
            try:
                async with client.lease(**turn.wish()) as lease:
                    with worker.believing(lease, turn):
                        for _ in range(turn.steps):
                            worker.act(lease, turn)
                            if turn.heedless:
                                threading.Event().wait(turn.step_s)  # nothing else runs on this loop meanwhile
                            await asyncio.sleep(STEP_S)
                            if not worker.may_work.is_set():
                                break
                worker.ended("done")
            except OpenIntentError as failure:
                worker.ended(how(failure))
                await asyncio.sleep(CRUMB_S)


def main(url: str, store_port: str, name: str, log: str, kind: str) -> None:
    # Heartbeats fail here all the time. What matters of that is in the log.
    logging.getLogger("openintent").addHandler(logging.NullHandler())
    worker = Worker(name, Path(log), int(store_port))
    if kind == "plain":
        work(worker, url, name)
    else:
        asyncio.run(work_awaited(worker, url, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
