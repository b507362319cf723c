from hypothesis import given
from hypothesis import strategies as st

from openintent.agents.agenda import DRAWN_FROM, ENDED_KEPT_MAX, Agenda, Task

A, B = Task("name", "a"), Task("name", "b")


def first(tasks):
    return tasks[0]


def taken(agenda, now, besides=()):
    return agenda.take(now=now, draw=first, besides=besides)


def test_what_is_due_is_taken_once():
    agenda = Agenda()
    agenda.add(A, at=5)
    assert taken(agenda, now=4.9) is None
    assert taken(agenda, now=5) == A
    assert taken(agenda, now=5) is None
    assert A not in agenda


def test_what_is_tried_just_now_is_neither_taken_nor_waited_for():
    agenda = Agenda()
    agenda.add(A, at=0)
    agenda.add(B, at=7)
    assert taken(agenda, now=1, besides={A}) is None
    assert agenda.next_at(besides={A}) == 7
    assert agenda.next_at(besides=()) == 0
    assert agenda.next_at(besides={A, B}) is None


def test_a_delay_stands_whatever_else_is_heard():
    agenda = Agenda()
    agenda.put_off(A, failures=1, until=10)
    agenda.add(A, at=3)
    assert taken(agenda, now=9) is None
    assert taken(agenda, now=10) == A
    assert agenda.failures_waited_for(A) == 1


def test_to_hear_of_one_failure_again_does_not_lengthen_its_delay():
    agenda = Agenda()
    agenda.put_off(A, failures=1, until=10)
    agenda.put_off(A, failures=1, until=12)
    assert agenda.next_at(besides=()) == 10
    agenda.put_off(A, failures=2, until=30)
    assert agenda.next_at(besides=()) == 30


def test_what_begins_anew_waits_for_nothing():
    agenda = Agenda()
    for forget in (agenda.begin_anew, agenda.drop, lambda task: agenda.end(task, "t1")):
        agenda.put_off(A, failures=1, until=10)
        forget(A)
        agenda.add(A, at=0)
        assert agenda.failures_waited_for(A) == 0
        assert taken(agenda, now=0) == A


def test_of_many_one_of_the_oldest_is_drawn():
    agenda = Agenda()
    for number in range(100):
        agenda.add(Task("name", str(number)), at=0)
    offered = []
    assert agenda.take(now=0, draw=lambda ready: offered.extend(ready) or ready[-1], besides=()) is not None
    assert [task.intent_id for task in offered] == [str(number) for number in range(DRAWN_FROM)]
    assert len(agenda) == 99


def test_only_the_very_assignment_that_ended_is_over():
    agenda = Agenda()
    agenda.end(A, "t1")
    assert agenda.is_over(A, "t1")
    assert not agenda.is_over(A, "t2")
    assert not agenda.is_over(B, "t1")


def test_what_is_remembered_of_the_ended_has_a_bound():
    agenda = Agenda()
    for number in range(ENDED_KEPT_MAX + 1):
        agenda.end(Task("name", str(number)), "t")
    assert not agenda.is_over(Task("name", "0"), "t")
    assert agenda.is_over(Task("name", str(ENDED_KEPT_MAX)), "t")


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 20))), st.integers(0, 20))
def test_whoever_waits_until_the_next_is_due_finds_it(added, now):
    agenda = Agenda()
    for task, at in added:
        agenda.add(task, at=at)
    next_at = agenda.next_at(besides=())
    found = taken(agenda, now=now)
    assert (found is not None) == (next_at is not None and next_at <= now)
