"""The fuzz target for the ledger: bytes are read as commands, with time between them, and the books stay in order."""

from collections.abc import Callable, Iterator
from typing import Any

import invariants
from world import SPACE, World

from openintent.core import commands

AGENTS = ("ann", "bob", "cid")
SCOPES = ("x", "x/y", "x/**", "x/y/**", "*", "z", "x/**/**", "/", "a//b")
SPACES = (SPACE, "intent:i1", "intent:i2", "coordinator:intent:i1", "coordinator:portfolio:p1")
INTENTS = ("i1", "i2", "i3")
KEYS = (None, "t1", "t2")
TIMES_MS = (0, 1, 50, 100, 500, 1_000, 5_000, 600_000)
STATUSES = ("draft", "active", "blocked", "completed", "abandoned")
MARKS = ("active", "draining", "unhealthy", "dead", "deregistered")
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"write_scope": "assigned_only"},
    {"allowed_agents": ["ann"]},
    {"completion_mode": "quorum", "quorum_threshold": 0.5},
    {"completion_mode": "require_approval"},
)
STEPS = (("set", "x", 1), ("set", "x/y", [1]), ("append", "x", 2), ("remove", "x"), ("set", "z", "long" * 1_000))
COMMANDS_MAX = 60


class Source:
    """Bytes, taken as choices. When they run out, the first of everything is chosen."""

    def __init__(self, data: bytes) -> None:
        self._rest: Iterator[int] = iter(data)
        self.left = len(data)

    def one(self, among: Any) -> Any:
        self.left -= 1
        return among[next(self._rest, 0) % len(among)]


def ledger(data: bytes) -> None:
    """Whatever is asked in whatever order, with whatever crashes between: the invariants hold after each step."""
    source, world = Source(data), World()
    world.create("i1")
    world.portfolio("p1")
    for _ in range(COMMANDS_MAX):
        if source.left <= 0:
            break
        source.one(DOES)(world, source)
        world.answers.clear()
        invariants.check_all(world)
    world.take(farewell=True)
    world.arrive()
    invariants.check_store(world)
    assert invariants.durable_part(world.rebuilt()) == invariants.durable_part(world.ledger)


def _acquire(world: World, source: Source) -> None:
    wishes = {"priority": source.one((0, 1)), "reentrant": source.one((False, True))}
    wishes |= source.one(({}, {"cooldown_ms": 500}, {"max_hold_ms": 300}, {"progress_ms": 150}, {"preempt": True}))
    attempt, wait_ms = source.one(KEYS), source.one(TIMES_MS)
    where = {"space": source.one(SPACES), "ttl_ms": source.one(TIMES_MS[3:])}
    world.acquire(source.one(AGENTS), source.one(SCOPES), wait_ms=wait_ms, attempt=attempt, **where, **wishes)


def _lease(world: World, source: Source) -> str:
    known = [*world.books.leases, *world.books.ended, *world.books.released, "nowhere"]
    return str(source.one(known))


def _renew(world: World, source: Source) -> None:
    world.renew(_lease(world, source), source.one(AGENTS), ttl_ms=source.one((None, 100, 5_000)))


def _heartbeat(world: World, source: Source) -> None:
    held = [(lease.id, lease.token) for lease in world.books.leases.values()]
    world.heartbeat(source.one(AGENTS), [*held[: source.one(range(4))], ("nowhere", 1)])


def _gone(world: World, source: Source) -> None:
    world.gone(source.one([*sorted(world.books.requests), 999]))


def _create(world: World, source: Source) -> None:
    related = source.one(({}, {"parent_id": "i1"}, {"depends_on": ["i1"]}, {"depends_on": ["i2", "i2"]}))
    policy = source.one(POLICIES) or None
    where = {"actor": source.one(AGENTS), "attempt": source.one(KEYS)}
    world.create(source.one(INTENTS), governance_policy=policy, **where, **related)


def _patch(world: World, source: Source) -> None:
    words = {"actor": source.one(AGENTS), "attempt": source.one(KEYS), "expect": source.one((None, 1, 2))}
    world.patch(source.one(INTENTS), source.one(STEPS), token=source.one((None, 1, 2)), **words)


def _log(world: World, source: Source) -> None:
    words = {"space": source.one(SPACES[:3]), "actor": source.one(AGENTS), "attempt": source.one(KEYS)}
    world.do(commands.LogEvent(type="note", payload={}, **words))


def _advance(world: World, source: Source) -> None:
    world.advance(source.one(TIMES_MS))


def _two(verb: str) -> Callable[[World, Source], None]:
    """A command about two intents."""
    return lambda world, source: getattr(world, verb)(source.one(INTENTS), source.one(INTENTS), source.one(AGENTS))


DOES: tuple[Callable[[World, Source], Any], ...] = (
    _acquire,
    _acquire,
    _acquire,
    _renew,
    _heartbeat,
    _gone,
    _create,
    _patch,
    _log,
    _advance,
    _advance,
    lambda world, source: world.release(_lease(world, source), source.one(AGENTS)),
    lambda world, source: world.revoke(_lease(world, source)),
    lambda world, source: world.progress(_lease(world, source), source.one(AGENTS), checkpoint=source.one((None, {}))),
    lambda world, source: world.give_up(source.one(AGENTS), source.one(KEYS[1:]), source.one(SPACES)),
    lambda world, source: world.status(source.one(INTENTS), source.one(STATUSES), source.one(AGENTS)),
    lambda world, source: world.delete(source.one(INTENTS), source.one(AGENTS)),
    _two("depend"),
    _two("depend_no_more"),
    lambda world, source: world.govern(source.one(INTENTS), source.one(AGENTS), **source.one(POLICIES)),
    lambda world, source: world.decide(source.one(INTENTS), source.one(AGENTS), attempt=source.one(KEYS)),
    lambda world, source: world.arbitrate(source.one(INTENTS), source.one(AGENTS), attempt=source.one(KEYS)),
    lambda world, source: world.portfolio(source.one(("p1", "p2")), actor=source.one(AGENTS)),
    lambda world, source: world.add(source.one(("p1", "p2")), source.one(INTENTS)),
    lambda world, source: world.remove(source.one(("p1", "p2")), source.one(INTENTS)),
    lambda world, source: world.register(source.one(AGENTS)),
    lambda world, source: world.mark(source.one(AGENTS), source.one(MARKS)),
    lambda world, source: world.assign(source.one(INTENTS), source.one(AGENTS)),
    lambda world, source: world.unassign(source.one(INTENTS), source.one(AGENTS)),
    lambda world, _: world.take(),
    lambda world, _: world.commit(),
    lambda world, _: world.arrive(),
    lambda world, _: world.crash(),
    lambda world, _: world.stop(),
)
