"""A round as the second opinion takes it: calls of leases and their answers, to be put into one order."""

from collections import Counter
from collections.abc import Iterator

from chaos_judge import History
from chaos_log import Line
from linear import Verdict, check_all
from linear_plan import Op, Rules

# A waiter that died keeps its place for 5 s, longer than a round: so any refusal can be right. That what is free can be
# had is seen at the end of each round. The release of a lease that has ended is answered with ok.
RULES = Rules(cooldown=True, late_release=True)
NS = 1e9


def opinions(history: History) -> tuple[Counter[str], list[str]]:
    """How often each verdict was given, one for each scope, and those that say that a promise was broken."""
    results = check_all(list(ops(history)), rules=RULES)
    broken = [
        f"no order explains {where}: {stuck}" for where, (said, stuck) in results.items() if said is Verdict.BROKEN
    ]
    return Counter(said.value for said, _ in results.values()), broken


def ops(history: History) -> Iterator[Op]:
    attempts = {call["idem"]: call for call in history.calls if call["op"] == "acquire"}
    tokens = {call["idem"]: call["tok"] for call in history.calls_of("acquire", "ok")}
    for call in history.calls:
        if call["out"] == "error":  # nothing happened, says the server
            continue
        if call["op"] == "acquire":
            yield _acquire(call)
        elif call["op"] == "cancel":
            asked = attempts[call["idem"]]
            yield _op(call, "release", asked["res"], tokens.get(call["idem"]))
        else:
            yield _op(call, call["op"], call["res"], call["tok_in"])


def _acquire(call: Line) -> Op:
    return Op(
        client=call["p"],
        kind="acquire",
        resource=call["res"],
        call=call["call"] / NS + call.get("waited_ms", 0) / 1_000,
        ret=None if call["ret"] is None else call["ret"] / NS,
        outcome=call["out"],
        token=call.get("tok"),
        ttl=call.get("ttl_left_ms", call["ttl_ms"]) / 1_000,
        attempt=call["idem"],
    )


def _op(call: Line, kind: str, scope: str, token: int | None) -> Op:
    ret = None if call["ret"] is None else call["ret"] / NS
    left_s = call.get("ttl_left_ms", 0) / 1_000
    return Op(call["p"], kind, scope, call["call"] / NS, ret, call["out"], token, left_s)
