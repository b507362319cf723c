"""Pauses, kills and partitions, again and again, on real processes with the real SDK: no promise is broken."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from chaos_arena import REST_S_MAX, Arena
from chaos_count import situations
from chaos_judge import Judge, gather, tokens_rise_as_told
from chaos_linear import opinions
from chaos_log import Line
from chaos_nemesis import Nemesis
from proving import Figures, size

from openintent.client.values import Event

pytestmark = pytest.mark.anyio

ROUNDS = size("chaos_rounds", 3)
SEED = int(os.environ.get("SEED", "1"))
LARGE = 50  # so many rounds see everything that a run must have seen
MUST_HAPPEN = (
    "LeaseLost",
    "lapse",
    "partition",
    "stale write refused",
    "write accepted",
    "granted after waiting",
    "repeated attempt",
    "pause while holding",
    "pause that outlived the trust",
    "pause during acquire",
    "acquire unknown",
    "renew unknown",
    "fault: kill",
    "fault: server killed",
    "fault: server paused",
)


@pytest.fixture
async def arena(tmp_path: Path) -> AsyncIterator[Arena]:
    arena = Arena(tmp_path)
    try:
        await arena.start()
        yield arena
    finally:
        await arena.stop()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.busy
@pytest.mark.timeout(60 + ROUNDS * REST_S_MAX)
async def test_no_promise_is_broken_under_pauses_kills_and_partitions(arena: Arena, figures: Figures):
    nemesis, judge = Nemesis(arena, SEED), Judge()
    seen: Counter[str] = Counter()
    progress_s = []
    for done in range(ROUNDS):
        arena.go()
        await nemesis.strike()
        await arena.rest()
        progress_s.append(await arena.progress())
        history = gather(arena.new_lines(), await asyncio.to_thread(arena.new_events), arena.deaths())
        verdicts, broken = opinions(history)
        assert judge.violations(history) + broken == [], f"SEED={SEED}, round {done}; the logs are in {arena.folder}"
        seen.update([*situations(history), *verdicts.elements()])
        figures.progress(done + 1, ROUNDS)
    print(dict(sorted(seen.items())))  # noqa: T201  # see it with -s
    report(figures, seen, max(progress_s))
    assert seen["acquire ok"] > ROUNDS
    assert seen["undecided"] == 0
    if ROUNDS >= LARGE:
        assert [name for name in MUST_HAPPEN if not seen[name]] == []


def report(figures: Figures, seen: Counter[str], progress_s: float) -> None:
    """Whoever comes here has seen no violation: the zeros are what was asserted."""
    figures.add(
        "pauses, kills and partitions with real processes and the SDK",
        rounds=ROUNDS,
        grants=seen["acquire ok"],
        overlaps_of_belief=0,
        acts_out_of_turn=0,
        stale_writes_accepted=0,
        stale_writes_refused=seen["stale write refused"],
        acknowledged_grants_lost=0,
        pauses=seen["fault: pause"],
        pauses_while_holding_that_outlived_the_trust=seen["pause that outlived the trust"],
        partitions=seen["partition"],
        other_faults_of_links=seen["link fault"] - seen["partition"],
        worker_kills=seen["fault: kill"],
        server_kills=seen["fault: server killed"],
        server_pauses=seen["fault: server paused"],
        lease_lost=seen["LeaseLost"],
        outcomes_unknown=sum(seen[f"{op} unknown"] for op in ("acquire", "renew", "release", "cancel")),
        histories_linear=seen["linear"],
        histories_undecided=seen["undecided"],
        slowest_progress_after_the_faults_ms=round(progress_s * 1_000),
        seed=SEED,
    )


# The judge sees what is wrong


SECOND = 1_000_000_000


def belief(client: str, token: int, since_s: float, until_s: float, *, at_s: float | None = None) -> list[Line]:
    """Two lines; `at_s` is when it says that it has ended, if not when its trust did."""
    common = {"p": client, "res": "red", "tok": token, "until": int(until_s * SECOND)}
    end_s = until_s if at_s is None else at_s
    return [
        {**common, "belief": "start", "at": int(since_s * SECOND)},
        {**common, "belief": "end", "at": int(end_s * SECOND)},
    ]


def call(client: str, op: str, call_s: float, ret_s: float, **more: object) -> Line:
    span = {"call": int(call_s * SECOND), "ret": int(ret_s * SECOND)}
    numbered = {"p": client, "n": f"{op} {call_s}", "op": op, "res": "red", "out": "ok"}
    return {**numbered, **span, "term": 1, "rev": int(ret_s * 1_000), **more}


def grant(client: str, token: int, call_s: float, ret_s: float, **more: object) -> Line:
    told = {"tok": token, "ttl_ms": 1_000, "ttl_left_ms": 1_000, "waited_ms": 0, "idem": f"{client} {token}"}
    return call(client, "acquire", call_s, ret_s, **{**told, **more})


def act(client: str, token: int, at_s: float) -> Line:
    at = int(at_s * SECOND)
    return {"p": client, "act": 1, "res": "red", "tok": token, "at": at, "done": at, "until": at}


def event(seq: int, kind: str, token: int, client: str, reason: str = "released") -> Event:
    payload = {"token": token, "scope": "red", "reason": reason}
    return Event(event_type=f"lease_{kind}", created_at=datetime.now(UTC), seq=seq, actor=client, payload=payload)


TURNS = [event(1, "acquired", 1, "a"), event(2, "released", 1, "a", "expired"), event(3, "acquired", 2, "b")]
GRANTS = [grant("a", 1, 0, 0.1), grant("b", 2, 1.1, 1.2)]
RIGHT = [*GRANTS, *belief("a", 1, 0.1, 0.9), act("a", 1, 0.8), *belief("b", 2, 1.2, 2), act("b", 2, 1.2)]
WRONG: dict[str, tuple[list[Line], list[Event]]] = {
    "believed": ([*GRANTS, *belief("a", 1, 0.1, 1.3), *belief("b", 2, 1.2, 2)], TURNS),
    "acted under 1": ([*RIGHT, act("a", 1, 1.25)], TURNS),
    "event 3 follows event 1": (RIGHT, [TURNS[0], *TURNS[2:]]),
    "token 1 was granted after 2": ([], [event(1, "acquired", 2, "a"), event(2, "acquired", 1, "b")]),
    "was alive": ([], [TURNS[0], event(2, "acquired", 2, "b")]),
    "was not alive": ([], [event(1, "released", 1, "a")]),
    "which the log has not": ([*RIGHT, grant("a", 3, 3, 3.1)], TURNS),
    "the log does not know": ([*RIGHT, call("b", "release", 2, 2.1, tok_in=2)], TURNS),
    "answered with token": ([grant("a", 2, 0, 0.1), grant("b", 1, 1.1, 1.2)], []),
    "answered with mark": ([grant("a", 1, 0, 0.1), grant("b", 2, 1.1, 1.2, rev=1)], []),
    "was renewed after": (
        [call("a", "release", 0, 0.1, tok_in=1), call("a", "renew", 0.2, 0.3, tok_in=1, ttl_left_ms=1)],
        [],
    ),
    "1 was over by the grant of 2": ([grant("a", 1, 0.5, 0.6), GRANTS[1]], TURNS),
    "1 was lost": ([GRANTS[0], call("a", "renew", 0.4, 0.5, tok_in=1, out="lost")], TURNS),
    "got [1, 2]": ([grant("a", 1, 0, 0.1, idem="x"), grant("a", 2, 0.05, 0.1, idem="x")], []),
    "the store took 1": (
        [{"p": "store", "write": "a", "res": "red", "tok": token, "at": 0, "accepted": True} for token in (2, 1)],
        [],
    ),
}


def judged(lines: list[Line], events: list[Event]) -> list[str]:
    history = gather(lines, events, {})
    return Judge().violations(history)


def test_the_judge_accepts_what_is_right():
    assert judged(RIGHT, TURNS) == []
    late = belief("a", 1, 0.1, 0.9, at_s=1.5)  # it was paused, and said so late
    assert judged([*GRANTS, *late, *belief("b", 2, 1.2, 2)], TURNS) == []
    missed = belief("a", 1, 1.3, 0.9, at_s=1.5)  # it was paused before it could begin
    assert judged([*GRANTS, *missed, *belief("b", 2, 1.2, 2)], TURNS) == []


def test_a_grant_that_only_a_repeat_tells_of_may_be_older_than_one_that_was_told_before():
    unheard = call("a", "acquire", 0, 0.1, idem="x", out="unknown", ret=None)
    told = [grant("b", 2, 1.1, 1.2), grant("a", 1, 1.3, 1.4, idem="x")]
    assert list(tokens_rise_as_told(gather([unheard, *told], [], {}))) == []
    assert list(tokens_rise_as_told(gather(told, [], {}))) != []


@pytest.mark.parametrize("sentence", WRONG)
def test_the_judge_sees_what_is_wrong(sentence: str):
    assert [violation for violation in judged(*WRONG[sentence]) if sentence in violation]


def test_the_second_opinion_sees_two_holders():
    verdicts, broken = opinions(gather([grant("a", 1, 0.5, 0.6), GRANTS[1]], TURNS, {}))
    assert verdicts == {"broken": 1}
    assert "no order explains red" in broken[0]
