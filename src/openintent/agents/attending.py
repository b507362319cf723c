"""Attending to one assignment: the lease, the record, the handler, the result.

The lease comes first and is held to the end. Whatever the record then says is so, because nobody else may write it;
and whoever loses the lease can write no more. So a handler runs at most once at a time in the whole fleet, and its
result counts once or not at all, whenever and wherever something dies.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from openintent.agents import record as records
from openintent.agents.agenda import Task
from openintent.agents.calling import Handlers
from openintent.agents.context import AgentBase
from openintent.agents.record import Record
from openintent.agents.work import Work, current, result_of
from openintent.chance import SPREAD
from openintent.client import AsyncOpenIntentClient
from openintent.client.calls import patches_of
from openintent.client.lease import Lease
from openintent.client.values import Intent
from openintent.errors import (
    ConflictError,
    LeaseConflictError,
    LeaseLost,
    NotFoundError,
    OpenIntentError,
    OutcomeUnknown,
    PermissionError_,
    StaleTokenError,
    WaitTimeout,
)
from openintent.model import DONE_STATUSES
from openintent.retrying import Retry

logger = logging.getLogger("openintent.agents")

SCOPE: Final = "assignment:"
# To write down that the work was put back, when the agent is to stop.
PUT_BACK_S_MAX: Final = 3.0
# A scope that other work needs too: without attempts to spare it is waited for, in slices of this length.
LEASING_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """There is nothing (more) to do about this assignment."""

    assigned_at: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """It has failed so often, and is to be tried again, by whoever is first."""

    after_s: float
    failures: int


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Somebody else has it, or had it taken from us: the log will tell when it is free."""


Outcome = Ended | Again | Elsewhere


class Attendant:
    def __init__(self, agent: AgentBase, handlers: Handlers) -> None:
        self._agent = agent
        self._client = agent.async_client
        self._handlers = handlers
        self._settings = agent.settings
        hooks = [hooked.hook for hooked in handlers.of("assignment")]
        self._scope = next((hook.scope for hook in hooks if hook.scope is not None), None)
        self._retry = next((hook.retry for hook in hooks if hook.retry is not None), self._settings.retry)
        self._complete = next((hook.complete for hook in hooks if hook.complete is not None), self._settings.complete)

    def scope_of(self, name: str) -> str:
        return self._scope or f"{SCOPE}{name}"

    async def attend(self, task: Task, *, waited_for: int = 0) -> Outcome:
        """`waited_for`: after so many failures, their delay was kept."""
        seen: list[Intent] = []
        try:
            return await self._under_lease(task, seen, waited_for)
        except (LeaseConflictError, WaitTimeout):
            return Elsewhere()
        except NotFoundError:
            return Ended()
        except LeaseLost as lost:
            # Only if the work had begun is there anybody to tell.
            if seen:
                await self._handlers.tell("lease_lost", seen[0], lost.reason)
            return Elsewhere()

    async def _under_lease(self, task: Task, seen: list[Intent], waited_for: int) -> Outcome:
        scope, ttl_s = self.scope_of(task.name), self._settings.lease_ttl
        purpose = f"assignment to {task.name}"
        end_s = self._settings.max_hold_seconds
        asked, loop = asyncio.Event(), asyncio.get_running_loop()
        async with self._client.lease(
            task.intent_id,
            scope,
            ttl_s,
            purpose=purpose,
            max_hold_seconds=end_s,
            on_preempt=lambda _: _set_safely(loop, asked),
        ) as lease:
            assigned_at = await self._assigned_at(task)
            intent = await self._client.get_intent(task.intent_id)
            if assigned_at is None or intent.status in DONE_STATUSES:
                return Ended(assigned_at or "")
            attempt = _Attempt(self._client, task.name, intent, lease, self._retry, asked)
            delay_s = records.put_off_s(attempt.record, assigned_at=assigned_at, waited_for=waited_for)
            if delay_s > 0:
                return Again(delay_s, attempt.record.failed)
            seen.append(intent)
            return await self._work(attempt, assigned_at)

    async def _assigned_at(self, task: Task) -> str | None:
        """When it was assigned; None if it is no longer."""
        assigned = await self._client.list_assigned_agents(task.intent_id)
        mine = next((each for each in assigned if each.agent_id == task.name), None)
        return None if mine is None else mine.assigned_at.isoformat()

    # The work itself

    async def _work(self, attempt: "_Attempt", assigned_at: str) -> Outcome:
        try:
            outcome = await self._try(attempt, assigned_at)
            # After that, not within: what is done stays done, also if it cannot be completed.
            await attempt.complete(default=self._complete)
        except StaleTokenError:
            # The lease has ended, and the server was the first to say so. Why, it says if it is asked.
            await self._client.get_lease(attempt.lease.id)
            attempt.lease.check()
            raise
        return outcome

    async def _try(self, attempt: "_Attempt", assigned_at: str) -> Outcome:
        try:
            if await attempt.begin(assigned_at):
                await attempt.succeed(await self._handle(attempt))
            return Ended(assigned_at)
        except asyncio.CancelledError:
            # A result that is on its way may have arrived: it is not to be called back.
            if not attempt.told and not attempt.lease.lost.is_set():
                await _bounded(attempt.put_back())
            raise
        except LeaseLost:
            attempt.lease.check()  # ours: then this raises, and there is nothing to write
            return await attempt.fail(LeaseLost(f"another lease was lost while it worked under {attempt.lease.scope}"))
        except Exception as failure:  # whatever a handler raises is its attempt's failure
            attempt.lease.check()
            if attempt.told and isinstance(failure, OutcomeUnknown):
                raise  # the result may have landed; whoever comes next finds it, or finds that the work did not end
            logger.warning(
                "assignment failed intent=%s assignment=%s attempt=%d error=%r",
                attempt.intent.id,
                attempt.name,
                attempt.record.attempt,
                failure,
            )
            return await attempt.fail(failure)

    async def _handle(self, attempt: "_Attempt") -> Mapping[str, Any]:
        async with AsyncExitStack() as stack:
            await self._take_what_it_needs(attempt.record, stack)
            work = attempt.work()
            token = current.set(work)
            telling = asyncio.create_task(self._tell_of_preemption(work, attempt.asked))
            try:
                return await self._call_handlers(work)
            finally:
                telling.cancel()
                current.reset(token)

    async def _tell_of_preemption(self, work: Work, asked: asyncio.Event) -> None:
        await asked.wait()
        await self._handlers.tell("preempt", work.intent, work.lease)

    async def _take_what_it_needs(self, record: Record, stack: AsyncExitStack) -> None:
        """The scope that the work shares with other work.

        If another holds it, that is a failure like any other as long as there are attempts to spare; else it is
        waited for.
        """
        leasing = record.leasing
        if leasing is None:
            return
        spare = (record.retry or self._retry).max_attempts > record.failed + 1
        wait_s = 0.0 if spare else LEASING_WAIT_S
        await stack.enter_async_context(
            self._client.lease(leasing.intent_id, leasing.scope, leasing.ttl, wait_seconds=wait_s)
        )

    async def _call_handlers(self, work: Work) -> Mapping[str, Any]:
        if work.from_agent:
            await self._handlers.tell("handoff", work.intent, work.from_agent, work.payload)
        if work.attempt > 1:
            await self._handlers.tell("retry", work.intent, work.attempt, work.last_failure)
        result: dict[str, Any] = {}
        for hooked in self._handlers.of("assignment"):
            result.update(result_of(await self._handlers.call(hooked, work.intent, work), hooked.name))
        return result


class _Attempt:
    """One attempt, and what is written down about it: all of it under the token of the lease."""

    def __init__(
        self,
        client: AsyncOpenIntentClient,
        name: str,
        intent: Intent,
        lease: Lease,
        retry: Retry,
        asked: asyncio.Event,
    ) -> None:
        self._client = client
        self._retry = retry
        self.name = name
        self.intent = intent
        self.lease = lease
        self.asked = asked  # set when a higher priority has asked for the lease
        self.record = records.read(intent.state, name)
        self._latest = intent  # as it was after the last that was written here
        self.told = False  # how it ended
        self.begun = False  # by this attempt, not by one before

    async def begin(self, assigned_at: str) -> bool:
        """Whether the handler is to run."""
        begun = records.begin(
            self.record,
            assigned_at=assigned_at,
            holder=self.lease.agent_id,
            token=self.lease.token,
            default=self._retry,
        )
        if begun is None:
            return False
        await self._write(await self._given_up(begun))
        self.begun = True
        return begun.status == "running"

    def work(self) -> Work:
        record = self.record
        return Work(
            intent=self.intent,
            lease=self.lease,
            name=self.name,
            attempt=record.attempt,
            last_failure=record.last_failure,
            from_agent=record.from_agent,
            payload=record.payload,
        )

    async def succeed(self, result: Mapping[str, Any]) -> None:
        """The result and the word that it is done, in one patch: both or neither."""
        self.told = True
        await self._write(records.succeed(self.record), *patches_of(result))

    async def complete(self, *, default: bool) -> None:
        """Complete the intent with what is done, if that is wanted; also after one who died before he could."""
        wanted = default if self.record.completes is None else self.record.completes
        if not wanted or self.record.status != "done" or not (self.begun or await self._was_never_completed()):
            return
        try:
            await self._set_completed(f"{self.lease.agent_id} has done it")
        except PermissionError_ as forbidden:  # its policy wants more for that, as an approval
            logger.info("intent not completed intent=%s assignment=%s error=%s", self.intent.id, self.name, forbidden)

    async def _set_completed(self, reason: str) -> None:
        """Unless its handler, or somebody else in the meantime, has ended it otherwise."""
        while self._latest.status not in DONE_STATUSES:
            version = self._latest.version
            try:
                await self._client.set_status(self.intent.id, version, "completed", reason, lease=self.lease)
            except ConflictError as conflict:
                if conflict.current_version is None:
                    raise
                self._latest = await self._client.get_intent(self.intent.id)
            else:
                return

    async def _was_never_completed(self) -> bool:
        """Else somebody has opened it again, and meant it."""
        changes = await self._client.get_events(self.intent.id, types="status_changed")
        return not any(change.payload.get("new_status") == "completed" for change in changes)

    async def fail(self, failure: Exception) -> Outcome:
        self.told = True
        errors = [kind.__name__ for kind in type(failure).__mro__[:-2]]
        failed = records.fail(self.record, errors, str(failure), default=self._retry, chance=SPREAD.random())
        await self._write(await self._given_up(failed))
        if failed.status == "open":
            return Again(failed.retry_in_seconds, failed.failed)
        return Ended(failed.assigned_at)

    async def put_back(self) -> None:
        await self._write(records.put_back(self.record))

    async def _write(self, record: Record, *changes: Mapping[str, Any]) -> None:
        patches = [*changes, records.patch(self.name, record)]
        self._latest = await self._client.patch_state(self.intent.id, patches, lease=self.lease)
        self.record = record

    async def _given_up(self, record: Record) -> Record:
        """If no attempt is left, it falls to another agent, or a person is asked.

        That comes before it is written down: if we die in between, the next one finds it as it was, and does so again.
        """
        if record.status != "parked":
            return record
        other = (record.retry or self._retry).fallback_agent
        if other is not None and other != self.name and await self._falls_to(other, record):
            return replace(record, status="failed")
        await self._ask_a_person(record)
        return record

    async def _falls_to(self, other: str, record: Record) -> bool:
        told = Record(from_agent=self.name, payload=record.payload)
        try:
            if other not in self.intent.state.get(records.KEY, {}):
                await self._client.patch_state(self.intent.id, [records.patch(other, told)], lease=self.lease)
            await self._client.assign_agent(self.intent.id, other)
        except PermissionError_ as forbidden:
            logger.warning(
                "assignment not handed on intent=%s assignment=%s error=%s", self.intent.id, other, forbidden
            )
            return False
        return True

    async def _ask_a_person(self, record: Record) -> None:
        """It is parked. Whoever assigns it anew lets it begin anew."""
        last = record.last_failure
        reason = f"the assignment to {self.name} failed {record.failed} times" + (f": {last.error}" if last else "")
        history = records.patch(self.name, record)["value"].get("failures", [])
        try:
            await self._client.request_arbitration(self.intent.id, reason, {"name": self.name, "failures": history})
        except OpenIntentError as refused:
            logger.warning("arbitration not asked for intent=%s error=%s", self.intent.id, refused)


def _set_safely(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """From another thread. If the loop is closed, nobody waits any more."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(event.set)


async def _bounded(act: Awaitable[None]) -> None:
    """In the middle of a cancellation: done soon, or not at all. Without it the next one waits for the ttl."""
    try:
        async with asyncio.timeout(PUT_BACK_S_MAX):
            await act
    except (OpenIntentError, TimeoutError, RuntimeError) as failed:
        logger.warning("work not put back error=%s", failed)
