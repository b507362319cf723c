"""What must be true of a ledger after every step, said as plainly as possible."""

from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import msgspec
from world import World

from openintent.core import governance
from openintent.core.books import Books
from openintent.core.ledger import Ledger
from openintent.core.looking import missing_owner
from openintent.core.scopes import ScopeIndex, overlap
from openintent.core.values import weigh
from openintent.model import DEAD, Event, Lease, Waiter

RUNTIME = {
    "Lease": {"batch", "timer_ms", "ttl_ms", "progress_end_ms"},
    "Waiter": {"request", "arrived_ms", "until_ms", "passed_ms", "gone_ms", "left", "timer_ms"},
    "Attempt": {"batch"},
    "Cooldown": {"timer_ms"},
    "Intent": {"batch"},
    "Portfolio": {"batch"},
    "Agent": {"load", "seen_ms", "seen_at_ms", "batch", "timer_ms"},  # heartbeats are not written down
}


def check_all(world: World, ends_ms: dict[str, int] | None = None) -> None:
    """`ends_ms` remembers those of leases that are preempted, from one check to the next in the same term."""
    books = world.books
    check_exclusion(books)
    check_story(books, story(world))
    check_nobody_waits_in_vain(books)
    check_requests(books)
    check_counts(books)
    check_spaces(books)
    check_order(books)
    check_timers(books)
    check_marks(books, {} if ends_ms is None else ends_ms)
    check_attempts(books)
    check_relations(books)
    check_groups(books)
    check_governance(books)
    check_agents(books)
    assert all(intent.state_bytes == weigh(intent.state) for intent in books.intents.values())


def story(world: World) -> list[Event]:
    """Every event that the present is made of, durable or not yet."""
    return world.log + [event for taken in world.in_flight for event in taken.batch.events] + world.books.events


def check_exclusion(books: Books) -> None:
    for one, other in combinations(books.leases.values(), 2):
        if one.space == other.space and overlap(one.scope, other.scope):
            assert one.holder == other.holder, (one, other)
            assert one.scope != other.scope, (one, other)


def check_story(books: Books, events: list[Event]) -> None:
    """The log has no gaps, tokens rise, and a lease begins once, ends once, and is alive in between."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert books.seq == len(events)
    tokens = [event.grant.token for event in events if event.grant is not None]
    begun = [event.lease_id for event in events if event.type == "lease_acquired"]
    ended = [event.lease_id for event in events if event.lease is not None]
    assert all(one < other for one, other in pairwise(tokens))
    assert books.token >= max(tokens, default=0)
    assert len(set(begun)) == len(begun)
    assert len(set(ended)) == len(ended)
    assert set(begun) - set(ended) == set(books.leases)
    assert set(ended) <= set(begun)


def check_nobody_waits_in_vain(books: Books) -> None:
    """Whoever is present, with nothing in the way and nobody in line ahead, has been granted."""
    for waiter in books.waiters.values():
        if waiter.request:
            assert in_the_way(books, waiter), waiter


def in_the_way(books: Books, waiter: Waiter) -> list[Any]:
    ask = waiter.ask
    leases = [
        lease
        for lease in books.leases.values()
        if lease.space == ask.space
        and (lease.scope == ask.scope or (lease.holder != ask.holder and overlap(lease.scope, ask.scope)))
    ]
    closed = [
        cooldown
        for space in books.spaces.values()
        for cooldown in space.cooldowns
        if cooldown.space == ask.space and overlap(cooldown.scope, ask.scope)
    ]
    ahead = [
        other
        for other in books.waiters.values()
        if other.ask.space == ask.space
        and (other.ask.scope == ask.scope or other.ask.holder != ask.holder)
        and overlap(other.ask.scope, ask.scope)
        and other.rank < waiter.rank
        and (other.request or other.passed_ms)
    ]
    return leases + closed + ahead


def check_requests(books: Books) -> None:
    assert books.requests == {waiter.request: waiter for waiter in books.waiters.values() if waiter.request}
    for waiter in books.waiters.values():
        assert not waiter.left
        assert waiter.request or waiter.gone_ms, "neither here nor on the way out"
        assert waiter.request or waiter.attempt is not None, "absent, without an attempt"


def check_counts(books: Books) -> None:
    assert books.held == Counter(lease.holder for lease in books.leases.values())
    assert books.waiting == Counter(waiter.ask.holder for waiter in books.waiters.values())
    assert all(lease.status == "active" and key == lease.id for key, lease in books.leases.items())
    assert all(lease.status not in ("active", "released") for lease in books.ended.values())
    assert all(lease.status == "released" for lease in books.released.values())
    assert not books.leases.keys() & (books.ended.keys() | books.released.keys())


def check_spaces(books: Books) -> None:
    for name, space in books.spaces.items():
        assert name == space.name
        assert not space.is_empty(), name
        assert all(line.waiters for line in space.lines)
        for line in space.lines:
            assert [waiter.rank for waiter in line.waiters] == sorted(waiter.rank for waiter in line.waiters)
        assert same_index(space.leases, lambda lease: (lease.scope, lease.holder))
        assert same_index(space.lines, lambda line: (line.scope, ""))
        assert same_index(space.cooldowns, lambda closed: (closed.scope, ""))
    placed = {waiter.ticket for space in books.spaces.values() for line in space.lines for waiter in line.waiters}
    assert placed == set(books.waiters)
    assert {lease.id for space in books.spaces.values() for lease in space.leases} == set(books.leases)


def same_index(index: ScopeIndex[Any], names: Any) -> bool:
    """Whether an index holds just what it would if its content had been added anew."""
    fresh: ScopeIndex[Any] = ScopeIndex()
    for item in index:
        fresh.add(*names(item), item)
    return (index.items, index._wide, index._below) == (fresh.items, fresh._wide, fresh._below)


def check_order(books: Books) -> None:
    """Leases are listed by their tokens, without being sorted for that."""
    for leases in (books.leases.values(), *(space.leases for space in books.spaces.values())):
        tokens = [lease.token for lease in leases]
        assert tokens == sorted(tokens)


def check_timers(books: Books) -> None:
    """Nothing that is over is still there, and whatever will be over has a timer in time."""
    closed = [cooldown for space in books.spaces.values() for cooldown in space.cooldowns]
    spent = [books.spent] if books.spent.line else []
    for thing in [*books.leases.values(), *closed, *spent]:
        assert thing.due_ms > books.now_ms, thing
    for thing in [*books.leases.values(), *closed, *spent, *books.waiters.values()]:
        assert DEAD < thing.timer_ms <= thing.due_ms, thing
        assert books.timers.next_ms <= thing.timer_ms
    ended = {id(attempt): attempt.until_ms for attempt in books.attempts.values() if attempt.until_ms}
    assert {id(attempt): attempt.until_ms for attempt in books.spent.line} == ended
    assert [attempt.until_ms for attempt in books.spent.line] == sorted(ended.values())
    for lease in books.leases.values():
        assert lease.hold_end_ms is None or lease.deadline_ms <= lease.hold_end_ms
        assert lease.ttl_ms_max >= lease.ttl_ms


def check_marks(books: Books, ends_ms: dict[str, int]) -> None:
    """A lease that is preempted stays so, and lives to the end that it got, and no longer."""
    marked = {lease.id: lease for lease in books.leases.values() if lease.preempt_reason is not None}
    for lease in marked.values():
        assert ends_ms.setdefault(lease.id, lease.hold_end_ms) == lease.hold_end_ms >= lease.deadline_ms
    assert ends_ms.keys() & books.leases.keys() == marked.keys()


def check_attempts(books: Books) -> None:
    """A waiter or lease that was made by an attempt can be found by it."""
    made: list[Lease | Waiter] = [*books.leases.values(), *books.waiters.values()]
    for thing in made:
        if thing.attempt is not None:
            holder = thing.holder if isinstance(thing, Lease) else thing.ask.holder
            known = books.attempts[holder, thing.attempt]
            assert known.target == (thing.id if isinstance(thing, Lease) else thing.ticket)
            assert known.until_ms == 0


# Intents and what hangs on them


def check_relations(books: Books) -> None:
    """Children and dependents say the same as the intents themselves, and whatever is named exists."""
    intents = books.intents.values()
    parents = {each.id: [each.parent_id] if each.parent_id is not None else [] for each in intents}
    others = {each.id: each.depends_on for each in intents}
    assert books.children == turned_round(parents)
    assert books.dependents == turned_round(others)
    assert books.children.keys() | books.dependents.keys() <= books.intents.keys()
    for each in intents:
        assert each.id not in reached(others, each.id), "it waits for itself"
        assert each.id not in reached(parents, each.id), "it is a part of itself"
        assert len(set(each.depends_on)) == len(each.depends_on)
    for name in books.spaces:
        assert missing_owner(books, name) is None, name


def turned_round(links: dict[str, list[str]]) -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for one, others in links.items():
        for other in others:
            found.setdefault(other, {})[one] = None
    return found


def reached(links: dict[str, list[str]], start: str) -> set[str]:
    found, todo = set(), list(links[start])
    while todo:
        each = todo.pop()
        todo += [other for other in links[each] if each not in found]
        found.add(each)
    return found


def check_groups(books: Books) -> None:
    """The two ways of looking at a membership, and at an assignment, agree."""
    members = {(p, i): member for p, group in books.members.items() for i, member in group.items()}
    assert all((member.portfolio_id, member.intent_id) == key for key, member in members.items())
    assert {(p, i) for i, group in books.portfolios_of.items() for p in group} == set(members)
    assigned = {(i, a): each for i, group in books.assigned.items() for a, each in group.items()}
    assert {(i, a): each for a, group in books.assignments.items() for i, each in group.items()} == assigned
    assert all((each.intent_id, each.agent_id) == key for key, each in assigned.items())
    assert books.members.keys() <= books.portfolios.keys()
    assert books.portfolios_of.keys() | books.assigned.keys() | books.decisions.keys() <= books.intents.keys()
    for index in (books.members, books.portfolios_of, books.assigned, books.assignments, books.decisions):
        assert all(index.values()), "an empty group"


def check_governance(books: Books) -> None:
    """Whoever has a policy is known to be governed, and nobody waits for what is forbidden to him."""
    assert books.governed == {f"intent:{each.id}": each for each in books.intents.values() if each.governance_policy}
    for waiter in books.waiters.values():
        assert governance.forbids_lease(books, waiter.ask) is None, waiter
    for intent_id, decisions in books.decisions.items():
        assert {each.intent_id for each in decisions} == {intent_id}


def check_agents(books: Books) -> None:
    """Nobody is overdue for a mark, and whoever can be marked is watched."""
    for key, agent in books.agents.items():
        assert key == agent.id
        if agent.status in ("dead", "deregistered"):
            assert (agent.due_ms, agent.timer_ms) == (DEAD, DEAD)
            continue
        patience_ms = agent.unhealthy_ms if agent.status == "active" else agent.dead_ms
        assert books.now_ms < agent.seen_ms + patience_ms == agent.due_ms
        assert books.timers.next_ms <= agent.timer_ms <= agent.due_ms


# Rebuilding


def check_store(world: World) -> None:
    """When all is durable: the store has a record for everything there is, and nothing else."""
    books = world.books
    kept = {
        *(f"i/{each}" for each in books.intents),
        *(f"q/{each}" for each in books.portfolios),
        *(f"r/{each}" for each in books.agents),
        *(f"m/{one}\t{other}" for one, group in books.members.items() for other in group),
        *(f"g/{one}\t{other}" for one, group in books.assigned.items() for other in group),
        *(f"o/{intent}\t{n:04x}" for intent, made in books.decisions.items() for n in range(len(made))),
        *(f"l/{each}" for each in books.leases),
        *(f"w/{each.ticket}" for each in books.waiters.values() if each.attempt is not None),
        *(f"a/{holder}\t{key}" for holder, key in books.attempts),
        *(f"d/{name}\t{each.scope}" for name, space in books.spaces.items() for each in space.cooldowns),
        *(f"c/{name}\t{scope}" for name, space in books.spaces.items() for scope in space.checkpoints),
    }
    assert {key for key in world.store if key[0] not in "efhpv"} == kept
    assert {key[2:].partition("\t")[0] for key in world.store if key[0] == "p"} <= books.intents.keys()
    check_logs(world)


def check_logs(world: World) -> None:
    """Every durable event stands in the log of its space, and in the second one if it has one: once, in order."""
    expected: dict[str, list[int]] = {}
    for event in world.log:
        for space in {event.space, event.also} - {None}:
            expected.setdefault(space, []).append(event.seq)
    spaces = {key[2:].partition("\t")[0] for key in world.store if key[0] == "v"}
    assert {space: [event.seq for event in world.stored_log(space)] for space in spaces} == expected


def durable_part(ledger: Ledger) -> dict[str, Any]:
    """What of the books a new term must have, whatever happens."""
    books = ledger.books
    waiters = [waiter for waiter in books.waiters.values() if waiter.attempt is not None]
    return {
        "leases": {lease.id: shown(lease) for lease in books.leases.values()},
        "waiters": {waiter.ticket: shown(waiter) for waiter in waiters},
        "attempts": {key: shown(attempt) for key, attempt in books.attempts.items()},
        "intents": {intent.id: shown(intent) for intent in books.intents.values()},
        "cooldowns": {
            (closed.space, closed.scope): shown(closed) for space in books.spaces.values() for closed in space.cooldowns
        },
        "checkpoints": {
            (space.name, scope): value for space in books.spaces.values() for scope, value in space.checkpoints.items()
        },
        "portfolios": {each.id: shown(each) for each in books.portfolios.values()},
        "agents": {each.id: shown(each) for each in books.agents.values()},
        "groups": (books.members, books.portfolios_of, books.assigned, books.assignments),
        "relations": (books.children, books.dependents, set(books.governed)),
        "decisions": books.decisions,
        "counters": (books.token, books.seq, books.now_ms, books.horizon),
    }


def shown(thing: Any) -> dict[str, Any]:
    hidden = RUNTIME[type(thing).__name__]
    return {key: value for key, value in msgspec.structs.asdict(thing).items() if key not in hidden}
