"""An engine that can commit on the spot is asked to, while nobody is in a hurry."""

import pytest
from stage import FaultyEngine, Listener, Stage, settled, soon

from openintent.core.commands import GetLease, ListLeases, Release, Renew, Tick
from openintent.core.timers import HURRY_MS
from openintent.engines.base import OutcomeUncertain
from openintent.grantor import recovery

pytestmark = pytest.mark.anyio


class PromptEngine(FaultyEngine):
    """Commits on the spot, unless it is busy, or fails, before or after it happened."""

    def __init__(self, *, exclusive: bool = True) -> None:
        super().__init__(exclusive=exclusive)
        self.busy = False
        self.spot_fault = ""
        self.on_the_spot = 0

    def commit_here(self, *, expect, head, changes):
        if self.busy:
            return False
        fault, self.spot_fault = self.spot_fault, ""
        if fault != "before":
            coroutine = self.inner.commit(expect=expect, head=head, changes=changes)
            with pytest.raises(StopIteration):  # it waits for nothing
                coroutine.send(None)
        if fault:
            raise OutcomeUncertain(fault)
        self.on_the_spot += 1
        return True


@pytest.fixture
async def stage(anyio_backend):
    made = Stage(PromptEngine())
    await made.grantor.start()
    yield made
    made.engine.let_go()
    await made.grantor.stop()


async def test_an_answer_has_left_when_the_turn_is_over(stage):
    assert stage.acquire("ann").outcome == "sent"
    assert stage.engine.on_the_spot == 1
    assert (await stage.engine.head()).rev == stage.grantor.books.rev


async def test_nobody_waits_for_an_answer_to_one_who_waited(stage):
    stage.acquire("ann")
    bob, _ = stage.wait("bob")
    assert bob.outcome is None
    stage.do(Release(lease_id="L1", holder="ann"))
    assert bob.outcome == "sent"


async def test_readers_are_told_in_order_whichever_way_it_went(stage):
    listener = Listener(stage.grantor.feed)
    for number in range(6):
        stage.engine.busy = number in (1, 2, 4)
        stage.acquire("ann", str(number))
        if number == 4:
            await settled()
    events = [await listener.next() for _ in range(6)]
    assert [event.seq for event in events] == sorted(event.seq for event in events)
    assert stage.engine.on_the_spot == 2  # what came behind one on its way went along with the next


async def test_behind_one_that_is_on_its_way_nothing_is_committed_on_the_spot(stage):
    stage.engine.busy = True
    stage.engine.hold()
    first = stage.acquire("ann", "x")
    stage.engine.busy = False
    second = stage.acquire("ann", "y")
    await settled()
    assert (first.outcome, second.outcome, stage.engine.on_the_spot) == (None, None, 0)
    stage.engine.let_go()
    assert [await first.heard(), await second.heard()] == ["sent", "sent"]
    assert stage.engine.on_the_spot == 0
    assert stage.acquire("ann", "z").outcome == "sent"


async def test_while_a_holder_is_in_a_hurry_the_loop_does_not_wait_for_the_disk(stage):
    hurried = stage.acquire("ann", ttl_ms=HURRY_MS - 1)
    assert hurried.outcome is None
    assert await hurried.heard() == "sent"
    stage.engine.hold()
    stage.acquire("bob", "y")
    await soon(stage.engine.sent.wait())
    assert stage.do(Renew(lease_id="L1", holder="ann")).outcome == "sent"
    assert stage.engine.on_the_spot == 0


async def test_one_who_renews_a_short_lease_stays_in_a_hurry_until_it_ends(stage):
    await stage.acquire("ann", ttl_ms=3_000).heard()
    for second in range(10):
        stage.clock.ms += 1_000
        stage.do(Renew(lease_id="L1", holder="ann"))
        assert await stage.acquire("bob", f"{second}").heard() == "sent"
    assert stage.engine.on_the_spot == 0
    for _ in range(4):
        stage.clock.ms += 1_000
        stage.grantor.apply(Tick())
    await settled()
    assert stage.acquire("bob", "x").outcome == "sent"
    assert stage.engine.on_the_spot > 0


async def test_one_who_renews_a_long_lease_in_time_is_in_no_hurry(stage):
    stage.acquire("ann", ttl_ms=60_000)
    for minute_third in range(12):
        for _ in range(20):
            stage.clock.ms += 1_000
            stage.grantor.apply(Tick())
        stage.do(Renew(lease_id="L1", holder="ann"))
        assert stage.acquire("bob", f"{minute_third}", ttl_ms=600_000).outcome == "sent"


async def test_one_that_waits_is_in_no_hurry(stage):
    stage.acquire("ann")
    stage.wait("bob", wait_ms=1_000)
    assert stage.acquire("cid", "y").outcome == "sent"


async def test_a_commit_that_failed_on_the_spot_ends_the_term(stage, monkeypatch):
    monkeypatch.setattr(recovery, "RETRY_S_MIN", 0.001)
    for fault, outcome, kept in (("before", "unavailable", []), ("after", "sent", ["ann"])):
        term, stage.engine.spot_fault = stage.grantor.term, fault
        caller = stage.acquire("ann", fault)
        assert caller.outcome is None
        assert await caller.heard() == outcome
        while not stage.grantor.serving:
            await settled()
        assert stage.grantor.term == term + 1
        assert [lease.holder for lease in stage.do(ListLeases()).reply.answer.leases] == kept


async def test_where_several_share_an_engine_no_commit_holds_up_the_loop(anyio_backend):
    stage = Stage(PromptEngine(exclusive=False))
    await stage.grantor.start()
    while not stage.grantor.serving:
        await settled()
    assert await stage.acquire("ann").heard() == "sent"
    assert stage.engine.on_the_spot == 0
    await stage.grantor.stop()


async def test_what_was_committed_on_the_spot_is_there_in_the_next_term(stage):
    stage.acquire("ann")
    await stage.grantor.stop()
    await stage.restart()
    assert stage.do(GetLease(lease_id="L1")).reply.answer.lease.token == 1
