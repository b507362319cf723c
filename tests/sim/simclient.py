"""A client process: the real flows, holds and keeper arithmetic, in a world that kills, freezes and cuts it off.

It does its jobs one after another. What it does and what it believes is written into the history.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

from history import Belief, Deed, History
from scenario import Chances, Job, one_of
from simloop import Scheduler, SimLoop
from simnet import Network, SimTransport
from simstore import FencedStore

from openintent.client import calls, drivers, flows, keeping
from openintent.client.calls import Call, Wish
from openintent.client.hold import Hold, Watcher
from openintent.client.replies import Beat, Seen
from openintent.errors import ConflictError, LeaseLost, OpenIntentError, OutcomeUnknown, Unavailable, WaitTimeout

INTENT = "i"
SPACE = f"intent:{INTENT}"
PATIENCE_S = 6.0
HASTE_S = 0.3
INSTANT_S = 1e-6  # nothing sleeps for less than the clock can show
AWAY_S = 0.3  # while there is no server, it does not rush through its jobs
LOOK_S = 0.15
LOOK_TIMEOUT_S = 1.0


class SimClient:
    """One life of a client process. Its successor has the same name, the jobs that are left, and no memory."""

    def __init__(
        self,
        name: str,
        life: int,
        jobs: Iterator[Job],
        *,
        scheduler: Scheduler,
        network: Network,
        store: FencedStore,
        history: History,
        random: Random,
    ) -> None:
        self.name = name
        self._life = life
        self._jobs = jobs
        self._scheduler = scheduler
        self._store = store
        self._history = history
        rate = 1 + random.uniform(-0.001, 0.001)
        self.loop = SimLoop(scheduler, origin=random.uniform(0, 1e6), rate=rate)
        self._transport = SimTransport(network, self.loop, name, life, history)
        self.busy = False
        self.quiet = False  # it finishes what it does, and begins nothing new
        self._believed: list[Belief] = []
        self.loop.call_soon(self.loop.create_task, self._live())

    def kill(self) -> None:
        self.loop.kill()
        for belief in self._believed:
            belief.end(self._scheduler.now)

    # What it does

    async def _live(self) -> None:
        for job in self._jobs:
            if self.quiet:
                return
            self.busy = True
            self._scheduler.happened()
            self._history.tell("{}", job)
            pause_s = job.pause_s
            try:
                await getattr(self, f"_{job.kind}")(job, job.chances)
            except Unavailable:
                pause_s += AWAY_S
            except OpenIntentError:
                pass  # refused, lost or unknown: the history has it
            self.busy = False
            await asyncio.sleep(pause_s)

    def _wish(self, job: Job) -> Wish:
        return Wish(
            space=SPACE,
            scope=job.scope,
            ttl_s=job.ttl_s,
            wait_s=job.wait_s,
            cooldown_s=job.cooldown_s,
            priority=job.priority,
            preempt=job.priority > 0,
        )

    def _attempt(self, job: Job) -> str:
        return f"{self.name}.{self._life}-{job.number}"

    async def _hold(self, job: Job, chances: Chances) -> None:
        """Take a scope, write to the store, give it back; ask once more, as if the answer had been lost."""
        seen = await self._acquire(job)
        hold = Hold(seen, clock=self.loop.time)
        watcher = Watcher(lost=lambda: None, at_risk=lambda: self._history.count("at risk"))
        if not hold.enter(watcher):
            return
        belief = self._history.begin_belief(self.name, job.scope, hold.token, self._true(hold.trusted_until))
        self._believed.append(belief)
        try:
            await self._work(hold, belief, job, chances)
        finally:
            hold.leave(watcher)
            belief.end(self._scheduler.now)
        if chances.random() < 0.9:  # else it forgets to give it back
            await self._release(seen, job)
        if chances.random() < 0.1:
            self._history.count("asked again after its end")
            await self._run(flows.send(calls.acquire(self._wish(job), attempt=self._attempt(job), wait_s=0.0)))

    async def _hasty(self, job: Job, _: Chances) -> None:
        """Ask, and lose patience in the middle of it."""
        asking = asyncio.get_running_loop().create_task(self._acquire(job))
        await asyncio.wait([asking], timeout=HASTE_S)
        asking.cancel()
        await asyncio.wait([asking])
        self._history.count("gave up", asking.cancelled())
        if not asking.cancelled():
            self._deed("release", job).token = asking.result().view.token
        await self._run(flows.give_up(self._wish(job), attempt=self._attempt(job)))

    async def _count(self, job: Job, chances: Chances) -> None:
        """Add one to a number in the intent's state, by comparing and setting; now and then with a token."""
        for number in range(5):
            intent = await self._run(flows.patiently(calls.get_intent(INTENT), patience_s=PATIENCE_S))
            attempt = f"{self._attempt(job)}-{number}"
            patch = [{"op": "set", "path": "n", "value": intent.state["n"] + 1}]
            call = calls.patch_state(INTENT, patch, version=intent.version, token=None, attempt=attempt)
            self._history.counted[attempt] = "unknown"
            await asyncio.sleep(one_of(chances, (0.0, 0.02)))
            try:
                await self._run(flows.patiently(call, patience_s=PATIENCE_S))
            except ConflictError:
                if self._history.copies(attempt) == 1:  # else another copy may come later, and succeed
                    self._history.counted[attempt] = "no"
                continue
            self._history.counted[attempt] = "ok"
            return

    async def _meddle(self, _: Job, chances: Chances) -> None:
        """Look who holds what, and try to end or prolong what is not its own."""
        page = await self._run(
            flows.send(calls.get_leases(SPACE, status="active", scope=None, agent_id=None, after=None))
        )
        foreign = [seen for seen in page.items if seen.view.agent_id != self.name]
        if not foreign:
            return
        view = one_of(chances, foreign).view
        self._history.count("meddled")
        beat = {"leases": [{"id": view.id, "token": view.token}]}
        path = calls.lease_path(view.id)
        possible = (calls.release(path), calls.renew(path, ttl_s=3.0), calls.heartbeat(self.name, beat))
        call: Call[Any] = one_of(chances, possible)
        await self._run(flows.send(call))

    # Deeds

    async def _acquire(self, job: Job) -> Seen:
        deed = self._deed("acquire", job)
        try:
            seen = await self._run(flows.acquire(self._wish(job), attempt=deed.attempt, patience_s=PATIENCE_S))
        except OpenIntentError as failure:
            self._finish(deed, failure)
            raise
        deed.token, deed.ttl_s = seen.view.token, seen.trust.remaining_s
        self._finish(deed)
        return seen

    async def _release(self, seen: Seen, job: Job) -> None:
        deed = self._deed("release", job)
        deed.token = seen.view.token
        try:
            await self._run(flows.patiently(calls.release(calls.lease_path(seen.view.id)), patience_s=PATIENCE_S))
        except OpenIntentError as failure:
            self._finish(deed, failure)
            raise
        self._finish(deed)

    def _deed(self, kind: str, job: Job) -> Deed:
        deed = Deed(self.name, kind, job.scope, self._scheduler.now, self._attempt(job), job.ttl_s)
        self._history.deeds.append(deed)
        return deed

    def _finish(self, deed: Deed, failure: OpenIntentError | None = None) -> None:
        if isinstance(failure, Unavailable | OutcomeUnknown | WaitTimeout):
            return  # of several tries, an earlier one may have had an effect
        deed.until = self._scheduler.now
        deed.outcome = "ok" if failure is None else "lost" if isinstance(failure, LeaseLost) else "no"

    # Work, and the keeper beside it

    async def _work(self, hold: Hold, belief: Belief, job: Job, chances: Chances) -> None:
        """Write now and then, while a keeper renews; each write looks first, and carries the token."""
        keeper = asyncio.get_running_loop().create_task(self._keep(hold, belief, job, chances))
        until = self.loop.time() + job.work_s
        try:
            while self.loop.time() < until:
                if hold.over:
                    self._history.count("lost")
                    return
                belief.act(self._scheduler.now)
                self._scheduler.happened()
                self._store.send(self.name, job.scope, hold.token, one_of(chances, (0.0, 0.001, 0.5, 4.0)))
                await asyncio.sleep(one_of(chances, (0.01, 0.05, 0.2)))
        finally:
            keeper.cancel()

    async def _keep(self, hold: Hold, belief: Belief, job: Job, chances: Chances) -> None:
        """The keeper's decisions are the real ones; only its threads are tasks here."""
        beats = _Beats(renew_at=hold.renew_at(chance=chances.random()))
        while True:
            now = self.loop.time()
            step = keeping.next_step(now=now, leases={hold.id: hold.watched()}, renew_at=beats.renew_at)
            self._scheduler.steps += not isinstance(step, keeping.Sleep)
            if isinstance(step, keeping.Stop):
                hold.lose("trust_ended")
                belief.end(self._scheduler.now)
                return
            if isinstance(step, keeping.Warn):
                hold.warn()
            elif isinstance(step, keeping.Sleep):
                await beats.sleep(self.loop, max(step.seconds, INSTANT_S))
            else:
                beats.failures += 1
                pause_s = keeping.retry_s(hold.ttl_s, failures=beats.failures)
                beats.renew_at = now + keeping.try_s(hold.ttl_s) + pause_s
                self.loop.create_task(self._beat(hold, belief, job, beats, chances))

    async def _beat(self, hold: Hold, belief: Belief, job: Job, beats: "_Beats", chances: Chances) -> None:
        sent_at = self.loop.time()
        deed = self._deed("renew", job)
        deed.token = hold.token
        body = {"leases": [{"id": hold.id, "token": hold.token}]}
        call = calls.heartbeat(self.name, body, timeout_s=keeping.try_s(hold.ttl_s))
        try:
            beat: Beat = await self._run(flows.send(call))
        except OpenIntentError:
            return
        for verdict in beat.heartbeat.leases:
            deed.until = self._scheduler.now
            if verdict.verdict == "lost":
                deed.outcome = "lost"
                hold.lose(verdict.reason or "lost")
                belief.end(self._scheduler.now)
            else:
                deed.outcome, deed.ttl_s = "ok", verdict.remaining_seconds or 0.0
                self._history.count("preempted", verdict.verdict == "preempt_asked")
                if hold.confirm(beat.trust(verdict)):
                    belief.extend(self._true(hold.trusted_until))
                elif hold.reason is not None:
                    self._history.count("renewal heard too late")
        beats.failures, beats.renew_at = 0, sent_at + keeping.period_s(hold.ttl_s, chance=chances.random())
        beats.wake()

    async def _run(self, flow: Any) -> Any:
        return await drivers.run_async(flow, self._transport)

    def _true(self, instant: float) -> float:
        return self.loop.true(instant)


class Onlooker:
    """Asks one server who holds what, over and over: somebody who would hear of it if that spoke out of turn."""

    def __init__(self, place: int, *, scheduler: Scheduler, network: Network, history: History) -> None:
        self.loop = SimLoop(scheduler)
        self._transport = SimTransport(network, self.loop, f"onlooker {place}", 1, history, only=place)
        self._history = history
        self.quiet = False
        self.loop.call_soon(self.loop.create_task, self._live())

    async def _live(self) -> None:
        call = calls.get_leases(SPACE, status="active", scope=None, agent_id=None, after=None).within(LOOK_TIMEOUT_S)
        while not self.quiet:
            with suppress(OpenIntentError):
                await drivers.run_async(flows.send(call), self._transport)
                self._history.count("looked on")
            await asyncio.sleep(LOOK_S)


class _Beats:
    """When the next heartbeat is due, how many tries were in vain, and the sleep until something is to be done."""

    def __init__(self, renew_at: float) -> None:
        self.renew_at = renew_at
        self.failures = 0
        self._sleep: asyncio.Future[None] | None = None

    async def sleep(self, loop: SimLoop, seconds: float) -> None:
        """At most so long: news ends it."""
        self._sleep = loop.create_future()
        alarm = loop.call_later(seconds, self.wake)
        try:
            await self._sleep
        finally:
            alarm.cancel()

    def wake(self) -> None:
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)
