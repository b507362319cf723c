"""Several members on one engine: one writes, the others wait for their turn, and nobody says what it may not."""

import asyncio

import pytest
from msgspec.structs import replace
from stage import Caller, FaultyEngine, Stage, settled, soon

from openintent.core.commands import Tick
from openintent.engines.base import Head
from openintent.engines.memory import MemoryEngine
from openintent.grantor.grantor import Grantor, NotServing
from openintent.model import Limits

pytestmark = pytest.mark.anyio

TTL_S = 10.0


class Member(Stage):
    """A stage on an engine that others have open too."""

    def __init__(self, inner: MemoryEngine, name: str) -> None:
        self.name = name
        super().__init__(FaultyEngine(inner, exclusive=False))
        self.engine.on_changed = lambda: None

    def new_grantor(self) -> Grantor:
        return Grantor(self.engine, self.limits, member=self.name, leader_ttl_s=TTL_S, boot_clock_ms=self.clock)

    async def leads(self) -> bool:
        await settled()
        return self.grantor.serving


@pytest.fixture
async def inner(anyio_backend):
    return MemoryEngine()


@pytest.fixture
async def first(inner):
    member = Member(inner, "one")
    await member.grantor.start()
    assert await member.leads()
    yield member
    await member.grantor.stop()


@pytest.fixture
async def second(inner, first):
    member = Member(inner, "two")
    await member.grantor.start()
    assert not await member.leads()
    yield member
    await soon(member.grantor.stop())


async def test_a_member_that_does_not_lead_answers_nothing_and_knows_who_does(second):
    with pytest.raises(NotServing):
        second.acquire("ann")
    assert second.grantor.leader == "one"


async def test_a_member_leads_as_soon_as_the_leader_says_farewell(first, second):
    assert await first.acquire("ann").heard() == "sent"
    await first.grantor.stop()
    assert await second.leads()
    assert second.grantor.term == 2
    assert [lease.holder for lease in second.grantor.books.leases.values()] == ["ann"]


async def test_a_member_leads_when_the_head_stood_still_for_the_ttl_by_its_own_clock(first, second):
    second.clock.ms += round(TTL_S * 1_000)
    await first.engine.inner.commit(  # moves the head: a hint to look at the clock, and a reason to wait anew
        expect=await first.engine.head(), head=Head(term=1, beat=99, member="one"), changes=[]
    )
    assert not await second.leads()
    second.engine.on_changed = lambda: second.clock.__dict__.update(ms=second.clock.ms + 1_000) or True
    second.engine.inner._moved.set()
    assert await soon(_leading(second))
    assert second.grantor.term == 2


async def _leading(member):
    while not await member.leads():
        pass
    return True


async def test_a_leader_whose_trust_has_ended_answers_nothing_not_even_a_renewal(first):
    caller = first.acquire("ann")
    assert await caller.heard() == "sent"
    first.clock.ms += round(TTL_S * 1_000)
    with pytest.raises(NotServing):
        first.acquire("ann", "other")


async def test_a_leader_that_may_not_speak_does_not_go_round_and_round(first):
    """What is due cannot be dealt with, however often it is looked at."""
    first.acquire("ann", ttl_ms=600)
    first.clock.ms += 300  # by now it is time to put into order what falls due soon
    assert await first.acquire("bob", "other").heard() == "sent"
    first.engine.hold()
    first.clock.ms += round(TTL_S * 1_000)
    turns = []
    first.grantor._wall_ms = lambda: turns.append(1) or 0
    first.grantor._turn()
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert len(turns) < 10
    first.engine.let_go()


async def test_a_commit_that_comes_back_after_trust_has_ended_is_told_only_by_a_new_term(first):
    first.engine.hold()
    caller = first.acquire("ann")
    await soon(first.engine.sent.wait())
    first.clock.ms += round(TTL_S * 1_000)
    first.engine.let_go()
    assert await caller.heard() == "sent"
    assert await first.leads()
    assert first.grantor.term == 2, "it went on to tell under the term whose time was over"


async def test_a_leader_that_was_deposed_while_its_commit_was_on_its_way_tells_nobody(first, second):
    first.engine.hold()
    caller = first.acquire("ann")
    await soon(first.engine.sent.wait())
    seen = await first.engine.head()
    await first.engine.inner.commit(expect=seen, head=Head(term=seen.term + 1, member="two"), changes=[])
    first.engine.let_go()
    assert await caller.heard() == "unavailable"
    assert not first.grantor.serving


async def test_what_it_wrote_itself_a_member_takes_over_at_once(inner):
    member = Member(inner, "one")
    await member.grantor.start()
    assert await member.leads()
    member.engine.faults = ["after"]
    assert await member.acquire("ann").heard() == "sent"
    assert await member.leads()
    assert member.grantor.term == 2
    await member.grantor.stop()


async def test_a_member_that_stands_by_can_be_stopped(second):
    await soon(second.grantor.stop())
    assert second.grantor._committer.done()


@pytest.mark.parametrize("where", ["faults", "reopen_faults", "scan_faults"])
async def test_a_member_stands_by_whatever_an_engine_raises(inner, where, caplog):
    """One that died of it would be there, and answer, and never lead: nobody would notice before it is needed."""
    member = Member(inner, "one")
    getattr(member.engine, where).append(RuntimeError("the handler is closed"))
    await member.grantor.start()
    assert await soon(_leading(member))
    (line,) = [each for each in caplog.records if each.getMessage().startswith("engine still fails")]
    assert line.exc_info is not None
    await member.grantor.stop()


async def test_a_leader_beats_often_enough_to_stay_one(first):
    assert first.grantor._beat_ms * 3 <= TTL_S * 1_000


async def test_who_hangs_on_a_commit_that_does_not_end_is_told_when_trust_does(first):
    first.engine.hold()
    caller, behind = first.acquire("ann"), first.acquire("bob", "y")
    await soon(first.engine.sent.wait())
    first.clock.ms += round(TTL_S * 1_000)
    first.grantor._turn()
    assert [await each.heard() for each in (caller, behind)] == ["outcome_unknown"] * 2
    first.engine.let_go()
    await settled()


class SlowToSay(FaultyEngine):
    """Commits at once, and says so when it is let go."""

    def __init__(self, inner: MemoryEngine) -> None:
        super().__init__(inner, exclusive=False)
        self.may_say = asyncio.Event()
        self.may_say.set()

    async def commit(self, **what):
        await super().commit(**what)
        await self.may_say.wait()


async def test_who_hangs_on_a_commit_that_came_back_too_late_is_told_as_soon_as_another_leads(inner):
    member = Member(inner, "one")
    member.engine = SlowToSay(inner)
    member.grantor = member.new_grantor()
    await member.grantor.start()
    assert await member.leads()
    member.engine.may_say.clear()
    caller = member.acquire("ann")
    await soon(_until(lambda: member.engine.commits[-1][1]))
    head = await inner.head()
    await inner.commit(expect=head, head=replace(head, term=2, beat=0, member="two"), changes=[])
    member.clock.ms += round(TTL_S * 1_000)
    member.engine.may_say.set()
    assert await caller.heard() == "outcome_unknown"
    await soon(member.grantor.stop())


# A term that takes long to begin


class Ponderous(FaultyEngine):
    """Reads as long as it is not let go."""

    def __init__(self, inner: MemoryEngine) -> None:
        super().__init__(inner, exclusive=False)
        self.read = asyncio.Event()

    async def scan(self, first, last, *, limit, reverse=False):
        await self.read.wait()
        return await super().scan(first, last, limit=limit, reverse=reverse)


@pytest.mark.alone
async def test_a_leader_that_loads_for_longer_than_the_ttl_stays_the_leader(inner):
    engine = Ponderous(inner)
    slow = Grantor(engine, Limits(), member="slow", leader_ttl_s=0.3)
    other = Grantor(FaultyEngine(inner, exclusive=False), Limits(), member="other", leader_ttl_s=0.3)
    await slow.start()
    await settled()
    await other.start()
    try:
        await asyncio.sleep(1.0)  # three times what the other would wait for
        assert not slow.serving
        assert (await inner.head()).term == 1, "another has taken over"
        engine.read.set()
        await soon(_until(lambda: slow.serving))
        assert slow.leads
    finally:
        await soon(other.stop())
        await soon(slow.stop())


async def _until(wanted):
    while not wanted():  # noqa: ASYNC110  # what it looks at has no event to wait for
        await asyncio.sleep(0.005)


async def test_a_leader_that_is_deposed_while_it_loads_does_not_begin(inner):
    engine = Ponderous(inner)
    slow = Grantor(engine, Limits(), member="slow", leader_ttl_s=0.3)
    await slow.start()
    await settled()
    await inner.commit(expect=await inner.head(), head=Head(term=9, member="two"), changes=[])
    await soon(_until(lambda: slow.leader == "two"))
    engine.read.set()
    await settled()
    assert not slow.serving
    await soon(slow.stop())


async def test_after_a_farewell_nobody_leads(first):
    assert first.grantor.leader == "one"
    await first.grantor.stop()
    assert first.grantor.leader == ""


async def test_a_reply_whose_maker_had_to_wait_does_not_leave_after_trust_has_ended(first):
    caller = Caller(first.grantor)
    reply = first.grantor.apply(Tick())
    first.clock.ms += round(TTL_S * 1_000)
    caller.answer(reply)
    assert await caller.heard() == "unavailable"
