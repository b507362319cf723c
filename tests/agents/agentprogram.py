"""An agent as a process of its own, for tests to kill, to freeze and to drain. It tells what happens, a line each.

`agentprogram.py URL NAME SETTINGS`: it counts up to the `goal` in the intent's state, and saves how far it is. With
`portfolio_id` among the settings it is a coordinator that counts in the intent named by its environment.
"""

import asyncio
import json
import os
import sys
import threading

from openintent import StaleTokenError
from openintent.agents import (
    Agent,
    Coordinator,
    on_all_complete,
    on_assignment,
    on_drain,
    on_lead,
    on_lease_lost,
)

STEP_S = 0.02


def say(what, **more):
    """A line at a time: handlers and the keeper tell from threads of their own, and `print` writes its end apart."""
    os.write(1, (json.dumps({"what": what, **more}) + "\n").encode())


class Worker:
    @on_assignment
    async def handle(self, intent):
        if intent.state.get("kind") == "plain":
            return None
        count = (self.work.checkpoint or {"count": 0})["count"]
        say("begun", attempt=self.work.attempt, count=count)
        while count < intent.state["goal"]:
            count += 1
            await self.checkpoint({"count": count})
            say("counted", count=count)
            await asyncio.sleep(STEP_S)
        return {"count": count, "by": self.agent_id}

    @on_assignment
    def stubborn(self, intent):
        """Plain, and it does not look whether it may go on."""
        if intent.state.get("kind") != "plain":
            return None
        if self.work.attempt > 1:
            return {"by": self.agent_id}
        say("begun", attempt=1)
        if intent.state.get("deaf"):
            threading.Event().wait()
        self.work.lease.lost.wait()
        try:
            self.patch_state(intent.id, {"late": True})
        except StaleTokenError as refused:
            say("refused", token=refused.token, live=refused.live_token)
        return {"late": True}

    @on_lease_lost
    def lost(self, intent, reason):
        say("lost", reason=reason)

    @on_drain
    def draining(self):
        say("draining")


class Lead:
    @on_lead
    async def lead(self, lease):
        say("leads", token=lease.token)
        intent_id = os.environ["COUNTS_IN"]
        try:
            while True:
                await self.count(intent_id)
                await asyncio.sleep(STEP_S)
        except asyncio.CancelledError:
            say("cancelled")
            try:
                await self.patch_state(intent_id, {"late": True})
            except StaleTokenError as refused:
                say("refused", token=refused.token, live=refused.live_token)
            raise

    async def count(self, intent_id):
        intent = await self.client.get_intent(intent_id)
        count = intent.state.get("count", 0) + 1
        await self.patch_state(intent_id, {"count": count}, expected_version=intent.version)
        if count == 1:
            await self.record_decision(intent_id, "plan", "count", "somebody has to")
        say("counted", count=count)

    @on_lease_lost
    def lost(self, _intent, reason):
        say("lost", reason=reason)

    @on_all_complete
    async def all_complete(self, portfolio_id):
        say("all complete", portfolio=portfolio_id)


if __name__ == "__main__":
    url, name, told = sys.argv[1:]
    settings = json.loads(told)
    make = Coordinator if "portfolio_id" in settings else Agent
    agent = make(name, base_url=url, **settings)(Lead if make is Coordinator else Worker)()
    say("started", agent_id=agent.agent_id)
    agent.run()
    say("left")
