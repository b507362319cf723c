"""Run by the Python of an environment in which OpenIntent's own package is installed: all calls of its two clients.

Each call is made with what it cannot do without, and on things of its own; then come some that must be refused. A line
says how it ended: `ok`, or the name of the package's exception and the status of the answer.
"""

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

from openintent import AsyncOpenIntentClient, OpenIntentClient
from openintent.exceptions import OpenIntentError
from openintent.models import DecisionType, EventType, IntentStatus, PortfolioStatus, RetryStrategy

URL = sys.argv[1]
AGENT = "caller"
# They send nothing by themselves; public_client_drive.py has them.
SILENT = {"close", "create_event_queue", "lease", "subscribe_agent", "subscribe_portfolio", "subscribe_sse"}
PLAIN: dict[str, Any] = {
    "agent_id": AGENT,
    "callback_url": f"{URL}/callback",
    "decision_type": next(iter(DecisionType)),
    "event_type": EventType.COMMENT,
    "strategy": next(iter(RetryStrategy)),
    "policy": {"allowed_agents": [AGENT]},
    **dict.fromkeys(("amount", "attempt_number", "chunk_index", "chunks_received", "messages_count"), 1),
    **dict.fromkeys(("size", "tokens_streamed"), 1),
    **{each: {"n": 1} for each in ("arguments", "payload", "result", "state_patch", "value")},
}
STATUS = {
    "set_status": IntentStatus.ACTIVE,
    "update_agent_status": "draining",
    "update_portfolio_status": PortfolioStatus.COMPLETED,
}


class World:
    """What one call is about; each thing is made when it is asked for."""

    def __init__(self, call: str, client: OpenIntentClient) -> None:
        self.call = call
        self.client = client
        self.status = STATUS.get(call)

    @cached_property
    def intent_id(self) -> str:
        made = self.client.create_intent("an intent", governance_policy=PLAIN["policy"]).id
        if self.call == "remove_intent_from_portfolio":
            self.client.add_intent_to_portfolio(self.portfolio_id, made)
        if self.call == "unassign_agent":
            self.client.assign_agent(made, AGENT)
        return made

    @property
    def parent_id(self) -> str:
        return self.intent_id

    @cached_property
    def portfolio_id(self) -> str:
        return self.client.create_portfolio("a portfolio").id

    @cached_property
    def lease_id(self) -> str:
        if "coordinator" in self.call:
            return self.client.create_coordinator_lease(AGENT, self.intent_id).id
        return self.client.acquire_lease(self.intent_id, "a scope").id

    @cached_property
    def dependency_id(self) -> str:
        other = self.client.create_intent("another").id
        if self.call == "remove_dependency":
            self.client.add_dependency(self.intent_id, other, self.version)
        return other

    @property
    def version(self) -> int:
        return self.client.get_intent(self.intent_id).version


def needed(name: str, call: Callable[..., Any], client: OpenIntentClient) -> dict[str, Any]:
    """Values for what the call cannot do without. A coordinator, moreover, is one of an intent."""
    world = World(name, client)
    asked = inspect.signature(call).parameters.values()
    must = [each.name for each in asked if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    if name in {"create_coordinator_lease", "list_coordinator_leases"}:
        must.append("intent_id")
    values = {each: getattr(world, each, PLAIN.get(each, each)) for each in must}
    return values | ({"version": world.version} if "version" in must else {})  # what was prepared has changed it


def refused(ann: OpenIntentClient, bob: OpenIntentClient) -> dict[str, Callable[[], Any]]:
    intent = ann.create_intent("an intent")
    held, gone = (ann.acquire_lease(intent.id, scope).id for scope in ("held", "gone"))
    ann.release_lease(intent.id, gone)
    role = ann.create_coordinator_lease(AGENT, intent.id).id
    return {
        "acquire_for_no_time": lambda: ann.acquire_lease(intent.id, "a", duration_seconds=-1),
        "acquire_in_nothing": lambda: ann.acquire_lease("nothing", "a"),
        "renew_what_was_released": lambda: ann.renew_lease(intent.id, gone),
        "renew_anothers": lambda: bob.renew_lease(intent.id, held),
        "coordinate_nothing": lambda: ann.create_coordinator_lease(AGENT),
        "coordinate_in_anothers_place": lambda: bob.coordinator_heartbeat(role),
        "look_for_no_coordinator": lambda: ann.get_coordinator_lease("nothing"),
        "look_for_no_agent": lambda: ann.get_agent_record("nobody"),
        "drain_no_agent": lambda: ann.update_agent_status("nobody", "draining"),
        "list_agents_of_no_kind": lambda: ann.list_agents(status="no kind"),
        "govern_an_old_version": lambda: ann.set_governance_policy(intent.id, intent.version + 7, PLAIN["policy"]),
        "govern_by_no_rule": lambda: ann.set_governance_policy(intent.id, intent.version, {"write_scope": "no rule"}),
        "decide_about_nothing": lambda: ann.record_decision("nothing", "completion", "approved", ""),
        "read_the_events_of_nothing": lambda: ann.get_events("nothing"),
        "log_an_event_of_nothing": lambda: ann.log_event("nothing", EventType.COMMENT),
    }


async def outcome(call: Callable[..., Any], values: dict[str, Any] | None = None) -> str:
    try:
        answer = call(**(values or {}))
        if isinstance(answer, Awaitable):
            await answer
    except OpenIntentError as error:
        return f"{type(error).__name__} {error.status_code}"
    return "ok"


async def main() -> None:
    client, other = (OpenIntentClient(URL, "any-key", name) for name in (AGENT, "another"))
    client.register_agent(AGENT)
    for kind in (client, AsyncOpenIntentClient(URL, "any-key", AGENT)):
        for name, call in inspect.getmembers(kind, inspect.ismethod):
            if not name.startswith("_") and name not in SILENT:
                tell(type(kind).__name__, name, await outcome(call, needed(name, call, client)))
    for name, call in refused(client, other).items():
        tell("refused", name, await outcome(call))


def tell(*words: str) -> None:
    print(*words, flush=True)  # noqa: T201  # what the test reads


if __name__ == "__main__":
    asyncio.run(main())
