"""Instances: several copies of one agent, each with an id of its own, are that agent to whoever names it."""

import pytest
from invariants import check_all
from world import World, rule

from openintent.core.answers import Assigned, Granted, IntentSeen, Queued
from openintent.spaces import agent_name_of

SPACE = "intent:i1"


@pytest.fixture
def world():
    world = World()
    world.create("i1")
    return world


def write(world: World, actor: str) -> str | None:
    return rule(world.patch("i1", ("set", "a", 1), actor=actor))


@pytest.mark.parametrize(
    ("agent_id", "name"),
    [
        ("fetcher", "fetcher"),
        ("fetcher~3f9a2c", "fetcher"),
        ("fetcher~a~b", "fetcher"),
        ("fetcher~", "fetcher"),
        ("~3f9a2c", "~3f9a2c"),
        ("~", "~"),
        ("", ""),
    ],
)
def test_the_name_of_an_agent_is_what_stands_before_the_first_tilde(agent_id, name):
    assert agent_name_of(agent_id) == name


def test_instances_exclude_each_other(world):
    assert isinstance(world.acquire("fetcher~1", space=SPACE), Granted)
    assert isinstance(world.acquire("fetcher~2", space=SPACE, wait_ms=1), Queued)


# Policies


def test_whoever_allows_an_agent_allows_its_instances_but_not_the_other_way_round(world):
    world.govern("i1", allowed_agents=["fetcher", "editor~1"])
    assert [write(world, actor) for actor in ("fetcher", "fetcher~1", "fetcher~2", "editor~1")] == [None] * 4
    assert [write(world, actor) for actor in ("fetchers~1", "editor", "editor~2")] == ["allowed_agents"] * 3
    assert isinstance(world.assign("i1", "fetcher~1"), Assigned)
    assert rule(world.assign("i1", "editor")) == "allowed_agents"


def test_an_agent_is_assigned_with_all_its_instances(world):
    world.govern("i1", write_scope="assigned_only")
    world.assign("i1", "fetcher")
    world.assign("i1", "editor~1")
    assert [write(world, actor) for actor in ("fetcher", "fetcher~1", "editor~1")] == [None] * 3
    assert [write(world, actor) for actor in ("editor", "editor~2", "fetch~1")] == ["write_scope"] * 3


@pytest.mark.parametrize("registered", ["fetcher", "fetcher~1"])
def test_a_role_is_assigned_with_whoever_registered_with_it(world, registered):
    world.govern("i1", write_scope="assigned_only")
    world.assign("i1", "reader")
    world.register("stranger")
    world.register("editor", role_id="writer")
    assert write(world, "fetcher~1") == "write_scope"
    world.register(registered, role_id="reader")
    assert write(world, "fetcher~1") is None
    assert [write(world, actor) for actor in ("stranger", "editor", "nobody")] == ["write_scope"] * 3
    world.mark(registered, "dead")
    assert write(world, "fetcher~1") is None, "a mark is only a mark"
    world.mark(registered, "deregistered")
    assert write(world, "fetcher~1") == "write_scope"


def another_role(world: World) -> None:
    world.register("fetcher", role_id="writer")


def leaving(world: World) -> None:
    world.mark("fetcher", "deregistered")


def being_forgotten(world: World) -> None:
    world.mark("fetcher", "dead")
    world.books.limits = type(world.limits)(agents_max=1)
    world.register("another")


@pytest.mark.parametrize("end", [another_role, leaving, being_forgotten])
def test_whoever_loses_the_role_by_which_it_waits_is_turned_away(world, end):
    world.create("free")
    world.assign("i1", "boss")
    world.govern("i1", "boss", write_scope="assigned_only")
    world.register("fetcher", role_id="reader")
    for intent in ("i1", "free"):
        world.assign(intent, "reader")
        world.acquire("boss", space=f"intent:{intent}", ttl_ms=9_000)
        world.acquire("fetcher~1", space=f"intent:{intent}", wait_ms=9_000)
    world.register("fetcher", role_id="reader")
    assert world.new_answers() == []
    end(world)
    [(request, answer)] = world.new_answers()
    assert (request, rule(answer)) == (1, "write_scope")
    assert [waiter.ask.space for waiter in world.books.waiters.values()] == ["intent:free"]
    check_all(world)


# Decisions


def test_an_agent_has_one_opinion_however_many_instances_it_has(world):
    for agent in ("fetcher", "editor", "judge"):
        world.assign("i1", agent)
    world.govern("i1", completion_mode="quorum", quorum_threshold=0.6)
    for actor in ("fetcher~1", "fetcher~2", "fetcher", "stranger~1"):
        world.decide("i1", actor)
    assert world.status("i1", "completed").message.endswith("there are 1")
    world.decide("i1", "judge~1")
    world.decide("i1", "fetcher~2", outcome="rejected")
    assert rule(world.status("i1", "completed")) == "completion_mode", "the newest of the agent counts"
    world.decide("i1", "editor~9")
    assert isinstance(world.status("i1", "completed"), IntentSeen)


def test_instances_that_are_assigned_one_by_one_are_one_agent_in_a_quorum(world):
    for agent in ("fetcher~1", "fetcher~2", "editor"):
        world.assign("i1", agent)
    world.govern("i1", completion_mode="quorum", quorum_threshold=1)
    world.decide("i1", "fetcher~2")
    assert world.status("i1", "completed").message.startswith("completing it needs 2 ")
    world.decide("i1", "editor")
    assert isinstance(world.status("i1", "completed"), IntentSeen)
