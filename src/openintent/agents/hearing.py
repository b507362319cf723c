"""What an agent hears: the logs of its names and of what it watches, turned into tasks and calls of handlers."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from openintent.agents import record as records
from openintent.agents.agenda import Task
from openintent.agents.calling import Handlers, Hooked
from openintent.agents.context import AgentBase
from openintent.chance import SPREAD
from openintent.client.values import Event, Intent
from openintent.errors import LeaseConflictError, LeaseLost, NotFoundError, OpenIntentError
from openintent.model import DONE_STATUSES
from openintent.spaces import agent_name_of

logger = logging.getLogger("openintent.agents")

# Many may be told that a scope is free; they do not all come at once.
AVAILABLE_SPREAD_S: Final = 0.2
# Handlers for what becomes free may work for long; so many may do so at once, the others wait.
AVAILABLE_AT_ONCE_MAX: Final = 100
# Events that handlers have yet to be told; then no more are read, and the server keeps them.
NEWS_MAX: Final = 1_000
# States that are remembered, to tell what a change was from.
STATES_KEPT_MAX: Final = 10_000
# Events that were heard on more than one stream are acted upon once; no stream is that far behind another.
SEEN_KEPT_MAX: Final = 10_000
LEASE_ENDS: Final = frozenset({"lease_released", "coordinator.failed_over", "coordinator.replaced"})


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the runner is told of what was heard."""

    try_it: Callable[[Task], None]
    put_off: Callable[[Task, int, float], None]  # it failed so often, and is to be tried after so many seconds
    begin_anew: Callable[[Task], None]  # at once, whatever was before
    released: Callable[[Task], None]  # whoever had it gave it back
    ended: Callable[[Task], None]  # it was done, or has failed for good
    leave_it: Callable[[Task], None]  # it is no longer wanted


class Ear:
    def __init__(
        self,
        agent: AgentBase,
        handlers: Handlers,
        scope_of: Callable[[str], str],
        wishes: Wishes,
        *,
        tells: bool = True,
    ) -> None:
        """Without `tells` it only notes tasks: a coordinator's handlers are called while it leads."""
        self._tells = tells
        self._agent = agent
        self._client = agent.async_client
        self._handlers = handlers
        self._scope_of = scope_of
        self._wishes = wishes
        self._seen: dict[int, None] = {}
        self._states: dict[str, Mapping[str, Any]] = {}
        self._free: dict[tuple[str, str], int] = {}  # by intent and scope: the event that told so
        self._busy: set[asyncio.Task[None]] = set()
        self._types = {each.hook.about for each in handlers.of("event")}
        self._news: asyncio.Queue[Event] = asyncio.Queue(NEWS_MAX)
        self._turn = asyncio.Semaphore(AVAILABLE_AT_ONCE_MAX)
        self._claims = True

    async def hear(self, event: Event, name: str | None = None) -> None:
        """`name` is whose log it was heard in, if it was an agent's."""
        if event.event_type in LEASE_ENDS:
            # If it was ours its work is to stop now, and not only with the next heartbeat.
            self._client.heard_of(str(event.payload.get("lease_id")))
        if name is not None:
            self._note_task(event, name)
        if not self._tells or event.intent_id is None or not event.seq or event.seq in self._seen:
            return
        self._seen[event.seq] = None
        if len(self._seen) > SEEN_KEPT_MAX:
            del self._seen[next(iter(self._seen))]
        if event.event_type == "lease_acquired":
            self._free.pop((event.intent_id, str(event.payload.get("scope"))), None)
        elif event.event_type == "lease_released":
            self._note_free(event, event.intent_id)
        if self._concerns_handlers(event):
            await self._news.put(event)

    async def tell(self) -> None:
        """Call the handlers for what was heard, one after the other, for as long as the agent runs."""
        while True:
            event = await self._news.get()
            try:
                await self._tell(event, await self._client.get_intent(str(event.intent_id)))
            except OpenIntentError as failed:
                logger.warning(
                    "event not told intent=%s event_type=%s error=%s", event.intent_id, event.event_type, failed
                )

    def _concerns_handlers(self, event: Event) -> bool:
        if event.event_type in self._types:
            return True
        if event.event_type == "state_patched":
            return self._handlers.has("state_change")
        completed = event.event_type == "status_changed" and event.payload.get("new_status") == "completed"
        return completed and self._handlers.has("complete")

    # Tasks

    def _note_task(self, event: Event, name: str) -> None:
        if event.intent_id is None:
            return
        task, payload = Task(name, event.intent_id), event.payload
        if event.event_type in ("agent_assigned", "agent_unassigned") and payload.get("agent_id") == name:
            if event.event_type == "agent_unassigned":
                self._wishes.leave_it(task)
            elif event.replayed:
                self._wishes.try_it(task)
            else:
                self._wishes.begin_anew(task)
        elif event.event_type == "lease_released" and payload.get("scope") == self._scope_of(name):
            if payload.get("reason", "released") == "released":
                self._wishes.released(task)
            else:
                self._wishes.try_it(task)
        elif event.event_type == "state_patched":
            self._note_record(task, payload)
        elif event.event_type == "status_changed" and event.actor != self._agent.agent_id:
            if payload.get("new_status") in DONE_STATUSES:
                self._wishes.leave_it(task)
            else:
                self._wishes.try_it(task)

    def _note_record(self, task: Task, payload: Mapping[str, Any]) -> None:
        """Whoever had it says whether it has ended, or when it can be tried again."""
        path = records.path(task.name)
        for change in payload.get("patches", ()):
            if change.get("path", "").lstrip("/") != path:
                continue
            try:
                record = records.of_value(change.get("value"), task.name)
            except records.BadRecord:
                continue  # anybody may write anything there; whoever attends to it says so
            if record.over:
                self._wishes.ended(task)
            elif record.status == "open" and record.retry_in_seconds > 0:
                self._wishes.put_off(task, record.failed, record.retry_in_seconds)
            elif record.status == "open":
                self._wishes.begin_anew(task)

    # Handlers

    async def _tell(self, event: Event, intent: Intent) -> None:
        if event.event_type == "state_patched":
            await self._tell_changed(event, intent)
        elif event.event_type == "status_changed" and event.payload.get("new_status") == "completed":
            await self._handlers.tell("complete", intent)
        for hooked in self._handlers.of("event"):
            if hooked.hook.about == event.event_type:
                await self._handlers.tell_one(hooked, intent, event)

    async def _tell_changed(self, event: Event, intent: Intent) -> None:
        old = self._states.get(intent.id, {})
        self.remember(intent)
        paths = (str(change.get("path", "")) for change in event.payload.get("patches", ()))
        keys = {path.lstrip("/").partition("/")[0] for path in paths} - {records.KEY}
        if event.actor == self._agent.agent_id or not keys:
            return  # what it did itself is no news
        for hooked in self._handlers.of("state_change"):
            wanted = hooked.hook.about
            if not isinstance(wanted, frozenset) or wanted & keys:
                await self._handlers.tell_one(hooked, intent, old, intent.state)

    def remember(self, intent: Intent) -> None:
        self._states.pop(intent.id, None)
        self._states[intent.id] = intent.state
        if len(self._states) > STATES_KEPT_MAX:
            del self._states[next(iter(self._states))]

    # What became free

    def _note_free(self, event: Event, intent_id: str) -> None:
        scope, reason = str(event.payload.get("scope")), event.payload.get("reason", "released")
        hooks = [each for each in self._handlers.of("lease_available") if each.hook.about == scope]
        # What this agent gave back itself is no news to it, nor to its other instances: it would go round for ever.
        ours = agent_name_of(str(event.payload.get("holder") or event.actor)) == self._agent.settings.name
        if not hooks or (reason == "released" and ours):
            return
        self._free[intent_id, scope] = event.seq
        for hooked in hooks:
            task = asyncio.create_task(self._tell_free(hooked, intent_id, scope, event.seq))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)

    async def _tell_free(self, hooked: Hooked, intent_id: str, scope: str, seq: int) -> None:
        async with self._turn:
            await asyncio.sleep(SPREAD.uniform(0, AVAILABLE_SPREAD_S))
            if not self._claims or self._free.get((intent_id, scope)) != seq:
                return  # the agent is to stop, or somebody has it by now
            try:
                await self._let_claim(hooked, intent_id, scope)
            except (LeaseConflictError, LeaseLost, NotFoundError) as beaten:
                logger.info("scope not taken intent=%s scope=%s error=%s", intent_id, scope, beaten)
            except Exception:
                logger.exception("handler failed handler=%s agent=%s", hooked.name, self._agent.agent_id)

    async def _let_claim(self, hooked: Hooked, intent_id: str, scope: str) -> None:
        intent = await self._client.get_intent(intent_id)
        if intent.status in DONE_STATUSES:
            return
        result = await self._handlers.call(hooked, intent, scope)
        changes = records.besides(result) if isinstance(result, Mapping) else None
        if changes:
            await self._client.patch_state(intent_id, changes)

    def drain(self) -> set[asyncio.Task[None]]:
        """Nothing more is claimed. Those that are at it."""
        self._claims = False
        return set(self._busy)

    async def close(self) -> None:
        for task in list(self._busy):
            task.cancel()
        if self._busy:
            await asyncio.wait(self._busy, timeout=1.0)
