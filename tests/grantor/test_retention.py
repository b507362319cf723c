"""Retention: the newest events are kept, older ones go in small portions, and nobody is told less than the truth."""

import asyncio

import pytest
from stage import FaultyEngine, Stage, soon

from openintent.core.answers import Ended
from openintent.core.books import BUCKET_CHARS
from openintent.core.commands import Assign, CreateIntent, LogEvent, Release, Tick
from openintent.engines.base import Delete, Put
from openintent.engines.sqlite import SqliteEngine
from openintent.errors import EngineUnavailable
from openintent.grantor import replay as replay_module
from openintent.grantor import retention as module
from openintent.grantor.replay import EventsGone, Replay, along_at
from openintent.model import Assignment, Intent, Limits

pytestmark = pytest.mark.anyio

KEPT = 100


class Log(Stage):
    """A grantor that keeps few events."""

    def __init__(self, engine=None, kept: int = KEPT) -> None:
        super().__init__(engine, Limits(events_kept_max=kept, ended_kept_max=5))

    async def note(self, count: int, space: str = "space:s") -> None:
        for _ in range(count):
            assert await self.do(LogEvent(space=space, actor="ann", type="note", payload={})).heard() == "sent"

    async def numbers(self, space: str = "space:s") -> list[int]:
        return [event.seq for event in await self.grantor.history.events(space, limit=10_000)]

    async def records(self, kind: str) -> int:
        return len(await self.engine.scan(f"{kind}/", f"{kind}0", limit=100_000))

    async def look(self) -> None:
        await soon(self.grantor._retention.look())


@pytest.fixture
async def stage():
    log = Log()
    await log.grantor.start()
    yield log
    if log.grantor.serving:
        await log.grantor.stop()


async def test_the_newest_events_are_kept_and_a_pass_begins_when_there_are_a_tenth_more(stage):
    await stage.note(KEPT + KEPT // 10)
    await stage.look()
    assert len(await stage.numbers()) == KEPT + KEPT // 10, "not yet"
    await stage.note(1)
    await stage.look()
    assert await stage.numbers() == list(range(12, 112))
    assert stage.grantor.books.horizon == 11


async def test_all_logs_lose_their_old_ends_and_only_those(stage, monkeypatch):
    monkeypatch.setattr(module, "CHUNKS_PER_SLICE", 3)
    spaces = [f"space:{name}" for name in ("s", "s1", "s11", "t", "zz")]
    for round_ in range(50):
        for number, space in enumerate(spaces):
            if round_ % (number + 1) == 0:
                await stage.note(1, space)
    before = {space: await stage.numbers(space) for space in spaces}
    await stage.look()
    horizon = stage.grantor.books.horizon
    assert horizon > 0
    for space in spaces:
        assert await stage.numbers(space) == [seq for seq in before[space] if seq > horizon]


async def test_a_log_that_is_all_old_goes_as_a_whole_and_one_that_is_all_new_stays(stage, monkeypatch):
    monkeypatch.setattr(module, "CHUNKS_PER_SLICE", 2)
    await stage.note(9, "space:old")
    await stage.note(KEPT + 2, "space:new")
    await stage.look()
    assert await stage.numbers("space:old") == []
    assert len(await stage.numbers("space:new")) == KEPT


async def test_the_horizon_is_durable_before_the_first_event_goes(stage):
    await stage.note(KEPT + 20)
    sent = len(stage.engine.commits)
    await stage.look()
    changes = [change for _, batch in stage.engine.commits[sent:] for change in batch]
    horizon = next(at for at, change in enumerate(changes) if isinstance(change, Put) and change.key == "h/")
    first = next(at for at, change in enumerate(changes) if isinstance(change, Delete) and change.key.startswith("v/"))
    assert horizon < first


async def test_a_lease_whose_end_is_forgotten_is_forgotten_with_its_place_in_the_index(stage):
    for number in range(30):
        await stage.acquire("ann", f"x{number}").heard()
        await stage.do(Release(lease_id=f"L{number + 1}", holder="ann")).heard()
    assert (await stage.grantor.history.ended_lease(Ended("L1", None, None))).id == "L1"
    assert await stage.records("e") == 30
    await stage.note(KEPT)
    await stage.look()
    assert (await stage.records("v"), await stage.records("e")) == (KEPT, 0)
    assert await stage.grantor.history.ended_lease(Ended("L1", None, None)) is None


async def test_a_lease_that_ended_lately_is_still_found_although_others_of_its_time_are_forgotten(stage):
    names = [f"00000000-{name}" for name in ("early", "late", "live")]
    assert len({name[:BUCKET_CHARS] for name in names}) == 1
    for name in names:
        command = stage.asked("ann", name)
        command.lease_id = name
        await stage.do(command).heard()
    early, late, _ = names
    await stage.do(Release(lease_id=early, holder="ann")).heard()
    await stage.note(KEPT)
    await stage.do(Release(lease_id=late, holder="ann")).heard()
    await stage.note(10)
    await stage.look()
    assert await stage.grantor.history.ended_lease(Ended(early, None, None)) is None
    assert (await stage.grantor.history.ended_lease(Ended(late, None, None))).id == late


async def test_a_chunk_that_is_not_all_old_stays_and_there_is_no_second_pass_for_it(stage, monkeypatch):
    stage.engine.hold()
    stage.do(LogEvent(space="space:other", actor="ann", type="note", payload={}))  # is committed alone
    note = LogEvent(space="space:s", actor="ann", type="note", payload={})
    callers = [stage.do(note) for _ in range(KEPT + 19)]
    stage.engine.let_go()
    await callers[-1].heard()
    await stage.look()
    assert len(await stage.numbers()) == KEPT + 19
    assert stage.grantor.books.horizon == 20
    monkeypatch.setattr(stage.engine, "scan", None)
    await stage.look()


async def test_the_copy_of_an_event_in_a_second_log_goes_too(stage):
    await stage.do(CreateIntent(intent=Intent(id="i", title="t"), chosen_id=True, actor="boss")).heard()
    await stage.do(Assign(assignment=Assignment(intent_id="i", agent_id="ann"), actor="boss")).heard()
    assert [await stage.numbers(log) for log in ("agent:ann", "intent:i")] == [[2], [1, 2]]
    await stage.note(KEPT + 20)
    await stage.look()
    assert await stage.numbers("agent:ann") == await stage.numbers("intent:i") == []


async def test_a_pass_that_a_restart_broke_off_is_brought_to_its_end(stage, monkeypatch):
    monkeypatch.setattr(module, "CHUNKS_PER_SLICE", 10)
    await stage.note(KEPT + 50)
    slices = stage.engine.scan

    async def twice_only(*args, **options):
        found = await slices(*args, **options)
        if args[0] != "v/":
            raise EngineUnavailable("the machine is off")
        return found

    monkeypatch.setattr(stage.engine, "scan", twice_only)
    with pytest.raises(EngineUnavailable):
        await stage.look()
    monkeypatch.setattr(stage.engine, "scan", slices)
    assert len(await stage.numbers()) == KEPT + 40, "one slice is gone"
    await stage.grantor.stop()
    await stage.restart()
    assert stage.grantor.books.horizon == 50
    await stage.look()
    assert len(await stage.numbers()) == KEPT
    scanned = []
    monkeypatch.setattr(stage.engine, "scan", lambda *args, **options: scanned.append(args))
    await stage.look()
    assert scanned == [], "and then there is nothing more to do"


async def test_commits_pass_between_the_slices(stage, monkeypatch):
    monkeypatch.setattr(module, "CHUNKS_PER_SLICE", 2)
    await stage.note(KEPT + 60)
    done = asyncio.ensure_future(stage.look())
    passed = 0
    while not done.done():
        await stage.note(1)
        passed += 1
    assert passed > 20, "each of them was durable before the pass was over"


async def test_a_term_that_ends_ends_the_pass_and_nothing_else(stage):
    await stage.note(KEPT + 20)
    stage.engine.faults = ["before"]
    with pytest.raises(module.NotServing):
        await stage.look()
    while not stage.grantor.serving:  # noqa: ASYNC110  # the engine works again: it is a matter of some turns
        await asyncio.sleep(0)
    assert len(await stage.numbers()) == KEPT + 20
    await stage.look()
    assert len(await stage.numbers()) == KEPT


async def test_it_looks_by_itself(monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    stage = Log(FaultyEngine())
    await stage.grantor.start()
    await stage.note(KEPT + 20)
    while len(await stage.numbers()) > KEPT + 10:
        await asyncio.sleep(0.001)
        await stage.do(Tick()).heard()
    await stage.grantor.stop()
    assert stage.grantor._retention._task.done()


async def test_it_works_on_a_real_file_and_after_a_restart(tmp_path):
    stage = Log(SqliteEngine(tmp_path / "a.db"))
    await stage.grantor.start()
    await stage.note(KEPT + 20)
    await stage.look()
    await stage.grantor.stop()
    await stage.engine.close()
    stage = Log(SqliteEngine(tmp_path / "a.db"))
    await stage.grantor.start()
    assert stage.grantor.books.horizon == 20
    assert await stage.numbers() == list(range(21, KEPT + 21))
    await stage.note(20)
    await stage.look()
    assert await stage.numbers() == list(range(41, KEPT + 41))
    await stage.grantor.stop()
    await stage.engine.close()


# Who reads meanwhile


async def test_whoever_reads_what_is_being_forgotten_is_told(stage, monkeypatch):
    monkeypatch.setattr(replay_module, "EVENTS_PER_PAGE", 4)
    await stage.note(KEPT + 20)
    replay = Replay(
        stage.grantor.history, "space:s", after=0, upto=120, along=None, horizon=lambda: stage.grantor.books.horizon
    )
    events = replay.events()
    assert (await anext(events)).seq == 1
    await stage.look()
    with pytest.raises(EventsGone):
        async for event in events:
            assert event.seq <= 4, "that was read before"


async def test_what_was_read_along_cannot_be_told_from_a_log_that_is_forgotten(stage):
    with pytest.raises(EventsGone):
        await along_at(stage.grantor.history, "agent:ann", at=3, along=(), horizon=lambda: 4)
    assert await along_at(stage.grantor.history, "agent:ann", at=4, along=["x"], horizon=lambda: 4) == {"x"}
