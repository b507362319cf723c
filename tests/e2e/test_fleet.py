"""Agents of one role that are killed, frozen and cut off, again and again: together they do all of it, each once."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from chaos_judge import History, gather, lapsed
from chaos_log import Line
from fleet_agent import NAME, RESULT, ROLE, SCOPE
from fleet_arena import AGENTS, CUTS, PERIOD_S, TTL_MS, Fleet, FleetNemesis
from fleet_judge import Known, Verdict, judged
from proving import Figures, size

from openintent.agents import record as records
from openintent.client.values import Event, Intent

ASSIGNMENTS = size("fleet_assignments", 20)
SEED = int(os.environ.get("SEED", "1"))
FINISH_S_MAX = 25.0 + ASSIGNMENTS  # generous: each is a second or two of work, and many agents share it
LARGE = 200  # so many assignments see everything that a run must have seen
MUST_HAPPEN = (
    "kills",
    "freezes",
    "cuts",
    "lapses",
    "runs_stopped",
    "continued_from_a_note",
    "stale_results_refused",
    "stale_writes_refused",
)
STRIKES = 3


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    try:
        await fleet.start()
        yield fleet
    finally:
        await fleet.stop()


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.busy
@pytest.mark.timeout(60 + FINISH_S_MAX)
async def test_each_assignment_has_its_effect_once_whatever_becomes_of_its_agents(fleet: Fleet, figures: Figures):
    over = asyncio.Event()
    trouble = asyncio.create_task(FleetNemesis(fleet, SEED).harass(over))
    await asyncio.to_thread(fleet.assign, ASSIGNMENTS, random.Random(SEED))
    took_s = await fleet.finished(FINISH_S_MAX, figures)
    over.set()
    await trouble
    assert await fleet.leave() == [0] * AGENTS
    history = gather(fleet.new_lines(), [], fleet.deaths())
    known = [Known(*each) for each in await asyncio.to_thread(fleet.told)]
    verdict = judged(history, known, fleet.wall_less_boot_ns)
    counted = count(history, known, verdict)
    print(counted)  # noqa: T201  # see it with -s
    assert verdict.violations == [], f"SEED={SEED}; the logs are in {fleet.folder}"
    assert counted["kills"] + counted["freezes"] + counted["cuts"] > 0
    if ASSIGNMENTS >= LARGE:
        assert [name for name in MUST_HAPPEN if not counted[name]] == []
    report(figures, counted, took_s)


def count(history: History, known: list[Known], verdict: Verdict) -> dict[str, int]:
    faults = Counter(fault["fault"] for fault in history.faults)
    begun = [act for act in history.acts if act["act"] == "begin"]
    runs = Counter(act["res"] for act in begun)
    results = [call for call in history.calls if call["op"] == "result"]
    heard = {(each.intent.id, each.intent.state[RESULT]["token"]) for each in known}
    return {
        "kills": faults["kill"],
        "freezes": faults["pause"],
        "cuts": sum(faults[cut] for cut in set(CUTS)),
        "lapses": sum(lapsed(event) for each in known for event in each.of("lease_released")),
        "handler_runs": len(begun),
        "most_runs_of_one": max(runs.values()),
        "continued_from_a_note": sum(act["n"] > 0 for act in begun),
        "runs_stopped": sum(act["act"] == "stopped" for act in history.acts),
        "stale_results_refused": sum(call["out"] in ("lost", "no") for call in results),
        "results_that_never_counted": sum((call["res"], call["tok_in"]) not in heard for call in results),
        "stale_writes_refused": sum(not write["accepted"] for write in history.writes),
        "deeds_in_the_instant_of_waking": len(verdict.waking),
    }


def report(figures: Figures, counted: dict[str, int], took_s: float) -> None:
    """Whoever comes here has seen no violation: the zeros are what was asserted."""
    figures.add(
        "a fleet of agents under kills, freezes and cuts",
        agents=AGENTS,
        assignments=ASSIGNMENTS,
        finished=ASSIGNMENTS,
        effects_missing_or_twice=0,
        stale_results_accepted=0,
        stale_writes_accepted=0,
        deeds_after_the_deadline=0,
        **counted,
        ttl_ms=TTL_MS,
        a_fault_every_ms=round(PERIOD_S * 1_000),
        seconds=round(took_s),
        seed=SEED,
    )


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(60)
async def test_an_assignment_that_kills_its_agents_is_parked_with_its_history_and_harms_no_other(tmp_path: Path):
    fleet = Fleet(tmp_path, agents=2)
    try:
        await fleet.start()
        allowed = {records.KEY: {ROLE: {"retry": {"max_attempts": STRIKES}}}}
        deadly = await asyncio.to_thread(fleet.assign_one, "deadly", {"deadly": True, **allowed})
        for _ in range(STRIKES):
            await fleet.one_dies()
        await asyncio.to_thread(fleet.assign_one, "harmless", {"steps": 1})
        await fleet.finished(FINISH_S_MAX, but=1)
        asked = await asyncio.to_thread(fleet.heard, deadly, "arbitration_requested")
        await fleet.until(deadly, lambda intent: records.read(intent.state, ROLE).status != "running")
        history = gather(fleet.new_lines(), [], fleet.deaths())
        (parked, harmless) = [Known(*each) for each in await asyncio.to_thread(fleet.told)]
    finally:
        await fleet.stop()
    runs = sorted((act["attempt"], f"{NAME}~{act['p']}") for act in history.acts if act["res"] == deadly)
    assert [attempt for attempt, _ in runs] == [1, 2, 3]
    record = records.read(parked.intent.state, ROLE)
    assert record.status == "parked"
    assert [(failure.attempt, failure.holder) for failure in record.failures] == runs
    assert {failure.error for failure in record.failures} == {records.LAPSED}
    assert [failure["attempt"] for failure in asked.payload["context"]["failures"]] == [1, 2, 3]
    assert harmless.intent.status == "completed"


# The judge sees what is wrong


TOLD_AT = 1_000_000.0
WALL_LESS_BOOT_NS = 60 * 10**9


def at(seconds: float) -> int:
    return round((TOLD_AT + seconds) * 1e9) - WALL_LESS_BOOT_NS


def act(what: str, agent: str, token: int, at_s: float, **more: object) -> Line:
    about = {"p": agent, "act": what, "res": "i", "tok": token, "attempt": token, "at": at(at_s), "done": at(at_s)}
    return {"n": 0, **about, "until": at(at_s), **more}


def pause(agent: str, at_s: float, ended_s: float) -> Line:
    return {"p": "nemesis", "fault": "pause", "who": agent, "at": at(at_s), "ended": at(ended_s)}


def event(kind: str, at_s: float, **payload: Any) -> Event:
    return Event(event_type=kind, created_at=datetime.fromtimestamp(TOLD_AT + at_s, UTC), payload=payload)


def lease(kind: str, token: int, at_s: float, reason: str = "released") -> Event:
    return event(f"lease_{kind}", at_s, token=token, scope=SCOPE, reason=reason)


def patched(token: int, at_s: float, *, status: str = "done", result: bool = True) -> Event:
    record = {"path": records.path(ROLE), "value": {"status": status, "token": token, "attempt": token}}
    results = [{"path": RESULT, "value": {"token": token, "attempt": token}}] if result else []
    return event("state_patched", at_s, patches=[*results, record])


COMPLETED = event("status_changed", 3.0, new_status="completed")
FIRST = [lease("acquired", 1, 0), patched(1, 0.1, status="running", result=False), lease("released", 1, 1, "expired")]
SECOND = [lease("acquired", 2, 1.5), patched(2, 2.9), COMPLETED, lease("released", 2, 3.1)]
BEGUN = [act("begin", "a", 1, 0.2), act("step", "a", 1, 0.5)]
ENDED = [act("begin", "b", 2, 2.0), act("end", "b", 2, 2.8)]
RIGHT = [*BEGUN, *ENDED]
WRONG: dict[str, tuple[list[Line], list[Event]]] = {
    "step under 1, whose lease had ended": ([*RIGHT, act("step", "a", 1, 1.2)], [*FIRST, *SECOND]),
    "stopped under 1, whose lease had ended": ([*RIGHT, act("stopped", "a", 1, 1.2)], [*FIRST, *SECOND]),
    "step under 1, whose lease": (
        [*RIGHT, pause("a", 0.6, 1.8), act("step", "a", 1, 2.3)],
        [*FIRST, *SECOND],
    ),
    "2 steps under 1 after waking": (
        [*RIGHT, pause("a", 0.6, 1.8), act("step", "a", 1, 1.81), act("step", "a", 1, 1.9)],
        [*FIRST, *SECOND],
    ),
    "acted under 1": ([*RIGHT, act("step", "a", 1, 2.1)], [*FIRST[:2], *SECOND]),
    "began as (token, attempt)": ([*RIGHT, act("begin", "c", 2, 2.1)], [*FIRST, *SECOND]),
    "a did nothing in the 10 s after": (
        [*RIGHT, pause("a", 0.6, 1.8), act("begin", "b", 2, 12)],
        [*FIRST, *SECOND],
    ),
    "and 8 was saved": ([act("saved", "a", 1, 0.4, n=8), *RIGHT], [*FIRST, *SECOND]),
    "done was set under 1 while 2 was alive": (RIGHT, [*FIRST, SECOND[0], patched(1, 1.6), *SECOND[1:]]),
    "done was set under 1 while 0 was alive": (RIGHT, [*FIRST, patched(1, 1.2), *SECOND]),
    "2 results": (RIGHT, [*FIRST, SECOND[0], patched(2, 2.8), *SECOND[1:]]),
    "0 results": (RIGHT, [*FIRST, SECOND[0], *SECOND[2:]]),
    "a result without the word": (RIGHT, [*FIRST, SECOND[0], patched(2, 2.9, status="running"), *SECOND[2:]]),
    "completed under no lease": (RIGHT, [*FIRST, *SECOND, COMPLETED]),
    "no handler has come to the end": (RIGHT[:-1], [*FIRST, *SECOND]),
    "was granted while 1 was alive": (RIGHT, [*FIRST[:2], *SECOND]),
    "the store took 1": (
        [{"p": "store", "write": "a", "res": "i", "tok": token, "at": 0, "accepted": True} for token in (2, 1)] + RIGHT,
        [*FIRST, *SECOND],
    ),
}


def judgement(lines: list[Line], events: list[Event], *, status: str = "completed") -> Verdict:
    state = {RESULT: {}, records.KEY: {ROLE: {"status": "done", "token": 2, "attempt": 2}}}
    now = datetime.now(UTC)
    intent = Intent(id="i", title="work", status=status, version=1, created_at=now, updated_at=now, state=state)
    return judged(gather(lines, [], {}), [Known(intent, events)], WALL_LESS_BOOT_NS)


def test_the_judge_accepts_what_is_right():
    assert judgement(RIGHT, [*FIRST, *SECOND]).violations == []
    woken = [pause("a", 0.6, 1.8), act("step", "a", 1, 1.85), act("stopped", "a", 1, 1.9)]
    assert judgement([*RIGHT, *woken], [*FIRST, *SECOND]).violations == []
    waited = [act("asks", "a", 1, 0.6), act("stopped", "a", 1, 1.9)]
    assert judgement([*RIGHT, *waited], [*FIRST, *SECOND]).violations == []


@pytest.mark.parametrize("sentence", WRONG)
def test_the_judge_sees_what_is_wrong(sentence: str):
    assert [violation for violation in judgement(*WRONG[sentence]).violations if sentence in violation]


def test_the_judge_sees_what_is_not_completed():
    assert judgement(RIGHT, [*FIRST, *SECOND], status="active").violations
