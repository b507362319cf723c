"""Leases that have ended, told from the log: to whom memory would tell of them, and as it would."""

import asyncio

import pytest
from desk_words import counter

from openintent.engines.memory import MemoryEngine

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("forgotten", [False, True])
async def test_an_ended_lease_is_told_of_where_it_was_to_its_holder_and_to_operators(forgotten):
    async with counter(ended_kept_max=0) as desk:
        made = (await desk.ask("POST", "/spaces/s/leases", {})).json()
        await desk.ask("DELETE", f"/leases/{made['id']}")
        if forgotten:
            await desk.forget()
        told = []
        for where in ("", "/spaces/s", "/spaces/other", "/intents/none"):
            path = f"{where}/leases/{made['id']}"
            asked = [await desk.ask(method, path) for method in ("GET", "PATCH", "DELETE")]
            asked.append(await desk.ask("POST", f"{path}/revoke", {"reason": "r"}))
            asked.append(await desk.ask("DELETE", path, agent="bob"))
            told.append([each.status for each in asked])
        here, elsewhere = [200, 409, 200, 409, 404], [404, 404, 404, 404, 404]
        assert told == [here, here, elsewhere, elsewhere]


class Slow(MemoryEngine):
    """One whose commits can be made to wait."""

    def __init__(self):
        super().__init__()
        self.may_commit, self.asked = asyncio.Event(), asyncio.Event()
        self.may_commit.set()

    async def commit(self, **what):
        self.asked.set()
        await self.may_commit.wait()
        await super().commit(**what)


async def test_a_look_that_reads_the_log_misses_nothing_that_was_decided_before_it():
    """With a commit on its way, a release is in the next one: it has left memory, and is not in the log."""
    engine = Slow()
    async with counter(engine) as desk:
        made = (await desk.ask("POST", "/spaces/s/leases", {"scope": "one"})).json()
        engine.may_commit.clear()
        engine.asked.clear()
        before = desk.hand_in("POST", "/spaces/s/leases", {"scope": "other"})
        await engine.asked.wait()
        release = desk.hand_in("DELETE", f"/leases/{made['id']}")
        every = desk.hand_in("GET", "/spaces/s/leases?status=all")
        one = desk.hand_in("GET", f"/leases/{made['id']}")
        for _ in range(10):
            await asyncio.sleep(0)
        engine.may_commit.set()
        for each in (before, release, every, one):
            await each.answered.wait()
        assert [(lease["scope"], lease["status"]) for lease in every.json()["leases"]] == [
            ("one", "released"),
            ("other", "active"),
        ]
        assert [event["event_type"] for event in one.json()["timeline"]] == ["lease_acquired", "lease_released"]
