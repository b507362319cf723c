"""Apply, commit, reply: in this order, and one batch for all who came meanwhile."""

import pytest
from stage import Caller, Listener, Stage, settled, soon

from openintent import records
from openintent.core.answers import Reply
from openintent.core.commands import GetLease, Heartbeat, ListLeases, Release, Renew
from openintent.engines.base import Put
from openintent.errors import EngineUnavailable
from openintent.model import Farewell

pytestmark = pytest.mark.anyio


async def test_a_reply_leaves_only_after_its_commit(stage):
    stage.engine.hold()
    ann = stage.acquire("ann")
    await soon(stage.engine.sent.wait())
    await settled()
    assert ann.outcome is None
    stage.engine.let_go()
    assert await ann.heard() == "sent"


async def test_a_refusal_or_a_read_waits_for_what_it_saw(stage):
    stage.engine.hold()
    stage.acquire("ann")
    told = [stage.acquire("bob"), stage.do(GetLease(lease_id="L1")), stage.do(ListLeases())]
    await soon(stage.engine.sent.wait())
    await settled()
    assert [caller.outcome for caller in told] == [None] * 3
    stage.engine.let_go()
    assert [await caller.heard() for caller in told] == ["sent"] * 3


async def test_newcomers_gather_while_a_batch_is_on_its_way(stage):
    stage.engine.hold()
    first = stage.acquire("ann", "first")
    await soon(stage.engine.sent.wait())
    sent = len(stage.engine.commits)
    later = [stage.acquire("ann", f"later-{n}") for n in range(5)]
    await settled()
    assert len(stage.engine.commits) == sent
    stage.engine.let_go()
    assert [await caller.heard() for caller in [first, *later]] == ["sent"] * 6
    assert len(stage.engine.commits) == sent + 1
    _, changes = stage.engine.commits[-1]
    assert len([change for change in changes if isinstance(change, Put) and change.key.startswith("l/")]) == 5


async def test_what_is_committed_is_what_was_true_when_the_batch_left(stage):
    stage.engine.hold()
    stage.acquire("ann")
    await soon(stage.engine.sent.wait())
    stage.do(Release(lease_id="L1", holder="ann"))
    _, changes = stage.engine.commits[-1]
    [stored] = [records.decode(change.key, change.value) for change in changes if change.key == "l/L1"]
    assert stored.status == "active"


async def test_a_renewal_of_a_durable_lease_leaves_at_once_while_a_commit_hangs(stage):
    assert await stage.acquire("ann").heard() == "sent"
    stage.engine.hold()
    stage.acquire("bob", "y")
    await soon(stage.engine.sent.wait())
    assert stage.do(Renew(lease_id="L1", holder="ann")).outcome == "sent"
    assert stage.do(Heartbeat(holder="ann", held=(("L1", 1),))).outcome == "sent"


async def test_a_renewal_of_a_lease_that_is_not_durable_waits(stage):
    stage.engine.hold()
    stage.acquire("ann")
    await soon(stage.engine.sent.wait())
    renewed = stage.do(Renew(lease_id="L1", holder="ann"))
    assert renewed.outcome is None
    stage.engine.let_go()
    assert await renewed.heard() == "sent"


async def test_answers_of_a_turn_leave_together_at_its_end_behind_the_commit(stage, monkeypatch):
    await stage.acquire("ann").heard()
    told: list[str] = []
    commit = stage.engine.commit

    def commit_at_once(**what):
        told.append("commit")
        return commit(**what)

    monkeypatch.setattr(stage.engine, "commit", commit_at_once)
    ann, bob = Caller(stage.grantor), Caller(stage.grantor)
    monkeypatch.setattr(ann, "send", lambda: told.append("renewed"))
    stage.grantor.look()
    ann.answer(stage.grantor.decide(Renew(lease_id="L1", holder="ann")))
    bob.answer(stage.grantor.decide(stage.asked("bob", "y")))
    assert told == []
    stage.grantor.see_to_it()
    assert told == ["commit", "renewed"]
    assert await bob.heard() == "sent"


async def test_a_command_that_fails_keeps_no_later_answer_back(stage, monkeypatch):
    await stage.acquire("ann").heard()
    with monkeypatch.context() as broken, pytest.raises(ZeroDivisionError):
        broken.setattr(stage.grantor, "decide", lambda _command: 1 // 0)
        stage.do(Renew(lease_id="L1", holder="ann"))
    caller = Caller(stage.grantor)
    caller.answer(Reply(None, 0, 1, stage.grantor.term))  # of a handler that had to wait: no turn is under way
    assert caller.outcome == "sent"


async def test_a_commit_that_cannot_even_be_sent_ends_the_term_and_nobody_hangs(stage, monkeypatch):
    def commit(**_what):
        monkeypatch.undo()
        raise EngineUnavailable("its process has ended")

    monkeypatch.setattr(stage.engine, "commit", commit)
    assert await stage.acquire("ann").heard() == "unavailable"
    while not stage.grantor.serving:
        await settled()
    assert await stage.acquire("ann").heard() == "sent"


async def test_whoever_waits_is_answered_when_its_turn_is_durable(stage):
    await stage.acquire("ann").heard()
    bob, _ = stage.wait("bob")
    stage.engine.hold()
    stage.do(Release(lease_id="L1", holder="ann"))
    await soon(stage.engine.sent.wait())
    assert bob.outcome is None
    stage.engine.let_go()
    assert await bob.heard() == "sent"
    assert bob.reply.answer.lease.token == 2


async def test_an_acquire_that_need_not_wait_is_answered_directly(stage):
    bob, _ = stage.wait("bob")
    assert bob.outcome is None
    assert stage.grantor._waiting == {}


async def test_one_who_went_away_is_granted_nothing(stage):
    await stage.acquire("ann").heard()
    bob, request = stage.wait("bob")
    cid, _ = stage.wait("cid")
    stage.grantor.abandon(request)
    stage.grantor.abandon(request)
    stage.do(Release(lease_id="L1", holder="ann"))
    assert await cid.heard() == "sent"
    assert bob.outcome is None


async def test_a_place_with_an_attempt_is_found_again_over_another_connection(stage):
    await stage.acquire("ann").heard()
    old, request = stage.wait("bob", attempt="t1")
    stage.grantor.abandon(request)
    new, _ = stage.wait("bob", attempt="t1")
    stage.do(Release(lease_id="L1", holder="ann"))
    assert await new.heard() == "sent"
    assert (new.reply.answer.lease.id, old.outcome) == ("L2", None)


async def test_a_reply_that_cannot_be_sent_costs_the_others_nothing(stage, caplog):
    stage.engine.hold()
    broken, ann = stage.acquire("ann", "x"), stage.acquire("ann", "y")

    def fails() -> None:
        raise ConnectionResetError

    broken.send = fails
    await soon(stage.engine.sent.wait())
    stage.engine.let_go()
    assert await ann.heard() == "sent"
    assert await stage.acquire("ann", "z").heard() == "sent"


async def test_events_reach_the_feed_in_order_and_only_when_durable(stage):
    listener = Listener(stage.grantor.feed)
    stage.engine.hold()
    stage.acquire("ann")
    stage.acquire("ann", "y")
    await soon(stage.engine.sent.wait())
    stage.do(Release(lease_id="L1", holder="ann"))
    await settled()
    assert listener.reader.take(1) == b""
    stage.engine.let_go()
    events = [await listener.next() for _ in range(3)]
    assert [(event.seq, event.type) for event in events] == [
        (1, "lease_acquired"),
        (2, "lease_acquired"),
        (3, "lease_released"),
    ]
    assert events[0].lease is None


async def test_everything_is_there_again_after_a_clean_stop(anyio_backend):
    stage = Stage()
    await stage.grantor.start()
    await stage.acquire("ann", ttl_ms=1_000).heard()
    stage.clock.ms += 400
    stage.do(Renew(lease_id="L1", holder="ann"))
    stage.clock.ms += 100
    await stage.grantor.stop()
    stage.clock.ms += 77_777
    await stage.restart()
    seen = stage.do(GetLease(lease_id="L1")).reply.answer
    assert (seen.remaining_ms, stage.grantor.term) == (900, 2)
    await stage.grantor.stop()


async def test_after_a_crash_every_lease_has_its_largest_ttl(anyio_backend):
    stage = Stage()
    await stage.grantor.start()
    await stage.acquire("ann", ttl_ms=1_000).heard()
    stage.clock.ms += 900
    old = stage.grantor
    await stage.restart()
    assert stage.do(GetLease(lease_id="L1")).reply.answer.remaining_ms == 1_000
    assert (await stage.engine.head()).term == 2
    old.serving = False  # it was killed; here it only falls silent
    await old.stop()
    await stage.grantor.stop()


async def test_a_farewell_counts_for_the_next_term_only(anyio_backend):
    stage = Stage()
    await stage.grantor.start()
    await stage.acquire("ann", ttl_ms=1_000).heard()
    stage.clock.ms += 400
    stage.do(GetLease(lease_id="L1"))
    await stage.grantor.stop()
    await stage.restart()
    assert stage.do(GetLease(lease_id="L1")).reply.answer.remaining_ms == 600
    old = stage.grantor
    await stage.restart()
    assert stage.do(GetLease(lease_id="L1")).reply.answer.remaining_ms == 1_000
    old.serving = False
    await old.stop()
    await stage.grantor.stop()


async def test_a_farewell_of_another_term_counts_for_nothing(anyio_backend):
    stage = Stage()
    await stage.grantor.start()
    await stage.acquire("ann", ttl_ms=1_000).heard()
    stage.clock.ms += 400
    await stage.grantor.stop()
    stale = Put("f/", records.encode(Farewell(0, {"L1": 1})))
    head = await stage.engine.head()
    await stage.engine.inner.commit(expect=head, head=head, changes=[stale])
    await stage.restart()
    assert stage.do(GetLease(lease_id="L1")).reply.answer.remaining_ms == 1_000
    await stage.grantor.stop()


async def test_loading_goes_page_by_page(monkeypatch, anyio_backend):
    monkeypatch.setattr("openintent.grantor.storing.SCAN_LIMIT", 2)
    stage = Stage()
    await stage.grantor.start()
    for n in range(5):
        await stage.acquire("ann", f"s{n}").heard()
    await stage.grantor.stop()
    await stage.restart()
    assert len(stage.do(ListLeases()).reply.answer.leases) == 5
    await stage.grantor.stop()
