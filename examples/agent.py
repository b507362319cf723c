"""The smallest agent: it is given work, holds a lease while its handler runs, and its result counts once."""

import asyncio
import tempfile
from pathlib import Path

from openintent import AsyncOpenIntentClient, Intent
from openintent.agents import Agent, on_assignment, running


@Agent("greeter", complete=True)
class Greeter:
    @on_assignment
    async def greet(self, intent: Intent) -> dict[str, str]:
        print(f"{self.agent_id} greets {intent.title} under token {self.work.lease.token}")
        return {"greeting": f"Hello, {intent.title}!"}


async def main(url: str) -> None:
    # In a program of its own an agent is run by `Greeter().run()`; here it runs beside the one who gives it work.
    async with running(Greeter(url)), AsyncOpenIntentClient(url, agent_id="ada") as ada:
        intent = await ada.create_intent("world", assign=["greeter"])
        async with ada.subscribe_intent(intent.id, after=0, types=["status_changed"]) as changes:
            await anext(changes)
        print(f"ada reads {(await ada.get_intent(intent.id)).state['greeting']!r}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:  # a file in place of a server
        asyncio.run(main(f"sqlite:///{Path(folder) / 'agent.db'}"))
