"""Two planners, one of whom leads. It is killed; the other leads on, and what the first still had to say is refused.

Each planner is a process of its own. Only the one that leads plans, and it begins where the plan ends: no week is
planned twice, and none is left out.
"""

import asyncio
import multiprocessing
import tempfile
from pathlib import Path

from openintent import AsyncOpenIntentClient, CoordinatorLease
from openintent.agents import Coordinator, on_lead
from openintent.exceptions import StaleTokenError

PLAN = "plan"  # the intent that is led
WEEKS = 12
TTL_S = 1.5  # when the leader dies, another leads within that


class Planner:
    @on_lead
    async def lead(self, lease: CoordinatorLease) -> None:
        """Cancelled when the lease is lost. All that is written here names its token."""
        await self.record_decision(PLAN, "leadership", f"{self.agent_id} leads", f"with token {lease.token}")
        planned = (await self.client.get_intent(PLAN)).state.get("weeks", {})
        for week in range(len(planned) + 1, WEEKS + 1):
            await self.patch_state(PLAN, {f"weeks/{week}": self.agent_id})
            await asyncio.sleep(0.15)
        await self.complete_intent(PLAN)


def plan(url: str, number: int) -> None:
    """One process: it leads or stands by until it is told to stop."""
    settings = {"intent_id": PLAN, "lease_ttl": TTL_S, "instance": str(number), "base_url": url}
    Coordinator("planner", **settings)(Planner)().run()


async def story(url: str, planners: dict[str, multiprocessing.Process]) -> None:
    async with AsyncOpenIntentClient(url, agent_id="ada") as ada:
        await ada.create_intent("Plan of the weeks", id=PLAN)
        for planner in planners.values():
            planner.start()
        old = None
        async with ada.subscribe_intent(PLAN, after=0) as events:
            async for event in events:
                if event.event_type == "decision_recorded":
                    print(f"{event.payload['outcome']} {event.payload['reasoning']}")
                    if old is not None:
                        await write_late(url, old)
                elif event.event_type == "state_patched" and old is None and "weeks/4" in str(event.payload):
                    (old,) = await ada.list_coordinator_leases(intent_id=PLAN)
                    planners[old.agent_id].kill()
                    print(f"{old.agent_id} is killed")
                elif event.event_type == "status_changed":
                    break
        weeks = (await ada.get_intent(PLAN)).state["weeks"]
    for planner in sorted(planners):
        print(f"{planner} planned the weeks", *sorted(int(week) for week, by in weeks.items() if by == planner))


async def write_late(url: str, old: CoordinatorLease) -> None:
    """What the dead leader had sent and the network had kept: here it arrives."""
    async with AsyncOpenIntentClient(url, agent_id=old.agent_id) as late:
        try:
            await late.patch_state(PLAN, {"weeks/5": old.agent_id}, lease=old.token)
        except StaleTokenError:
            print(f"a late write of {old.agent_id} with token {old.token} is refused")


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'plan.db'}"  # a file in place of a server
        planners = {f"planner~{number}": spawn.Process(target=plan, args=(url, number)) for number in (1, 2)}
        try:
            asyncio.run(story(url, planners))
        finally:
            for planner in planners.values():
                planner.terminate()
                planner.join()


if __name__ == "__main__":
    main()
