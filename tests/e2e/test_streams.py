"""Streams of events: nothing is missed or told twice over crashes, and nobody pays for a reader that does not read.

PROOF_STREAM_READERS and PROOF_STREAM_KILLS make the first test larger: 200 and 20 are what is promised.
"""

import asyncio
import random
import statistics
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from eventreader import Deaf, EventReader, Refused
from proving import Figures, size
from rawhttp import Connect, Connection
from serverprocess import ServerProcess

pytestmark = pytest.mark.anyio

READERS = size("stream_readers", 40)
KILLS = size("stream_kills", 3)
INTENTS, SPACES, PORTFOLIOS, AGENTS = 8, 4, 3, 4
MOVES = {
    "added_to_portfolio": True,
    "removed_from_portfolio": False,
    "agent_assigned": True,
    "agent_unassigned": False,
}


@asynccontextmanager
async def staying(readers: list[EventReader]) -> AsyncIterator[None]:
    """Everybody is connected within, and comes back when cut off."""
    tasks = [asyncio.create_task(reader.stay()) for reader in readers]
    try:
        for reader in readers:
            await reader.until(lambda reader=reader: reader.cursor is not None)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        with suppress(asyncio.CancelledError):
            task.result()  # a reader that gave up says why


@contextmanager
def hung_up(readers: list[EventReader]) -> Iterator[None]:
    """Whatever happens, their connections do not outlive the test."""
    try:
        yield
    finally:
        for reader in readers:
            reader.hang_up()


# A load


async def populate(boss: Connection) -> None:
    for number in range(INTENTS):
        assert (await boss.call("POST", "/intents", {"id": f"i{number}", "title": "t"})).ok
    for number in range(PORTFOLIOS):
        assert (await boss.call("POST", "/portfolios", {"id": f"p{number}", "name": f"p{number}"})).ok


class Worker:
    """Does one thing after the other, whatever becomes of it."""

    def __init__(self, connection: Connection, rng: random.Random) -> None:
        self._connection = connection
        self._rng = rng
        self.done = 0

    async def work(self) -> None:
        while True:
            answer = await getattr(
                self, f"_{self._rng.choice(['lease', 'lease', 'patch', 'note', 'assign', 'join'])}"
            )()
            self.done += answer.ok
            if answer.unknown:
                await asyncio.sleep(0.02)

    async def _lease(self) -> Any:
        where = f"/intents/i{self._rng.randrange(INTENTS)}"
        if self._rng.random() < 0.5:
            where = f"/spaces/s{self._rng.randrange(SPACES)}"
        body = {"scope": f"part-{self._rng.randrange(20)}", "ttl_seconds": self._rng.choice([0.1, 30])}
        taken = await self._connection.call("POST", f"{where}/leases", body)
        return await self._connection.call("DELETE", f"/leases/{taken.body['id']}") if taken.ok else taken

    async def _patch(self) -> Any:
        where = f"/intents/i{self._rng.randrange(INTENTS)}/state"
        return await self._connection.call("POST", where, {"state": {"n": self._rng.random()}}, match="*")

    async def _note(self) -> Any:
        body = {"event_type": "note", "payload": {"n": self._rng.random()}}
        return await self._connection.call("POST", f"/spaces/s{self._rng.randrange(SPACES)}/events", body)

    async def _assign(self) -> Any:
        where, agent = f"/intents/i{self._rng.randrange(INTENTS)}/agents", f"a{self._rng.randrange(AGENTS)}"
        if self._rng.random() < 0.4:
            return await self._connection.call("DELETE", f"{where}/{agent}")
        body = {"agent_id": agent, "role": self._rng.choice(["worker", "reviewer"])}
        return await self._connection.call("POST", where, body)

    async def _join(self) -> Any:
        where, intent = f"/portfolios/p{self._rng.randrange(PORTFOLIOS)}/intents", f"i{self._rng.randrange(INTENTS)}"
        if self._rng.random() < 0.4:
            return await self._connection.call("DELETE", f"{where}/{intent}")
        return await self._connection.call("POST", where, {"intent_id": intent, "priority": self._rng.randrange(2)})


@asynccontextmanager
async def load(workers: list[Worker]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(worker.work()) for worker in workers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# What should have been told


async def log_of(reader: Connection, where: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    while True:
        after = max(found, default=0)
        page = (await reader.call("GET", f"/{where}/events?order=asc&limit=1000&after={after}")).body
        if not page:
            return found
        found |= {event["seq"]: event for event in page}


def with_intents(own: dict[int, Any], intents: dict[str, dict[int, Any]]) -> Iterator[dict[str, Any]]:
    """A log, and those that are read along with it: the same rule once more, counted from the beginning."""
    everything = own | {seq: event for log in intents.values() for seq, event in log.items()}
    along: set[str] = set()
    for seq, event in sorted(everything.items()):
        if seq in own or any(seq in intents[intent] for intent in along):
            yield event
        joins = MOVES.get(event["event_type"]) if seq in own else None
        if joins is not None:
            along = along | {event["payload"]["intent_id"]} if joins else along - {event["payload"]["intent_id"]}


async def expected(reader: Connection) -> dict[str, list[dict[str, Any]]]:
    intents = {f"i{number}": await log_of(reader, f"intents/i{number}") for number in range(INTENTS)}
    told = {f"intents/{name}": list(log.values()) for name, log in intents.items()}
    for number in range(SPACES):
        told[f"spaces/s{number}"] = list((await log_of(reader, f"spaces/s{number}")).values())
    for where in [f"portfolios/p{n}" for n in range(PORTFOLIOS)] + [f"agents/a{n}" for n in range(AGENTS)]:
        told[where] = list(with_intents(await log_of(reader, where), intents))
    return told


UPPER = {"agent_assigned", "state_patched", "status_changed", "lease_released"}


def told_to_agents(place: str, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An agent is told of no assignments but its own."""
    told = [event for event in events if event["event_type"] in UPPER]
    kind, name = place.split("/")
    if kind != "agents":
        return told
    return [each for each in told if each["event_type"] != "agent_assigned" or each["payload"]["agent_id"] == name]


# The promises


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_over_kills_under_load_every_reader_is_told_every_event_once(
    server: ServerProcess, connect: Connect, figures: Figures
):
    boss, rng = connect("boss"), random.Random(7)
    await populate(boss)
    places = [f"{kind}/{name}{number}" for kind, name, count in KINDS for number in range(count)]
    firsts = (None, 0)  # to begin now, or with the oldest
    lower = [
        (place, EventReader(server.port, f"/subscribe/{place}", after=firsts[n % 2])) for n, place in _round(places)
    ]
    agents = [place for place in reversed(places) if not place.startswith("spaces")]
    upper = [(place, EventReader(server.port, f"/{place}/subscribe")) for _, place in _round(agents, READERS // 5)]
    workers = [Worker(connect(f"w{number}"), random.Random(number)) for number in range(8)]
    readers = [reader for _, reader in lower + upper]
    async with staying(readers):
        async with load(workers):
            for _ in range(KILLS):
                await asyncio.sleep(rng.uniform(0.5, 1.5))
                server.kill()
                server.start()
            await asyncio.sleep(0.5)
        boss.close()
        await _lapsed(boss)
        wanted = await expected(boss)
        pairs = [(reader, wanted[place]) for place, reader in lower]
        pairs += [(reader, told_to_agents(place, wanted[place])) for place, reader in upper]
        for reader, events in pairs:
            last = [event["seq"] for event in events if event["seq"] > reader.start][-1:]
            await reader.until(lambda reader=reader, last=last: reader.numbers[-1:] == last or not last)
    for reader, events in pairs:
        assert reader.numbers == [event["seq"] for event in events if event["seq"] > reader.start]
    for place, reader in lower:
        by_number = {event["seq"]: event for event in wanted[place]}
        assert all(told.data == by_number[told.id] for told in reader.told if told.id is not None)
    told = sum(len(reader.numbers) for reader in readers)
    came_back = sum(reader.connections for reader in readers)
    done = sum(worker.done for worker in workers)
    seen = {"acknowledged": done, "connections": came_back, "events_told": told, "missed": 0, "told_twice": 0}
    figures.add("streams over kill -9 of the server", readers=len(readers), kills=KILLS, **seen)
    assert came_back >= len(readers) * (KILLS // 2 + 1), "too few were cut off to mean anything"
    assert told > 50 * len(readers)


KINDS = (("intents", "i", INTENTS), ("spaces", "s", SPACES), ("portfolios", "p", PORTFOLIOS), ("agents", "a", AGENTS))


def _round(places: list[str], count: int = READERS - READERS // 5) -> Iterator[tuple[int, str]]:
    return ((number, places[number % len(places)]) for number in range(count))


async def _lapsed(boss: Connection) -> None:
    """Until the short leases are gone: the log is at rest."""
    while any(lease["ttl_seconds"] < 1 for lease in (await boss.call("GET", "/leases")).body["leases"]):
        pass


async def _delays(boss: Connection, space: str, reader_count: int, port: int, events: int, size: int) -> list[float]:
    """Seconds from before each event was sent until each reader had it."""
    sent: dict[int, float] = {}
    delays: list[float] = []
    hear = lambda told: delays.append(monotonic() - sent[told.data["payload"]["n"]])  # noqa: E731
    readers = [EventReader(port, f"/subscribe/spaces/{space}", hear=hear) for _ in range(reader_count)]
    async with staying(readers):
        for number in range(events):
            sent[number] = monotonic()
            body = {"event_type": "note", "payload": {"n": number, "text": "x" * size}}
            assert (await boss.call("POST", f"/spaces/{space}/events", body)).ok
        for reader in readers:
            await reader.until(lambda reader=reader: len(reader.told) == events)
    assert all(reader.connections == 1 for reader in readers), "one that reads was cut off"
    return delays


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(180)
async def test_a_reader_that_does_not_read_costs_the_others_nothing_and_resumes(
    server: ServerProcess, connect: Connect
):
    boss, events, size = connect("boss"), 200, 50_000
    alone = await _delays(boss, "one", 20, server.port, events, size)
    deaf = [Deaf(server.port, "/subscribe/spaces/two") for _ in range(10)]
    with hung_up(deaf):
        for each in deaf:
            await each.connect()
        began = monotonic()
        beside = await _delays(boss, "two", 20, server.port, events, size)
        await _are_cut_off(deaf, began, events)
    shown = {"alone": statistics.median(alone) * 1e3, "beside": statistics.median(beside) * 1e3}
    print(f"milliseconds from sending to having, at the median: {shown}")  # noqa: T201
    assert statistics.median(beside) < 3 * statistics.median(alone) + 0.05
    async with staying(deaf):
        for each in deaf:
            await each.until(lambda each=each: len(each.told) == events)
    for each in deaf:
        assert [told.data["payload"]["n"] for told in each.told] == list(range(events))


async def _are_cut_off(deaf: list[Deaf], began: float, events: int) -> None:
    for each in deaf[:5]:  # in time: they are told their cursor
        await asyncio.wait_for(each.read(), 30)
        assert each.closed == ["slow"]
        assert 0 < len(each.told) < events
    await asyncio.sleep(began + 20.0 - monotonic())  # after 15 s without reading, the others are cut off
    for each in deaf[5:]:
        with pytest.raises((ConnectionError, EOFError, ValueError)):
            await asyncio.wait_for(each.read(), 30)
        assert len(each.told) < events // 2, "that much waited for somebody who did not read"


class SmallLog(ServerProcess):
    """Keeps few events."""

    kept = 1_000

    @property
    def command(self) -> list[str]:
        config = self.database.with_name("config.toml")
        config.write_text(f"[limits]\nevents_kept_max = {self.kept}\n", encoding="utf-8")
        return [*super().command, "--config", str(config)]


@pytest.fixture
def small_log(tmp_path: Path) -> Iterator[SmallLog]:
    process = SmallLog(tmp_path / "small.db")
    try:
        process.start()
        yield process
    finally:
        process.kill()


async def oldest_kept(port: int) -> int:
    """The first event that is surely there: a reader that is ahead of the log is told."""
    ahead = EventReader(port, "/subscribe/spaces/any", after=10**12)
    with pytest.raises(Refused) as refused:
        await ahead.connect()
    ahead.hang_up()
    return int(refused.value.body["oldest"])


@asynccontextmanager
async def counting(port: int, count: int) -> AsyncIterator[list[int]]:
    """As many writers, each counting up in a space of its own; gives how far they are."""
    counts, writers = [0] * count, [Connection(port, f"w{number}") for number in range(count)]

    async def write(number: int) -> None:
        while True:
            body = {"event_type": "note", "payload": {"n": counts[number]}}
            assert (await writers[number].call("POST", f"/spaces/s{number}/events", body)).ok
            counts[number] += 1

    tasks = [asyncio.create_task(write(number)) for number in range(count)]
    try:
        yield counts
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_while_the_log_is_forgotten_readers_miss_nothing(small_log: SmallLog):
    port = small_log.port
    busy = [EventReader(port, f"/subscribe/spaces/s{number % 4}") for number in range(20)]
    quiet = EventReader(port, "/subscribe/spaces/quiet")
    async with staying([*busy, quiet]):
        begun, oldest = quiet.cursor, 0
        async with counting(port, 4) as counts, asyncio.timeout(60):
            # Until a ping has moved the quiet one, and the log no longer reaches back to where it began.
            while quiet.cursor == begun or oldest <= begun + 1:
                await asyncio.sleep(0.2)
                oldest = await oldest_kept(port)
        for number, reader in enumerate(busy):
            sent = counts[number % 4]
            await reader.until(lambda reader=reader, sent=sent: len(reader.told) >= sent)
    for reader in busy:
        assert [told.data["payload"]["n"] for told in reader.told] == list(range(len(reader.told)))
    await quiet.connect()  # it was told nothing, and can resume
    quiet.hang_up()
    late = EventReader(port, "/subscribe/spaces/s0", after=1)
    with pytest.raises(Refused, match="410"):
        await late.connect()
    late.hang_up()
    print(f"events {sum(counts):,}, kept {SmallLog.kept:,}, oldest {oldest:,}")  # noqa: T201


async def test_a_stop_with_many_open_streams_is_soon_over_and_everybody_is_told(
    server: ServerProcess, connect: Connect
):
    boss = connect("boss")
    readers = [EventReader(server.port, f"/subscribe/spaces/s{n % 7}") for n in range(200)]
    with hung_up(readers):
        for reader in readers:
            await reader.connect()
        reading = [asyncio.create_task(reader.read()) for reader in readers]
        assert (await boss.call("POST", "/spaces/s1/events", {"event_type": "note", "payload": {}})).ok
        began = monotonic()
        assert await asyncio.to_thread(server.stop) == 0
        took_s = monotonic() - began
        await asyncio.gather(*reading)
    assert [reader.closed for reader in readers] == [["stopping"]] * 200
    assert sum(len(reader.told) for reader in readers) == sum(n % 7 == 1 for n in range(200))
    print(f"stopped with 200 open streams in {took_s:.2f} s")  # noqa: T201
    assert took_s < 2.0
