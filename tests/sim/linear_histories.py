"""Histories of a lease server that keeps its promises, and of the same server with one answer made wrong.

The server here is the plainest that can be: it decides when a request arrives. Requests and replies are late or lost,
clients forget what they hold, and its clock runs a little fast or slow.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeAlias, TypeVar

from linear_plan import Conflicts, Op

TOKEN_GAP = 10  # between two grants, so that a corruption has room for a token of its own
TIMEOUT_S = 1.0
WAITS_S = (0.0, 0.0, 0.5, 3.0)
TTLS_S = (0.3, 1.0, 2.0)
PAUSES_S = (0.001, 0.05, 0.3)

SCOPES = ("*", "a/**", "a/b", "a/c", "d")


def overlap(one: str, other: str) -> bool:
    return covers(one, other) or covers(other, one)


def covers(one: str, other: str) -> bool:
    return one in {"*", other} or (one.endswith("/**") and other.startswith(one[:-2]))


@dataclass
class Lease:
    client: str
    resource: str
    token: int
    ttl: float
    deadline: float


@dataclass
class Request:
    """One call on its way. `answer` takes the outcome, the token and the promised time."""

    op: Op
    token: int | None = None
    wait_until: float = 0.0
    answer: Callable[[str, int | None, float], None] = lambda *_: None


@dataclass
class World:
    """A server, its clients and the network, step by step in virtual time."""

    seed: int
    clients: int = 4
    resources: tuple[str, ...] = ("r0", "r1", "r2", "r3", "r4")
    conflicts: Conflicts = str.__eq__
    unknown: float = 0.05
    ops: list[Op] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.rate = self.random.uniform(0.999, 1.001)
        self.now, self._count, self._token, self._attempts = 0.0, 0, 0, 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._leases: list[Lease] = []
        self._granted: dict[str, Lease] = {}
        self._waiting: list[Request] = []
        self._open: dict[int, Op] = {}  # calls without an answer so far

    def run(self, length: int) -> list[Op]:
        for number in range(self.clients):
            self._live(f"c{number}")
        while len(self.ops) < length:
            self.now, _, event = heapq.heappop(self._events)
            self._lapse()
            event()
        return sorted([*self.ops, *self._open.values()], key=lambda op: op.call)

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, event))

    # The server

    def _lapse(self) -> None:
        over = [lease for lease in self._leases if lease.deadline <= self.now * self.rate]
        if over:
            self._leases = [lease for lease in self._leases if lease not in over]
            self._serve_waiting()

    def _arrive(self, request: Request) -> None:
        op, wanted = request.op, request.token
        if op.kind == "acquire":
            self._waiting.append(request)
            self._after(max(0.0, request.wait_until - self.now), self._serve_waiting)
            self._serve_waiting()
            return
        lease = next((one for one in self._leases if one.token == wanted and one.client == op.client), None)
        if op.kind == "read":
            lease = next((one for one in self._leases if one.resource == op.resource), None)
            request.answer("ok", None if lease is None else lease.token, 0.0)
        elif lease is None:
            request.answer("lost", wanted, 0.0)
        elif op.kind == "release":
            self._leases.remove(lease)
            request.answer("ok", wanted, 0.0)
            self._serve_waiting()
        else:
            lease.deadline = max(lease.deadline, self.now * self.rate + op.ttl)
            self._after(lease.ttl + 0.001, lambda: None)
            request.answer("ok", wanted, self._remaining(lease))

    def _remaining(self, lease: Lease) -> float:
        return round(lease.deadline - self.now * self.rate, 3)

    def _serve_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            if not self._serve(request):
                self._waiting.append(request)

    def _serve(self, request: Request) -> bool:
        op = request.op
        lease = self._granted.get(op.attempt or "")
        if lease is not None:
            alive = lease in self._leases
            request.answer("ok" if alive else "lost", lease.token, self._remaining(lease) if alive else 0.0)
        elif not any(self._excludes(lease, op) for lease in self._leases):
            self._token += TOKEN_GAP
            lease = Lease(op.client, op.resource, self._token, op.ttl, self.now * self.rate + op.ttl)
            self._leases.append(lease)
            self._granted[op.attempt or ""] = lease
            self._after(op.ttl + 0.01, lambda: None)  # somebody may wait for its end
            request.answer("ok", lease.token, op.ttl)
        elif request.wait_until <= self.now:
            request.answer("no", None, 0.0)
        else:
            return False
        return True

    def _excludes(self, lease: Lease, op: Op) -> bool:
        own = lease.client == op.client
        return lease.resource == op.resource if own else self.conflicts(lease.resource, op.resource)

    # The clients and the network

    def _live(self, client: str) -> None:
        pause = self.random.choice(PAUSES_S) * self.random.random() * 2
        self._after(pause, lambda: self._acquire(client, again=None))

    def _acquire(self, client: str, again: Op | None) -> None:
        self._attempts += 1
        wait = self.random.choice(WAITS_S)
        resource, ttl, attempt = self.random.choice(self.resources), self.random.choice(TTLS_S), f"t{self._attempts}"
        op = Op(client, "acquire", resource, self.now, None, "unknown", None, ttl, attempt)
        if again is not None:
            op = replace(again, call=self.now, ret=None, outcome="unknown")

        def answered(done: Op) -> None:
            if done.outcome == "ok":
                self._hold(done)
            elif done.outcome == "unknown" and self.random.random() < 0.5:
                self._acquire(client, again=done)
            else:
                self._live(client)

        self._send(Request(op, wait_until=self.now + wait), answered, patience=wait + TIMEOUT_S)

    def _hold(self, held: Op) -> None:
        kinds = ("renew", "renew", "release", "read", "forget")
        kind = self.random.choices(kinds, (3, 3, 4, 1, 0.5))[0]
        if kind == "forget":
            self._live(held.client)
            return
        pause = self.random.choice((0.001, 0.1, 0.4, 0.9)) * held.ttl
        self._after(pause, lambda: self._use(held, kind))

    def _use(self, held: Op, kind: str) -> None:
        token = None if kind == "read" else held.token
        op = Op(held.client, kind, held.resource, self.now, None, "unknown", token, max(held.ttl, 0.3))

        def answered(done: Op) -> None:
            if done.outcome == "lost" or (kind == "release" and done.outcome == "ok"):
                self._live(done.client)
            else:
                self._hold(held)

        self._send(Request(op, token=token), answered, patience=TIMEOUT_S)

    def _send(self, request: Request, answered: Callable[[Op], None], patience: float) -> None:
        """The outcome is unknown when the request or its reply is lost or too late."""
        number = self._count
        self._open[number] = request.op

        def close(done: Op) -> None:
            if self._open.pop(number, None) is not None:
                self.ops.append(done)
                answered(done)

        def answer(outcome: str, token: int | None, ttl: float) -> None:
            delay, late = self._delay(), self.random.random() < self.unknown / 2
            done = replace(request.op, outcome=outcome, token=token, ttl=ttl)
            self._after(delay + late * 100.0, lambda: close(replace(done, ret=self.now)))

        request.answer = answer
        late = self.random.random() < self.unknown / 2
        self._after(self._delay() + late * self.random.choice((0.5, 2.0, 1e9)), lambda: self._arrive(request))
        self._after(patience, lambda: close(request.op))

    def _delay(self) -> float:
        return self.random.expovariate(1 / self.random.choice((0.001, 0.01, 0.05)))


# One wrong answer. Each gives the history with it, or None where the history has no place for it.


def overlapping_grant(ops: list[Op], random: Random) -> list[Op] | None:
    """While somebody holds it, and uses it afterwards, another is granted it."""
    held = _pick(random, [(g, u) for g, u in _grants_and_uses(ops) if _ret(g) + 0.002 < u.call])
    if held is None:
        return None
    grant, use = held
    call, ret = _between(random, _ret(grant), use.call)
    return [*ops, Op("rival", "acquire", grant.resource, call, ret, "ok", (grant.token or 0) + 1, 1.0)]


def reused_token(ops: list[Op], random: Random) -> list[Op] | None:
    return _second_token(ops, random, lambda first, _: first.token or 0)


def falling_token(ops: list[Op], random: Random) -> list[Op] | None:
    return _second_token(ops, random, lambda first, _: (first.token or 0) - 1)


def _second_token(ops: list[Op], random: Random, token: Callable[[Op, Op], int]) -> list[Op] | None:
    pair = _pick(random, list(_turns(ops)))
    if pair is None:
        return None
    new = token(*pair)
    return [replace(op, token=new) if op.token == pair[1].token else op for op in ops]


def renewed_after_foreign_grant(ops: list[Op], random: Random) -> list[Op] | None:
    return _late_use(ops, random, "renew")


def released_after_foreign_grant(ops: list[Op], random: Random) -> list[Op] | None:
    return _late_use(ops, random, "release")


def _late_use(ops: list[Op], random: Random, kind: str) -> list[Op] | None:
    repeatable = {op.token for op in ops if op.kind == "release" and op.outcome == "unknown"}
    pair = _pick(random, [turn for turn in _turns(ops) if turn[0].token not in repeatable])
    if pair is None:
        return None
    old, new = pair
    call, ret = _between(random, _ret(new), _ret(new) + 0.1)
    return [*ops, replace(old, kind=kind, call=call, ret=ret, attempt=None)]


def early_foreign_grant(ops: list[Op], random: Random) -> list[Op] | None:
    """The last promise on a resource is broken after 80 % of its time."""
    resource = random.choice([op.resource for op in ops])
    grants = [op for op in ops if op.resource == resource and op.kind == "acquire" and op.outcome == "ok"]
    grant = _pick(random, grants)
    if grant is None:
        return None
    ret = grant.call + 0.8 * grant.ttl
    before = [op for op in ops if op.resource != resource or (op.token or 0) < (grant.token or 0) or op is grant]
    before = [op for op in before if op.resource != resource or op is grant or op.call < grant.call]
    late = Op("rival", "acquire", resource, _ret(grant), ret, "ok", (grant.token or 0) + 1, 1.0)
    return [*before, late] if ret > _ret(grant) else None


def refused_while_free(ops: list[Op], random: Random) -> list[Op] | None:
    """A refusal between a release and the next call of anybody, where nothing unknown can be the reason."""
    gaps = []
    for op in ops:
        if op.kind == "release" and op.outcome == "ok":
            near = [other for other in ops if overlap(other.resource, op.resource)]
            silent = any(o.kind == "acquire" and o.outcome in {"unknown", "lost"} and o.call < _ret(op) for o in near)
            open_ = any(other is not op and other.call <= _ret(op) and op.call <= _ret(other) for other in near)
            until = min((other.call for other in near if other.call > _ret(op)), default=_ret(op) + 1)
            if not silent and not open_:
                gaps.append((op, until))
    gap = _pick(random, gaps)
    if gap is None:
        return None
    call, ret = _between(random, _ret(gap[0]), gap[1])
    return [*ops, Op("rival", "acquire", gap[0].resource, call, ret, "no")]


def foreign_release(ops: list[Op], random: Random) -> list[Op] | None:
    """Somebody else releases a lease that its holder uses, and is told that this was done."""
    held = _pick(random, list(_grants_and_uses(ops)))
    if held is None:
        return None
    call, ret = _between(random, held[0].call, held[1].call)
    return [*ops, Op("rival", "release", held[0].resource, call, ret, "ok", held[0].token)]


Corruption: TypeAlias = Callable[[list[Op], Random], list[Op] | None]
CORRUPTIONS: tuple[Corruption, ...] = (
    overlapping_grant,
    reused_token,
    falling_token,
    renewed_after_foreign_grant,
    released_after_foreign_grant,
    early_foreign_grant,
    refused_while_free,
    foreign_release,
)


def _grants_and_uses(ops: list[Op]) -> Iterator[tuple[Op, Op]]:
    """Each grant with each later answer that shows it alive."""
    grants = {op.token: op for op in ops if op.kind == "acquire" and op.outcome == "ok"}
    for op in ops:
        grant = grants.get(op.token)
        if grant is not None and op.kind in {"renew", "release"} and op.outcome == "ok":
            yield grant, op


def _turns(ops: list[Op]) -> Iterator[tuple[Op, Op]]:
    """Two grants of one resource to two clients, the second called after the first returned."""
    last: dict[str, Op] = {}
    for op in sorted((op for op in ops if op.kind == "acquire" and op.outcome == "ok"), key=lambda op: op.token or 0):
        before = last.get(op.resource)
        if before is not None and before.client != op.client and _ret(before) < op.call:
            yield before, op
        last[op.resource] = op


T = TypeVar("T")


def _pick(random: Random, places: list[T]) -> T | None:
    return random.choice(places) if places else None


def _between(random: Random, low: float, high: float) -> tuple[float, float]:
    first, second = sorted((random.random(), random.random()))
    return low + (high - low) * (0.01 + 0.98 * first), low + (high - low) * (0.01 + 0.98 * second)


def _ret(op: Op) -> float:
    return float("inf") if op.ret is None else op.ret
