"""The whole product in virtual time, seed by seed."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import simulate
from judge import Verdict
from proving import Figures, size
from scenario import Scenario
from shrink import smallest
from simworld import World

from openintent.core import grants

HISTORIES = size("histories", 100)
PROCESSES = size("processes", 1)
# Situations without which a run proves nothing.
NEEDED = (
    "asked again after its end",
    "at risk",
    "committed on the spot",
    "counted",
    "crash with a commit on its way",
    "crash within a commit",
    "cut",
    "disk full",
    "freeze",
    "freeze server",
    "gave up",
    "kill",
    "lapse of a promise",
    "lost",
    "meddled",
    "message later than a second",
    "preempted",
    "renewal heard too late",
    "request repeated by the network",
    "server crash",
    "slow, then cut",
    "stale write refused",
    "stop",
    "sync failed",
    "wall jump",
)
CLUSTER_HISTORIES = size("cluster_histories", 60)
SERVERS = 3  # on one engine
NEEDED_OF_SEVERAL = (
    "at risk",
    "commit that came after its sender gave up",
    "counted",
    "crash with a commit on its way",
    "crash within a commit",
    "deposed",
    "folded",
    "lapse of a promise",
    "leader cut from the engine",
    "leader frozen",
    "looked on",
    "lost",
    "no answer from the engine",
    "preempted",
    "stale write refused",
    "stop",
)


@pytest.mark.slow
@pytest.mark.timeout(max(120, HISTORIES // 2))
def test_no_history_breaks_a_promise_and_the_rare_things_do_happen(figures):
    total = simulated(HISTORIES, 1, "simulated histories", figures)
    assert [name for name in NEEDED if not total.seen[name]] == []


@pytest.mark.slow
@pytest.mark.timeout(max(120, CLUSTER_HISTORIES))
def test_nor_does_one_of_several_servers_that_share_an_engine(figures):
    total = simulated(CLUSTER_HISTORIES, SERVERS, f"simulated histories of {SERVERS} servers on one engine", figures)
    assert [name for name in NEEDED_OF_SEVERAL if not total.seen[name]] == []


def simulated(histories: int, servers: int, title: str, figures: Figures) -> simulate.Tally:
    total, began = simulate.Tally(), time.perf_counter()
    for tally in simulate.run_many(0, histories, servers=servers, processes=PROCESSES):
        total.add(tally)
        figures.progress(total.histories, histories)
    figures.add(
        title,
        histories=total.histories,
        steps=Scenario.drawn(0, servers=servers).steps,
        violations=len(total.broken),
        undecided=total.undecided,
        seeds=f"0..{histories - 1}",
        seconds=round(time.perf_counter() - began),
    )
    happened = {name.replace(" ", "_"): times for name, times in total.seen.items()}
    figures.add(f"what happened in the {title}", **happened)
    assert total.broken == {}, simulate.story(min(total.broken), servers=servers)
    assert total.undecided == 0
    return total


def test_the_same_seed_gives_the_same_history_also_in_another_process():
    here = digests()
    assert here == digests()
    program = "from test_simulation import digests\nprint(*digests())"
    folder = Path(__file__).parent
    env = os.environ | {"PYTHONPATH": f"{folder}:{folder.parent}", "PYTHONHASHSEED": "77"}
    there = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert there.stdout.split() == here


def digests() -> list[str]:
    scenarios = [Scenario.drawn(seed, servers=servers) for servers in (1, SERVERS) for seed in range(3)]
    return [World(scenario).run().history.digest() for scenario in scenarios]


def test_jumps_of_the_wall_clock_change_no_decision(figures):
    jumped = 0
    for seed in range(size("wall_seeds", 10)):
        with_jumps, without = World(seed).run(), World(seed, wall_jumps=False).run()
        assert with_jumps.history.digest() == without.history.digest(), f"seed {seed}"
        jumped += with_jumps.history.situations["wall jump"]
    figures.add("jumps of the wall clock in simulation", jumps=jumped, decisions_changed=0)
    assert jumped > 10


@pytest.fixture
def early(monkeypatch):
    """A server whose leases end before their time."""
    honest = grants.promised_end_ms
    monkeypatch.setattr(grants, "promised_end_ms", lambda lease, end_ms: honest(lease, end_ms) - 300)
    monkeypatch.setattr(
        "openintent.core.books.Books.remaining_ms", lambda books, lease: lease.deadline_ms + 300 - books.now_ms
    )


def test_a_failure_is_told_by_the_shortest_story_that_was_found(early):
    broken = next(seed for seed in range(50) if simulate.judged(Scenario.drawn(seed))[1])
    whole = Scenario.drawn(broken)
    told = simulate.story(broken)
    assert "early" in told or "both hold" in told, told
    commands = int(told.split(" commands in ")[0].rpartition("\n")[2])
    assert commands < len(whole.commands) / 4
    assert "what happened:" in told
    assert "holds" in told


def test_what_is_left_out_of_a_scenario_is_not_needed_for_it_to_fail():
    whole = Scenario.drawn(1)
    needed = {whole.faults[3], whole.jobs[20], whole.jobs[90]}

    def fails(tried: Scenario) -> bool:
        return needed <= set(tried.commands) and tried.steps >= 77

    found = smallest(whole, fails, tries_max=2_000)
    assert set(found.commands) == needed
    assert found.steps == 77
    assert found.weather == replace(found.weather, loss=0.0, repeats=0.0, tail=0.0)


def test_the_judge_counts_what_it_cannot_decide(monkeypatch):
    import linear

    monkeypatch.setattr(linear, "check", lambda *_, **__: (linear.Verdict.UNDECIDED, None))
    assert Verdict(World(0).run()).undecided == 1
