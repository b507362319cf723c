"""How intents are related, and how one is deleted."""

import pytest
from invariants import check_store
from world import World

from openintent.core import commands
from openintent.core.answers import (
    AttemptReused,
    Circular,
    Conflict,
    Cooling,
    Done,
    Granted,
    IntentSeen,
    InUse,
    LimitReached,
    Missing,
    Unknown,
)
from openintent.core.lineage import KINDS
from openintent.core.versions import WHOLE_BYTES_MAX
from openintent.model import Limits

LARGE = {"text": "x" * WHOLE_BYTES_MAX}


@pytest.fixture
def world():
    return World()


def family(world: World) -> None:
    """A whole with two parts, of which the first has one too; one part waits for the other, and for a stranger."""
    world.create("stranger")
    world.create("top")
    world.create("left", parent_id="top")
    world.create("leaf", parent_id="left")
    world.create("right", parent_id="top", depends_on=["left", "stranger"])


# Looking


def test_everybody_finds_his_relatives(world):
    family(world)
    assert world.relatives("top", "children") == ["left", "right"]
    assert world.relatives("top", "descendants") == ["left", "right", "leaf"]
    assert world.relatives("leaf", "ancestors") == ["left", "top"]
    assert world.relatives("right", "dependencies") == ["left", "stranger"]
    assert world.relatives("stranger", "dependents") == ["right"]
    for kind in KINDS:
        assert world.relatives("leaf", kind) == (["left", "top"] if kind == "ancestors" else [])
        assert world.do(commands.GetRelatives("nobody", kind)) == Missing("intent")
    world.stop()
    assert world.relatives("top", "descendants") == ["left", "right", "leaf"]


def test_a_part_is_ready_when_all_that_it_waits_for_is_completed(world):
    family(world)
    assert (world.relatives("top", "ready"), world.relatives("top", "blocked")) == (["left"], ["right"])
    world.status("left", "completed")
    assert (world.relatives("top", "ready"), world.relatives("top", "blocked")) == ([], ["right"])
    world.status("stranger", "abandoned")
    assert world.relatives("top", "blocked") == ["right"], "what was abandoned was not completed"
    world.status("stranger", "completed")
    assert (world.relatives("top", "ready"), world.relatives("top", "blocked")) == (["right"], [])
    world.status("right", "abandoned")
    assert (world.relatives("top", "ready"), world.relatives("top", "blocked")) == ([], [])


def test_whoever_can_be_reached_in_two_ways_is_listed_once(world):
    world.create("a")
    world.create("b", depends_on=["a"])
    world.create("c", depends_on=["a"])
    world.create("d", depends_on=["b", "c"])
    assert world.depend("a", "d") == Circular("a", "d")
    assert world.relatives("d", "dependencies") == ["b", "c"]


def test_looking_for_a_circle_takes_each_intent_once_however_many_ways_lead_to_it(world):
    """Forty layers of two, each waiting for both of the layer below: more ways than anybody could walk."""
    world.create("bottom")
    below = ["bottom"]
    for layer in range(40):
        for side in ("l", "r"):
            world.create(f"{side}{layer}", depends_on=below)
        below = [f"l{layer}", f"r{layer}"]
    assert world.depend("bottom", "l39") == Circular("bottom", "l39")


# Creating among relatives


def test_relatives_must_exist(world):
    assert world.create("i1", parent_id="nobody") == Unknown("parent_intent_id", "nobody")
    world.create("known")
    assert world.create("i1", depends_on=["known", "nobody"]) == Unknown("depends_on", "nobody")
    assert world.create("i1", parent_id="i1") == Unknown("parent_intent_id", "i1")
    assert world.create("i1", depends_on=["i1"]) == Unknown("depends_on", "i1")
    assert (list(world.books.intents), world.books.children, world.books.dependents) == (["known"], {}, {})


def test_a_dependency_that_is_named_twice_is_one(world):
    world.create("a")
    assert world.create("b", depends_on=["a", "a"]).intent.depends_on == ["a"]


# Dependencies


def test_a_dependency_comes_and_goes_with_a_new_version_each_time(world):
    world.create("a")
    world.create("b")
    seen = world.depend("b", "a", actor="ann", expect=1).intent
    assert (seen.depends_on, seen.version) == (["a"], 2)
    assert world.books.events[-1].type == "dependency_added"
    assert world.books.events[-1].payload == {"dependency_id": "a", "version": 2}
    assert world.depend("b", "a", expect=1).intent.version == 2, "it already does: nothing to compare, nothing to do"
    assert world.depend_no_more("b", "a", expect=2).intent.depends_on == []
    assert (world.books.events[-1].type, world.books.dependents) == ("dependency_removed", {})
    assert world.depend_no_more("b", "a") == Missing("dependency")


def test_a_dependency_that_does_not_fit_is_refused(world):
    world.create("a")
    world.create("b", depends_on=["a"])
    world.create("c", depends_on=["b"])
    assert world.depend("nobody", "a") == Missing("intent")
    assert world.depend_no_more("nobody", "a") == Missing("intent")
    assert world.depend("a", "nobody") == Unknown("dependency_id", "nobody")
    assert world.depend("a", "a") == Circular("a", "a")
    assert world.depend("a", "b") == Circular("a", "b")
    assert world.depend("a", "c") == Circular("a", "c")
    assert world.depend("c", "a", expect=9) == Conflict(1)
    assert world.depend_no_more("c", "b", expect=9) == Conflict(1)
    assert [each.version for each in world.books.intents.values()] == [1, 1, 1]
    assert isinstance(world.depend("c", "a"), IntentSeen), "the short way beside the long one is no circle"


def test_a_circle_is_found_also_after_a_restart(world):
    world.create("a")
    world.create("b")
    world.depend("b", "a")
    world.commit()
    world.crash()
    assert world.depend("a", "b") == Circular("a", "b")


def test_there_is_a_bound_to_dependencies():
    world = World(Limits(depends_on_max=1))
    for name in ("a", "b", "c"):
        world.create(name)
    world.depend("c", "a")
    assert world.depend("c", "b") == LimitReached("dependencies of this intent", 1)
    assert isinstance(world.depend("c", "a"), IntentSeen)
    world.depend_no_more("c", "a")
    assert isinstance(world.depend("c", "b"), IntentSeen)


def test_what_was_waited_for_can_change_its_state_in_patches_meanwhile(world):
    """A dependency writes the whole intent, which voids its patches."""
    world.create("a")
    world.create("b", state=dict(LARGE))
    world.commit()
    world.patch("b", ("set", "n", 1))
    world.commit()
    world.depend("b", "a")
    world.commit()
    assert [key for key in world.store if key[0] == "p"] == []
    world.crash()
    found = world.books.intents["b"]
    assert (found.state["n"], found.depends_on, found.version) == (1, ["a"], 3)


# Deleting


def test_deleting_is_refused_while_others_rely_on_it(world):
    family(world)
    assert world.delete("top") == InUse("other intents are part of it")
    assert world.delete("stranger") == InUse("other intents depend on it")
    assert world.delete("nobody") == Missing("intent")
    for name in ("right", "leaf", "left", "top", "stranger"):
        assert world.delete(name) == Done()
    assert (world.books.intents, world.books.children, world.books.dependents) == ({}, {}, {})


@pytest.mark.parametrize("space", ["intent:i1", "coordinator:intent:i1"])
def test_deleting_is_refused_while_a_part_is_held_waited_for_or_closed(world, space):
    world.create("i1")
    world.acquire("ann", space=space, lease="L1", ttl_ms=1_000, cooldown_ms=500)
    assert world.delete("i1") == InUse("somebody holds a part of it, or waits for one")
    world.acquire("bob", space=space, wait_ms=9_000, attempt="t1")
    world.advance(1_000)
    assert world.delete("i1") == InUse("somebody holds a part of it, or waits for one"), "bob waits"
    world.give_up("bob", "t1", space)
    assert world.delete("i1") == InUse("a part of it stays closed for a while after its last holder")
    assert isinstance(world.acquire("bob", space=space), Cooling)
    world.advance(500)
    assert world.delete("i1") == Done()
    assert world.acquire("bob", space=space) == Missing("intent")


@pytest.mark.parametrize("space", ["intent:i1", "coordinator:intent:i1"])
def test_nobody_finds_the_notes_of_a_former_life(world, space):
    world.create("i1")
    world.acquire("ann", space=space, lease="L1")
    world.progress("L1", "ann", checkpoint={"page": 7})
    world.release("L1", "ann")
    assert world.delete("i1") == Done()
    assert world.acquire("ann", space=space) == Missing("intent"), "not even its space is left"
    world.create("i1")
    assert world.acquire("ann", space=space).lease.checkpoint is None
    world.stop()
    assert world.books.spaces[space].checkpoints == {}


def everything_about(world: World, intent: str) -> None:
    world.create(intent, state=dict(LARGE), governance_policy={"require_status_reason": True})
    world.patch(intent, ("set", "n", 1))
    world.assign(intent, "ann")
    world.add("p1", intent)
    world.decide(intent, "ann")
    world.decide(intent, "bob")
    world.acquire("ann", space=f"intent:{intent}", lease=f"{intent}-{world.books.seq}")
    world.progress(list(world.books.leases)[-1], "ann", checkpoint={"page": 7})
    world.release(list(world.books.leases)[-1], "ann")


@pytest.mark.parametrize("commits", [{}, {"made"}, {"deleted"}, {"made", "deleted"}])
def test_deleting_leaves_nothing_behind_but_the_log(world, commits):
    world.portfolio("p1")
    everything_about(world, "i1")
    if "made" in commits:
        world.commit()
    assert world.delete("i1", actor="eve") == Done()
    books = world.books
    assert (books.intents, books.members, books.portfolios_of, books.assigned, books.assignments) == (
        {},
        {},
        {},
        {},
        {},
    )
    assert (books.decisions, books.governed, books.spaces) == ({}, {}, {})
    if "deleted" in commits:
        world.commit()
    world.commit()
    assert {key for key in world.store if "i1" in key and key[0] not in "ev"} == set()
    check_store(world)
    world.crash()
    assert world.books.intents == {}
    assert world.delete("i1") == Missing("intent")


def test_the_log_tells_of_the_end_to_all_who_had_a_part_in_it(world):
    world.portfolio("p1")
    everything_about(world, "i1")
    before = world.books.seq
    world.delete("i1", actor="eve")
    ends = [(event.type, event.space, event.also) for event in world.books.events if event.seq > before]
    assert ends == [
        ("removed_from_portfolio", "portfolio:p1", "intent:i1"),
        ("agent_unassigned", "intent:i1", "agent:ann"),
        ("status_changed", "intent:i1", None),
    ]
    last = world.books.events[-1]
    assert (last.actor, last.payload["new_status"], last.payload["old_status"]) == ("eve", "deleted", "draft")


def test_deleting_takes_no_other_intents_things_along(world):
    """Not even those of one whose name begins alike."""
    world.portfolio("p1")
    everything_about(world, "i1")
    everything_about(world, "i10")
    world.commit()
    world.delete("i1")
    world.commit()
    check_store(world)
    world.crash()
    books = world.books
    assert (list(books.intents), books.intents["i10"].state["n"]) == (["i10"], 1)
    assert (list(books.members["p1"]), list(books.assignments["ann"]), len(books.decisions["i10"])) == (
        ["i10"],
        ["i10"],
        2,
    )
    assert books.spaces["intent:i10"].checkpoints == {"x": {"page": 7}}


# Created again


@pytest.mark.parametrize("commit_each", [True, False])
@pytest.mark.parametrize("first", [dict(LARGE), {}])
@pytest.mark.parametrize("second", [dict(LARGE), {}])
def test_an_intent_can_be_made_anew_under_its_old_name_also_within_one_batch(world, commit_each, first, second):
    world.portfolio("p1")
    world.commit()
    for number, state in enumerate([first, second, first, second]):
        if number:
            assert world.delete("i1") == Done()
        assert world.create("i1", state=dict(state), title=f"life {number}").intent.version == 1
        for step in range(3 - number % 2):
            world.patch("i1", ("set", "step", [number, step]))
        world.assign("i1", f"agent-{number}")
        world.add("p1", "i1", priority=number)
        world.decide("i1", f"agent-{number}")
        if commit_each:
            world.commit()
    world.commit()
    check_store(world)
    world.crash()
    found = world.books.intents["i1"]
    assert (found.title, found.version, found.state) == ("life 3", 3, second | {"step": [3, 1]})
    assert (list(world.books.assigned["i1"]), world.books.members["p1"]["i1"].priority) == (["agent-3"], 3)
    assert [each.actor for each in world.books.decisions["i1"]] == ["agent-3"]


def test_made_and_deleted_within_one_batch_was_never_there(world):
    world.portfolio("p1")
    everything_about(world, "i1")
    world.delete("i1")
    everything_about(world, "i1")
    world.delete("i1")
    world.commit()
    check_store(world)
    assert [key for key in world.store if key[0] in "ipmgoc"] == []


def test_an_attempt_does_not_bring_a_deleted_intent_back(world):
    world.create("made-up-1", chosen_id=False, title="t", attempt="t1")
    world.delete("made-up-1")
    world.commit()
    world.crash()
    assert world.create("made-up-2", chosen_id=False, title="t", attempt="t1") == AttemptReused("t1")
    assert world.books.intents == {}


def test_leases_of_a_former_life_are_over_and_the_tokens_of_the_next_one_are_larger(world):
    world.create("i1")
    old = world.acquire("ann", space="intent:i1", lease="L1").lease.token
    world.release("L1", "ann")
    world.delete("i1")
    world.create("i1")
    granted = world.acquire("ann", space="intent:i1", lease="L2")
    assert isinstance(granted, Granted)
    assert granted.lease.token > old
    assert world.do(commands.CheckToken(space="intent:i1", scope="x", token=old)).valid is False
