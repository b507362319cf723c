"""When a reply may leave, and what the engine is given to store."""

import pytest
from world import SPACE, World

from openintent.core import commands
from openintent.core.answers import Granted, Held, IntentSeen, Lost, Seen, Stale
from openintent.core.versions import PATCHES_MAX, WHOLE_BYTES_MAX
from openintent.model import DEAD, Grant, Intent, Limits


@pytest.fixture
def world():
    return World()


def after(world: World) -> int:
    """The batch that the last reply waits for, as far as it is not durable yet."""
    return world.last.after if world.last.after > world.durable else 0


# Replies


def test_a_grant_and_whoever_saw_it_wait_for_its_batch(world):
    world.acquire("ann", lease="L1")
    assert after(world) == 1
    assert isinstance(world.acquire("bob"), Held)
    assert after(world) == 1
    world.do(commands.GetLease(lease_id="L1"))
    assert after(world) == 1
    world.do(commands.CheckToken(space=SPACE, scope="x", token=1))
    assert after(world) == 1


def test_a_release_and_the_grant_that_it_makes_have_two_places_in_the_order_and_the_release_is_first(world):
    world.acquire("ann", lease="L1")
    world.acquire("bob", wait_ms=1_000)
    world.release("L1", "ann")
    [(_, granted)] = world.answers
    assert isinstance(granted.answer, Granted)
    released = world.last
    world.acquire("bob", "y")
    assert released.rev < granted.rev < world.last.rev


def test_a_renewal_of_a_durable_lease_waits_for_nothing(world):
    world.acquire("ann", lease="L1")
    world.commit()
    world.acquire("bob", "y")
    assert isinstance(world.renew("L1", "ann"), Seen)
    assert after(world) == 0
    world.heartbeat("ann", [("L1", 1)])
    assert after(world) == 0
    world.progress("L1", "ann")
    assert after(world) == 0


def test_a_renewal_of_a_lease_that_is_not_durable_waits_for_it(world):
    world.acquire("ann", lease="L1")
    world.take()
    world.renew("L1", "ann")
    assert after(world) == 1
    world.heartbeat("ann", [("L1", 1)])
    assert after(world) == 1
    world.arrive()
    world.renew("L1", "ann")
    assert after(world) == 0


def test_a_renewal_that_promises_more_than_ever_is_written_down(world):
    world.acquire("ann", lease="L1", ttl_ms=1_000)
    world.commit()
    world.renew("L1", "ann", ttl_ms=2_000)
    assert after(world) == 2
    world.take()
    world.renew("L1", "ann", ttl_ms=2_000)
    assert after(world) == 2
    assert list(world.in_flight[0].changes) == ["l/L1"]


def test_news_of_an_end_waits_for_the_end(world):
    world.acquire("ann", lease="L1", ttl_ms=1_000)
    world.commit()
    world.advance(1_000)
    assert isinstance(world.renew("L1", "ann"), Lost)
    assert after(world) == 2
    world.heartbeat("ann", [("L1", 1)])
    assert after(world) == 2
    world.commit()
    assert isinstance(world.renew("L1", "ann"), Lost)
    assert after(world) == 0


def test_a_waiter_hears_of_its_grant_when_it_is_durable(world):
    world.acquire("ann", lease="L1")
    world.acquire("bob", wait_ms=1_000)
    world.commit()
    world.release("L1", "ann")
    [(_, reply)] = world.answers
    assert isinstance(reply.answer, Granted)
    assert reply.after == 2


def test_giving_up_a_place_is_done_when_it_is_durable(world):
    world.acquire("ann")
    world.acquire("bob", wait_ms=1_000, attempt="t1")
    world.commit()
    world.give_up("bob", "t1")
    assert after(world) == 2


def test_time_alone_is_not_written(world):
    world.acquire("ann", lease="L1")
    world.commit()
    world.do(commands.Tick())
    assert world.last.after == 0
    assert world.books.written < world.books.batch


def test_a_stale_write_is_told_of_nothing_that_could_still_vanish(world):
    world.create("i1")
    world.acquire("ann", space="intent:i1", lease="L1")
    world.release("L1", "ann")
    world.acquire("bob", "y", space="intent:i1", lease="L2")
    world.release("L2", "bob")
    world.acquire("cid", space="intent:i1")
    assert world.patch("i1", ("set", "a", 1), actor="ann", token=1) == Stale(1, 3)
    assert after(world) == 1


def test_a_stale_token_of_a_space_in_which_nothing_is_left_has_no_successor(world):
    world.create("i1")
    world.acquire("ann", space="intent:i1", lease="L1")
    world.release("L1", "ann")
    assert world.patch("i1", ("set", "a", 1), actor="ann", token=1) == Stale(1, None)


# Events


def test_an_event_shows_the_lease_as_it_was(world):
    world.acquire("ann", lease="L1")
    world.release("L1", "ann")
    acquired, released = world.books.events
    assert (acquired.lease, acquired.lease_id) == (None, "L1")
    assert acquired.grant == Grant("L1", released.lease.scope, released.lease.token, "ann", None, None)
    assert (released.lease.status, released.lease.ended_reason) == ("released", "released")


def test_events_of_a_batch_are_stored_in_one_chunk_for_each_space(world):
    world.acquire("ann", lease="L1")
    world.acquire("ann", space="space:t")
    world.release("L1", "ann")
    world.commit()
    assert sorted(key for key in world.store if key[0] == "v") == [
        "v/space:s\t0000000000000003",
        "v/space:t\t0000000000000002",
    ]


def test_the_state_of_an_intent_is_found_by_its_space(world):
    world.do(commands.CreateIntent(intent=Intent(id="i", title="t", state={"a": 1}), chosen_id=True, actor="boss"))
    assert world.books.state_of("intent:i") == {"a": 1}
    assert [world.books.state_of(space) for space in ("intent:none", "space:i")] == [None, None]


def test_dates_come_from_outside_and_decide_nothing(world):
    world.books.date_from(1_000_000)
    lease = world.acquire("ann", ttl_ms=1_000, lease="L1").lease
    world.books.date_from(-1_000_000)
    world.advance(999)
    assert isinstance(world.renew("L1", "ann"), Seen)
    assert (lease.granted_at_ms, lease.deadline_ms) == (1_000_000, 1_999)
    world.release("L1", "ann")
    assert lease.ended_at_ms == -999_001


@pytest.mark.parametrize("restart", [World.stop, World.crash, lambda _: None])
def test_a_repeated_event_is_shown_as_it_was_logged_durable_or_not(world, restart):
    note = {"space": SPACE, "actor": "ann", "type": "note", "payload": {"text": "hi"}, "attempt": "t1"}
    first = world.do(commands.LogEvent(**note)).event
    assert world.do(commands.LogEvent(**note)).event == first
    assert after(world) == 1
    world.commit()
    restart(world)
    world.now_ms += 5
    assert world.do(commands.LogEvent(**note)).event == first
    assert world.books.seq == 1


# Queues


def test_an_agent_may_wait_twice(world):
    world.acquire("ann", lease="L1")
    world.acquire("bob", wait_ms=1_000, lease="L2")
    world.acquire("bob", wait_ms=1_000, lease="L3")
    assert world.books.waiting == {"bob": 2}
    world.release("L1", "ann")
    assert [(request, answer.lease.id) for request, answer in world.new_answers()] == [(1, "L2")]
    assert world.books.waiting == {"bob": 1}
    world.release("L2", "bob")
    assert [(request, answer.lease.id) for request, answer in world.new_answers()] == [(2, "L3")]
    assert world.books.waiting == {}


def test_a_closed_scope_closes_no_other(world):
    world.acquire("ann", "y", ttl_ms=100, cooldown_ms=1_000)
    world.acquire("ann", "x", lease="L1")
    world.advance(100)
    assert isinstance(world.acquire("bob"), Held)
    world.release("L1", "ann")
    assert isinstance(world.acquire("bob"), Granted)


def test_nothing_lapses_before_what_is_due(world):
    world.acquire("ann", ttl_ms=1_000, lease="L1")
    assert 0 < world.ledger.due_ms() <= 1_000
    world.advance(999)
    assert "L1" in world.books.leases
    assert world.ledger.due_ms() == 1_000
    world.advance(1)
    assert "L1" not in world.books.leases


# Large states


def big(world: World) -> None:
    world.create("i1", state={"text": "x" * WHOLE_BYTES_MAX})
    world.commit()


def patch_keys(world: World) -> list[str]:
    return sorted(key for key in world.store if key[0] == "p")


def test_a_small_state_is_written_whole(world):
    world.create("i1")
    world.commit()
    world.patch("i1", ("set", "n", 1))
    world.commit()
    assert patch_keys(world) == []


def test_a_large_state_is_kept_as_the_steps_that_changed_it(world):
    big(world)
    for n in range(3):
        world.patch("i1", ("set", "n", n))
        world.take()
    assert [key for taken in world.in_flight for key in taken.changes if key[0] == "i"] == []
    world.arrive()
    assert len(patch_keys(world)) == 3
    before = world.books.intents["i1"]
    world.crash()
    found = world.books.intents["i1"]
    assert (found.state, found.version, found.patches, found.state_bytes) == (
        before.state,
        4,
        3,
        before.state_bytes,
    )


def test_a_whole_record_wipes_the_steps_before_it_also_in_its_own_batch(world):
    big(world)
    world.patch("i1", ("set", "n", 1))
    world.commit()
    world.patch("i1", ("set", "n", 2))
    world.do(commands.SetStatus(intent_id="i1", actor="a", status="active"))
    world.patch("i1", ("set", "n", 3))
    world.commit()
    assert patch_keys(world) == ["p/i1\t0000000000000005"]
    world.crash()
    intent = world.books.intents["i1"]
    assert (intent.state["n"], intent.status, intent.version) == (3, "active", 5)


def test_steps_that_a_whole_record_overtook_are_wiped_later(world):
    """Created and changed in one batch: the whole record is stored as it is at the end of it."""
    world.create("i1", state={"text": "x" * WHOLE_BYTES_MAX})
    world.patch("i1", ("set", "n", 1))
    world.commit()
    world.crash()
    assert (world.books.intents["i1"].version, len(patch_keys(world))) == (2, 1)
    world.do(commands.SetStatus(intent_id="i1", actor="a", status="active"))
    world.commit()
    assert patch_keys(world) == []


def test_steps_do_not_pile_up(world):
    big(world)
    for n in range(3 * PATCHES_MAX):
        assert isinstance(world.patch("i1", ("set", "n", n)), IntentSeen)
        world.commit()
        assert len(patch_keys(world)) <= PATCHES_MAX


# Bounds


def test_something_of_no_known_kind_is_a_bug_and_not_passed_over(world):
    class Stranger:
        timer_ms, due_ms = DEAD, 0

    world.books.timers.add(Stranger())
    with pytest.raises(AssertionError):
        world.do(commands.Tick())


def test_time_does_not_go_back(world):
    world.advance(10)
    world.now_ms -= 1
    with pytest.raises(AssertionError):
        world.do(commands.Tick())


def test_removing_frees_the_room_that_it_took():
    world = World(Limits(state_bytes_max=100))
    world.create("i1")
    for _ in range(100):
        assert isinstance(world.patch("i1", ("set", "key", "v" * 20)), IntentSeen)
        assert isinstance(world.patch("i1", ("remove", "key")), IntentSeen)


def test_giving_up_an_attempt_that_only_got_a_lease_back_leaves_it_to_the_one_that_was_granted_it(world):
    world.acquire("ann", lease="L1", attempt="outer")
    world.acquire("ann", lease="L2", attempt="inner", reentrant=True)
    world.do(commands.GiveUp(space=SPACE, holder="ann", attempt="inner"))
    assert list(world.books.leases) == ["L1"]
    world.do(commands.GiveUp(space=SPACE, holder="ann", attempt="outer"))
    assert list(world.books.leases) == []


@pytest.mark.parametrize("space", [None, "space:s"])
def test_leases_are_listed_by_token_also_after_a_restart_and_no_further_than_is_asked(world, space):
    world.acquire("ann", "x", lease="L1", ttl_ms=60_000)
    world.acquire("bob", "x", lease="L2", ttl_ms=60_000, wait_ms=9_000, attempt="t1")
    world.acquire("cid", "y", lease="L3", ttl_ms=60_000)
    world.release("L1", "ann")  # and so the second is granted, after the third
    world.acquire("cid", "z", lease="L4", ttl_ms=60_000)
    world.commit()
    for restart in (World.stop, World.crash):
        listed = world.do(commands.ListLeases(space=space, limit=2))
        assert ([lease.id for lease in listed.leases], listed.more) == (["L3", "L2"], True)
        rest = world.do(commands.ListLeases(space=space, after_token=listed.leases[-1].token))
        assert ([lease.id for lease in rest.leases], rest.more) == (["L4"], False)
        restart(world)


def test_a_page_of_leases_looks_at_no_more_of_them_than_it_shows(world):
    for n in range(50):
        world.acquire("ann", f"p{n}", lease=f"L{n}", ttl_ms=60_000)

    class Counted(dict):
        looked_at = 0

        def values(self):
            for lease in super().values():
                self.looked_at += 1
                yield lease

    world.books.leases = leases = Counted(world.books.leases)
    assert len(world.do(commands.ListLeases(limit=3)).leases) == 3
    assert leases.looked_at == 4
