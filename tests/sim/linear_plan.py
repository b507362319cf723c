"""What of a history of leases must be put in order, and all that can be known of it before the search."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

DRIFT = 0.003  # three clocks that differ by 0.1 % each
SLACK_S = 0.002  # what the rounding of promised times can take away
NEVER = math.inf

GRANTED, REFUSED, RENEWED, RELEASED, LOST, SEEN, FREE = range(7)

Conflicts: TypeAlias = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Op:
    """One call of a client and its answer, in true time.

    A grant that waited counts its ttl from the grant; who knows how long it waited may say so by a later `call`.
    A read is `ok` with the token it saw; without one, or with `no`, it saw the resource free.
    """

    client: str
    kind: str  # acquire renew release read
    resource: str
    call: float
    ret: float | None  # None: it never returned
    outcome: str  # ok no lost unknown
    token: int | None = None
    ttl: float = 0.0  # promised by the answer; asked for, where there is none
    attempt: str | None = None  # calls with the same attempt are one acquire, which acts at most once


@dataclass(frozen=True, slots=True)
class Rules:
    """What the server is said to do beyond the plain lease."""

    cooldown: bool = False  # it keeps a resource closed after a lapse: then every refusal is legal
    queue: bool = False  # nobody overtakes a waiter: then a refusal is legal while a rival's acquire is open
    late_release: bool = False  # it answers ok to the release of a lease of that client which has ended
    conflicts: Conflicts | None = None  # which resources exclude each other; a client never excludes itself


# call, ret, kind, client, resource, token, promised length, call of the answer that promised, op
Step: TypeAlias = tuple[float, float, int, str, str, int, float, float, Op]
Ghost: TypeAlias = tuple[float, str, str, float]  # call, client, resource, promised length


class Plan:
    """What must be put in order, with all that can be known before the search."""

    def __init__(self, ops: Sequence[Op], rules: Rules, drift: float) -> None:
        self.rules = rules
        self._rate = 1 - drift
        self.steps: list[Step] = []
        self.grants: list[Step] = []
        self.ghosts: list[Ghost] = []
        self.loose: dict[int, float] = {}  # by token: from when on a release of unknown outcome may have ended it
        self.owner: dict[int, tuple[str, str]] = {}  # by token: the client and the resource
        self.shown: dict[int, Op] = {}  # by token: the answer, first to return, that shows that it was granted
        self.wrong: list[Op] = []  # what no order can explain
        self._early: list[Op] = []  # acquires that were lost before their time
        self.rivals = _rivals(ops, rules.conflicts)
        self._acquires(ops)
        for op in ops:
            if op.kind != "acquire":
                self._use(op)
        self._blame_early(ops)
        self._resolve_ghosts(ops)
        self._loosen(ops)
        self._narrow_grants()
        if rules.cooldown:
            self.steps = [step for step in self.steps if step[2] != REFUSED]
        elif rules.queue:
            self._excuse_refusals(ops)
        self.steps.sort(key=_call)

    def _length(self, op: Op) -> float:
        return max(0.0, op.ttl * self._rate - SLACK_S)

    def _add(self, op: Op, kind: int, token: int = 0) -> None:
        ret = NEVER if op.ret is None else op.ret
        self.steps.append((op.call, ret, kind, op.client, op.resource, token, self._length(op), op.call, op))

    def _blame(self, ops: list[Op]) -> None:
        self.wrong = self.wrong or ops

    # Acquires

    def _acquires(self, ops: Sequence[Op]) -> None:
        attempts: dict[tuple[str, str], list[Op]] = {}
        for op in ops:
            if op.kind != "acquire":
                continue
            if op.attempt is None:
                self._acquire([op])
            else:
                attempts.setdefault((op.client, op.attempt), []).append(op)
        for calls in attempts.values():
            self._acquire(calls)

    def _acquire(self, calls: list[Op]) -> None:
        """The calls of one attempt: one grant at most. Later answers show that it is still alive, or lost.

        The grant may be the work of any call, also of a refused one: the network may deliver it twice.
        """
        granted: Op | None = None
        for op in calls:
            if op.outcome == "ok" and (granted is None or _ret(op) < _ret(granted)):
                granted = op
        if granted is not None:
            own = self._grant(granted, call=min(op.call for op in calls) if len(calls) > 1 else granted.call)
        else:
            own = self._haunt(calls)
        for op in calls:
            if op.outcome == "no":
                self._add(op, REFUSED, own)  # its own grant is no reason
            elif granted is not None and op is not granted and op.outcome != "unknown":
                self._repeat(op, granted)

    def _haunt(self, calls: list[Op]) -> int:
        """An acquire of unknown outcome, or one that was granted and had ended when the answer came."""
        lost = [op for op in calls if op.outcome == "lost"]
        silent = [op for op in calls if op.outcome == "unknown"] or lost
        if not silent:
            return 0
        call, length = min(op.call for op in calls), min(self._length(op) for op in silent)
        self.ghosts.append((call, silent[0].client, silent[0].resource, length))
        self._early += [op for op in lost if _ret(op) < call + length]
        return -len(self.ghosts)

    def _grant(self, op: Op, *, call: float) -> int:
        token = _token(op)
        if token in self.owner:
            self._blame([step[8] for step in self.grants if step[5] == token] + [op])
        self.owner[token] = (op.client, op.resource)
        length = self._length(op)
        self.grants.append((call, _ret(op), GRANTED, op.client, op.resource, token, length, op.call, op))
        return token

    def _repeat(self, op: Op, granted: Op) -> None:
        if op.outcome == "lost":
            self._add(op, LOST, _token(granted))
        elif op.token == granted.token:
            self._add(op, RENEWED, _token(granted))
        else:
            self._blame([granted, op])

    # All else

    def _use(self, op: Op) -> None:
        if op.outcome == "unknown":
            return
        if op.kind == "read":
            if op.outcome == "ok" and op.token is not None:
                self._show(op)
                self._add(op, SEEN, op.token)
            else:
                self._add(op, FREE)
        elif op.outcome != "ok":
            self._add(op, LOST, _token(op))
        elif op.kind == "renew":
            self._show(op)
            self._add(op, RENEWED, _token(op))
        elif op.token is not None:
            self._show(op)
            self._add(op, RELEASED, op.token)

    def _show(self, op: Op) -> None:
        token = _token(op)
        before = self.shown.get(token)
        if before is None or _ret(op) < _ret(before):
            self.shown[token] = op

    def _blame_early(self, ops: Sequence[Op]) -> None:
        """An acquire is lost before its time only if its client gave it up, by a token that no acquire answered."""
        for op in self._early:
            if not any(o.kind == "release" and o.token not in self.owner and o.client == op.client for o in ops):
                self._blame([op])

    def _resolve_ghosts(self, ops: Sequence[Op]) -> None:
        """A token that was used and that no acquire answered is that of a ghost, which then did act."""
        for token in self.shown.keys() - self.owner.keys():
            op = self.shown[token]
            users = {o.client for o in ops if o.token == token and o.kind != "read" and o.outcome == "ok"}
            able = [g for g in self.ghosts if g[2] == op.resource and g[0] <= _ret(op) and users <= {g[1]}]
            if not able:
                self._blame([op])
                return
            self._resolve(token, op, able)

    def _resolve(self, token: int, op: Op, able: list[Ghost]) -> None:
        """Where several could have acted, the promise is the least of theirs, and all may act once more."""
        clients = {ghost[1] for ghost in able}
        if len(clients) > 1:  # only reads saw it, and do not say whose it is: better no evidence than a guess
            self.steps = [step for step in self.steps if step[2] != SEEN or step[5] != token]
            return
        if len(able) == 1:
            self.ghosts[self.ghosts.index(able[0])] = (NEVER, "", "", 0.0)  # the places of the others name them
        first, length = min(ghost[0] for ghost in able), min(ghost[3] for ghost in able)
        client = clients.pop()
        self.owner[token] = (client, op.resource)
        self.grants.append((first, _ret(op), GRANTED, client, op.resource, token, length, first, op))

    def _loosen(self, ops: Sequence[Op]) -> None:
        """From when on a release of unknown outcome may have ended a lease.

        Who does not know the token may still give up the attempt. The token of ghost n is -1 - n.
        """
        for op in ops:
            if op.kind == "release" and op.token is None:
                for number, (call, client, resource, _) in enumerate(self.ghosts):
                    if (client, resource) == (op.client, op.resource):
                        self._loosen_one(-1 - number, max(call, op.call))
            elif (op.kind, op.outcome) == ("release", "unknown") and op.token is not None:
                own = self.owner.get(op.token) == (op.client, op.resource)
                self._loosen_one(op.token, op.call if own else NEVER)

    def _loosen_one(self, token: int, call: float) -> None:
        self.loose[token] = min(call, self.loose.get(token, NEVER))

    def _narrow_grants(self) -> None:
        """A grant is later than those of smaller tokens, and earlier than those of larger ones, and than its uses."""
        self.grants.sort(key=lambda step: step[5])
        latest, narrowed = NEVER, []
        for step in reversed(self.grants):
            shown = self.shown.get(step[5])
            latest = min(latest, step[1], NEVER if shown is None else _ret(shown))
            narrowed.append((step[0], latest, *step[2:]))
        earliest, before = -NEVER, None
        for step in reversed(narrowed):
            if step[0] >= earliest:
                earliest, before = step[0], step
            if earliest > step[1]:
                self._blame([one[8] for one in (before, step) if one is not None])
            self.steps.append((earliest, *step[1:]))

    def _excuse_refusals(self, ops: Sequence[Op]) -> None:
        acquires = [op for op in ops if op.kind == "acquire"]
        self.steps = [s for s in self.steps if s[2] != REFUSED or not self._overlapped(s[8], acquires)]

    def _overlapped(self, op: Op, acquires: list[Op]) -> bool:
        near = self.rivals[op.resource]
        return any(
            other.client != op.client and other.resource in near and other.call <= _ret(op) and _ret(other) >= op.call
            for other in acquires
        )


def _rivals(ops: Sequence[Op], conflicts: Conflicts | None) -> dict[str, frozenset[str]]:
    names = {op.resource for op in ops}
    if conflicts is None:
        return {name: frozenset((name,)) for name in names}
    return {
        name: frozenset(n for n in names if n == name or conflicts(name, n) or conflicts(n, name)) for name in names
    }


def _ret(op: Op) -> float:
    return NEVER if op.ret is None else op.ret


def _token(op: Op) -> int:
    if op.token is None:
        raise ValueError(f"this answer needs the token that it was about: {op}")
    return op.token


def _call(step: Step) -> float:
    return step[0]
