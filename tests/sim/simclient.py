"""A client process: the real flows, holds and keeper arithmetic, in a world that kills, freezes and cuts it off.

It takes a scope, writes to a store that checks tokens, and gives the scope back; and so on until the end. What it does
and what it believes is written into the history.
"""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from history import Belief, History
from simloop import Scheduler, SimLoop
from simnet import Network, SimTransport
from simstore import FencedStore

from openintent.client import calls, drivers, flows, keeping
from openintent.client.calls import Call, Wish
from openintent.client.hold import Hold, Watcher
from openintent.client.replies import Beat
from openintent.errors import OpenIntentError

SPACE = "space:s"
SCOPES = ("a", "a/b", "a/**", "c", "d", "*")
PATIENCE_S = 6.0


class SimClient:
    """One life of a client process. Its successor has the same name and no memory."""

    def __init__(
        self,
        name: str,
        life: int,
        *,
        scheduler: Scheduler,
        network: Network,
        store: FencedStore,
        history: History,
        random: Random,
    ) -> None:
        self.name = name
        self.life = life
        self._scheduler = scheduler
        self._store = store
        self._history = history
        self._random = random
        rate = 1 + random.uniform(-0.001, 0.001)
        self.loop = SimLoop(scheduler, origin=random.uniform(0, 1e6), rate=rate)
        self._transport = SimTransport(network, self.loop, name, name, self._heard)
        self._attempts = 0
        self.busy = False
        self.quiet = False  # it finishes what it does, and begins nothing new
        self.believed: Belief | None = None
        self.loop.post(lambda: self.loop.create_task(self._live()))

    def kill(self) -> None:
        self.loop.kill()
        if self.believed is not None:
            self.believed.end(self._scheduler.now)

    # What it does

    async def _live(self) -> None:
        await asyncio.sleep(self._random.random() * 0.5)
        while not self.quiet:
            self.busy = True
            with suppress(OpenIntentError):
                await self._one_job()
            self.busy = False
            await asyncio.sleep(self._random.choice((0.001, 0.05, 0.3, 1.5)))

    async def _one_job(self) -> None:
        self._attempts += 1
        attempt = f"{self.name}.{self.life}-{self._attempts}"
        wish = Wish(
            space=SPACE,
            scope=self._random.choice(SCOPES),
            ttl_s=self._random.choice((0.5, 1.0, 2.0, 3.0)),
            wait_s=self._random.choice((0.0, 0.0, 1.0, 4.0, 12.0)),
            cooldown_s=self._random.choice((None, None, None, 0.7)),
        )
        seen = await self._run(flows.acquire(wish, attempt=attempt, patience_s=PATIENCE_S))
        hold = Hold(seen, clock=self.loop.time)
        watcher = Watcher(lost=lambda: None, at_risk=lambda: None)
        if not hold.enter(watcher):
            return
        until = self._true(hold.trusted_until)
        self.believed = self._history.begin_belief(self.name, wish.scope, seen.view.token, until)
        try:
            await self._work(hold, wish.scope)
        finally:
            self._stop_believing()
            hold.leave(watcher)
        if self._random.random() < 0.9:  # else it forgets to give it back
            path = calls.lease_path(seen.view.id)
            await self._run(flows.patiently(calls.release(path), patience_s=PATIENCE_S))

    def _stop_believing(self) -> None:
        if self.believed is not None:
            self.believed.end(self._scheduler.now)
            self.believed = None

    async def _work(self, hold: Hold, scope: str) -> None:
        """Write now and then, while a keeper renews; each write looks first, and carries the token."""
        keeper = asyncio.get_running_loop().create_task(self._keep(hold))
        until = self.loop.time() + self._random.choice((0.01, 0.2, 1.0, 5.0))
        try:
            while self.loop.time() < until:
                if hold.over:
                    self._history.count("lost")
                    return
                self._store.send(self.name, scope, hold.token, self._random.choice((0.0, 0.001, 0.5, 4.0)))
                await asyncio.sleep(self._random.choice((0.02, 0.1, 0.4)))
        finally:
            keeper.cancel()

    async def _keep(self, hold: Hold) -> None:
        """The keeper's decisions are the real ones; only its threads are tasks here."""
        renew_at, failures = hold.renew_at(chance=self._random.random()), 0
        while True:
            step = keeping.next_step(now=self.loop.time(), leases={hold.id: hold.watched()}, renew_at=renew_at)
            if isinstance(step, keeping.Stop):
                hold.lose("trust_ended")
                self._stop_believing()
                return
            if isinstance(step, keeping.Warn):
                hold.warn()
                self._history.count("at_risk")
            elif isinstance(step, keeping.Sleep):
                await asyncio.sleep(step.seconds)
            else:
                sent_at = self.loop.time()
                try:
                    await self._beat(hold)
                    failures, renew_at = 0, sent_at + keeping.period_s(hold.ttl_s, chance=self._random.random())
                except OpenIntentError:
                    failures += 1
                    renew_at = self.loop.time() + keeping.retry_s(hold.ttl_s, failures=failures)

    async def _beat(self, hold: Hold) -> None:
        body = {"leases": [{"id": hold.id, "token": hold.token}]}
        call = calls.heartbeat(self.name, body, timeout_s=keeping.try_s(hold.ttl_s))
        beat: Beat = await self._run(flows.send(call))
        for verdict in beat.heartbeat.leases:
            if verdict.verdict == "lost":
                hold.lose(verdict.reason or "lost")
                self._stop_believing()
            elif hold.confirm(beat.trust(verdict)) and self.believed is not None:
                self.believed.extend(self._true(hold.trusted_until))

    async def _run(self, flow: Any) -> Any:
        return await drivers.run_async(flow, self._transport)

    def _true(self, instant: float) -> float:
        return self.loop._true(instant)

    def _heard(self, call: Call[Any], status: int, body: bytes, headers: dict[str, str], sent_at: float) -> None:
        self._history.reply(self.name, call, status, body, headers, self._true(sent_at), self._scheduler.now)
