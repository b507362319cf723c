"""An agent of the fleet, as a program: `fleet_agent.py URL STORE_PORT NAME LOG plain|awaited TTL_MS`.

It works in steps: each goes to the store and is written down, with the token of the lease that it is done under. It
says `ready` before it begins, and ends when it is told to, or when whoever started it is gone.
"""

import asyncio
import json
import logging
import os
import random
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos_log import Line, Log, Recorder, now_ns, outcome
from chaos_worker import IN_FLIGHT_TTLS_MAX, SLOW_SHARE, until_ns

from openintent.agents import Agent, AgentBase, Retry, Work, on_assignment
from openintent.client.http.messages import Answer, Asked
from openintent.client.values import Intent

NAME = "fetcher"
ROLE = "fetching"
SCOPE = f"assignment:{ROLE}"
STEPS_PER_TTL = 16
NOTE_EVERY = 4  # steps, in what continues from its notes
RETRY = Retry(max_attempts=200, backoff="constant", base_delay_seconds=0.1)
RESULT = "done"  # the key of the state that a handler sets

STATE = re.compile(r"/intents/(?P<intent>[^/]+)/state$")


class ResultRecorder(Recorder):
    """Writes down every patch of a state: what was asked, and how it was answered."""

    def _asks(self, asked: Asked) -> Callable[[Answer], None]:
        return super()._asks(asked) if STATE.search(asked.target) else lambda _: None

    def _question(self, request: Asked) -> Line:
        found = STATE.search(request.target)
        assert found is not None
        body = json.loads(request.body or b"{}")
        is_result = any(patch["path"] == RESULT for patch in body["patches"])
        return {"op": "result" if is_result else "record", "res": found["intent"], "tok_in": body.get("token")}

    def _answer(self, asked: Any, response: Answer) -> Line:
        return {"http": response.status, "out": outcome(response.status, json.loads(response.body))}


class Notebook:
    """Where a handler's deeds go: the log of its process, and the store."""

    def __init__(self, name: str, log: Path, store_port: int, *, ttl_s: float) -> None:
        self.step_s = ttl_s / STEPS_PER_TTL
        self._in_flight_s_max = ttl_s * IN_FLIGHT_TTLS_MAX
        self._log = Log(log, name)
        self._chance = random.Random(name)
        self._store = socket.create_connection(("127.0.0.1", store_port))
        ResultRecorder(self._log).install()

    @contextmanager
    def handling(self, work: Work, kind: str) -> Iterator[range]:
        """The steps that are left; how it came out is written down, too. A stubborn one has a result all the same."""
        since = work.checkpoint or 0
        self.say("begin", work, n=since, kind=kind)
        try:
            if "deadly" in work.intent.state:
                os.kill(os.getpid(), signal.SIGKILL)
            yield range(since, work.intent.state["steps"])
        except BaseException as ended:
            self.say("stopped", work, by=type(ended).__name__, kind=kind)
            if "stubborn" not in work.intent.state:
                raise
            self.say("insists", work)
        else:
            self.say("end", work)

    def step(self, work: Work, number: int, at: int) -> None:
        slow = self._chance.random() < SLOW_SHARE
        in_flight_s = self._chance.uniform(0, self._in_flight_s_max) if slow else 0.0
        write = {"p": self._log.name, "res": work.intent.id, "tok": work.lease.token, "in_flight_s": in_flight_s}
        self._store.sendall(json.dumps(write).encode() + b"\n")
        self.say("step", work, at=at, n=number)

    def say(self, act: str, work: Work, *, at: int | None = None, **more: Any) -> None:
        about = {"res": work.intent.id, "tok": work.lease.token, "attempt": work.attempt, "until": until_ns(work.lease)}
        now = now_ns()
        self._log.say(act=act, **about, at=at or now, done=now, **more)


def result_of(work: Work) -> dict[str, Any]:
    return {RESULT: {"attempt": work.attempt, "token": work.lease.token}}


def to_be_noted(intent: Intent, step: int) -> bool:
    return "notes" in intent.state and step % NOTE_EVERY == 0


class Member(AgentBase):
    def __init__(self, url: str, notebook: Notebook) -> None:
        super().__init__(url)
        self.notebook = notebook


class Awaited(Member):
    @on_assignment
    async def fetch(self, intent: Intent) -> dict[str, Any]:
        """It looks at nothing: it is stopped when the lease is lost."""
        work = self.work
        with self.notebook.handling(work, "awaited") as steps:
            for number in steps:
                await asyncio.sleep(self.notebook.step_s)
                self.notebook.step(work, number, now_ns())
                if to_be_noted(intent, number):
                    await self.checkpoint(number)
                    self.notebook.say("saved", work, n=number)
        return result_of(work)


class Plain(Member):
    @on_assignment
    def fetch(self, intent: Intent) -> dict[str, Any]:
        """Nobody can stop it, so it looks before each step. Whoever passes later would have passed at `at`."""
        work = self.work
        with self.notebook.handling(work, "plain") as steps:
            for number in steps:
                threading.Event().wait(self.notebook.step_s)
                at = now_ns()
                self.work.check()
                self.notebook.step(work, number, at)
                if to_be_noted(intent, number):
                    self.notebook.say("asks", work)
                    self.checkpoint(number)
                    self.notebook.say("saved", work, n=number)
        return result_of(work)


def end_with_the_harness() -> None:
    for _ in sys.stdin:
        pass
    os._exit(1)


def main(url: str, store_port: str, name: str, log: str, kind: str, ttl_ms: str) -> None:
    # Much fails here all the time. What matters of that is in the log.
    logging.basicConfig(level=logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # until it runs: then it leaves in good order
    threading.Thread(target=end_with_the_harness, daemon=True).start()
    ttl_s = int(ttl_ms) / 1_000
    made_agent = Agent(
        NAME, role=ROLE, instance=name, lease_ttl=ttl_s, complete=True, retry=RETRY, poll_seconds=5, heartbeat_seconds=2
    )
    notebook = Notebook(name, Path(log), int(store_port), ttl_s=ttl_s)
    print("ready", flush=True)  # noqa: T201  # this is what the harness waits for
    made_agent(Plain if kind == "plain" else Awaited)(url, notebook).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
