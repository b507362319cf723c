"""Running one agent: it registers, listens, takes what it has room for, and in the end leaves in good order."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final

from openintent.agents.agenda import Agenda, Task
from openintent.agents.attending import Again, Attendant, Elsewhere, Ended
from openintent.agents.calling import Handlers
from openintent.agents.context import AgentBase
from openintent.agents.hearing import Ear, Wishes
from openintent.agents.leading import Campaign
from openintent.chance import SPREAD
from openintent.client.values import Event
from openintent.clock import boot_s
from openintent.errors import AuthenticationError, OpenIntentError

logger = logging.getLogger("openintent.agents")

# After a refusal that has nothing to do with the lease: the server is away, or the agent may not do this.
TROUBLE_S: Final = (1.0, 5.0)
# A stream that cannot be read is asked for again; meanwhile polling goes on.
LISTEN_AGAIN_S: Final = (1.0, 5.0)
# At the end, for everything but the handlers.
LEAVE_S_MAX: Final = 5.0
# For a word to the registry. It is for people to see, and no work waits for it.
WORD_S_MAX: Final = 2.0
# The loop looks up at least this often; what is due earlier wakes it.
LOOK_S_MAX: Final = 1.0


class Runner:
    def __init__(self, agent: AgentBase) -> None:
        self._agent = agent
        self._settings = agent.settings
        self._client = agent.async_client
        self._handlers = Handlers(agent)
        self._attendant = Attendant(agent, self._handlers)
        self._leads = agent.settings.portfolio_id is not None or agent.settings.intent_id is not None
        self._ear = self._make_ear(tells=not self._leads)
        self._agenda = Agenda()
        self._working: dict[Task, asyncio.Task[None]] = {}
        self._refused: set[Task] = set()  # those that somebody else had when they were tried
        self._changed = asyncio.Event()
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self.ready = asyncio.Event()

    def _make_ear(self, *, tells: bool = True) -> Ear:
        wishes = Wishes(
            try_it=self._try_it,
            put_off=self._put_off,
            begin_anew=self._begin_anew,
            released=self._released,
            ended=self._ended,
            leave_it=self._leave_it,
        )
        return Ear(self._agent, self._handlers, self._attendant.scope_of, wishes, tells=tells)

    # From outside

    def stop(self) -> None:
        """From any thread: take nothing new, finish what runs, leave."""
        with suppress(RuntimeError):  # the loop is closed: it has left
            self._loop.call_soon_threadsafe(self._begin_to_stop)

    def _begin_to_stop(self) -> None:
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Until `stop()`, or until it is cancelled: then what runs is put back at once."""
        await self._register()
        background = [asyncio.create_task(each, name="openintent-agent") for each in self._background()]
        self.ready.set()
        try:
            await self._take_assignments(background)
            await self._drain()
        finally:
            await self._leave(background)

    # What runs all the time

    def _background(self) -> list[Coroutine[Any, Any, None]]:
        settings, client = self._settings, self._client
        jobs = [self._every(settings.heartbeat_seconds, self._beat), self._ear.tell()]
        jobs += [self._listen(partial(client.subscribe_agent, name), name) for name in settings.names]
        jobs += [self._listen(partial(client.subscribe_intent, each, on_gap="skip")) for each in settings.intents]
        jobs += [self._listen(partial(client.subscribe_portfolio, each, on_gap="skip")) for each in settings.portfolios]
        if self._attends:
            jobs.append(self._every(settings.poll_seconds, self._poll))
        if self._leads:
            jobs.append(Campaign(self._agent, self._handlers, self._make_ear).run())
        return jobs

    @property
    def _attends(self) -> bool:
        return self._handlers.has("assignment")

    async def _every(self, seconds: float, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await act()
            except OpenIntentError as failed:
                logger.warning(
                    "agent request failed agent=%s request=%s error=%s", self._agent.agent_id, act.__name__, failed
                )
            await asyncio.sleep(seconds * SPREAD.uniform(0.9, 1.1))

    async def _listen(self, subscribe: Callable[[], AsyncIterator[Event]], name: str | None = None) -> None:
        """The stream reconnects and goes on by itself; only what it cannot mend ends it."""
        while True:
            try:
                async for event in subscribe():
                    await self._ear.hear(event, name)
            except OpenIntentError as failed:
                logger.warning("agent stream ended agent=%s error=%s", self._agent.agent_id, failed)
            await asyncio.sleep(SPREAD.uniform(*LISTEN_AGAIN_S))

    async def _poll(self) -> None:
        """What no stream told, because there was none: the open assignments."""
        for name in self._settings.names:
            for assignment in await self._client.get_assignments(name):
                task = Task(name, assignment.intent_id)
                known = task in self._working or self._agenda.is_over(task, assignment.assigned_at.isoformat())
                if not known and task not in self._agenda:
                    self._try_it(task)

    async def _register(self) -> None:
        settings = self._settings
        try:
            async with asyncio.timeout(WORD_S_MAX):
                await self._client.register_agent(
                    name=settings.name,
                    role_id=settings.role,
                    capabilities=list(settings.capabilities),
                    capacity=settings.capacity,
                    heartbeat_config={"interval_seconds": settings.heartbeat_seconds},
                    drain_timeout_seconds=settings.drain_seconds,
                    metadata={"host": socket.gethostname(), "pid": os.getpid(), **settings.metadata},
                )
        except AuthenticationError:
            raise  # that will not get better by itself
        except (OpenIntentError, TimeoutError) as failed:
            logger.warning("agent not registered agent=%s error=%s", self._agent.agent_id, failed or "no answer")

    async def _beat(self) -> None:
        tasks = [task.intent_id for task in self._working]
        told = await self._client.agent_heartbeat(current_load=len(tasks), tasks_in_progress=tasks)
        if told.agent_status is None and not self._stopping:
            await self._register()  # the registry forgot it, or never knew it
        elif told.agent_status in ("draining", "deregistered") and not self._stopping:
            logger.info("agent asked to leave agent=%s", self._agent.agent_id)
            self._begin_to_stop()

    # Assignments

    def _try_it(self, task: Task, after_s: float = 0.0) -> None:
        if self._attends:
            self._agenda.add(task, at=boot_s() + after_s)
            self._changed.set()

    def _put_off(self, task: Task, failures: int, after_s: float) -> None:
        if self._attends:
            self._agenda.put_off(task, failures=failures, until=boot_s() + after_s)
            self._changed.set()

    def _begin_anew(self, task: Task) -> None:
        self._agenda.begin_anew(task)
        self._try_it(task)

    def _released(self, task: Task) -> None:
        """Most who give it back have ended it. If they have not, one that was refused it may try again."""
        if task in self._refused:
            self._refused.discard(task)
            self._try_it(task)

    def _ended(self, task: Task) -> None:
        self._agenda.drop(task)
        self._refused.discard(task)

    def _leave_it(self, task: Task) -> None:
        self._refused.discard(task)
        self._agenda.drop(task)
        working = self._working.get(task)
        if working is not None:
            working.cancel("the assignment was taken back")

    async def _take_assignments(self, background: list[asyncio.Task[None]]) -> None:
        while not self._stopping:
            failed = next((job for job in background if job.done()), None)
            if failed is not None:
                failed.result()  # it only ends by raising
            self._begin_what_fits()
            await self._until_something_changes()

    def _begin_what_fits(self) -> None:
        while len(self._working) < self._settings.capacity:
            task = self._agenda.take(now=boot_s(), draw=SPREAD.choice, besides=self._working)
            if task is None:
                return
            working = asyncio.create_task(self._attend(task), name=f"openintent-{task.name}-{task.intent_id}")
            self._working[task] = working
            # Not at its own end: one that is cancelled before it has begun never comes there.
            working.add_done_callback(partial(self._make_room, task))

    def _make_room(self, task: Task, _: asyncio.Task[None]) -> None:
        self._working.pop(task, None)
        self._changed.set()

    async def _until_something_changes(self) -> None:
        has_room = len(self._working) < self._settings.capacity
        due_at = self._agenda.next_at(besides=self._working) if has_room else None
        wait_s = LOOK_S_MAX if due_at is None else min(LOOK_S_MAX, max(0.0, due_at - boot_s()))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._changed.wait()
        self._changed.clear()

    async def _attend(self, task: Task) -> None:
        try:
            outcome = await self._attendant.attend(task, waited_for=self._agenda.failures_waited_for(task))
            if isinstance(outcome, Again):
                self._put_off(task, outcome.failures, outcome.after_s)
            elif isinstance(outcome, Ended):
                self._agenda.end(task, outcome.assigned_at)
            else:
                assert isinstance(outcome, Elsewhere)
                self._refused.add(task)
        except Exception as failed:  # noqa: BLE001  # whatever it is, the others go on
            logger.warning(
                "assignment put off agent=%s intent=%s error=%r", self._agent.agent_id, task.intent_id, failed
            )
            self._try_it(task, SPREAD.uniform(*TROUBLE_S))

    # The end

    async def _drain(self) -> None:
        """Let what runs come to its end, within its time; then it is put back for another instance."""
        await self._quietly(self._client.update_agent_status(self._agent.agent_id, "draining"))
        telling = asyncio.create_task(self._handlers.tell("drain"), name="openintent-drain")
        try:
            busy = {telling, *self._working.values(), *self._ear.drain()}
            await asyncio.wait(busy, timeout=self._settings.drain_seconds)
        finally:
            telling.cancel()

    async def _leave(self, background: list[asyncio.Task[None]]) -> None:
        tasks = [*self._working.values(), *background]
        for task in tasks:
            task.cancel("the agent leaves")
        if tasks:
            await asyncio.wait(tasks, timeout=LEAVE_S_MAX)
        await self._ear.close()
        await self._quietly(self._client.deregister_agent())
        await self._agent.close()

    async def _quietly(self, act: Coroutine[Any, Any, object]) -> None:
        try:
            async with asyncio.timeout(WORD_S_MAX):
                await act
        except (OpenIntentError, TimeoutError) as failed:
            logger.info("agent word lost agent=%s error=%s", self._agent.agent_id, failed)
