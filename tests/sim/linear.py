"""Whether what clients saw of leases can be put into one order that a single lease server could have followed.

It knows the promises of a lease and nothing of the product: it is the second opinion.

What it promises: no false alarm. BROKEN means that no order explains the answers, whatever the network did, whatever
became of the unknown outcomes, and with clocks within `drift`. LINEAR means that an order was found. UNDECIDED means
that the budget was used up; it is never a guess.

What it does not see: a lease that ends too late (that is never illegal here), and who is served first.

How: the search of Wing and Gong with Lowe's memory of what was tried, for each resource by itself. Three facts about
leases keep it short:

- Tokens rise, so the grants have one possible order.
- A lease need not end before somebody must see it ended. So the end is no step of its own: whoever needs it takes it,
  not before the promised time, or the call of a release of unknown outcome. Putting each step at the earliest
  instant that is possible makes the promised times the shortest, which is best for all that follows.
- A renewal of unknown outcome only forbids, so it never helps; a grant of unknown outcome helps only to explain a
  refusal. Such a grant is a *ghost*: it acts when a refusal needs it, or never.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TypeAlias

from linear_plan import DRIFT, FREE, GRANTED, NEVER, REFUSED, RENEWED, Op, Plan, Rules, Step

BUDGET = 200_000  # configurations visited for one group, about 1 s; 20,000 were too few for 5 of 1,000 long histories


class Verdict(Enum):
    LINEAR = "linear"
    BROKEN = "broken"
    UNDECIDED = "undecided"


Result: TypeAlias = tuple[Verdict, list[Op] | None]
Hold: TypeAlias = tuple[str, str, int, float]  # client, resource, token, not over before
Holds: TypeAlias = tuple[Hold, ...]
# first step not done, the steps done after it (bits), last token, holds, now, free since, ghosts that acted (bits)
Config: TypeAlias = tuple[int, int, int, Holds, float, float, int]
# holds, now, free since: what one step makes of a configuration
Change: TypeAlias = tuple[Holds, float, float]


PLAIN = Rules()


def check(ops: Sequence[Op], *, budget: int = BUDGET, drift: float = DRIFT, rules: Rules = PLAIN) -> Result:
    """The worst verdict of all resources, and the open ops where the search got stuck.

    With `rules.conflicts` all ops are one group: resources that may exclude each other, under tokens that rise in all.
    `drift` is how much faster the server's clock may run. The budget is for each group.
    """
    groups = [ops] if rules.conflicts is not None else _by_resource(ops).values()
    undecided: Result | None = None
    for group in groups:
        result = _check_group(group, rules, budget=budget, drift=drift)
        if result[0] is Verdict.BROKEN:
            return result
        if result[0] is Verdict.UNDECIDED:
            undecided = result
    return undecided or (Verdict.LINEAR, None)


def check_all(
    ops: Iterable[Op], *, budget: int = BUDGET, drift: float = DRIFT, rules: Rules = PLAIN
) -> dict[str, Result]:
    """The result of each resource by itself."""
    groups = _by_resource(ops).items()
    return {name: _check_group(group, rules, budget=budget, drift=drift) for name, group in groups}


def _by_resource(ops: Iterable[Op]) -> dict[str, list[Op]]:
    parts: dict[str, list[Op]] = {}
    for op in ops:
        part = parts.get(op.resource)
        if part is None:
            parts[op.resource] = [op]
        else:
            part.append(op)
    return parts


def _check_group(ops: Sequence[Op], rules: Rules, *, budget: int, drift: float) -> Result:
    plan = Plan(ops, rules, drift)
    if plan.wrong:
        return Verdict.BROKEN, plan.wrong
    return Search(plan).run(budget)


class Search:
    """Depth first: of each configuration the open steps are tried, foremost the one that returned first."""

    def __init__(self, plan: Plan) -> None:
        self._steps = plan.steps
        self._ghosts = plan.ghosts
        self._loose = plan.loose
        self._owner = plan.owner
        self._rivals = plan.rivals
        self._late_release = plan.rules.late_release
        self._dated = bool(plan.ghosts) and plan.rules.conflicts is None  # in a group there is no one free since
        self._take = (
            self._granted,
            self._refused,
            self._renewed,
            self._released,
            self._lost,
            self._seen,
            self._free,
        )
        tokens = sorted(plan.owner)
        self._before = dict(zip(tokens, [0, *tokens], strict=False))  # by token: the one granted before it

    def run(self, budget: int) -> Result:
        stack: list[Config] = [(0, 0, 0, (), -NEVER, -NEVER, 0)]
        seen: set[Config] = set()
        deepest = stack[0]
        for _ in range(budget):
            if not stack:
                return Verdict.BROKEN, self._stuck(deepest)
            config = stack.pop()
            if stack:  # else no other way leads here
                if config in seen:
                    continue
                seen.add(config)
            following = self._following(config)
            if following is None:
                return Verdict.LINEAR, None
            if not following and _depth(config) >= _depth(deepest):
                deepest = config
            stack += following
        return Verdict.UNDECIDED, self._stuck(deepest)

    def _stuck(self, config: Config) -> list[Op]:
        """The last grant and the open steps."""
        last = [step[8] for step in self._steps if step[2] == GRANTED and step[5] == config[2]]
        return last + [self._steps[number][8] for number in self._open(config[0], config[1])[0]]

    def _open(self, first: int, done: int) -> tuple[list[int], float]:
        """The steps that may come next, and the instant before which one of them must: the first return."""
        steps, limit, numbers = self._steps, NEVER, []
        for number in range(first, len(steps)):
            if not done & 1:
                step = steps[number]
                if step[0] > limit:
                    break
                limit = min(limit, step[1])
                numbers.append(number)
            done >>= 1
        return numbers, limit

    def _following(self, config: Config) -> list[Config] | None:
        """The configurations that one more step leads to, the best at the end. None: all is done."""
        first, done, last, holds, now, since, acted = config
        numbers, limit = self._open(first, done)
        if not numbers:
            return None
        found: list[tuple[float, Config]] = []
        for number in numbers:
            step = self._steps[number]
            call, ret, kind = step[:3]
            change = self._take[kind](step, last, holds, max(call, now), since)
            if change is None:
                if kind == REFUSED and self._ghosts:
                    for left, at, mark in self._haunted(step, holds, max(call, now), since, acted):
                        if at <= limit:
                            found.append((-ret, (*_did(first, done, number), last, left, at, since, mark)))
                continue
            left, at, free = change
            if at > limit:
                continue
            token = step[5] if kind == GRANTED else last
            after = (*_did(first, done, number), token, left, at, free if self._dated else -NEVER, acted)
            # What takes nothing from others can be taken at once if it costs no time: later is never better.
            if (call <= now or number == numbers[0]) and (kind == RENEWED or (left is holds and kind != FREE)):
                return [after]
            found.append((-ret, after))
        if len(found) > 1:
            found.sort(key=_return)
        return [after for _, after in found]

    # What a step makes of the holds, at the earliest instant from `at` on; None if it cannot be next.

    def _granted(self, step: Step, last: int, holds: Holds, at: float, since: float) -> Change | None:
        _, _, _, client, resource, token, length, promised, _ = step
        if self._before[token] != last:
            return None
        left, at = self._emptied(holds, client, resource, at)
        return (*left, (client, resource, token, max(at, promised) + length)), at, since

    def _refused(self, step: Step, _last: int, holds: Holds, at: float, since: float) -> Change | None:
        _, _, _, client, resource, own, *_ = step
        for hold in holds:
            near = hold[1] == resource or (hold[0] != client and hold[1] in self._rivals[resource])
            if near and hold[2] != own:
                return holds, at, since
        return None

    def _renewed(self, step: Step, _last: int, holds: Holds, at: float, since: float) -> Change | None:
        hold = _own(holds, step)
        if hold is None:
            return None
        longer = (hold[0], hold[1], hold[2], max(hold[3], at + step[6]))
        return tuple(longer if other is hold else other for other in holds), at, since

    def _released(self, step: Step, last: int, holds: Holds, at: float, since: float) -> Change | None:
        hold, token = _own(holds, step), step[5]
        if hold is not None:
            return _without(holds, hold), at, min(at, self._end(hold))
        if token > last or self._owner.get(token) != (step[3], step[4]):
            return None
        # It has ended before: said to be fine, or the work of a release whose answer was lost.
        return holds, at if self._late_release else max(at, self._loose.get(token, NEVER)), since

    def _lost(self, step: Step, last: int, holds: Holds, at: float, since: float) -> Change | None:
        hold = _own(holds, step)
        if hold is None:  # only what was granted can be lost to the acquire itself
            return None if step[8].kind == "acquire" and step[5] > last else (holds, at, since)
        end = self._end(hold)
        return _without(holds, hold), max(at, end), end

    def _seen(self, step: Step, _last: int, holds: Holds, at: float, since: float) -> Change | None:
        for hold in holds:
            if hold[2] == step[5] and hold[1] == step[4]:
                return holds, at, since
        return None

    def _free(self, step: Step, _last: int, holds: Holds, at: float, _since: float) -> Change | None:
        for hold in holds:
            if hold[1] == step[4]:
                at, holds = max(at, self._end(hold)), _without(holds, hold)
        return holds, at, at

    def _haunted(
        self, step: Step, holds: Holds, at: float, since: float, acted: int
    ) -> Iterator[tuple[Holds, float, int]]:
        """The ghosts that explain a refusal. Each acted as early as it could: just after the resource became free."""
        client, resource = step[3], step[4]
        for number, (call, other, wanted, length) in enumerate(self._ghosts):
            near = wanted == resource or (other != client and wanted in self._rivals[resource])
            if near and call <= step[1] and -1 - number != step[5] and not acted >> number & 1:
                left, began = self._emptied(holds, other, wanted, max(call, since))
                yield (*left, (other, wanted, -1 - number, began + length)), max(at, began), acted | 1 << number

    def _emptied(self, holds: Holds, client: str, resource: str, at: float) -> tuple[Holds, float]:
        """The holds that let this client in, and when the others can have ended."""
        left = holds
        for hold in holds:
            if hold[1] == resource or (hold[0] != client and hold[1] in self._rivals[resource]):
                at, left = max(at, self._end(hold)), _without(left, hold)
        return left, at

    def _end(self, hold: Hold) -> float:
        return min(hold[3], self._loose.get(hold[2], NEVER))


def _own(holds: Holds, step: Step) -> Hold | None:
    for hold in holds:
        if hold[2] == step[5]:
            return hold if hold[0] == step[3] and hold[1] == step[4] else None
    return None


def _without(holds: Holds, hold: Hold) -> Holds:
    return tuple(other for other in holds if other is not hold) if len(holds) > 1 else ()


def _did(first: int, done: int, number: int) -> tuple[int, int]:
    done |= 1 << number - first
    while done & 1:
        done >>= 1
        first += 1
    return first, done


def _depth(config: Config) -> int:
    return config[0] + config[1].bit_count()


def _return(found: tuple[float, Config]) -> float:
    return found[0]
