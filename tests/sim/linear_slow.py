"""The same question as in `linear`, answered without any cleverness: every order, every end, every unknown outcome.

Time goes from instant to instant at which anything can change; at each, anything that may happen is tried. It is
exact, and hopeless for more than some ten ops: it is there to judge the judge.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from linear_plan import DRIFT, NEVER, SLACK_S, Conflicts, Op

GHOST = 0  # a token that nobody ever saw


class Hold(NamedTuple):
    client: str
    resource: str
    token: int
    deadline: float


class State(NamedTuple):
    now: float
    done: frozenset[int]
    holds: frozenset[Hold]
    last: int
    attempts: frozenset[tuple[str, str, int]]  # client, attempt, token: those that were granted
    gone: frozenset[tuple[str, int]]  # client, token: what a release of unknown outcome ended


def explained(ops: Sequence[Op], conflicts: Conflicts = str.__eq__) -> bool:
    needed = frozenset(number for number, op in enumerate(ops) if op.outcome != "unknown")
    start = State(-NEVER, frozenset(), frozenset(), 0, frozenset(), frozenset())
    stack, seen = [start], {start}
    while stack:
        state = stack.pop()
        if needed <= state.done:
            return True
        for after in _following(state, ops, conflicts):
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return False


def _following(state: State, ops: Sequence[Op], conflicts: Conflicts) -> Iterator[State]:
    open_ = [number for number in range(len(ops)) if number not in state.done]
    limit = min((_ret(ops[n]) for n in open_ if ops[n].outcome != "unknown"), default=NEVER)
    instants = {ops[n].call for n in open_} | {hold.deadline for hold in state.holds}
    later = min((instant for instant in instants if instant > state.now), default=NEVER)
    if later <= limit and later < NEVER:
        yield state._replace(now=later)
    for hold in state.holds:
        if hold.deadline <= state.now:
            yield state._replace(holds=state.holds - {hold})
    for number in open_:
        if ops[number].call <= state.now <= _ret(ops[number]):
            for after in _acts(state, ops[number], ops, conflicts):
                yield after._replace(done=state.done | {number})


def _acts(state: State, op: Op, ops: Sequence[Op], conflicts: Conflicts) -> Iterator[State]:
    if op.kind == "acquire":
        yield from _acquires(state, op, ops, conflicts)
    elif op.kind == "read":
        tokens = [hold.token for hold in state.holds if hold.resource == op.resource]
        if tokens == ([] if op.token is None else [op.token]) or op.outcome == "unknown":
            yield state
    else:
        yield from _uses(state, op)


def _acquires(state: State, op: Op, ops: Sequence[Op], conflicts: Conflicts) -> Iterator[State]:
    blocked = any(_excludes(hold, op, conflicts) for hold in state.holds)
    before = [token for client, attempt, token in state.attempts if (client, attempt) == (op.client, op.attempt)]
    if op.outcome == "no":
        others = [hold for hold in state.holds if hold.client != op.client or hold.token not in before]
        if any(_excludes(hold, op, conflicts) for hold in others):
            yield state
    elif before:
        hold = next((hold for hold in state.holds if hold.token == before[0] and hold.client == op.client), None)
        if op.outcome == "lost" and hold is None:
            yield state
        if op.outcome == "ok" and hold is not None and hold.token == op.token:
            yield _extended(state, hold, op)
    elif not blocked and op.outcome != "lost":
        tokens = {op.token} if op.outcome == "ok" else {GHOST, *(other.token for other in ops)}
        for token in tokens:
            if token is not None and (token > state.last or token == GHOST):
                yield _granted(state, op, token)


def _granted(state: State, op: Op, token: int) -> State:
    hold = Hold(op.client, op.resource, token, state.now + _length(op))
    attempts = state.attempts if op.attempt is None else state.attempts | {(op.client, op.attempt, token)}
    return state._replace(holds=state.holds | {hold}, last=max(state.last, token), attempts=attempts)


def _uses(state: State, op: Op) -> Iterator[State]:
    """A renewal or a release. Without a token it gives up an acquire whose token its client does not know."""
    token = GHOST if op.token is None else op.token
    hold = next((h for h in state.holds if (h.client, h.resource, h.token) == (op.client, op.resource, token)), None)
    if op.outcome == "lost":
        if hold is None:
            yield state
    elif hold is None:
        if op.kind == "release" and (op.client, token) in state.gone:
            yield state
    elif op.kind == "renew":
        yield _extended(state, hold, op)
    else:
        gone = state.gone | {(op.client, token)} if op.outcome == "unknown" else state.gone
        yield state._replace(holds=state.holds - {hold}, gone=gone)


def _extended(state: State, hold: Hold, op: Op) -> State:
    longer = hold._replace(deadline=max(hold.deadline, state.now + _length(op)))
    return state._replace(holds=state.holds - {hold} | {longer})


def _excludes(hold: Hold, op: Op, conflicts: Conflicts) -> bool:
    own = hold.client == op.client
    return hold.resource == op.resource or (not own and conflicts(hold.resource, op.resource))


def _length(op: Op) -> float:
    return max(0.0, op.ttl * (1 - DRIFT) - SLACK_S)


def _ret(op: Op) -> float:
    return NEVER if op.ret is None else op.ret


# What to judge it with: a few ops with answers by chance. Some can be explained, some cannot.


def few_answers(random: Random, resources: tuple[str, ...]) -> list[Op]:
    ops, tokens = [], Random(random.random()).sample(range(1, 9), 4)
    tokens = tokens if random.random() < 0.1 else sorted(tokens)
    leases = [("a", resources[0], 1)]
    for call in sorted(random.randrange(12) for _ in range(random.randrange(3, 8))):
        client, resource = random.choice("abc"), random.choice(resources)
        kind = random.choice(("acquire", "acquire", "renew", "release", "read"))
        outcome = random.choice(("ok", "ok", "ok", "no" if kind == "acquire" else "lost", "unknown"))
        token: int | None = None
        if kind == "acquire":
            outcome = outcome if tokens else "no"
            if outcome != "no":
                leases.append((client, resource, tokens.pop(0)))
                token = leases[-1][2] if outcome == "ok" else None
        elif kind != "read":
            client, resource, token = random.choice(leases[-2:])
        elif outcome != "no" and random.random() < 0.7:
            resource, token = leases[-1][1:]
        ret = None if outcome == "unknown" else call + random.randrange(6)
        outcome = "ok" if kind == "read" and outcome == "lost" else outcome
        ops.append(Op(client, kind, resource, call, ret, outcome, token, random.choice((2, 4, 6))))
    return ops


def few_attempts(random: Random, resources: tuple[str, ...]) -> list[Op]:
    """Mostly acquires, repeated, refused and without answers."""
    ops: list[Op] = []
    attempts: list[tuple[str, str, str]] = []
    leases: list[tuple[str, str, int]] = []
    for call in sorted(random.randrange(14) for _ in range(random.randrange(3, 8))):
        client, resource, attempt = random.choice("abc"), random.choice(resources), None
        kind = random.choices(("acquire", "release", "renew", "read"), (12, 4, 2, 1))[0]
        outcome = random.choice(("ok", "no", "no", "unknown", "unknown"))
        token: int | None = None
        if kind == "acquire":
            client, resource, attempt = _attempt(random, attempts, client, resource)
            if outcome == "ok":
                token = len(leases) + 1
                leases.append((client, resource, token))
            if outcome == "no" and attempt and any(op.attempt == attempt and op.outcome != "no" for op in ops):
                outcome = "lost"
        elif kind == "read":
            outcome = "ok"
        elif leases:
            client, resource, token = random.choice(leases[-2:])
            outcome = "lost" if outcome == "no" else outcome
        else:
            kind, outcome = "release", "unknown"
        ret = None if outcome == "unknown" else call + random.randrange(5)
        ops.append(Op(client, kind, resource, call, ret, outcome, token, random.choice((2, 3, 5)), attempt))
    return ops


def _attempt(
    random: Random, attempts: list[tuple[str, str, str]], client: str, resource: str
) -> tuple[str, str, str | None]:
    if attempts and random.random() < 0.4:
        return random.choice(attempts)
    if random.random() < 0.4:
        return client, resource, None
    attempts.append((client, resource, f"t{len(attempts)}"))
    return attempts[-1]
