"""A commit that fails ends the term; nothing that saw its changes is acknowledged unless it is known to be durable."""

import pytest
from stage import Caller, FaultyEngine, Stage, settled, soon

from openintent import records
from openintent.core.commands import GetLease, ListLeases, Release, Renew
from openintent.engines.base import Deposed, Head, OutcomeUncertain
from openintent.errors import EngineUnavailable
from openintent.grantor import recovery
from openintent.grantor.grantor import NotServing

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_delay(monkeypatch):
    monkeypatch.setattr(recovery, "RETRY_S_MIN", 0.001)
    monkeypatch.setattr(recovery, "RETRY_S_MAX", 0.001)


async def serving_again(stage: Stage) -> Caller:
    """A reply of the new term."""
    while not stage.grantor.serving:
        await soon(settled())
        await soon(stage.engine.sent.wait())
    return stage.acquire("somebody", "somewhere else")


async def test_a_commit_that_did_not_happen_is_refused_and_forgotten(stage):
    stage.engine.faults = ["before"]
    ann = stage.acquire("ann")
    assert await ann.heard() == "unavailable"
    await (await serving_again(stage)).heard()
    assert [lease.holder for lease in stage.do(ListLeases()).reply.answer.leases] == ["somebody"]
    assert stage.engine.reopened == 1


async def test_a_commit_that_happened_after_all_is_acknowledged(stage):
    stage.engine.faults = ["after"]
    ann = stage.acquire("ann")
    assert await ann.heard() == "sent"
    await (await serving_again(stage)).heard()
    assert stage.do(GetLease(lease_id="L1")).reply.answer.lease.token == 1


async def test_a_bug_of_ours_before_the_commit_ends_the_term_too_and_leaves_nobody_waiting(stage):
    honest = stage.grantor.feed.gather
    stage.grantor.feed.gather = lambda *_: stage.grantor.feed.__dict__.update(gather=honest) or 1 / 0
    assert await stage.acquire("ann").heard() == "unavailable"
    assert await (await serving_again(stage)).heard() == "sent"
    assert stage.grantor.term == 2


async def test_a_new_term_begins_and_tokens_rise(stage):
    await stage.acquire("ann").heard()
    stage.engine.faults = ["after"]
    assert await stage.acquire("bob", "y").heard() == "sent"
    after = await serving_again(stage)
    assert await after.heard() == "sent"
    assert after.reply.answer.lease.token == 3
    assert stage.grantor.term == 2
    assert (await stage.engine.head()).term == 2


async def test_whatever_came_after_the_failed_batch_is_refused(stage):
    stage.engine.hold()
    stage.engine.faults = ["after"]
    first = stage.acquire("ann")
    await soon(stage.engine.sent.wait())
    later = stage.acquire("bob", "y")
    stage.engine.let_go()
    assert (await first.heard(), await later.heard()) == ("sent", "unavailable")


async def test_waiting_requests_are_hung_up_and_find_their_place_again(stage):
    await stage.acquire("ann").heard()
    old, _ = stage.wait("bob", attempt="t1")
    await stage.acquire("ann", "y").heard()
    stage.engine.faults = ["before"]
    stage.acquire("cid", "z")
    assert await old.heard() == "unavailable"
    await (await serving_again(stage)).heard()
    new, _ = stage.wait("bob", attempt="t1")
    stage.do(Release(lease_id="L1", holder="ann"))
    assert await new.heard() == "sent"
    assert new.reply.answer.lease.id == "L2"


async def test_nothing_is_acknowledged_while_the_outcome_is_unknown(stage):
    await stage.acquire("ann").heard()
    stage.engine.faults = ["after"]
    stage.engine.reopen_faults = [EngineUnavailable("still broken") for _ in range(5)]
    bob = stage.acquire("bob", "y")
    while not stage.engine.reopened:
        await settled()
    with pytest.raises(NotServing):
        stage.do(Renew(lease_id="L1", holder="ann"))
    assert bob.outcome is None
    assert await bob.heard() == "sent"
    assert stage.engine.reopened == 6


async def test_an_outcome_that_stays_unknown_is_told_as_such(stage, monkeypatch):
    monkeypatch.setattr(recovery, "OUTCOME_PATIENCE_S", -1)
    stage.engine.faults = ["after"]
    stage.engine.reopen_faults = [EngineUnavailable("still broken")]
    ann = stage.acquire("ann")
    assert await ann.heard() == "outcome_unknown"
    await (await serving_again(stage)).heard()


async def test_a_takeover_that_is_uncertain_itself_proves_nothing(stage):
    """The head is already at our new term when it is read, although the failed commit never happened."""
    stage.engine.faults = ["before", "after"]
    ann = stage.acquire("ann")
    assert await ann.heard() == "unavailable"
    await (await serving_again(stage)).heard()
    assert [lease.holder for lease in stage.do(ListLeases()).reply.answer.leases] == ["somebody"]


async def test_an_uncertain_takeover_after_a_commit_that_happened(stage):
    stage.engine.faults = ["after", "after", "before"]
    ann = stage.acquire("ann")
    assert await ann.heard() == "sent"
    await (await serving_again(stage)).heard()
    assert stage.do(GetLease(lease_id="L1")).reply.answer.lease.holder == "ann"


async def test_a_deposed_writer_acknowledges_nothing(stage):
    seen = await stage.engine.head()
    usurper = Head(term=seen.term + 1, clock_ms=seen.clock_ms, member="other")
    await stage.engine.inner.commit(expect=seen, head=usurper, changes=[])
    ann = stage.acquire("ann")
    assert await ann.heard() == "unavailable"


async def test_a_commit_after_which_another_took_over_is_unknown(stage):
    """Whether it happened before the other came can no longer be told from the head."""

    async def usurped() -> None:
        seen = await stage.engine.head()
        usurper = Head(term=seen.term + 1, clock_ms=seen.clock_ms, member="other", token=seen.token, seq=seen.seq)
        await stage.engine.inner.commit(expect=seen, head=usurper, changes=[])

    stage.engine.reopen = usurped
    stage.engine.faults = ["before"]
    assert await stage.acquire("ann").heard() == "outcome_unknown"
    stage.engine.reopen = settled


async def test_an_engine_that_surely_did_nothing_is_not_waited_for(stage):
    stage.engine.faults = [EngineUnavailable("full")]
    stage.engine.reopen_faults = [EngineUnavailable("still full") for _ in range(3)]
    ann = stage.acquire("ann")
    while not stage.engine.reopened:
        await settled()
    assert ann.outcome == "unavailable"
    await (await serving_again(stage)).heard()


async def test_an_engine_that_cannot_be_read_at_first_is_tried_again(stage):
    await stage.acquire("ann").heard()
    stage.engine.faults = ["after"]
    stage.engine.scan_faults = [EngineUnavailable("not yet")]
    assert await stage.acquire("bob", "y").heard() == "sent"
    await (await serving_again(stage)).heard()
    assert [lease.token for lease in stage.do(ListLeases()).reply.answer.leases] == [1, 2, 3]


async def test_stopping_while_the_engine_fails_ends(stage):
    stage.engine.faults = ["before"]
    stage.engine.reopen_faults = [EngineUnavailable("for ever") for _ in range(10_000)]
    ann = stage.acquire("ann")
    while not stage.engine.reopened:
        await settled()
    await soon(stage.grantor.stop())
    assert ann.outcome == "outcome_unknown"


async def test_a_stop_drains_what_is_on_its_way_and_then_serves_nobody(anyio_backend):
    stage = Stage()
    await stage.grantor.start()
    await stage.acquire("ann").heard()
    bob, _ = stage.wait("bob")
    stage.engine.hold()
    cid = stage.acquire("cid", "y")
    await soon(stage.engine.sent.wait())
    stage.engine.let_go()
    await soon(stage.grantor.stop())
    assert (bob.outcome, cid.outcome) == ("unavailable", "sent")
    with pytest.raises(NotServing):
        stage.acquire("dan", "z")
    with pytest.raises(NotServing):
        stage.wait("dan", "z")
    assert stage.grantor._waiting == {}
    head = await stage.engine.head()
    assert (head.farewell, head.token) == (True, 2)


async def test_a_farewell_that_fails_costs_only_the_exact_times(anyio_backend):
    stage = Stage()
    await stage.grantor.start()
    await stage.acquire("ann", ttl_ms=1_000).heard()
    stage.clock.ms += 400
    stage.engine.faults = ["before"]
    await stage.grantor.stop()
    await stage.restart()
    assert stage.do(GetLease(lease_id="L1")).reply.answer.remaining_ms == 1_000
    await stage.grantor.stop()


async def test_an_engine_that_fails_at_the_start_is_the_callers_to_know(anyio_backend):
    engine = FaultyEngine()
    engine.faults = ["before"]
    stage = Stage(engine)
    with pytest.raises(OutcomeUncertain):
        await stage.grantor.start()
    await stage.grantor.stop()
    assert not stage.grantor.serving


async def test_being_deposed_says_by_whom():
    assert "'other'" in str(Deposed(Head(term=2, member="other")))


async def test_whoever_was_hung_up_is_granted_nothing_that_it_would_not_hear_of(stage):
    await stage.acquire("ann", "a/x").heard()
    callers = [stage.wait("bob", "a/**"), stage.wait("cid", "a/y"), stage.wait("dan", "a/x", attempt="t1")]
    stage.grantor.hang_up()
    assert [caller.outcome for caller, _ in callers] == ["unavailable"] * 3
    await stage.do(Release(lease_id="L1", holder="ann")).heard()
    assert stage.do(ListLeases()).reply.answer.leases == []


async def test_a_reply_of_a_term_that_has_ended_is_refused_however_late_it_is_parked(stage):
    await stage.acquire("ann").heard()
    old = stage.grantor.apply(GetLease(lease_id="L1"))
    stage.engine.faults = ["before"]
    assert await stage.acquire("bob", "y").heard() == "unavailable"
    await (await serving_again(stage)).heard()
    late = Caller(stage.grantor)
    late.answer(old)
    assert await late.heard() == "unavailable"


async def test_what_is_not_an_error_of_the_engine_ends_the_term_too_and_nothing_hangs(stage, monkeypatch):
    await stage.acquire("ann").heard()
    broken = [OverflowError("a number that no record can hold")]
    encode = records.encode
    monkeypatch.setattr(records, "encode", lambda thing: encode(thing) if not broken else _raise(broken.pop()))
    assert await stage.acquire("bob", "y").heard() == "unavailable"
    await (await serving_again(stage)).heard()
    assert stage.grantor.term == 2


def _raise(error: Exception) -> bytes:
    raise error
