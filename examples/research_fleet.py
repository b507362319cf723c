"""Three researchers share six books. One of them is killed in the middle of a book; another reads on from there.

Each researcher is a process of its own. All of them have one role, and the books are assigned to that: whoever is free
takes one. A lease says who has it, and a checkpoint on the lease says how far it was read.
"""

import asyncio
import multiprocessing
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from openintent import AsyncOpenIntentClient, Event, Intent
from openintent.agents import Agent, on_assignment

BOOKS = ["Whales", "Comets", "Mosses", "Rivers", "Clocks", "Bridges"]
CHAPTERS = 4
TTL_S = 3.0  # the book of a dead researcher is free after that


class Researcher:
    @on_assignment
    async def read(self, intent: Intent) -> dict[str, str]:
        read = self.work.checkpoint or 0
        if read:  # by whoever had the book before
            await self.log(intent.id, f"reads on after chapter {read}")
        for chapter in range(read + 1, CHAPTERS + 1):
            await asyncio.sleep(0.2)
            await self.checkpoint(chapter)
        return {"summary": f"{intent.title} in {CHAPTERS} chapters"}


def research(url: str, number: int) -> None:
    """One process: it works until it is told to stop."""
    settings = {"role": "researcher", "lease_ttl": TTL_S, "base_url": url}
    Agent("reader", instance=str(number), **settings)(Researcher)().run()


async def story(url: str, readers: dict[str, multiprocessing.Process]) -> None:
    async with AsyncOpenIntentClient(url, agent_id="editor") as editor:
        shelf = await editor.create_portfolio("Books")
        books = {}
        for title in BOOKS:
            intent = await editor.create_intent(title, assign=["researcher"])
            await editor.add_intent_to_portfolio(shelf.id, intent.id)
            books[intent.id] = title
        for reader in readers.values():
            reader.start()
        killed = ""
        async for event, holder in happenings(editor, shelf.id, of=len(books)):
            title = books[event.intent_id]
            if event.event_type == "lease_acquired":
                print(f"{holder} takes {title} with token {event.payload['token']}")
            elif event.event_type == "comment":
                print(f"{holder} {event.payload['message']}")
            elif event.payload.get("checkpoint") == 2 and not killed:
                killed = holder
                print(f"{holder} has read two chapters of {title}, and is killed")
                readers[holder].kill()
            elif event.payload.get("reason") == "expired":
                print(f"the lease of {holder} on {title} has lapsed")
        await tell(editor, books)


async def happenings(editor: AsyncOpenIntentClient, shelf_id: str, *, of: int) -> AsyncIterator[tuple[Event, str]]:
    """What happens to the books, and who did it, until all are read."""
    types = ["lease_acquired", "lease_released", "task.progress", "comment"]
    async with editor.subscribe_portfolio(shelf_id, after=0, types=types) as events:
        async for event in events:
            yield event, event.payload.get("holder") or event.actor
            if event.event_type == "lease_released" and event.payload.get("reason") == "released":
                of -= 1
            if of == 0:
                return


async def tell(editor: AsyncOpenIntentClient, books: dict[str, str]) -> None:
    print()
    for intent_id, title in books.items():
        state = (await editor.get_intent(intent_id)).state
        record = state["_assignments"]["researcher"]
        tries = f"in {record['attempt']} attempts" if record["attempt"] > 1 else ""
        print(f"{title:8} {record['status']} by {record['holder']} with token {record['token']} {tries}".rstrip())


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'fleet.db'}"  # a file in place of a server
        readers = {f"reader~{number}": spawn.Process(target=research, args=(url, number)) for number in (1, 2, 3)}
        try:
            asyncio.run(story(url, readers))
        finally:
            for reader in readers.values():
                reader.terminate()  # it gives back what it has, and leaves
                reader.join()


if __name__ == "__main__":
    main()
