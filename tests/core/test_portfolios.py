"""Portfolios: intents that belong together."""

import pytest
from world import World

from openintent.core import commands
from openintent.core.answers import AttemptReused, Done, Exists, LimitReached, MemberSeen, Missing, PortfolioSeen
from openintent.model import Limits


@pytest.fixture
def world():
    world = World()
    for intent in ("i1", "i2", "i3"):
        world.create(intent)
    world.portfolio("p1")
    return world


def listed(world: World, **words) -> list[str]:
    return [each.id for each in world.do(commands.ListPortfolios(**words)).portfolios]


def members(world: World, portfolio: str = "p1") -> list[str]:
    return [intent.id for _, intent in world.do(commands.ListMembers(portfolio)).rows]


# The portfolio itself


def test_a_portfolio_remembers_who_made_it_and_when(world):
    world.now_ms = 70
    made = world.portfolio("p2", actor="ann", name="Quarter", metadata={"k": 1}).portfolio
    assert (made.name, made.created_by, made.status, made.metadata) == ("Quarter", "ann", "active", {"k": 1})
    assert (made.created_at_ms, made.updated_at_ms) == (70, 70)
    assert world.do(commands.GetPortfolio("p2")) == PortfolioSeen(made)
    assert world.portfolio("p3", actor="ann", created_by="eve").portfolio.created_by == "eve"


def test_what_does_not_exist_is_missing(world):
    assert world.do(commands.GetPortfolio("px")) == Missing("portfolio")
    assert world.do(commands.ListMembers("px")) == Missing("portfolio")
    assert world.do(commands.SetPortfolioStatus(portfolio_id="px", actor="a", status="completed")) == Missing(
        "portfolio"
    )
    assert world.do(commands.ListPortfolios(intent_id="ix")) == Missing("intent")
    assert world.add("px", "i1") == Missing("portfolio")
    assert world.add("p1", "ix") == Missing("intent")
    assert world.remove("p1", "ix") == Missing("intent")
    assert world.remove("px", "i1") == Missing("portfolio")
    assert world.remove("p1", "i1") == Missing("member")


def test_a_chosen_id_again_is_the_same_portfolio_and_with_another_body_is_refused(world):
    first = world.portfolio("p2", name="Quarter").portfolio
    assert world.portfolio("p2", name="Quarter").portfolio is first
    assert isinstance(world.portfolio("p2", name="Year"), Exists)
    assert isinstance(world.portfolio("p2", name="Quarter", governance_policy={"x": 1}), Exists)
    assert isinstance(world.portfolio("p2", name="Quarter", chosen_id=False), Exists)
    assert [event.type for event in world.books.events if event.space == "portfolio:p2"] == ["portfolio_created"]


def test_a_status_is_set_and_logged_with_what_it_was(world):
    world.now_ms = 90
    seen = world.do(commands.SetPortfolioStatus(portfolio_id="p1", actor="ann", status="completed")).portfolio
    assert (seen.status, seen.updated_at_ms, seen.created_at_ms) == ("completed", 90, 0)
    event = world.books.events[-1]
    assert (event.type, event.space, event.actor) == ("status_changed", "portfolio:p1", "ann")
    assert event.payload == {"old_status": "active", "new_status": "completed", "reason": None}


def test_portfolios_are_listed_in_the_order_of_their_creation_also_after_a_restart(world):
    for number, name in enumerate(["p3", "p2", "p0"], start=1):
        world.now_ms = number
        world.portfolio(name, actor="ann" if name == "p2" else "a")
    assert listed(world) == ["p1", "p3", "p2", "p0"]
    assert listed(world, created_by="ann") == ["p2"]
    assert listed(world, offset=1, limit=2) == ["p3", "p2"]
    assert world.do(commands.ListPortfolios(limit=3)).more
    assert not world.do(commands.ListPortfolios(limit=4)).more
    world.stop()
    assert listed(world) == ["p1", "p3", "p2", "p0"]


def test_there_is_a_bound_to_portfolios_and_reaching_it_is_an_answer():
    world = World(Limits(portfolios_max=1))
    world.portfolio("p1", attempt="t1")
    assert world.portfolio("p2", attempt="t2") == LimitReached("portfolios", 1)
    assert isinstance(world.portfolio("p1", attempt="t1"), PortfolioSeen)
    assert list(world.books.portfolios) == ["p1"]


def test_there_is_a_bound_to_attempts_here_too():
    world = World(Limits(attempts_max=1))
    world.portfolio("p1", attempt="t1")
    assert world.portfolio("p2", attempt="t2") == LimitReached("attempts", 1)
    assert isinstance(world.portfolio("p2"), PortfolioSeen)


# Attempts


@pytest.mark.parametrize("restart", [World.stop, World.crash, lambda _: None])
def test_a_repeated_creation_makes_one_portfolio_also_over_a_restart(world, restart):
    world.portfolio("made-up-1", chosen_id=False, name="Quarter", attempt="t1")
    world.commit()
    restart(world)
    again = world.portfolio("made-up-2", chosen_id=False, name="Quarter", attempt="t1")
    assert again.portfolio.id == "made-up-1"
    assert sorted(listed(world)) == ["made-up-1", "p1"]


@pytest.mark.parametrize(
    "other",
    [
        {"name": "Year"},
        {"description": "d"},
        {"metadata": {"a": 1}},
        {"governance_policy": {"a": 1}},
        {"created_by": "e"},
    ],
)
def test_an_attempt_with_another_body_is_refused(world, other):
    world.portfolio("made-up-1", chosen_id=False, name="Quarter", attempt="t1")
    answer = world.portfolio("made-up-2", chosen_id=False, attempt="t1", **{"name": "Quarter", **other})
    assert answer == AttemptReused("t1")
    assert "made-up-2" not in world.books.portfolios


def test_an_attempt_that_chose_its_id_is_another_one_with_another_id(world):
    world.portfolio("p2", name="Quarter", attempt="t1")
    assert world.portfolio("p3", name="Quarter", attempt="t1") == AttemptReused("t1")


def test_attempts_of_two_agents_never_meet(world):
    world.portfolio("p2", actor="ann", attempt="t1")
    assert isinstance(world.portfolio("p3", actor="bob", attempt="t1"), PortfolioSeen)


# Members


def test_members_are_listed_by_importance_and_then_by_their_coming(world):
    world.add("p1", "i2")
    world.now_ms = 1
    world.add("p1", "i3")
    world.add("p1", "i1", priority=5)
    assert members(world) == ["i1", "i2", "i3"]
    world.stop()
    assert members(world) == ["i1", "i2", "i3"]


def test_an_intent_may_be_in_several_portfolios(world):
    world.portfolio("p2")
    world.portfolio("p3")
    world.add("p1", "i1")
    world.add("p3", "i1")
    assert listed(world, intent_id="i1") == ["p1", "p3"]
    assert listed(world, intent_id="i2") == []
    assert world.remove("p1", "i1") == Done()
    assert listed(world, intent_id="i1") == ["p3"]
    assert members(world) == []


def test_adding_again_is_the_same_membership_with_its_new_role(world):
    first = world.add("p1", "i1", role="member").member
    seq = world.books.seq
    assert world.add("p1", "i1", role="member") == MemberSeen(first)
    assert world.books.seq == seq, "nothing changed, so nothing is logged"
    world.now_ms = 50
    changed = world.add("p1", "i1", role="primary", priority=3).member
    assert (changed.id, changed.added_at_ms, changed.role, changed.priority) == (first.id, 0, "primary", 3)
    world.commit()
    world.crash()
    assert world.books.members["p1"]["i1"] == changed


def test_a_membership_that_was_given_up_begins_anew(world):
    first = world.add("p1", "i1").member
    world.remove("p1", "i1")
    assert world.add("p1", "i1").member.id != first.id


def test_there_is_a_bound_to_members_but_not_to_changing_one():
    world = World(Limits(intents_per_portfolio_max=1))
    world.create("i1")
    world.create("i2")
    world.portfolio("p1")
    world.add("p1", "i1")
    assert world.add("p1", "i2") == LimitReached("intents in this portfolio", 1)
    assert isinstance(world.add("p1", "i1", priority=9), MemberSeen)
    world.remove("p1", "i1")
    assert isinstance(world.add("p1", "i2"), MemberSeen)


def test_who_came_and_went_is_in_the_log_of_both(world):
    world.add("p1", "i1", actor="ann", role="primary", priority=2)
    world.remove("p1", "i1", actor="bob")
    came, went = world.books.events[-2:]
    assert (came.type, came.space, came.also, came.actor) == ("added_to_portfolio", "portfolio:p1", "intent:i1", "ann")
    assert came.payload == {"portfolio_id": "p1", "intent_id": "i1", "role": "primary", "priority": 2}
    assert (went.type, went.space, went.also, went.actor) == (
        "removed_from_portfolio",
        "portfolio:p1",
        "intent:i1",
        "bob",
    )


# When a reply may leave


def test_what_is_told_of_a_portfolio_waits_until_it_is_durable(world):
    world.commit()
    world.portfolio("p2")
    assert world.last.after == 2
    world.take()
    world.do(commands.GetPortfolio("p2"))
    assert world.last.after == 2
    world.do(commands.GetPortfolio("p1"))
    assert world.last.after == 1, "what was durable before waits for nothing new"
    world.add("p1", "i1")
    assert world.last.after == 3
