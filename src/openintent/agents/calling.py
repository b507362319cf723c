"""Calling an agent's handlers: async ones on the loop, plain ones in a thread, each with what it takes."""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from openintent.agents.context import AgentBase
from openintent.agents.hooks import Hook, Hooked, accepted, hooks_of
from openintent.agents.work import current
from openintent.client.hold import TRUST_ENDED
from openintent.client.lease import hold_of
from openintent.clock import boot_s

logger = logging.getLogger("openintent.agents")


class Handlers:
    def __init__(self, agent: AgentBase) -> None:
        self._agent = agent
        self._hooked = hooks_of(type(agent))

    def of(self, kind: str) -> list[Hooked]:
        return [each for each in self._hooked if each.hook.kind == kind]

    def has(self, *kinds: str) -> bool:
        return any(each.hook.kind in kinds for each in self._hooked)

    async def call(self, hooked: Hooked, *offered: Any) -> Any:
        handler: Callable[..., Any] = getattr(self._agent, hooked.name)
        try:
            return await _returned(handler, accepted(handler, offered), name=f"openintent-{hooked.name}")
        except asyncio.CancelledError as cancelled:
            if _is_to_end():
                raise
            # What was cancelled is something that the handler awaited. Nobody asked the handler itself to end.
            raise RuntimeError(f"{hooked.name} awaited what was cancelled") from cancelled

    async def tell(self, kind: str, *offered: Any) -> None:
        """Call all of a kind. One that raises is reported, and concerns nobody else."""
        for hooked in self.of(kind):
            await self.tell_one(hooked, *offered)

    async def tell_one(self, hooked: Hooked, *offered: Any) -> Any:
        try:
            return await self.call(hooked, *offered)
        except Exception:
            logger.exception("handler failed handler=%s agent=%s", hooked.name, self._agent.agent_id)
            return None


async def _returned(handler: Callable[..., Any], told: tuple[Any, ...], *, name: str) -> Any:
    if inspect.iscoroutinefunction(handler):
        return await handler(*told)
    returned = await _in_thread(partial(handler, *told), name=name)
    return await returned if inspect.isawaitable(returned) else returned


def _is_to_end() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def _in_thread(act: Callable[[], Any], *, name: str) -> Any:
    """What it returns or raises.

    A thread of its own that nobody waits for when the process ends: whoever may call bounds how many there are.
    """
    # With the context of this task: what the handler writes names the lease that was taken here.
    context, ended = contextvars.copy_context(), asyncio.Event()
    loop, outcome = asyncio.get_running_loop(), _Outcome()

    def run() -> None:
        outcome.of(partial(context.run, act))
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        await ended.wait()
    except asyncio.CancelledError:
        await _until_it_stops(ended)
        raise
    return outcome.get()


async def _until_it_stops(ended: asyncio.Event) -> None:
    """Nobody can stop a thread, but it can be told. Until it has ended the lease is kept: no other may begin.

    A lease that could not be renewed is lost some time before another can have it; it is not given back sooner.
    Whoever cannot wait cancels once more.
    """
    work = current.get()
    if work is None:
        return
    work.unwanted.set()
    hold = hold_of(work.lease)
    if not hold.lost:
        await ended.wait()
    elif hold.reason == TRUST_ENDED:
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), max(0.0, hold.trusted_until - boot_s()))


class _Outcome:
    """How a call in another thread ended."""

    def __init__(self) -> None:
        self._returned: Any = None
        self._raised: BaseException | None = None

    def of(self, act: Callable[[], Any]) -> None:
        try:
            self._returned = act()
        except SystemExit as exited:
            # Raised on the event loop it would end the agent, and all that it does.
            self._raised = RuntimeError(f"it called sys.exit({exited.code!r})")
            self._raised.__cause__ = exited
        except BaseException as raised:  # noqa: BLE001  # it is raised again, where the call was made
            self._raised = raised

    def get(self) -> Any:
        if self._raised is not None:
            raise self._raised
        return self._returned


__all__ = ["Handlers", "Hook", "Hooked"]
