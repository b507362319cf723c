"""The heap with lazy deadlines against a list that is searched from end to end."""

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from openintent.core import timers
from openintent.core.timers import NEVER, Timers
from openintent.model import DEAD

instants = st.integers(0, 40)
spans = st.sampled_from([1, 3, 8, 64])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("watch"), instants, st.just(0)),
        st.tuples(st.just("move"), instants, st.integers(0, 9)),
        st.tuples(st.just("kill"), st.just(0), st.integers(0, 9)),
        st.tuples(st.just("pop"), instants, st.just(0)),
        st.tuples(st.just("reach"), instants, st.integers(0, 1)),
    ),
    max_size=60,
)


class Thing:
    def __init__(self, due_ms: int) -> None:
        self.due_ms = due_ms
        self.timer_ms = DEAD


def popped(heap: Timers, now_ms: int) -> list[Thing]:
    found = []
    while (thing := heap.pop_due(now_ms)) is not None:
        found.append(thing)
    return found


@given(steps, spans)
def test_whatever_is_due_pops_once_and_nothing_else_does(steps, span_ms):
    with mock.patch.multiple(timers, SPAN_MS=span_ms, SORTED_PER_DUE=1):
        heap, alive = Timers(), []
        for verb, at_ms, which in steps:
            thing = alive[which % len(alive)] if alive else None
            if verb == "watch":
                alive.append(Thing(at_ms))
                heap.add(alive[-1])
            elif verb == "move" and thing is not None:
                thing.due_ms = at_ms
                heap.add(thing)
            elif verb == "kill" and thing is not None:
                alive.remove(thing)
                thing.due_ms = DEAD
                heap.died(thing)
            elif verb == "pop":
                due = [thing for thing in alive if thing.due_ms <= at_ms]
                alive = [thing for thing in alive if thing.due_ms > at_ms]
                heap.now_ms = max(heap.now_ms, at_ms)
                found = popped(heap, at_ms)
                assert len(found) == len(due)
                assert set(found) == set(due)
            elif verb == "reach":
                reached = heap.reach(at_ms, 1, by_itself=which == 1)
                assert reached <= at_ms
                assert which == 1 or sum(thing.due_ms <= reached for thing in alive) <= 1
            assert heap.next_ms <= min((thing.due_ms for thing in alive), default=NEVER)
        assert set(popped(heap, NEVER)) == set(alive)
        assert heap.next_ms == NEVER


def test_a_deadline_that_moves_later_costs_nothing():
    heap, thing = Timers(), Thing(10)
    heap.add(thing)
    for due_ms in range(11, 100):
        thing.due_ms = due_ms
        heap.add(thing)
    assert len(heap) == 1
    assert heap.pop_due(98) is None
    assert heap.pop_due(99) is thing


def test_a_deadline_that_moves_earlier_is_kept():
    heap, thing = Timers(), Thing(100)
    heap.add(thing)
    thing.due_ms = 10
    heap.add(thing)
    assert heap.next_ms == 10
    assert popped(heap, 200) == [thing]


def test_what_is_equally_due_goes_in_the_order_it_came():
    heap, things = Timers(), [Thing(10) for _ in range(5)]
    for thing in things:
        heap.add(thing)
    assert popped(heap, 10) == things


def test_the_dead_leave_nothing_behind_where_they_were_far_away():
    heap, stays = Timers(), Thing(60_000)
    heap.add(stays)
    for due_ms in (1_000, 1_000, 60_000, 3_600_000):
        thing = Thing(due_ms)
        heap.add(thing)
        thing.due_ms = DEAD
        heap.died(thing)
    assert len(heap) == 1
    assert popped(heap, 3_600_000) == [stays]


def crowd(count: int) -> tuple[Timers, int]:
    """Many that are due together, and when their span begins."""
    heap = Timers()
    for _ in range(count):
        heap.add(Thing(1_000))
    return heap, 1_000 // timers.SPAN_MS * timers.SPAN_MS


def test_a_span_is_opened_bit_by_bit_and_time_waits_before_it():
    heap, begins_ms = crowd(5 * timers.SORTED_PER_DUE)
    reached = [heap.reach(1_500, 1, by_itself=False) for _ in range(6)]
    assert reached == [*[begins_ms - 1] * 4, 999, 999]


def test_when_time_passes_by_itself_a_span_is_opened_before_its_time():
    heap, begins_ms = crowd(2 * timers.SORTED_PER_DUE)
    before_ms = begins_ms - timers.SPAN_MS
    assert heap.next_ms == before_ms
    assert heap.reach(before_ms, 1, by_itself=False) == before_ms
    assert heap.next_ms == before_ms  # whoever waits for an answer does not wait for that
    assert [heap.reach(before_ms, 1, by_itself=True) for _ in range(2)] == [before_ms] * 2
    assert heap.next_ms == 1_000


def test_what_dies_while_its_span_is_opened_is_gone():
    heap, things = Timers(), [Thing(1_000) for _ in range(2 * timers.SORTED_PER_DUE)]
    for thing in things:
        heap.add(thing)
    heap.reach(1_500, 1, by_itself=False)
    for thing in things[:-1]:
        thing.due_ms = DEAD
        heap.died(thing)
    assert popped(heap, 1_000) == things[-1:]


def test_a_thing_that_comes_back_to_a_span_that_it_left_is_there_once():
    heap, thing = Timers(), Thing(60_000)
    heap.add(thing)
    thing.due_ms = 1_000
    heap.add(thing)
    thing.due_ms = 60_000
    assert heap.pop_due(1_000) is None
    assert len(heap) == 1
    thing.due_ms = DEAD
    heap.died(thing)
    assert len(heap) == 0


def test_the_first_instant_comes_by_itself_however_many_are_due():
    heap, _ = crowd(5)
    assert heap.reach(1_500, 4, by_itself=False) == 999
    assert heap.reach(1_500, 4, by_itself=True) == 1_000


def test_what_has_popped_may_die():
    heap, thing = Timers(), Thing(1_000)
    heap.add(thing)
    assert heap.pop_due(1_000) is thing
    heap.died(thing)
    assert len(heap) == 0


def test_the_next_instant_is_known_after_each_step():
    heap = Timers()
    for due_ms in (1_000, 2_000):
        heap.add(Thing(due_ms))
    assert heap.next_ms == (1_000 // timers.SPAN_MS - 1) * timers.SPAN_MS  # to open its span
    heap.pop_due(999)
    assert heap.next_ms == 1_000
    heap.pop_due(1_000)
    assert 1_000 < heap.next_ms <= 2_000
    heap.pop_due(1_999)
    assert heap.next_ms == 2_000
    heap.pop_due(2_000)
    assert heap.next_ms == NEVER


@given(st.lists(instants, max_size=40), instants, st.integers(1, 8), spans)
def test_time_reaches_as_far_as_so_many_fall_due(due, now_ms, most, span_ms):
    with mock.patch.object(timers, "SPAN_MS", span_ms):
        heap = Timers()
        for at_ms in due:
            heap.add(Thing(at_ms))
        reached = heap.reach(now_ms, most, by_itself=False) if heap.next_ms <= now_ms else now_ms
    few_enough = [at for at in range(now_ms + 1) if sum(each <= at for each in due) <= most]
    assert reached == max([*few_enough, min([*due, now_ms]) - 1])
