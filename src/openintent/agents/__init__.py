"""Agents: a class, its handlers, and everything about leases is seen to.

from openintent.agents import Agent, on_assignment

@Agent("fetcher")
class Fetcher:
    @on_assignment
    async def fetch(self, intent):
        return {"rows": await rows_of(intent.description)}

Fetcher().run()
"""

from openintent.agents.context import AgentBase
from openintent.agents.decorators import Agent, Coordinator
from openintent.agents.fleet import run_agents, run_agents_async, running
from openintent.agents.hooks import (
    on_all_complete,
    on_assignment,
    on_complete,
    on_drain,
    on_event,
    on_handoff,
    on_lead,
    on_lease_available,
    on_lease_lost,
    on_preempt,
    on_retry,
    on_state_change,
)
from openintent.agents.work import Work
from openintent.retrying import Retry

__all__ = [
    "Agent",
    "AgentBase",
    "Coordinator",
    "Retry",
    "Work",
    "on_all_complete",
    "on_assignment",
    "on_complete",
    "on_drain",
    "on_event",
    "on_handoff",
    "on_lead",
    "on_lease_available",
    "on_lease_lost",
    "on_preempt",
    "on_retry",
    "on_state_change",
    "run_agents",
    "run_agents_async",
    "running",
]
